"""Random organisations of many kinds: one for each number, the same on every machine.

Some are small and odd in many ways, some have long queues of requests that are alike, some are full and have one
newcomer, some have nodes in racks and gangs that need one rack.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from scheduling.engine import (
    HOUR_MS,
    ElasticPreemption,
    Fairness,
    NodeOrder,
    Policy,
    PoolInfo,
    Queueing,
    Sharing,
    Snapshot,
    TeamInfo,
    TeamShare,
    TypicalRequest,
)
from scheduling.tests.engine.build import MINUTE
from scheduling.tests.proof.digests.machines import machines
from scheduling.tests.proof.digests.oddities import with_odd_rows, with_odd_teams
from scheduling.tests.proof.digests.work import Around, Style, placed, waiting
from scheduling.tests.proof.organisation import marked

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mould:
    """What organisations of one kind have in common; ``guarantees`` are multiplied by ``size``."""

    name: str
    pools: tuple[int, ...]
    nodes: Range
    teams: Range
    waiting: Range
    style: Style
    size: int = 1
    odd: float = 0.12
    racks: int = 0
    """Of how many nodes, alike, each rack is; 0: nodes of any kind are in any rack."""
    levels: int = 0
    """How many entries of LEVELS are left out: the first have none."""
    modes: tuple[ElasticPreemption, ...] = tuple(ElasticPreemption)


SMALL = Mould("small", (1, 1, 1, 2, 2, 3), (1, 6), (1, 8), (1, 12), Style())
CROWDED = Mould(
    "crowded", (1, 1, 2), (2, 9), (2, 9), (1, 4), Style(full=(1.0,), urgent=True, gangs=(1, 1, 2, 3, 4, 6))
)
QUEUE = Mould(
    "queue",
    (1, 1, 1, 2),
    (3, 10),
    (2, 12),
    (60, 180),
    Style(full=(0.7, 1.0, 1.0), alike=6, gangs=(1, 1, 1, 2, 4)),
    size=2,
)
GUARANTEED = Mould(
    "guaranteed", (1,), (6, 12), (6, 12), (20, 60), Style(full=(0.9, 1.0), alike=8, reserved=True), size=2
)
WIDE = Mould(
    "wide",
    (1,),
    (64, 96),
    (4, 12),
    (4, 24),
    Style(full=(1.0,), urgent=True, large=True),
    size=40,
    odd=0.04,
    racks=8,
)
FAIR = Mould(
    "fair",
    (1,),
    (2, 6),
    (4, 10),
    (1, 6),
    Style(full=(1.0,), equal=True, gangs=(1, 1, 1, 2, 3)),
    odd=0.0,
    modes=(ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE),
)
SCATTERED = Mould(
    "scattered", (1,), (4, 12), (2, 5), (2, 8), Style(full=(0.4, 0.55, 0.7), large=True, equal=True), levels=2
)
RACKS = Mould(
    "racks",
    (1,),
    (12, 24),
    (2, 5),
    (4, 12),
    Style(full=(0.5, 0.6, 0.7), gangs=(1, 2, 2, 3, 4), close=True),
    size=8,
    odd=0.04,
    racks=3,
    levels=2,
)
MIX = (
    *(SMALL,) * 5,
    *(RACKS,) * 2,
    *(CROWDED,) * 3,
    *(FAIR,) * 3,
    *(SCATTERED,) * 2,
    *(QUEUE,) * 2,
    *(GUARANTEED,) * 2,
    WIDE,
)
"""Which of them the numbers take in turn."""

LEVELS = ((), (), ("rack",), ("rack",), ("block", "rack"), ("zone", "block", "rack"))
GUARANTEES = (0, 0, 0, 1, 2, 3, 4, 8)
BURST_LIMITS = (None, None, None, 0, 25, 50, 100)
MAXIMA = (None, None, None, -1, 2, 4, 9)


def world(number: int, *, sound_teams: bool = False) -> Snapshot:
    """The organisation of a number. With ``sound_teams``, none of its teams is odd."""
    chance = Random(number)
    mould = MIX[number % len(MIX)]
    pools = _pools(chance, mould)
    limited = chance.random() < 0.6
    teams = _teams(chance, mould, pools, limited=limited)
    nodes = machines(chance, pools, chance.randint(*mould.nodes), racks=mould.racks)
    rows = placed(chance, mould.style, nodes, teams)
    rows += waiting(chance, mould.style, chance.randint(*mould.waiting), Around(nodes, teams, pools))
    found = Snapshot(pools, teams, nodes, tuple(rows))
    if chance.random() < 0.12:
        found = marked(found)
    if chance.random() < mould.odd:
        found = with_odd_rows(chance, found)
    if chance.random() < mould.odd / 3 and not sound_teams:
        found = replace(found, teams=with_odd_teams(chance, found.teams))
    return found


def _pools(chance: Random, mould: Mould) -> tuple[PoolInfo, ...]:
    """The pools; in one of a few organisations one is paused."""
    levels = chance.choice(LEVELS[mould.levels :])
    return tuple(
        PoolInfo(
            name, name.title(), _policy(chance, mould), levels, _recent(chance), paused=chance.random() < 0.05
        )
        for name in ("main", "spare", "lab")[: chance.choice(mould.pools)]
    )


def _policy(chance: Random, mould: Mould) -> Policy:
    """Any policy that the kind has."""
    return Policy(
        queueing=chance.choice((*Queueing, Queueing.BACKFILL)),
        elastic_preemption=chance.choice(mould.modes),
        placement=chance.choice((*NodeOrder, NodeOrder.BINPACK)),
        fairness=chance.choice((*Fairness, Fairness.ENTITLEMENT)),
        min_runtime_ms=chance.choice((0, 0, 5 * MINUTE, 20 * MINUTE)),
        max_preemptions=chance.choice((None, None, None, 0, 1, 2)),
        default_time_limit_ms=chance.choice((None, None, HOUR_MS, 10 * MINUTE)),
        sharing=chance.choice((Sharing.FRACTIONS, Sharing.FRACTIONS, Sharing.FRACTIONS, Sharing.NONE)),
    )


def _recent(chance: Random) -> tuple[TypicalRequest, ...]:
    """What the pool is often asked for: nothing for half of them; a few weights are no weights."""
    if chance.random() < 0.5:
        return ()
    return tuple(_typical(chance) for _ in range(chance.randint(1, 5)))


def _typical(chance: Random) -> TypicalRequest:
    return TypicalRequest(
        chance.choice((250, 460, 500, 1000, 1000, 2000, 4000, 8000)),
        chance.choice((1.0, 2.0, 5.0, 0.3, 0.0, -1.0, float("inf"))),
        chance.choice((0, 0, 1000, 8000)),
        chance.choice((0, 0, 16, 64)),
        chance.choice(((), (), ("H100",), ("A100", "L4"), ("mig-1g",), ("shared",))),
        chance.choice((0, 0, 0, 20_000)),
    )


def _teams(
    chance: Random, mould: Mould, pools: tuple[PoolInfo, ...], *, limited: bool
) -> tuple[TeamInfo, ...]:
    """A tree as deep as it comes; ``limited``: some have a maximum or a burst limit."""
    found: list[TeamInfo] = []
    for number in range(chance.randint(*mould.teams)):
        parent = chance.choice(found).id if found and chance.random() < 0.7 else None
        shares = tuple(
            TeamShare(
                pool.id,
                chance.choice(GUARANTEES) * mould.size * 1000,
                _milli(chance.choice(MAXIMA[:4]), mould.size) if limited else None,
                chance.randint(0, 6) * HOUR_MS,
            )
            for pool in pools
            if chance.random() < 0.9
        )
        burst = chance.choice(BURST_LIMITS) if limited else None
        maximum = _milli(chance.choice(MAXIMA), mould.size) if limited else None
        weight = chance.choice((0, 1, 1, 1, 2, 3, 5, 10))
        name = f"t{number}"
        found.append(TeamInfo(name, name.upper(), parent, weight, burst, maximum, shares))
    return tuple(found)


def _milli(gpus: int | None, size: int) -> int | None:
    """A limit in milli-GPUs; ``-1`` stays what it is."""
    return gpus if gpus is None or gpus < 0 else gpus * size * 1000
