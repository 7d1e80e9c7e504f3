"""What is kept of one pool from cycle to cycle: what is placed, what waits, what every branch has
(sections 1 to 4).

A cycle decides on this kept state itself and takes back what it tried when it is over, so that it always says what the
snapshot says.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from scheduling.acceleration.cost_bounds import CostBounds
from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.heap_queue import LevelHeaps
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.infeasible_searches import InfeasibleSearches
from scheduling.acceleration.kept_backfill import NEVER, Failed
from scheduling.acceleration.kept_demand import KeptDemand, divide_again
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.search_context import SearchContext
from scheduling.acceleration.tree_arrays import TreeArrays
from scheduling.acceleration.waiting_index import Rows, WaitingIndex
from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.snapshot import OpenStatus, WorkloadInfo
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequest, PodRequests
from scheduling.engine.pool.pool_state import PoolState, shares_a_device
from scheduling.engine.preemption.victims import PlacedWorkload, due_at, protects
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.quota.charging import Charges, ReservedHolding
from scheduling.engine.quota.tree import QuotaAccounts

Figures = tuple[list[int], ...]
"""What every branch uses and was given, and what is left of its guarantee, at some moment."""
RUNNING, STOPPING = OpenStatus.RUNNING, OpenStatus.STOPPING
MOST_NOTES = 2_000_000
"""Numbers of nodes or leaves in one list."""
MOST_JOINED = 100_000
"""Workloads that joined an index: each is a note of several numbers."""


class KeptPool(PoolState):
    """One pool: its nodes, what is placed there, what waits, what every branch may have and has.

    ``nodes`` are the nodes that take new pods, ``pool_nodes`` also others of the pool. ``placed_workloads`` are
    those that are placed; ``on_leaf`` the same by leaf of the tree; ``growing`` those of them that have not all their
    pods. ``allocations`` says of the reserved ones whose guarantees they are charged to. ``given`` is what a cycle
    gives each branch.
    """

    ledger: KeptLedger
    demand: KeptDemand

    def __init__(
        self,
        pool_nodes: PoolNodes,
        tree_arrays: TreeArrays,
        requests: PodRequests,
        placed: Iterable[WorkloadInfo],
    ) -> None:
        rows, tree = list(placed), tree_arrays.tree
        super().__init__(pool_nodes, tree, requests, KeptLedger(pool_nodes.in_service, rows), 0)
        self.tree_arrays = tree_arrays
        figures = (self.accounts.usage.used, self.entitled, self.given)
        self.level_heaps: LevelHeaps[Candidate] = LevelHeaps(tree, self.ratio, figures)
        self.lines = WaitingIndex(self.pool.policy, self.is_limited, self.level_heaps.note)
        self.demand = KeptDemand(self.accounts, self.lines.rows)
        self.on_leaf: list[dict[str, PlacedWorkload]] = [{} for _ in range(len(tree))]
        self.ends: list[tuple[int, str]] = []
        self.idle: dict[str, PlacedWorkload] = {}
        self._contexts: dict[bool, SearchContext] = {}
        self._tallies: dict[PodRequest, IndexedPods] = {}
        self._protected: dict[str, PlacedWorkload] = {}
        self.failed: Mapping[PodRequest, Failed] = NEVER
        self._uncharged: set[int] = set()
        self._beyond: set[int] = set()
        """Leaves whose reserved ones were charged beyond their own part, when last looked at."""
        self._moved: set[int] = set()
        """Leaves of which something has started or gone since the next cycle's entitlements were worked out."""
        self._settle_all(rows)

    # --- What is placed ---------------------------------------------------------------------------------------

    def _settle_all(self, workloads: Sequence[WorkloadInfo]) -> None:
        """Take in the workloads with which the ledger was made."""
        usage = self.accounts.usage
        ends: defaultdict[int, list[str]] = defaultdict(list)
        for workload, milli in zip(workloads, self.ledger.held, strict=True):
            if workload.status is STOPPING:
                self.stopping[workload.id] = workload
                continue
            placed = self._stand(workload, milli)
            usage.used[placed.leaf] += milli
            if placed.reserved:
                usage.reserved[placed.leaf] += milli
            if (at := due_at(workload, self.pool.policy)) is not None:
                ends[at].append(workload.id)
        for branch in range(len(self.tree) - 1, 0, -1):
            parent = self.tree.parents[branch]
            usage.used[parent] += usage.used[branch]
            usage.reserved[parent] += usage.reserved[branch]
        self.ends = [(at, id_) for at in sorted(ends) for id_ in sorted(ends[at])]

    def settle(self, workload: WorkloadInfo) -> None:
        """Take in a workload that is placed, or stopping, by now."""
        self.ledger.add(workload)
        if workload.status is STOPPING:
            self.stopping[workload.id] = workload
            return
        placed = self._stand(workload)
        if (at := due_at(workload, self.pool.policy)) is not None:
            insort(self.ends, (at, workload.id))
        self.enlist(placed)
        self.accounts.usage.add(placed.leaf, placed.milli, reserved=workload.reserved)
        self.demand.touch(placed.leaf)

    def _stand(self, workload: WorkloadInfo, milli: int | None = None) -> PlacedWorkload:
        """Note a placed workload (it holds so much, if that is known); what its team uses is for the caller to count,
        and that its demand is another."""
        leaf, id_ = self.tree.leaf_of[workload.team], workload.id
        placed = PlacedWorkload(workload, leaf, workload.placements, self.clock, milli=milli)
        self.placed_workloads[id_] = self.on_leaf[leaf][id_] = placed
        if placed.reserved:
            self._uncharged.add(leaf)
        if workload.status is not RUNNING or workload.started_at is None:
            self.idle[id_] = placed
        if shares_a_device(placed):
            self.demand.share(leaf, 1)
        if len(placed.pods) < workload.pods:
            self._want_more(placed)
        return placed

    def _want_more(self, placed: PlacedWorkload) -> None:
        """Note that a workload wants the pods it has not grown."""
        entry = self.growth_of(placed)
        if entry is not None:
            self.growing[entry.id] = entry
            if entry.pool_request.wanted_pods > 0:
                self.demand.add(entry)

    def clear(self, workload: WorkloadInfo) -> None:
        """Take out a workload that is not placed, nor stopping, any more."""
        self.ledger.remove(workload)
        if self.stopping.pop(workload.id, None) is not None:
            return
        placed = self.placed_workloads.pop(workload.id)
        self._protected.pop(workload.id, None)
        self.idle.pop(workload.id, None)
        if (at := due_at(workload, self.pool.policy)) is not None:
            del self.ends[bisect_left(self.ends, (at, workload.id))]
        for eligible in self.victim_indexes():
            eligible.drop(placed)
        leaf = placed.leaf
        del self.on_leaf[leaf][workload.id]
        self.accounts.usage.add(leaf, -placed.milli, reserved=workload.reserved)
        if workload.reserved:
            self.allocations.pop(workload.id, None)
            self._uncharged.add(leaf)
        if shares_a_device(placed):
            self.demand.share(leaf, -1)
        entry = self.growing.pop(workload.id, None)
        if entry is not None:
            self.demand.remove(entry)
        self.demand.touch(leaf)

    @property
    def is_worn(self) -> bool:
        """Whether the notes of what has changed have become so long that it is time to index anew."""
        victim_indexes = self.victim_indexes()
        notes = [
            self.ledger.freed,
            self.ledger.now.changed,
            self.ledger.later.changed,
            self.accounts.usage.changed,
        ]
        notes += [eligible.changed for eligible in victim_indexes]
        joined = [eligible.joined for eligible in victim_indexes]
        return max(map(len, notes)) > MOST_NOTES or max(map(len, joined), default=0) > MOST_JOINED

    def elastic_on(self, leaf: int) -> Iterable[PlacedWorkload]:
        """The elastic workloads of a leaf that were placed before this cycle, and still are."""
        there = self.placed_workloads
        return [each for id_, each in self.on_leaf[leaf].items() if not each.reserved and id_ in there]

    def not_running(self) -> Iterator[PlacedWorkload]:
        """The workloads placed before this cycle, and still placed, whose pods do not run yet."""
        return (each for id_, each in self.idle.items() if id_ in self.placed_workloads)

    # --- What could be a victim -------------------------------------------------------------------------------

    def context(self, *, reserved: bool) -> SearchContext:
        """What searches for reserved, or for elastic, preemptors look at: elastic workloads, of which some are
        protected from elastic ones. Made when it is needed first."""
        context = self._contexts.get(reserved)
        if context is None:
            elastic = self.preemptible()
            eligible = EligibleVictims(
                self.ledger, self.tree, elastic if reserved else self._unprotected(elastic)
            )
            bounds = CostBounds(self.ledger, eligible)
            searches = InfeasibleSearches(self.ledger, self.preemption_policy, eligible)
            context = SearchContext(
                self.ledger, self.charges, self.preemption_policy, eligible, self._tallies, bounds, searches
            )
            self._contexts[reserved] = context
        return context

    def victim_indexes(self) -> list[EligibleVictims]:
        """The indexes that are kept."""
        return [context.eligible for context in self._contexts.values()]

    def enlist(self, placed: PlacedWorkload) -> None:
        """Put a workload that is placed in the indexes where it belongs."""
        if placed.reserved:
            return
        if True in self._contexts:
            self._contexts[True].eligible.add(placed)
        if False in self._contexts:
            for each in self._unprotected({placed.workload.id: placed}).values():
                self._contexts[False].eligible.add(each)

    def _unprotected(self, placed_workloads: dict[str, PlacedWorkload]) -> dict[str, PlacedWorkload]:
        """Those of them that elastic preemptors may take; the others are kept for later."""
        if not protects(self.pool.policy):
            return placed_workloads
        spared = {id_: placed for id_, placed in placed_workloads.items() if self.is_protected(placed)}
        self._protected.update(spared)
        return {id_: placed for id_, placed in placed_workloads.items() if id_ not in spared}

    def move_clock(self, now: int) -> None:
        """Let it be that time: some are not protected any more (or, if the clock goes back, some are again)."""
        if now < self.clock.now:
            self._contexts.pop(False, None)
            self._protected.clear()
        self.clock.now = now
        if self._protected and False in self._contexts:
            waiting, self._protected = self._protected, {}
            for placed in self._unprotected(waiting).values():
                self._contexts[False].eligible.add(placed)

    # --- What waits -------------------------------------------------------------------------------------------

    def fill(self, rows: Rows) -> None:
        """Line up all at once."""
        self.lines.fill(rows)
        self.demand.recount(self.lines.leaves())

    def line_up(self, candidate: Candidate) -> None:
        """Have a candidate wait here."""
        self.lines.add(candidate)
        self.demand.recount((candidate.leaf,))

    def strike(self, candidate: Candidate) -> None:
        """Have a candidate not wait here any more, nor count in the demand."""
        self.lines.remove(candidate)
        self.demand.recount((candidate.leaf,))

    def is_limited(self, leaf: int) -> bool:
        """Whether a leaf stands under a ceiling."""
        return bool(self.charges.with_limit(leaf))

    @cached_property
    def limited(self) -> frozenset[int]:
        """The leaves that stand under a ceiling."""
        return frozenset(leaf for leaf in self.tree.leaf_of.values() if self.is_limited(leaf))

    # --- Figures ---------------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """What every branch uses and was given, and what is left of its guarantee."""
        usage = self.accounts.usage
        return (usage.used[:], usage.reserved[:], usage.above[:], self.charges.left[:], self.given[:])

    def set_figures(self, figures: Figures) -> None:
        """Have them be those of some moment."""
        usage = self.accounts.usage
        kept = (usage.used, usage.reserved, usage.above, self.charges.left, self.given)
        for mine, theirs in zip(kept, figures, strict=True):
            mine[:] = theirs

    # --- What is due -----------------------------------------------------------------------------------------

    def work_out(self) -> None:
        """Charge the reserved ones, and work out demand and entitlements, as far as something has changed."""
        shared = [leaf for leaf in self._uncharged if not self._charge_alone(leaf)]
        for top in {self.tree.paths[leaf][0] for leaf in shared}:
            self._charge_below(top)
        self._uncharged.clear()
        stale = self.demand.work_out(self.charges.left)
        divide_again(self.accounts, self.demand, self.nodes.capacity_milli, self.entitled, stale)
        self._moved.clear()

    def note_moved(self, leaf: int) -> None:
        """Something has started or gone: the next cycle may entitle its branches to something else."""
        self._moved.add(leaf)

    def entitle_next(self) -> None:
        """Work out what the next cycle will entitle the branches to, as far as this one can tell."""
        moved = {branch for leaf in self._moved for branch in self.tree.paths[leaf]}
        self._moved.clear()
        divide_again(self.accounts, self.demand, self.nodes.capacity_milli, self.next_entitled, moved)

    def _charge_alone(self, leaf: int) -> bool:
        """Charge the reserved ones of a leaf to its own part, if that concerns no other leaf: they hold no more than
        that, nor did before."""
        if leaf in self._beyond or not charge_own(self.charges, self.accounts, leaf):
            return False
        team = self.tree.team_id(leaf)
        alike: dict[int, list[Allocation]] = {}
        for id_, placed in self.on_leaf[leaf].items():
            milli = placed.milli
            if placed.reserved and milli:
                known = self.allocations.get(id_)
                if known is None or known[0].milli != milli or known[0].team != team:
                    self.allocations[id_] = alike.get(milli) or alike.setdefault(
                        milli, [Allocation(team, milli)]
                    )
        return True

    def _charge_below(self, top: int) -> None:
        """Charge all reserved ones below a top team anew, in order of admission where several leaves are concerned."""
        rest: list[ReservedHolding] = []
        for branch in self._branches_below(top):
            if clear_charges(self.charges, self.accounts, branch):
                self.demand.touch(branch)
        for branch in self._branches_below(top):
            self._beyond.discard(branch)
            if not self.accounts.usage.reserved[branch] or not self.on_leaf[branch]:
                continue
            if not self._charge_alone(branch):
                self._beyond.add(branch)
                reserved = [each for each in self.on_leaf[branch].values() if each.reserved]
                rest.extend(ReservedHolding(each.workload, branch, each.milli) for each in reserved)
                self.demand.touch(branch)
        self.allocations.update(self.charges.charge_all(rest))

    def _branches_below(self, top: int) -> Iterator[int]:
        """A branch and all below it; they are numbered one after the other."""
        depth = len(self.tree.paths[top])
        for branch in range(top, len(self.tree)):
            if branch > top and len(self.tree.paths[branch]) <= depth:
                return
            yield branch


def charge_own(charges: Charges, accounts: QuotaAccounts, leaf: int) -> bool:
    """Charge all reserved workloads of a leaf at once, if its own part is large enough; returns whether it is.

    Then the order of their admission makes no difference, if the team has no teams below it: only they are charged to
    that part.
    """
    milli, own = accounts.usage.reserved[leaf], accounts.quotas.own[leaf]
    if accounts.tree.own[leaf] or milli > own:
        return False
    charges.left[leaf] = own
    charges.charge(leaf, milli)
    return True


def clear_charges(charges: Charges, accounts: QuotaAccounts, branch: int) -> bool:
    """Charge nothing to a branch any more; returns whether something was charged above it."""
    charges.left[branch] = accounts.quotas.own[branch]
    had = accounts.usage.above[branch] > 0
    accounts.usage.above[branch] = 0
    return had
