"""When waiting workloads start, as far as the ends of what runs tell (sections 6 and 9)."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from scheduling.engine.candidate import Blocked, Cause
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.types import Eta

UNKNOWN = "Too little of what runs has a time limit."


class Forecast:
    """The ETAs of one pool's waiting workloads, asked for in the order of the queue.

    The holder of the start reservation has an exact one. Another that lacks GPUs starts at the earliest when enough
    have come free for it alone, at the latest when enough have for everybody ahead too. One that waits for a
    guarantee or a ceiling starts at the earliest when enough of that has come free.
    """

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        default = cycle.pool.policy.default_time_limit_ms
        self._ends = sorted(
            (ends, standing.workload.id, standing)
            for standing in cycle.standings.values()
            if (ends := standing.ends_at(cycle.now, default)) is not None
        )
        self._free = sum(max(0, left) for room in cycle.ledger.later.rooms for left in room.gpu)
        self._ahead = 0
        self._without_latest: dict[int, Eta] = {}
        self._known: dict[tuple[int, bool], tuple[list[int], list[int]]] = {}

    def next(self, blocked: Blocked) -> Eta:
        """The ETA of the next one of the queue."""
        candidate, head = blocked.candidate, self._cycle.head
        if blocked.cause in (Cause.RESERVATION, Cause.CEILING):
            return self._when_quota_frees(blocked)
        alone = candidate.next_milli - self._free
        self._ahead += candidate.next_milli
        if head is not None and head.candidate.id == candidate.id and head.kept.at is not None:
            return Eta(head.kept.at, head.kept.at)
        latest = self._after(self._ahead - self._free, 0, reserved_only=False)
        if latest is None and alone in self._without_latest:
            return self._without_latest[alone]
        earliest = self._after(alone, 0, reserved_only=False)
        if latest is None:
            return self._without_latest.setdefault(alone, Eta(earliest, None, UNKNOWN))
        return Eta(earliest, latest)

    def _when_quota_frees(self, blocked: Blocked) -> Eta:
        """When enough of the branch whose limit stops it has ended."""
        missing = blocked.candidate.next_milli - blocked.available
        if blocked.ceiling is not None:
            earliest = self._after(missing, blocked.ceiling.branch, reserved_only=False)
        else:
            top = self._cycle.tree.paths[blocked.candidate.leaf][0]
            earliest = self._after(missing, top, reserved_only=True)
        return Eta(earliest, None, "" if earliest is not None else UNKNOWN)

    def _after(self, missing: int, branch: int, *, reserved_only: bool) -> int | None:
        """When so much of a branch has ended, at least the first of it; ``None`` if nobody can tell."""
        times, freed = self._cumulative(branch, reserved_only)
        if not freed or missing > freed[-1]:
            return None
        at = bisect_left(freed, max(1, missing))
        return times[at] if at < len(times) else None

    def _cumulative(self, branch: int, reserved_only: bool) -> tuple[list[int], list[int]]:
        """The ends in a branch (0: in the whole pool) and what has come free by each."""
        key = (branch, reserved_only)
        if key not in self._known:
            paths = self._cycle.tree.paths
            ends = [
                (at, standing.milli)
                for at, _, standing in self._ends
                if (branch == 0 or branch in paths[standing.leaf])
                and (standing.workload.reserved or not reserved_only)
            ]
            self._known[key] = ([at for at, _ in ends], list(accumulate(milli for _, milli in ends)))
        return self._known[key]
