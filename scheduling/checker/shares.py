"""What every team wants and what it is entitled to, worked out from the rows (section 3).

The division is done with exact fractions: the level to which everybody could be filled, then the rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from scheduling.checker.eligible import Admission
from scheduling.checker.hierarchy import own_branch
from scheduling.checker.picture import Picture, milli_of
from scheduling.checker.quota import Book, Charging
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.snapshot import GPU_MILLI, PLACED, OpenStatus, WorkloadInfo

Key = tuple[int, int, str]


def broken_shares(picture: Picture, entitled: dict[str, Shares]) -> Iterator[Violation]:
    """Teams whose demand or entitlement in the plan is not what the rows say."""
    for row in picture.plan.teams:
        if row.pool not in entitled or row.team not in picture.hierarchy.teams:
            yield broken(
                BrokenRule.FIGURES, f"There is no {row.team} in {row.pool}.", team=row.team, pool=row.pool
            )
            continue
        branch = entitled[row.pool].branches[row.team]
        where = {"team": row.team, "pool": row.pool}
        if row.demand_milli != branch.demand:
            text = f"{row.team} wants {branch.demand} in {row.pool}, not {row.demand_milli}."
            yield broken(BrokenRule.DEMAND, text, **where)
        elif row.entitlement_milli != branch.entitled:
            text = f"{row.team} is entitled to {branch.entitled} in {row.pool}, not {row.entitlement_milli}."
            yield broken(BrokenRule.ENTITLEMENT, text, **where)


def capacity_of(picture: Picture, pool: str) -> int:
    """The GPUs of a pool that are ready, not cordoned and not somebody else's."""
    return sum(
        0 if device.foreign else device.share_milli
        for node in picture.nodes.values()
        if node.pool == pool and node.ready and not node.cordoned
        for device in node.devices
    )


@dataclass(slots=True)
class Branch:
    """One child in a division, in milli-GPUs. ``key`` is the rank of its next waiting workload."""

    team: str
    is_own: bool
    guarantee: int
    weight: int
    used: int = 0
    reserved: int = 0
    demand: int = 0
    entitled: int = 0
    whole: bool = True
    key: Key | None = None
    children: list[Branch] = field(default_factory=list)

    @property
    def unit(self) -> int:
        """In what its part is counted out."""
        return GPU_MILLI if self.whole else 1

    @property
    def rank(self) -> tuple[bool, Key, str, bool]:
        """Who comes first of those with equal remainders."""
        return (self.key is None, self.key or (0, 0, ""), self.team, self.is_own)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A waiting workload's part of a demand."""

    workload: WorkloadInfo
    pods: int
    least: int
    pod_milli: int

    @property
    def key(self) -> Key:
        return (-self.workload.priority, self.workload.submitted_at, self.workload.id)


class Shares:
    """Demand and entitlement in one pool, before the plan: ``branches`` by the names of the hierarchy's lines."""

    def __init__(self, picture: Picture, admission: Admission, book: Book) -> None:
        self._picture = picture
        self._admission = admission
        self._pool = picture.pools[book.pool]
        self.branches: dict[str, Branch] = {}
        self.root = Branch("", False, 0, 1)
        self._plant(book)
        placed = [fate.workload for fate in book.fates if fate.workload.status in PLACED]
        for workload in placed:
            leaf = self.leaf(workload.team)
            milli = milli_of(workload.placements)
            leaf.used += milli
            leaf.reserved += milli if workload.reserved else 0
            leaf.whole = leaf.whole and not any(pod.milli % GPU_MILLI for pod in workload.placements)
        self._lent = dict.fromkeys(picture.hierarchy.teams, 0)
        for id_, parts in book.old.items():
            for team, milli in book.above(picture.workloads[id_].team, parts).items():
                self._lent[team] += milli
        self._count_wishes(book, placed)
        self._sum_up(self.root)
        self.root.entitled = min(self.root.demand, capacity_of(picture, book.pool))
        waiting = [self.root]
        for branch in waiting:
            _divide(branch)
            waiting.extend(branch.children)

    def leaf(self, team: str) -> Branch:
        """The branch that holds a team's own workloads."""
        return self.branches.get(own_branch(team)) or self.branches[team]

    def _plant(self, book: Book) -> None:
        hierarchy, quotas = self._picture.hierarchy, book.quotas
        for team_id in hierarchy.top_down:
            weight = hierarchy.teams[team_id].weight
            parent = hierarchy.parent(team_id)
            branch = Branch(team_id, False, quotas.guarantee[team_id], weight)
            self.branches[team_id] = branch
            (self.root if parent is None else self.branches[parent]).children.append(branch)
            if hierarchy.children[team_id]:
                own = Branch(team_id, True, quotas.own[team_id], weight)
                self.branches[own_branch(team_id)] = own
                branch.children.append(own)

    def _wishes(self, placed: list[WorkloadInfo]) -> Iterator[_Wish]:
        """Who waits, with all the pods that could start in an empty pool, and what running gangs have not grown."""
        for workload in self._picture.snapshot.workloads:
            if workload.status is OpenStatus.PENDING and self._admission.first(workload) == self._pool.id:
                fit = self._admission.fit(self._pool, workload)
                pods = min(workload.pods, fit.together)
                yield _Wish(workload, pods, workload.min_pods, fit.pod_milli)
        for workload in placed:
            if len(workload.placements) < workload.pods:
                fit = self._admission.fit(self._pool, workload)
                rest = min(workload.pods, fit.together) - len(workload.placements)
                if rest > 0 and fit.pod_milli:
                    yield _Wish(workload, rest, 1, fit.pod_milli)

    def _count_wishes(self, book: Book, placed: list[WorkloadInfo]) -> None:
        charging = Charging(self._picture, self._pool.id)
        charging.left = dict(book.charging.left)
        for wish in sorted(self._wishes(placed), key=lambda wish: wish.key):
            pods, team = wish.pods, wish.workload.team
            if wish.workload.reserved:
                pods = min(pods, charging.available(team) // wish.pod_milli)
                if pods < wish.least:
                    continue
                parts = charging.charge(team, pods * wish.pod_milli)
                for each, milli in book.above(team, parts).items():
                    self._lent[each] += milli
            leaf = self.leaf(team)
            if not pods and not wish.workload.reserved:  # All that it may use is shared by others now.
                leaf.whole = leaf.whole and wish.pod_milli % GPU_MILLI == 0
            if pods:
                leaf.demand += pods * wish.pod_milli
                leaf.whole = leaf.whole and wish.pod_milli % GPU_MILLI == 0
                leaf.key = wish.key if leaf.key is None else min(leaf.key, wish.key)

    def _sum_up(self, root: Branch) -> None:
        """Children before parents: what each has and wants, capped by its ceiling, never below what it has."""
        order = [root]
        for branch in order:
            order.extend(branch.children)
        for branch in reversed(order):
            if branch.children:
                branch.used = sum(child.used for child in branch.children)
                branch.reserved = sum(child.reserved for child in branch.children)
                branch.demand = sum(child.demand for child in branch.children)
                branch.whole = all(child.whole for child in branch.children)
                branch.key = min((child.key for child in branch.children if child.key), default=None)
            else:
                branch.demand += branch.used
            if branch is not root and not branch.is_own:
                branch.demand = max(branch.used, min(branch.demand, *self._limits(branch)))

    def _limits(self, branch: Branch) -> Iterator[int]:
        quotas = self._picture.quotas[self._pool.id]
        maximum, burst = quotas.maximum[branch.team], quotas.burst[branch.team]
        yield branch.demand if maximum is None else maximum
        yield branch.demand if burst is None else burst + self._lent[branch.team]


def _divide(parent: Branch) -> None:
    """Divide what a branch got among its children: reserved, guarantees, the rest by weight."""
    children = [child for child in parent.children if child.demand > 0]
    left = parent.entitled
    steps = (
        [(min(child.reserved, child.demand), child.reserved) for child in children],
        [(min(child.guarantee, child.demand), child.guarantee) for child in children],
        [(child.demand, child.weight) for child in children],
    )
    for step in steps:
        room = [
            max(0, goal - child.entitled) if part else 0
            for child, (goal, part) in zip(children, step, strict=True)
        ]
        claims = list(zip(children, room, [part for _, part in step], strict=True))
        for child, milli in zip(children, _fill(left, claims), strict=True):
            child.entitled += milli
            left -= milli


def _fill(amount: int, claims: list[tuple[Branch, int, int]]) -> list[int]:
    """Each claim's (branch, room, part) milli-GPUs of the amount."""
    if amount <= 0:
        return [0] * len(claims)
    if sum(room for _, room, _ in claims) <= amount:
        return [room for _, room, _ in claims]
    level = _level(amount, claims)
    exact = [min(Fraction(room), level * part) for _, room, part in claims]
    given = [
        room if share == room else int(share / branch.unit) * branch.unit
        for share, (branch, room, _) in zip(exact, claims, strict=True)
    ]
    spare = amount - sum(given)

    def rank(at: int) -> tuple[Fraction, int, tuple[bool, Key, str, bool]]:
        branch = claims[at][0]
        remainder = (exact[at] - given[at]) / branch.unit
        return (-remainder, -max(0, branch.used - branch.entitled - given[at]), branch.rank)

    for at in sorted((at for at in range(len(claims)) if exact[at] > given[at]), key=rank):
        branch, room, _ = claims[at]
        if branch.unit <= spare and given[at] + branch.unit <= room:
            given[at] += branch.unit
            spare -= branch.unit
    return given


def _level(amount: int, claims: list[tuple[Branch, int, int]]) -> Fraction:
    """How much everybody gets for each unit of his part, those who need less being filled first."""
    left, parts = amount, sum(part for _, room, part in claims if room)
    for _, room, part in sorted(claims, key=lambda claim: Fraction(claim[1], claim[2] or 1)):
        if not room:
            continue
        if left * part < room * parts:
            break
        left -= room
        parts -= part
    return Fraction(left, parts)
