"""Those of one leaf who follow each other in the queue and whose turns all change nothing (sections 4 to 7).

Where many wait, most of a cycle's turns are of those who ask the same as others before them. It is enough to look at
the first of each sort: where the run ends is looked up, and nobody else is looked at before somebody asks who
waits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from scheduling.acceleration.branch_heaps import Lead
from scheduling.acceleration.leaf_candidates import Takes, by_key
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause


@dataclass(frozen=True, slots=True)
class SkippedRun:
    """Candidates whose turns change nothing, what keeps those of each sort from a place, and the name of the head."""

    candidates: Sequence[Candidate]
    causes: Mapping[Takes, Cause]
    ahead: str

    def blocked(self) -> Iterator[Blocked]:
        """Each of them, as one who waits."""
        for each in self.candidates:
            yield Blocked(each, self.causes[each.priority, each.pool_request], ahead=self.ahead)


def skipped_run(
    lead: Lead[Candidate],
    sorts: Mapping[Takes, Sequence[Candidate]],
    known_infeasible: Callable[[Candidate], Cause | None],
    ahead: str,
) -> SkippedRun:
    """The next one and those after him who certainly follow, up to the first whose turn may change something.

    ``sorts`` are those of the leaf by sort; ``in_vain`` says of one what keeps him and all of his sort from a place, if
    it is known that neither that nor victims are for them.
    """
    head, end = lead.head, None
    firsts = []
    for sort, those in sorts.items():
        at = bisect_left(those, head.key, key=by_key)
        if at < len(those):
            firsts.append((those[at].key, at, sort))
    causes = {}
    for key, at, sort in sorted(firsts, key=itemgetter(0)):
        if end is not None and key > end:
            break
        leads, first = lead.leads(sort[1].next_milli), sorts[sort][at]
        cause = known_infeasible(first) if leads or first is head else None
        if cause is None:
            end = key
            break
        causes[sort] = cause
        if not leads and at + 1 < len(sorts[sort]):
            end = sorts[sort][at + 1].key
    until = len(lead.row) if end is None else bisect_left(lead.row, end, key=by_key)
    return SkippedRun(lead.row[lead.at : until], causes, ahead)
