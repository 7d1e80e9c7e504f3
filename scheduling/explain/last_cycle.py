"""What the last cycle told, kept by each process: what pages and the API explain from.

The process that ran the cycle has it at once; others read its row when they see that there is a newer one.
"""

import threading
from collections.abc import Callable, Iterator, Sequence, Set
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from scheduling import engine
from scheduling.explain import stored_plan
from scheduling.explain.plan_text import PlanNames
from scheduling.models import Cycle


class Aside(NamedTuple):
    """A workload that waits in no queue: for which pools (None: for any), and whether it is on hold. `anywhere`: what
    it waits for is of no one pool.
    """

    workload: str
    pools: Sequence[str] | None
    held: bool
    anywhere: bool


class LastCycle:
    """What a cycle told, and the look-ups that pages need. Never written to."""

    def __init__(self, number: int, began_at: datetime, tell: Callable[[], stored_plan.Json]) -> None:
        self.number, self.began_at, self._tell = number, began_at, tell

    @classmethod
    def of(cls, number: int, began_at: datetime, plan: engine.Plan, snapshot: engine.Snapshot) -> "LastCycle":
        """Return what a plan tells; worked out when somebody asks."""
        return cls(number, began_at, lambda: stored_plan.tell(plan, snapshot))

    @cached_property
    def content(self) -> stored_plan.Json:
        """All of it, as it is stored."""
        return self._tell()

    @cached_property
    def names(self) -> PlanNames:
        """What teams, pools and the nodes that are kept for somebody are called."""
        names = self.content["names"]
        return PlanNames(
            {key: name for key, (name, _) in names["teams"].items()}, names["pools"], names["nodes"]
        )

    @cached_property
    def waits(self) -> stored_plan.Waits:
        """Who waits, by workload."""
        return stored_plan.Waits.of(self.content)

    def placed(self, workload: str) -> engine.Reason | None:
        """Return why one with an allocation is not let go yet; None: nothing keeps it."""
        number = self.content["placed"].get(workload)
        return None if number is None else stored_plan.reason_of(self.content, number)

    def queue(self, pool: str) -> list[str]:
        """Return who waits in a pool's queue, in its order."""
        return [row[0] for row in self.content["queues"].get(pool, [])]

    def outside(self, pool: str) -> list[Aside]:
        """Return the workloads that wait for the pool in no queue, those that wait for it alone first."""
        here = [row for row in self.set_aside() if not row.pools or pool in row.pools]
        return sorted(here, key=lambda row: row.anywhere)

    def set_aside(self) -> Iterator[Aside]:
        """Yield the workloads that wait in no queue."""
        accepts = self.content["accepts"]
        for pool, rows in self.content["aside"].items():
            for key, reason, *_ in rows:
                pools = [pool] if pool else accepts[key]
                yield Aside(key, pools, held=reason in self._held, anywhere=not pool)

    @cached_property
    def _held(self) -> Set[int]:
        reasons = enumerate(self.content["reasons"])
        return {number for number, reason in reasons if reason[0] == engine.ReasonCode.HELD}

    def told(self, workloads: Set[str]) -> set[str]:
        """Return those of these workloads of which it tells how they wait."""
        if not workloads:
            return set()
        parts = (*self.content["queues"].values(), *self.content["aside"].values())
        return {row[0] for rows in parts for row in rows if row[0] in workloads}

    @property
    def everyone(self) -> Set[str]:
        """All who wait."""
        return self.waits.places.keys()

    def waiting(self, pool: str) -> dict[str, tuple[int, int]]:
        """Return how many wait in the pool's queue, and for how many milli-GPUs, by team with all below it."""
        parents = {key: parent for key, (_, parent) in self.content["names"]["teams"].items()}
        found: dict[str, tuple[int, int]] = {}
        for own, (count, milli) in self.content["waiting"].get(pool, {}).items():
            team: str | None = own
            while team is not None:
                workloads, gpus = found.get(team, (0, 0))
                found[team] = workloads + count, gpus + milli
                team = parents.get(team)
        return found

    @cached_property
    def reservations(self) -> list[engine.StartReservation]:
        """What is kept for the first who finds no place."""
        return stored_plan.reservations_of(self.content["reservations"])

    @cached_property
    def pools(self) -> dict[str, engine.PoolFigures]:
        """The pools after the plan."""
        return {row[0]: engine.PoolFigures(*row) for row in self.content["pools"]}

    @cached_property
    def teams(self) -> dict[tuple[str, str], engine.TeamFigures]:
        """The teams after the plan, by (team, pool)."""
        return {(row[0], row[1]): engine.TeamFigures(*row) for row in self.content["teams"]}


_lock = threading.Lock()
_kept: LastCycle | None = None


def keep(cycle: LastCycle) -> None:
    """Remember the cycle that this process has just run."""
    global _kept  # noqa: PLW0603 - one per process
    with _lock:
        _kept = cycle


def last() -> LastCycle | None:
    """Return the last cycle, None before the first (one query; two where another process ran it)."""
    stored = Cycle.objects.exclude(plan=b"").order_by("-number").values_list("number", "began_at").first()
    if stored is None:
        return None
    kept = _kept
    if kept is not None and (kept.number, kept.began_at) == stored:
        return kept
    content = stored_plan.unpack(Cycle.objects.values_list("plan", flat=True).get(number=stored[0]))
    if content is None:
        return None
    found = LastCycle(*stored, lambda: content)
    keep(found)
    return found


def forget() -> None:
    """Drop what this process remembers; the next look reads the row."""
    global _kept  # noqa: PLW0603 - one per process
    _kept = None
