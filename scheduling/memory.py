"""The last cycle, kept by each process: what pages and the API explain from.

The process that ran the cycle has it at once; others read its row when they see that there is a newer one.
"""

import threading
from collections import defaultdict
from datetime import datetime
from functools import cached_property

from scheduling.codec import decode_plan, decode_snapshot
from scheduling.engine import types as engine
from scheduling.models import Cycle


class LastCycle:
    """A plan with the snapshot that it was made for, and the look-ups that pages need. Never written to."""

    def __init__(self, number: int, began_at: datetime, snapshot: engine.Snapshot, plan: engine.Plan) -> None:
        self.number, self.began_at = number, began_at
        self.snapshot, self.plan = snapshot, plan

    @cached_property
    def waits(self) -> dict[str, engine.Wait]:
        """Who waits, by workload."""
        return {wait.workload: wait for wait in self.plan.waits}

    @cached_property
    def placed(self) -> dict[str, engine.Reason | None]:
        """Why those with an allocation are not let go yet (None: nothing keeps them), by workload."""
        started = {start.workload: start.reason for start in self.plan.starts}
        return {keep.workload: keep.reason for keep in self.plan.keeps} | started

    @cached_property
    def workloads(self) -> dict[str, engine.Workload]:
        """What each workload asked for, by id."""
        return {workload.id: workload for workload in self.snapshot.workloads}

    @cached_property
    def queues(self) -> dict[str | None, list[engine.Wait]]:
        """Who waits in each pool: the queue in its order, then those who are in no queue."""
        queues: dict[str | None, list[engine.Wait]] = defaultdict(list)
        for wait in self.plan.waits:
            queues[wait.pool].append(wait)
        for queue in queues.values():
            queue.sort(key=lambda wait: (wait.position is None, wait.position, wait.workload))
        return queues

    @cached_property
    def pools(self) -> dict[str, engine.PoolFigures]:
        """The pools after the plan."""
        return {figures.pool: figures for figures in self.plan.pools}

    @cached_property
    def teams(self) -> dict[tuple[str, str], engine.TeamFigures]:
        """The teams after the plan, by (team, pool)."""
        return {(figures.team, figures.pool): figures for figures in self.plan.teams}


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
    cycle = Cycle.objects.get(number=stored[0])
    found = LastCycle(cycle.number, cycle.began_at, decode_snapshot(cycle.snapshot), decode_plan(cycle.plan))
    keep(found)
    return found


def forget() -> None:
    """Drop what this process remembers; the next look reads the row."""
    global _kept  # noqa: PLW0603 - one per process
    _kept = None
