"""What is kept of one pool from cycle to cycle: who lies where, who waits, what every branch has (sections 1 to 4).

A cycle decides on these books themselves and takes back what it tried when it is over, so they always say what the
snapshot says.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from scheduling.engine.bounds import Bounds
from scheduling.engine.candidate_queue import Buckets
from scheduling.engine.capacity import Tally
from scheduling.engine.court import Court
from scheduling.engine.kept_demand import KeptDemand, divide_again
from scheduling.engine.ledger import Ledger
from scheduling.engine.lines import Lines, Rows
from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.snapshot import GPU_MILLI, Status, Workload
from scheduling.engine.passing import NEVER, Failed
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequest, PodRequests
from scheduling.engine.preemption.policy import PreemptionPolicy
from scheduling.engine.prospects import Prospects
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.queue.order import fairness_ratio
from scheduling.engine.quiet import Paths
from scheduling.engine.quota.charging import Charges, Held
from scheduling.engine.quota.tree import Accounts
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Clock, Standing, protected, protects

RUNNING, STOPPING = Status.RUNNING, Status.STOPPING
MOST_NOTES = 2_000_000
"""Numbers of nodes or leaves in one list."""
MOST_JOINED = 100_000
"""Workloads that joined a roster: each is a note of several numbers."""


class Books:
    """One pool: its nodes, who lies there, who waits, what every branch may have and has.

    ``nodes`` are the nodes that take new pods, ``pool_nodes`` also others of the pool. ``standings`` are
    those who are placed; ``on_leaf`` the same by leaf of the tree; ``growing`` those of them that have not all their
    pods. ``allocations`` says of the reserved ones whose guarantees they are charged to. ``given`` is what a cycle
    gives each branch.
    """

    def __init__(
        self,
        pool_nodes: PoolNodes,
        paths: Paths,
        requests: PodRequests,
        placed: Iterable[Workload],
    ) -> None:
        self.pool_nodes = pool_nodes
        self.nodes = nodes = pool_nodes.in_service
        self.pool = nodes.pool
        self.paths = paths
        self.tree = tree = paths.tree
        self.requests = requests
        self.clock = Clock(0)
        self.accounts = Accounts.of(tree, self.pool.id)
        self.charges = Charges(self.accounts)
        self.entitled = [0] * len(tree)
        self.next_entitled = [0] * len(tree)
        self.preemption_policy = PreemptionPolicy(
            self.pool.policy, self.accounts, self.entitled, self.next_entitled
        )
        self.given = [0] * len(tree)
        self.ratio = fairness_ratio(self.pool.policy, self.accounts, self.entitled, self.given)
        figures = (self.accounts.usage.used, self.entitled, self.given)
        self.buckets: Buckets[Candidate] = Buckets(tree, self.ratio, figures)
        self.lines = Lines(self.pool.policy, self.is_limited, self.buckets.note)
        self.demand = KeptDemand(self.accounts, self.lines.rows)
        self.standings: dict[str, Standing] = {}
        self.on_leaf: list[dict[str, Standing]] = [{} for _ in range(len(tree))]
        self.growing: dict[str, Candidate] = {}
        self.stopping: dict[str, Workload] = {}
        self.allocations: dict[str, list[Allocation]] = {}
        self.ends: list[tuple[int, str]] = []
        self.not_running: dict[str, Standing] = {}
        self._courts: dict[bool, Court] = {}
        self._tallies: dict[PodRequest, Tally] = {}
        self._protected: dict[str, Standing] = {}
        self.failed: Mapping[PodRequest, Failed] = NEVER
        self._uncharged: set[int] = set()
        self._beyond: set[int] = set()
        """Leaves whose reserved ones were charged beyond their own part, when last looked at."""
        rows = list(placed)
        self.ledger = Ledger(nodes, rows)
        self._settle_all(rows)

    # --- Who is placed ---------------------------------------------------------------------------------------

    def _settle_all(self, workloads: Sequence[Workload]) -> None:
        """Take in those with whom the ledger was made."""
        usage = self.accounts.usage
        ends: defaultdict[int, list[str]] = defaultdict(list)
        for workload, milli in zip(workloads, self.ledger.held, strict=True):
            if workload.status is STOPPING:
                self.stopping[workload.id] = workload
                continue
            standing = self._stand(workload, milli)
            usage.used[standing.leaf] += milli
            if standing.reserved:
                usage.reserved[standing.leaf] += milli
            if (at := self._end_of(workload)) is not None:
                ends[at].append(workload.id)
        usage.roll_up()
        self.ends = [(at, id_) for at in sorted(ends) for id_ in sorted(ends[at])]

    def settle(self, workload: Workload) -> None:
        """Take in somebody who is placed, or stopping, by now."""
        self.ledger.add(workload)
        if workload.status is STOPPING:
            self.stopping[workload.id] = workload
            return
        standing = self._stand(workload)
        if (at := self._end_of(workload)) is not None:
            insort(self.ends, (at, workload.id))
        self.enlist(standing)
        self.accounts.usage.add(standing.leaf, standing.milli, reserved=workload.reserved)
        self.demand.touch(standing.leaf)

    def _stand(self, workload: Workload, milli: int | None = None) -> Standing:
        """Note who is placed (and holds so much, if that is known); what its team uses is for the caller to count, and
        that its demand is another."""
        leaf, id_ = self.tree.leaf_of[workload.team], workload.id
        standing = Standing(workload, leaf, workload.placements, self.clock, milli=milli)
        self.standings[id_] = self.on_leaf[leaf][id_] = standing
        if standing.reserved:
            self._uncharged.add(leaf)
        if workload.status is not RUNNING or workload.started_at is None:
            self.not_running[id_] = standing
        if shares_a_device(standing):
            self.demand.share(leaf, 1)
        if len(standing.pods) < workload.pods:
            self._want_more(standing)
        return standing

    def _end_of(self, workload: Workload) -> int | None:
        """When one who runs is over at the latest, whatever the time; ``None`` for others, and without a limit."""
        limit = workload.time_limit_ms
        limit = self.pool.policy.default_time_limit_ms if limit is None else limit
        if limit is None or workload.started_at is None or workload.status is not RUNNING:
            return None
        return workload.started_at + limit

    def _want_more(self, standing: Standing) -> None:
        """Note that a workload wants the pods it has not grown."""
        workload = standing.workload
        request = self.requests.of(workload)
        pod_milli = self.nodes.pod_milli(request)
        wanted = min(workload.pods, self.nodes.most_together(request)) - len(standing.pods)
        if pod_milli:
            limit = workload.time_limit_ms
            pool_request = PoolRequest(self.pool.id, request, pod_milli, 1, max(0, wanted), limit)
            entry = Candidate(workload, standing.leaf, pool_request)
            self.growing[workload.id] = entry
            if wanted > 0:
                self.demand.add(entry)

    def clear(self, workload: Workload) -> None:
        """Take out somebody who is not placed, nor stopping, any more."""
        self.ledger.remove(workload)
        if self.stopping.pop(workload.id, None) is not None:
            return
        standing = self.standings.pop(workload.id)
        self._protected.pop(workload.id, None)
        self.not_running.pop(workload.id, None)
        if (at := self._end_of(workload)) is not None:
            del self.ends[bisect_left(self.ends, (at, workload.id))]
        for roster in self.rosters():
            roster.drop(standing)
        leaf = standing.leaf
        del self.on_leaf[leaf][workload.id]
        self.accounts.usage.add(leaf, -standing.milli, reserved=workload.reserved)
        if workload.reserved:
            self.allocations.pop(workload.id, None)
            self._uncharged.add(leaf)
        if shares_a_device(standing):
            self.demand.share(leaf, -1)
        entry = self.growing.pop(workload.id, None)
        if entry is not None:
            self.demand.remove(entry)
        self.demand.touch(leaf)

    @property
    def is_worn(self) -> bool:
        """Whether the notes of what has changed have become so long that it is time for new books."""
        rosters = self.rosters()
        notes = [
            self.ledger.freed,
            self.ledger.now.changed,
            self.ledger.later.changed,
            self.accounts.usage.changed,
        ]
        notes += [roster.changed for roster in rosters]
        joined = [roster.joined for roster in rosters]
        return max(map(len, notes)) > MOST_NOTES or max(map(len, joined), default=0) > MOST_JOINED

    # --- Who could be a victim -------------------------------------------------------------------------------

    def court(self, *, reserved: bool) -> Court:
        """What searches for reserved, or for elastic, newcomers look at: elastic workloads, of which some are
        protected from elastic ones. Made when it is needed first."""
        court = self._courts.get(reserved)
        if court is None:
            elastic = {id_: each for id_, each in self.standings.items() if not (each.reserved or each.fresh)}
            roster = Roster(self.ledger, self.tree, elastic if reserved else self._unprotected(elastic))
            bounds = Bounds(self.ledger, roster)
            prospects = Prospects(self.ledger, self.preemption_policy, roster)
            court = Court(
                self.ledger, self.charges, self.preemption_policy, roster, self._tallies, bounds, prospects
            )
            self._courts[reserved] = court
        return court

    def rosters(self) -> list[Roster]:
        """The rosters that are kept."""
        return [court.roster for court in self._courts.values()]

    def enlist(self, standing: Standing) -> None:
        """Put a workload that is placed in the rosters where it belongs."""
        if standing.reserved:
            return
        if True in self._courts:
            self._courts[True].roster.add(standing)
        if False in self._courts:
            for each in self._unprotected({standing.workload.id: standing}).values():
                self._courts[False].roster.add(each)

    def _unprotected(self, standings: dict[str, Standing]) -> dict[str, Standing]:
        """Those of them whom elastic newcomers may take; the others are kept for later."""
        policy, now = self.pool.policy, self.clock.now
        if not protects(policy):
            return standings
        spared = {
            id_: standing for id_, standing in standings.items() if protected(standing.workload, policy, now)
        }
        self._protected.update(spared)
        return {id_: standing for id_, standing in standings.items() if id_ not in spared}

    def move_clock(self, now: int) -> None:
        """Let it be that time: some are not protected any more (or, if the clock goes back, some are again)."""
        if now < self.clock.now:
            self._courts.pop(False, None)
            self._protected.clear()
        self.clock.now = now
        if self._protected and False in self._courts:
            waiting, self._protected = self._protected, {}
            for standing in self._unprotected(waiting).values():
                self._courts[False].roster.add(standing)

    # --- Who waits -------------------------------------------------------------------------------------------

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

    # --- What is due -----------------------------------------------------------------------------------------

    def work_out(self) -> None:
        """Charge the reserved ones, and work out demand and entitlements, as far as something has changed."""
        shared = [leaf for leaf in self._uncharged if not self._charge_alone(leaf)]
        for top in {self.tree.paths[leaf][0] for leaf in shared}:
            self._charge_below(top)
        self._uncharged.clear()
        stale = self.demand.work_out(self.charges.left)
        divide_again(self.accounts, self.demand, self.nodes.capacity_milli, self.entitled, stale)

    def _charge_alone(self, leaf: int) -> bool:
        """Charge the reserved ones of a leaf to its own part, if that concerns nobody else: they hold no more than
        that, nor did before."""
        if leaf in self._beyond or not self.charges.charge_own(leaf):
            return False
        team = self.tree.team_id(leaf)
        alike: dict[int, list[Allocation]] = {}
        for id_, standing in self.on_leaf[leaf].items():
            milli = standing.milli
            if standing.reserved and milli:
                known = self.allocations.get(id_)
                if known is None or known[0].milli != milli or known[0].team != team:
                    self.allocations[id_] = alike.get(milli) or alike.setdefault(
                        milli, [Allocation(team, milli)]
                    )
        return True

    def _charge_below(self, top: int) -> None:
        """Charge all reserved ones below a top team anew, those together in order of admission whom it concerns."""
        rest: list[Held] = []
        for branch in self._branches_below(top):
            if self.charges.clear(branch):
                self.demand.touch(branch)
        for branch in self._branches_below(top):
            self._beyond.discard(branch)
            if not self.accounts.usage.reserved[branch] or not self.on_leaf[branch]:
                continue
            if not self._charge_alone(branch):
                self._beyond.add(branch)
                reserved = [each for each in self.on_leaf[branch].values() if each.reserved]
                rest.extend(Held(each.workload, branch, each.milli) for each in reserved)
                self.demand.touch(branch)
        self.allocations.update(self.charges.charge_all(rest))

    def _branches_below(self, top: int) -> Iterator[int]:
        """A branch and all below it; they are numbered one after the other."""
        depth = len(self.tree.paths[top])
        for branch in range(top, len(self.tree)):
            if branch > top and len(self.tree.paths[branch]) <= depth:
                return
            yield branch


def shares_a_device(standing: Standing) -> bool:
    """Whether one of its pods takes a part of a device."""
    if standing.milli % GPU_MILLI or len(standing.pods) == 1:
        return standing.milli % GPU_MILLI > 0
    return any(pod.milli % GPU_MILLI for pod in standing.pods)
