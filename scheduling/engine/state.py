"""The picture a cycle decides on: a snapshot, indexed once and kept up to date event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from weakref import ref

from scheduling.engine.books import Books
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.intake import Candidacies, Entries, Intake, Out
from scheduling.engine.lines import Rows
from scheduling.engine.model.changes import Changes, check
from scheduling.engine.model.repair import Oddities, is_sound, sound_teams
from scheduling.engine.model.snapshot import Node, Pool, Snapshot, Status, Topology, Workload
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.quiet import Paths
from scheduling.engine.quota.tree import Tree

ANYWHERE = Topology()
PENDING = Status.PENDING  # at hand: an enum looks its members up by a function
MOST_NEW_ASKS = 1_000
"""So many requests unlike all before are taken in, with what is worked out for each, before all is indexed anew."""


class Late(Protocol):
    """What is left to tell of a plan, while the books are as its cycle has left them."""

    def part(self, snapshot: Callable[[], Snapshot]) -> None:
        """They are not any more; ``snapshot`` gives what they stood for."""


class State:
    """What is known: the rows of a snapshot and, from the first decision on, the books of each pool.

    ``entries`` are those who wait in the queues of several pools, by id, with their candidacies; ``out`` those in no
    queue. What nothing but a look at all rows can tell (nodes, teams, pools, who selects nodes by what) is indexed anew
    when it has changed.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.pools = snapshot.pools
        self.teams = snapshot.teams
        self._nodes = {node.id: node for node in snapshot.nodes}
        self._workloads = {workload.id: workload for workload in snapshot.workloads}
        self._indexed = False
        self._now = 0
        self._cycles: dict[str, PoolCycle] = {}
        self._late: Callable[[], Late | None] = lambda: None

    @classmethod
    def of(cls, snapshot: Snapshot) -> State:
        """The state a snapshot describes. The order of its rows (but the pools') makes no difference."""
        return cls(snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """What it stands for; its rows in any order."""
        return Snapshot(self.pools, self.teams, tuple(self._nodes.values()), tuple(self._workloads.values()))

    def workload(self, id_: str) -> Workload:
        """A workload by its id."""
        return self._workloads[id_]

    # --- What happened ---------------------------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        """Take in what happened. Raises :class:`Doubt`, and changes nothing, where that does not fit."""
        check(self._workloads, changes.workloads, changes.gone_workloads)
        check(self._nodes, changes.nodes, changes.gone_nodes)
        self._take_back()
        keep = self._indexed and self._changes_workloads_only(changes)
        self._indexed = False
        for id_ in changes.gone_workloads:
            before = self._workloads.pop(id_)
            if keep:
                self._drop(before)
        for workload in changes.workloads:
            known = self._workloads.get(workload.id)
            self._workloads[workload.id] = workload
            if keep and known != workload:
                if known is not None:
                    self._drop(known)
                self._add(workload)
        for id_ in changes.gone_nodes:
            del self._nodes[id_]
        self._nodes.update((node.id, node) for node in changes.nodes)
        self.teams = self.teams if changes.teams is None else changes.teams
        self.pools = self.pools if changes.pools is None else changes.pools
        self._indexed = keep

    def _changes_workloads_only(self, changes: Changes) -> bool:
        """Whether nodes, teams and pools stay as they are, and nobody asks for nodes by other labels than before."""
        return (
            not changes.gone_nodes
            and all(self._nodes.get(node.id) == node for node in changes.nodes)
            and changes.teams in (None, self.teams)
            and changes.pools in (None, self.pools)
            and len(self.tree.leaf_of) == len(self.teams)
            and all(workload.team in self.tree.leaf_of for workload in changes.workloads)
            and _selects_by(changes.workloads) <= self._keys
            and (self._topological or not _topological(changes.workloads))
        )

    def _add(self, workload: Workload) -> None:
        """Enter a workload in the books."""
        books = self.books.get(workload.pool or "")
        workload = self.oddities.take(workload, self._now)
        if workload.status is not PENDING:
            if books is not None:
                books.settle(workload)
                if books.ledger.missing(workload):
                    self._lose(workload, books)
            return
        for pool_id, rows in self._sort([workload]).items():
            for row in rows.values():
                for candidate in row.candidates():
                    self.books[pool_id].line_up(candidate)

    def _drop(self, workload: Workload) -> None:
        """Strike a workload out of the books."""
        id_ = workload.id
        workload = self.oddities.drop(workload)
        if workload.status is not PENDING:
            books = self.books.get(workload.pool or "")
            if books is not None:
                books.clear(workload)
                books.ledger.see_off(workload)
            return
        self._backing_off.pop(id_, None)
        if self.out.pop(id_, None) is None:
            for candidate in self.entries.pop(id_, None) or self._waiting(workload):
                self.books[candidate.pool_request.pool].strike(candidate)

    def _lose(self, workload: Workload, books: Books) -> None:
        """Note who lies on nodes that his pool has not; of a pool that has them he holds his devices there."""
        missing = books.ledger.missing(workload)
        self.oddities.lose(workload, missing)
        there = {self._nodes[node].pool for node in missing if node in self._nodes}
        for pool_id, host in self.books.items():
            if pool_id in there and host is not books:
                host.ledger.host(workload, books.ledger)

    def _waiting(self, workload: Workload) -> Candidacies:
        """A workload as the candidate it is in some pool's queue."""
        leaf = self.tree.leaf_of[workload.team]
        found = [books.lines.find(leaf, workload) for books in self.books.values()]
        return tuple([candidate for candidate in found if candidate is not None])

    def _sort(self, workloads: Iterable[Workload]) -> dict[str, Rows]:
        """Note those who wait in a queue, or among those who are out; returns who joins the queue of each pool."""
        for workload in workloads:
            if workload.backing_off_until is not None:
                self._backing_off[workload.id] = workload.backing_off_until > self._now
        return self._intake.sort(workloads, self._now, self.entries, self.out)

    # --- Deciding --------------------------------------------------------------------------------------------

    def begin(self, now: int) -> dict[str, PoolCycle]:
        """A cycle of every pool at this time, on books that say what the snapshot says."""
        self._take_back()
        if not self._indexed or now < self._now or self.oddities.hang_on_the_clock or self._is_worn():
            self._now = now
            self._index()
        else:
            self._move_clock(now)
        self._indexed = False
        cycles = {pool_id: PoolCycle(books, now) for pool_id, books in self.books.items()}
        for cycle in cycles.values():
            cycle.open()
        self._cycles = cycles
        return cycles

    def _is_worn(self) -> bool:
        """Whether what is remembered of those who are gone has become so much that it is time to forget it."""
        new = len(self.requests) - self._first_asks
        return new > MOST_NEW_ASKS or any(books.is_worn for books in self.books.values())

    def end(self, late: Late) -> None:
        """The cycles are over; ``late`` is told when their books are going to say something else.

        If they never end, all is indexed anew for the next.
        """
        self._late = ref(late)
        self._indexed = True

    def _take_back(self) -> None:
        """Have the books say what the snapshot says, after a cycle."""
        cycles, self._cycles = self._cycles, {}
        late = self._late()
        if late is not None:
            late.part(lambda: self.snapshot)
        if cycles and self._indexed:
            self._indexed = False
            for cycle in cycles.values():
                cycle.take_back()
            self._indexed = True

    def _move_clock(self, now: int) -> None:
        """Look again at those whose backoff has ended meanwhile (or has not, if the clock went back)."""
        self._now = now
        for id_, was in tuple(self._backing_off.items()):
            workload = self._workloads[id_]
            if was != ((workload.backing_off_until or 0) > now):
                self._drop(workload)
                self._add(workload)

    # --- Indexing --------------------------------------------------------------------------------------------

    def _index(self) -> None:
        """Make the books of all pools."""
        teams = sound_teams(self.teams, {workload.team for workload in self._workloads.values()})
        self.tree = Tree(teams)
        self.oddities = Oddities(self.teams, teams, [pool.id for pool in self.pools])
        self._paths = Paths(self.tree)
        self.requests = PodRequests()
        self._keys = _selects_by(self._workloads.values())
        self._topological = _topological(self._workloads.values())
        nodes: dict[str, list[Node]] = {pool.id: [] for pool in self.pools}
        placed: dict[str, list[Workload]] = {pool.id: [] for pool in self.pools}
        for node in self._nodes.values():
            if node.pool in nodes:
                nodes[node.pool].append(node)
            else:
                self.oddities.homeless(node)
        pending = []
        for row in self._workloads.values():
            if row.status is PENDING:
                pending.append(row if is_sound(row) else self.oddities.take(row, self._now))
                continue
            workload = self.oddities.take(row, self._now)
            if workload.pool in placed:
                placed[workload.pool].append(workload)
        self.books: dict[str, Books] = {
            pool.id: self._books_of(pool, nodes[pool.id], placed[pool.id]) for pool in self.pools
        }
        for books in self.books.values():
            for workload in books.ledger.lost:
                self._lose(workload, books)
        self._intake = Intake(self.books, self.tree, self.requests)
        self.entries: Entries = {}
        self.out: dict[str, Out] = {}
        self._backing_off: dict[str, bool] = {}
        for pool_id, rows in self._sort(pending).items():
            self.books[pool_id].fill(rows)
        self._first_asks = len(self.requests)

    def _books_of(self, pool: Pool, nodes: list[Node], placed: list[Workload]) -> Books:
        pool_nodes = PoolNodes(pool, nodes, sorted(self._keys), topological=self._topological)
        return Books(pool_nodes, self._paths, self.requests, placed)


def _selects_by(workloads: Iterable[Workload]) -> set[str]:
    """The labels that some of these select nodes by."""
    return {key for workload in workloads if workload.node_selector for key, _ in workload.node_selector}


def _topological(workloads: Iterable[Workload]) -> bool:
    """Whether one of these asks for a place in the topology."""
    return any(workload.topology is not ANYWHERE and workload.topology != ANYWHERE for workload in workloads)
