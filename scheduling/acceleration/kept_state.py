"""The state between decisions: indexed once, and kept up to date event by event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol
from weakref import ref

from scheduling.acceleration.early_stop import StoppableCycle
from scheduling.acceleration.intake import Intake
from scheduling.acceleration.kept_cycle import KeptCycle
from scheduling.acceleration.kept_pool import KeptPool
from scheduling.acceleration.tree_arrays import TreeArrays
from scheduling.acceleration.waiting_index import Rows
from scheduling.engine.decide.decide import PENDING, is_topological, note_lost, read, selected_by
from scheduling.engine.model.plan import Expiry
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import Snapshot, WorkloadInfo
from scheduling.engine.model.state import Changes, State
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.reasons.eligibility import Candidacies, Entries, Out, PoolView, next_turn
from scheduling.engine.reasons.report import Outsider

NEVER = UNLIMITED
"""Later than any time."""
MOST_NEW_ASKS = 1_000
"""So many requests unlike all before are taken in, with what is worked out for each, before all is indexed anew."""


class LatePlan(Protocol):
    """What is left to tell of a plan, while the pools are as its cycle has left them."""

    def part(self, snapshot: Callable[[], Snapshot]) -> None:
        """They are not any more; ``snapshot`` gives what they stood for."""


class KeptState:
    """What is kept of a state from one decision to the next: the pools.

    ``entries`` are those that wait in the queues of several pools, by id, with their candidacies; ``out`` those in no
    queue, ``expired`` those past their deadline. What nothing but a look at all rows can tell (nodes, teams, pools,
    labels that select nodes) is indexed anew when it has changed.
    """

    def __init__(self, state: State) -> None:
        self._state = ref(state)
        self._indexed = False
        self._keep = False
        self._now = 0
        self._next_turn = NEVER
        self._cycles: dict[str, KeptCycle] = {}
        self._late: Callable[[], LatePlan | None] = lambda: None

    @classmethod
    def of(cls, state: State) -> KeptState:
        """What is kept of the state; it is told of its changes from now on."""
        if not isinstance(state.follower, cls):
            state.follower = cls(state)
        return state.follower

    @property
    def _rows(self) -> State:
        """The state that it is kept of."""
        state = self._state()
        if state is None:
            raise ReferenceError("The state is gone.")
        return state

    # --- What happened ---------------------------------------------------------------------------------------

    def before(self, state: State, changes: Changes) -> None:
        """The state's rows are about to change."""
        self._take_back()
        self._keep = self._indexed and self._changes_workloads_only(state, changes)
        self._indexed = False

    def after(self, changes: Changes, replaced: Mapping[str, WorkloadInfo], others: Collection[str]) -> None:
        """They have changed: enter in the pools what has come of workloads, if nothing else did."""
        if not self._keep:
            return
        for id_ in changes.gone_workloads:
            self._drop(replaced[id_])
        for workload in changes.workloads:
            known = replaced.get(workload.id)
            if known != workload:
                if known is not None:
                    self._drop(known)
                self._add(workload)
        for id_ in others:
            workload = self._rows.workload(id_)
            self._drop(workload)
            self._add(workload)
        self._indexed = True

    def _changes_workloads_only(self, state: State, changes: Changes) -> bool:
        """Whether nodes, teams and pools stay as they are, and no workload selects nodes by other labels than
        before."""
        return (
            not changes.gone_nodes
            and all(state.nodes.get(node.id) == node for node in changes.nodes)
            and changes.teams in (None, state.teams)
            and changes.pools in (None, state.pools)
            and len(self.tree.leaf_of) == len(state.teams)
            and all(workload.team in self.tree.leaf_of for workload in changes.workloads)
            and selected_by(changes.workloads) <= self._keys
            and (self._topological or not is_topological(changes.workloads))
        )

    def _add(self, workload: WorkloadInfo) -> None:
        """Enter a workload in the pools."""
        kept_pool = self.pools.get(workload.pool or "")
        workload = self.oddities.take(workload, self._now)
        if workload.status is not PENDING:
            if kept_pool is not None:
                kept_pool.settle(workload)
                if kept_pool.ledger.missing(workload):
                    self._lose(workload, kept_pool)
            return
        for pool_id, rows in self._sort([workload]).items():
            for row in rows.values():
                for candidate in row.candidates():
                    self.pools[pool_id].line_up(candidate)

    def _drop(self, workload: WorkloadInfo) -> None:
        """Strike a workload out of the pools."""
        id_ = workload.id
        workload = self.oddities.drop(workload)
        if workload.status is not PENDING:
            kept_pool = self.pools.get(workload.pool or "")
            if kept_pool is not None:
                kept_pool.clear(workload)
                kept_pool.ledger.see_off(workload)
            return
        self._turning.pop(id_, None)
        if self.out.pop(id_, None) is None and self.expired.pop(id_, None) is None:
            for candidate in self.entries.pop(id_, None) or self._waiting(workload):
                self.pools[candidate.pool_request.pool].strike(candidate)

    def _lose(self, workload: WorkloadInfo, kept_pool: KeptPool) -> None:
        """Note a workload with pods on nodes of another pool: it holds its devices there."""
        ledgers = {pool_id: each.ledger for pool_id, each in self.pools.items()}
        note_lost(workload, kept_pool.ledger, ledgers, self._rows.nodes, self.oddities)

    def _waiting(self, workload: WorkloadInfo) -> Candidacies:
        """A workload as the candidate it is in some pool's queue."""
        leaf = self.tree.leaf_of[workload.team]
        found = [kept_pool.lines.find(leaf, workload) for kept_pool in self.pools.values()]
        return tuple([candidate for candidate in found if candidate is not None])

    def _sort(self, workloads: Iterable[WorkloadInfo]) -> dict[str, Rows]:
        """Note those that wait in a queue, or among those that are out; returns what joins the queue of each pool."""
        for workload in workloads:
            timed = workload.backing_off_until is not None or workload.start_after is not None
            if not timed and workload.deadline is None:
                continue
            at = next_turn(workload, self._now)
            if at is not None:
                self._turning[workload.id] = at
                self._next_turn = min(at, self._next_turn)
        beyond = self._rows.array_limits.beyond
        return self._intake.join(workloads, self._now, self.entries, self.out, self.expired, beyond=beyond)

    # --- Deciding --------------------------------------------------------------------------------------------

    def begin(self, now: int) -> dict[str, KeptCycle]:
        """A cycle of every pool at this time, on kept pools that say what the snapshot says."""
        self._take_back()
        if not self._indexed or self._clock_turns_all(now) or self._is_worn():
            self._now = now
            self._index()
        else:
            self._move_clock(now)
        self._indexed = False
        cycles: dict[str, KeptCycle] = {
            pool_id: StoppableCycle(kept_pool, now) for pool_id, kept_pool in self.pools.items()
        }
        for cycle in cycles.values():
            cycle.begin()
        self._cycles = cycles
        return cycles

    def _clock_turns_all(self, now: int) -> bool:
        """Whether it is a time at which all is another: the clock went back, or a peak has begun or ended."""
        return now < self._now or self.oddities.hang_on_the_clock or self._in_peak(now) != self._peaks

    def _in_peak(self, now: int) -> dict[str, int | None]:
        """The pools in which it is peak, and when that ends."""
        peaks = [(pool.id, pool.policy.peak) for pool in self._rows.pools if pool.policy.peak is not None]
        return {pool_id: peak.opens_at(now) for pool_id, peak in peaks if peak.is_at(now)}

    def _is_worn(self) -> bool:
        """Whether what is remembered of those that are gone has become so much that it is time to forget it."""
        new = len(self.requests) - self._first_asks
        return new > MOST_NEW_ASKS or any(kept_pool.is_worn for kept_pool in self.pools.values())

    def outsiders(self, state: State) -> list[Outsider]:
        """Those in no queue, with the reasons."""
        return [Outsider(state.workload(id_), *out) for id_, out in self.out.items()]

    def end(self, late: LatePlan) -> None:
        """The cycles are over; ``late`` is told when their pools are going to say something else.

        If they never end, all is indexed anew for the next.
        """
        self._late = ref(late)
        self._indexed = True

    def _take_back(self) -> None:
        """Have the pools say what the snapshot says, after a cycle."""
        cycles, self._cycles = self._cycles, {}
        late = self._late()
        if late is not None:
            late.part(lambda: self._rows.snapshot)
        if cycles and self._indexed:
            self._indexed = False
            for cycle in cycles.values():
                cycle.take_back()
            self._indexed = True

    def _move_clock(self, now: int) -> None:
        """Look again at those whose backoff has ended meanwhile, that may start by now, or are past their deadline."""
        self._now = now
        if now < self._next_turn:
            return
        turned = [id_ for id_, at in self._turning.items() if at <= now]
        for id_ in turned:
            workload = self._rows.workload(id_)
            self._drop(workload)
            self._add(workload)
        self._next_turn = min(self._turning.values(), default=NEVER)

    # --- Indexing --------------------------------------------------------------------------------------------

    def _index(self) -> None:
        """Make all pools."""
        state = self._rows
        reading = read(state, self._now)
        self.tree, self.oddities = reading.tree, reading.oddities
        self._keys, self._topological = reading.labels, reading.topological
        self.requests, tree_arrays = PodRequests(), TreeArrays(self.tree)
        self.pools: dict[str, KeptPool] = {
            pool_id: KeptPool(nodes, tree_arrays, self.requests, reading.placed[pool_id])
            for pool_id, nodes in reading.nodes.items()
        }
        for kept_pool in self.pools.values():
            for workload in kept_pool.ledger.lost:
                self._lose(workload, kept_pool)
        settings = {
            pool_id: PoolView(kept_pool.pool_nodes, kept_pool.charges)
            for pool_id, kept_pool in self.pools.items()
        }
        self._intake = Intake(settings, self.tree, self.requests)
        self.entries: Entries = {}
        self.out: dict[str, Out] = {}
        self.expired: dict[str, Expiry] = {}
        self._turning: dict[str, int] = {}
        """When time next changes where a pending workload stands."""
        self._next_turn = NEVER
        self._peaks = self._in_peak(self._now)
        for pool_id, rows in self._sort(reading.pending).items():
            self.pools[pool_id].fill(rows)
        self._first_asks = len(self.requests)
