"""Reserved ones who are passed over are told exactly as if each had had his turn."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from scheduling.acceleration.skipped_leaves import Leaves, SkippedLeaves
from scheduling.engine import Fairness, Plan, Queueing, Snapshot, WorkloadInfo, schedule
from scheduling.engine.queue.candidate import Blocked
from scheduling.tests.engine.build import NOW, node, placed, pool, preempted, started, team, waiting

TOPS, BELOW, NODES = "abc", "xyz", 12


def drawn(chance: Random) -> Snapshot:
    """Nine teams below three, which share what these have beyond theirs. Elastic ones hold most of the GPUs, some of
    them several; of the reserved ones who wait, few have anything left of their guarantees."""
    teams, rows, taken = [], [], 0
    for top in TOPS:
        teams.append(team(top, reserved=chance.randint(0, 8), weight=chance.randint(1, 3)))
        for below in BELOW:
            guarantee, name = chance.randint(0, 2), f"{top}-{below}"
            teams.append(team(name, top, reserved=guarantee, weight=chance.randint(1, 3)))
            if guarantee and chance.random() < 0.7:
                rows.append(placed(f"r-{name}", name, guarantee, on=_on(taken, guarantee), priority=100))
                taken += 1
    for at in range(taken, chance.randint(NODES - 2, NODES)):
        gpus, name = chance.choice((2, 3, 4, 4)), chance.choice(names(TOPS))
        rows.append(placed(f"e{at:02}", name, gpus, on=_on(at, gpus), priority=chance.choice((10, 50))))
    rows.extend(_pending(chance, at) for at in range(50))
    rules = pool(queueing=chance.choice(list(Queueing)), fairness=chance.choice(list(Fairness)))
    return Snapshot((rules,), tuple(teams), tuple(node(f"n{at}", 4) for at in range(NODES)), tuple(rows))


def names(tops: str) -> list[str]:
    """The teams below some."""
    return [f"{top}-{below}" for top in tops for below in BELOW]


def _on(at: int, gpus: int) -> str:
    return f"n{at}:" + ",".join(map(str, range(gpus)))


def _pending(chance: Random, at: int) -> WorkloadInfo:
    name = chance.choice((*names(TOPS), *TOPS))
    priority = chance.choice((50, 90, 100, 100, 110, 120))
    gpus = chance.choice((1, 1, 2, 2, 3, 4))
    return waiting(f"w{at:02}", name, gpus, priority=priority, submitted=chance.randint(1, 9))


def looked_at(world: Snapshot) -> Plan:
    """The plan, with all that it tells."""
    found = schedule(world, NOW)
    len(found.waits)
    return found


def all_or_nobody(_: SkippedLeaves, leaves: Leaves, hopeful: list[int]) -> Leaves:
    """The leaves that have turns where only whole levels are passed over."""
    return leaves if hopeful else {}


def test_positions_numbers_and_order_are_those_of_a_cycle_that_passes_over_whole_levels_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Among the seeds are some where others of a level start while some are passed over, with victims too, and some
    where less is left for those passed over when something is offered again."""
    seen: Counter[str] = Counter()
    note, offer_to = SkippedLeaves.note, SkippedLeaves._offer_to

    def noting(self: SkippedLeaves, leaf: int, milli: int, *, reserved: bool) -> None:
        passed = self._levels.get(self.queue.level or (True, 0))
        if passed is not None and passed.leaves:
            seen["starts" if milli > 0 else "victims"] += 1
        note(self, leaf, milli, reserved=reserved)

    def offering(self: SkippedLeaves, late: list[Blocked], offer: Any, place: Any) -> None:
        before = [each.available for each in late]
        offer_to(self, late, offer, place)
        seen["less"] += before != [each.available for each in late]

    monkeypatch.setattr(SkippedLeaves, "note", noting)
    monkeypatch.setattr(SkippedLeaves, "_offer_to", offering)
    for seed in range(150):
        world = drawn(Random(seed))
        with monkeypatch.context() as patch:
            patch.setattr(SkippedLeaves, "_needed_to_order", all_or_nobody)
            expected = looked_at(world)
        assert looked_at(world) == expected, seed
    assert min(seen["starts"], seen["victims"], seen["less"]) > 0


def test_one_with_guarantee_left_has_his_turn_without_those_who_have_none() -> None:
    """b has one GPU left; the two of a, whose two are in use, come before it and between its own, as b uses more."""
    rows = [placed("busy", "a", 2, on="n0:0,1", priority=100), placed("old", "b", on="n0:2", priority=10)]
    rows += [waiting(f"a{at}", "a", priority=100, submitted=9 - at) for at in range(2)]
    rows += [waiting(f"b{at}", "b", priority=100, submitted=9 - at) for at in range(2)]
    rows += [placed("full", "c", on="n0:3", priority=100)]
    teams = (team("a", reserved=2), team("b", reserved=1), team("c", reserved=1))
    found = looked_at(Snapshot((pool(),), teams, (node("n0", 4),), tuple(rows)))
    assert (started(found), preempted(found)) == ({"b0"}, {"old"})
    told = [(wait.workload, wait.position, wait.reason.code.value) for wait in found.waits]
    assert told == [
        (name, at, "waiting-for-reservation") for at, name in enumerate(("a0", "a1", "b1"), start=1)
    ]
