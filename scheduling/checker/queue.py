"""Whose turn it is: the order of the queue, worked out from the page (section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from scheduling.checker.board import ROOT, Board
from scheduling.checker.hierarchy import own_branch
from scheduling.engine.model.snapshot import GPU_MILLI, HOUR_MS, ElasticPreemption, Fairness, WorkloadInfo

Rank = tuple[bool, Fraction, int, str]


class Line:
    """The candidates of one pool, taken one after the other.

    A bucket are those of one class and priority (or all elastic ones, where priorities order a team's own only);
    inside it the tree decides, from the root down.
    """

    def __init__(self, board: Board, candidates: Iterable[WorkloadInfo]) -> None:
        self._board = board
        self._by_priority = board.pool.policy.elastic_preemption is ElasticPreemption.PRIORITY
        buckets: dict[tuple[bool, int], dict[str, list[WorkloadInfo]]] = {}
        for workload in sorted(candidates, key=_inside_a_team, reverse=True):
            level = -workload.priority if workload.reserved or self._by_priority else 0
            leaves = buckets.setdefault((not workload.reserved, level), {})
            leaves.setdefault(board.line(workload)[-1], []).append(workload)
        self._buckets = [buckets[key] for key in sorted(buckets, reverse=True)]
        self._children = _children(board)
        self._usage = _usage(board)
        self._gone: set[str] = set()
        self._heads: dict[str, WorkloadInfo | None] = {}

    def head(self) -> WorkloadInfo | None:
        """The next one, who stays; ``None`` at the end."""
        while self._buckets:
            found = self._head(ROOT)
            if found is not None:
                return found
            self._buckets.pop()
            self._heads.clear()
        return None

    def remove(self, workload: WorkloadInfo) -> None:
        """Its turn has come, here or in another pool."""
        self._gone.add(workload.id)
        self.touch(workload)

    def touch(self, workload: WorkloadInfo) -> None:
        """What its team has, or whom it has waiting, has changed."""
        for branch in self._board.line(workload):
            self._heads.pop(branch, None)

    def _head(self, branch: str) -> WorkloadInfo | None:
        if branch not in self._heads:
            self._heads[branch] = self._find_head(branch)
        return self._heads[branch]

    def _find_head(self, branch: str) -> WorkloadInfo | None:
        if not self._children[branch]:
            waiting = self._buckets[-1].get(branch, [])
            while waiting and waiting[-1].id in self._gone:
                waiting.pop()
            return waiting[-1] if waiting else None
        heads = [(child, self._head(child)) for child in self._children[branch]]
        ranked = [(self._rank(child, head), head) for child, head in heads if head is not None]
        return min(ranked, key=lambda entry: entry[0])[1] if ranked else None

    def _rank(self, branch: str, head: WorkloadInfo) -> Rank:
        """The standing of a branch among its siblings; nothing is due to those that come last."""
        board = self._board
        due: int | Fraction
        if board.pool.policy.fairness is Fairness.USAGE:
            due = board.shares.branches[branch].weight
            has = self._usage[branch] + board.given[branch] * HOUR_MS // GPU_MILLI
        else:
            due = board.shares.branches[branch].entitled
            has = board.used[branch] + board.asked(head)
        return (not due, Fraction(has, due) if due else Fraction(0), head.submitted_at, head.id)


def _inside_a_team(workload: WorkloadInfo) -> tuple[int, int, str]:
    return (-workload.priority, workload.submitted_at, workload.id)


def _children(board: Board) -> dict[str, list[str]]:
    """The branches below each branch."""
    hierarchy = board.picture.hierarchy
    found: dict[str, list[str]] = {ROOT: list(hierarchy.children[None])}
    for team in hierarchy.top_down:
        below = hierarchy.children[team]
        found[team] = [own_branch(team), *below] if below else []
        found[own_branch(team)] = []
    return found


def _usage(board: Board) -> dict[str, int]:
    """The decayed use of each branch, its children's included, in GPU-milliseconds."""
    hierarchy, found = board.picture.hierarchy, dict[str, int]()
    for team_id in reversed(hierarchy.top_down):
        shares = hierarchy.teams[team_id].shares
        own = next((share.usage_gpu_ms for share in shares if share.pool == board.pool.id), 0)
        found[own_branch(team_id)] = own
        found[team_id] = own + sum(found[child] for child in hierarchy.children[team_id])
    return found
