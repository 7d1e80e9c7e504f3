"""Blocked workloads, grouped by what blocks them: of those alike without a place only the first is offered something
(sections 6 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, ValuesView
from operator import attrgetter

from scheduling.acceleration.kept_backfill import KeptBackfill
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.pool.blocked_queue import BlockedQueue
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queue.order import Level

WaitKind = tuple[Cause, PodRequest, int, tuple[int, bool] | None]
"""What candidates have in common that the same thing stops: what it is, what their pods ask, how many must start, and,
if a guarantee or a ceiling might stop them too, their leaf and class."""
by_number = attrgetter("number")


class KeptBlockedQueue(BlockedQueue):
    """The blocked workloads by id. ``limited`` are the leaves that stand under a ceiling."""

    def __init__(self, backfill: KeptBackfill, ledger: KeptLedger, limited: Collection[int]) -> None:
        super().__init__(backfill, ledger)
        self._limited = limited
        self._late: list[Blocked] = []
        """Those that were added and are not among the others yet: most cycles never ask for them."""
        self._alike: dict[WaitKind, dict[str, Blocked]] = {}
        self._new: list[Blocked] = []
        """Those of the rows that are not among those alike yet: most cycles never ask for kinds."""
        self._mixed: set[WaitKind] = set()
        """Kinds that are not in the order of the first turns."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def values(self) -> ValuesView[Blocked]:
        """Those that wait, in the order of their first turns."""
        return self._all().values()

    def add(self, blocked: Blocked) -> None:
        """Let a candidate wait. One that waits already keeps its place."""
        self._late.append(blocked)

    def _all(self) -> dict[str, Blocked]:
        """The blocked workloads by id, in the order of their first turns."""
        late, self._late = self._late, []
        for blocked in late:
            self._add(blocked)
        return self._rows

    def _add(self, blocked: Blocked) -> None:
        id_ = blocked.candidate.id
        before = self._rows.get(id_)
        self._rows[id_] = blocked
        if before is None:
            self._turns += 1
            blocked.number = self._turns
            self._new.append(blocked)
            return
        blocked.number = before.number
        kind = self._kind(blocked)
        if self._kind(before) != kind:
            self._forget_alike(before)
            self._mixed.add(kind)
        self._sorted().setdefault(kind, {})[id_] = blocked

    def _sorted(self) -> dict[WaitKind, dict[str, Blocked]]:
        """Those that have been looked at, by what stops them."""
        for blocked in self._new:
            kind = self._kind(blocked)
            alike = self._alike.get(kind)
            if alike is None:
                alike = self._alike[kind] = {}
            alike[blocked.candidate.id] = blocked
        self._new.clear()
        return self._alike

    def _by_kind(self) -> dict[WaitKind, dict[str, Blocked]]:
        """The blocked workloads by what stops them: those of a kind by their first turns, but for the ``mixed``
        ones."""
        self._all()
        return self._sorted()

    def forget(self, workload: str) -> bool:
        """Take a workload off those that wait; whether it was one of them."""
        blocked = self._all().pop(workload, None)
        if blocked is None:
            return False
        self._forget_alike(blocked)
        return True

    def line_up(self, late: list[Blocked], place: Callable[[Candidate], tuple[Level, int]]) -> None:
        """Put in those too whose turns were left out, and have all in the order of their ``place``, else in that of
        their turns."""
        rows = sorted([*self._all().values(), *late], key=lambda blocked: place(blocked.candidate))
        self._rows = {blocked.candidate.id: blocked for blocked in rows}

    def _forget_alike(self, blocked: Blocked) -> None:
        alike, kind = self._sorted(), self._kind(blocked)
        del alike[kind][blocked.candidate.id]
        if not alike[kind]:
            del alike[kind]

    def _kind(self, blocked: Blocked) -> WaitKind:
        candidate = blocked.candidate
        leaf, reserved = candidate.leaf, candidate.reserved
        quota = (leaf, reserved) if reserved or leaf in self._limited else None
        return (blocked.cause, candidate.request, candidate.pods, quota)

    # --- What is offered again ----------------------------------------------------------------------

    def any_might_start(self) -> bool:
        """Whether a workload that waits could start on what victims left over."""
        kinds = dict.fromkeys([kind[:3] for kind in self._by_kind()])
        return any(self._might_start(*kind) for kind in kinds)

    def to_be_offered(self, admitted: Callable[[Candidate], bool]) -> list[Blocked]:
        """Those that wait, in order. Of those that lack only a place, and for which there is certainly none, only the
        first, to be the head. It is so until something starts.

        ``admitted``: whether guarantees and ceilings let a candidate start; it is asked for one of each leaf,
        class and request.
        """
        found: list[Blocked] = []
        stuck: list[Blocked] = []
        for kind, those in self._by_kind().items():
            cause, request, pods, quota = kind
            if cause is Cause.PLACE and self._backfill.is_without_place(request, pods, outside_head=False):
                first = self._first(kind)
                if quota is None or admitted(first.candidate):
                    stuck.append(first)
                    continue
            found.extend(those.values())
        if stuck:
            found.append(min(stuck, key=by_number))
        return sorted(found, key=by_number)

    def _first(self, kind: WaitKind) -> Blocked:
        """The one of a kind whose first turn was the first."""
        if kind in self._mixed:
            rows = sorted(self._alike[kind].values(), key=by_number)
            self._alike[kind] = {blocked.candidate.id: blocked for blocked in rows}
            self._mixed.discard(kind)
        return next(iter(self._alike[kind].values()))
