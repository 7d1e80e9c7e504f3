"""Who has what in one pool while the turns of a cycle are taken again (sections 1 to 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from scheduling.checker.eligible import Admission, wishes_of
from scheduling.checker.picture import Picture, milli_of
from scheduling.checker.quota import Book, Charging
from scheduling.checker.room import Rooms, domain_of, lies_on_slices, refusal, sorts_of
from scheduling.checker.shares import Shares
from scheduling.engine.model.snapshot import PLACED, NodeOrder, OpenStatus, PodPlacement, WorkloadInfo

ROOT = ""


class Board:
    """One pool: ``later`` is what is left when everybody who stops is gone, ``now`` what is neither held nor
    promised; ``used`` is by the branches of a team's line, the root's under ``ROOT``."""

    def __init__(self, picture: Picture, admission: Admission, book: Book, shares: Shares) -> None:
        self.picture = picture
        self.pool = picture.pools[book.pool]
        self.book = book
        self.shares = shares
        self.quotas = book.quotas
        self._admission = admission
        self.known: dict[tuple[object, ...], bool] = {}
        """What was found out about it since it last changed."""
        nodes = [node for node in picture.nodes.values() if node.pool == book.pool]
        self.later, self.now = Rooms(nodes), Rooms(nodes)
        self.used: Counter[str] = Counter()
        self.given: Counter[str] = Counter()
        self.elastic: dict[str, tuple[WorkloadInfo, tuple[PodPlacement, ...]]] = {}
        self.charging = Charging(picture, book.pool)
        self.charging.left = dict(book.charging.left)
        self.lent: Counter[str] = Counter()
        for id_, parts in book.old.items():
            self.lent.update(book.above(picture.workloads[id_].team, parts))
        for workload in [*(fate.workload for fate in book.fates), *picture.guests(book.pool)]:
            self.now.take(workload, workload.placements)
            if workload.status is not OpenStatus.STOPPING:
                self.later.take(workload, workload.placements)
            if workload.status in PLACED and workload.pool == book.pool:
                self._use(workload, milli_of(workload.placements))
                if not workload.reserved:
                    self.elastic[workload.id] = (workload, workload.placements)

    def line(self, workload: WorkloadInfo) -> tuple[str, ...]:
        """The branches of its team, downwards, the root first."""
        return (ROOT, *self.picture.hierarchy.line(workload.team))

    def _use(self, workload: WorkloadInfo, milli: int) -> None:
        for branch in self.line(workload):
            self.used[branch] += milli

    def asked(self, workload: WorkloadInfo) -> int:
        """What it takes with its minimum of pods."""
        return workload.min_pods * self._admission.fit(self.pool, workload).pod_milli

    # --- Coming and going -----------------------------------------------------------------------------------

    def start(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> None:
        """A newcomer, or new pods of somebody, take their place."""
        milli = milli_of(pods)
        self.known.clear()
        self.later.take(workload, pods)
        self.now.take(workload, pods)
        self._use(workload, milli)
        for branch in self.line(workload):
            self.given[branch] += milli
        if workload.reserved:
            parts = self.charging.charge(workload.team, milli)
            self.lent.update(self.book.above(workload.team, parts))

    def leave(self, workload: WorkloadInfo, pods: Iterable[PodPlacement]) -> None:
        """Pods of a victim go. What they hold is held until they are gone, unless they are only Queued."""
        gone = tuple(pods)
        self.known.clear()
        self.later.take(workload, gone, -1)
        if workload.status is OpenStatus.QUEUED:
            self.now.take(workload, gone, -1)
        self._use(workload, -milli_of(gone))
        _, there = self.elastic.pop(workload.id, (workload, ()))
        rest = tuple(pod for pod in there if pod not in gone)
        if rest:
            self.elastic[workload.id] = (workload, rest)

    def settle(self) -> None:
        """Everything of the plan but growth: its victims leave, its newcomers take their places."""
        for fate in self.book.fates:
            if fate.lost:
                self.leave(fate.workload, fate.lost)
        for fate in self.book.fates:
            if fate.at_its_turn:
                self.start(fate.workload, fate.at_its_turn)

    def grow(self) -> None:
        """Then the growth."""
        for fate in self.book.fates:
            if fate.grown:
                self.start(fate.workload, fate.grown)

    # --- What would be possible -----------------------------------------------------------------------------

    def quota_allows(self, workload: WorkloadInfo, milli: int, leaving: Counter[str] | None = None) -> bool:
        """Whether guarantee and ceilings let so much more of it in, when so much (by branch) has left."""
        if workload.reserved and self.charging.available(workload.team) < milli:
            return False
        return not self.ceilings_passed(workload, milli, leaving or Counter())

    def ceilings_passed(self, workload: WorkloadInfo, milli: int, leaving: Counter[str]) -> list[str]:
        """The teams whose ceiling so much more would pass."""
        team = workload.team
        above: dict[str, int] = {}
        if workload.reserved:
            trial = Charging(self.picture, self.pool.id)
            trial.left = dict(self.charging.left)
            above = self.book.above(team, trial.charge(team, milli))
        found = []
        for each in self.picture.hierarchy.chain(team):
            used = self.used[each] - leaving[each]
            maximum, burst = self.quotas.maximum[each], self.quotas.burst[each]
            bursting = milli - above.get(each, 0)
            over_burst = burst is not None and bursting > 0 and used - self.lent[each] + bursting > burst
            if over_burst or (maximum is not None and used + milli > maximum):
                found.append(each)
        return found

    def has_place(self, workload: WorkloadInfo) -> bool:
        """Whether its minimum of pods fits where it may lie, on what is free when all who stop are gone."""
        key = (workload.min_pods, *wishes_of(workload))
        found = self.known.get(key)
        if found is None:
            level = workload.topology.required
            found = self.known[key] = self.later.most(self.pool, workload, level) >= workload.min_pods
        return found

    def trial(self, workload: WorkloadInfo, pods: Iterable[PodPlacement], sign: int) -> None:
        """Take (or, with -1, give back) pods of somebody for a while."""
        self.known.clear()
        self.later.take(workload, pods, sign)

    def is_free(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> bool:
        """Whether just these places are free, when all who stop are gone."""
        self.later.take(workload, pods)
        short = self.later.short(workload, pods)
        self.later.take(workload, pods, -1)
        return not short

    def narrower(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> str | None:
        """A level narrower than that of its place which it prefers, and which had room for it on idle devices."""
        preferred = workload.topology.preferred
        levels = (*self.pool.topology, "node")
        if preferred not in levels:
            return None
        required = workload.topology.required
        outermost = levels.index(required) + 1 if required in levels else 0
        nodes = [self.picture.nodes[pod.node] for pod in pods]
        outside = frozenset(
            node.id for node in self.now.nodes.values() if domain_of(self.pool, node, required) is None
        )
        workload = self._of_its_type(workload, pods)
        for level in reversed(levels[outermost : levels.index(preferred) + 1]):
            domains = {domain_of(self.pool, node, level) for node in nodes}
            if len(domains) == 1 and None not in domains:
                return None
            if self.now.most(self.pool, workload, level, outside) >= workload.min_pods:
                return level
        return None

    def fewest_nodes(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> int | None:
        """How few nodes of the domain in which these pods lie had room for as many on idle devices; ``None`` where that
        is not asked: of whom names no level, and in a pool that spreads pods."""
        topology, policy = workload.topology, self.pool.policy
        named = topology.required is not None or topology.preferred is not None
        if workload.pods < 2 or not named or policy.placement is not NodeOrder.BINPACK:
            return None
        nodes = [self.picture.nodes[pod.node] for pod in pods]
        levels = (None, *self.pool.topology)
        shared = [
            level for level in levels if len({domain_of(self.pool, node, level) for node in nodes}) == 1
        ]
        level = next((level for level in reversed(shared) if domain_of(self.pool, nodes[0], level)), None)
        domain, workload = domain_of(self.pool, nodes[0], level), self._of_its_type(workload, pods)
        sliced = True in sorts_of(self.picture.nodes, pods)
        held = sorted(
            self.now.rooms[node.id].pods(node, workload)
            for node in self.now.nodes.values()
            if domain_of(self.pool, node, level) == domain
            and refusal(self.pool, node, workload) is None
            and lies_on_slices(workload, node) in (None, sliced)
        )
        left, used = len(pods), 0
        while left > 0 and held:
            left, used = left - held.pop(), used + 1
        return used if left <= 0 else None

    def _of_its_type(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> WorkloadInfo:
        """It as one that asks for the type that all its pods have: which of several comes before where they lie."""
        types = {
            device.gpu_type
            for pod in pods
            for share in pod.devices
            for device in self.picture.nodes[pod.node].devices
            if device.index == share.index
        }
        return (
            replace(workload, gpu_types=tuple(types)) if workload.gpu_types and len(types) == 1 else workload
        )
