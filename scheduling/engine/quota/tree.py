"""The tree of teams: guarantees, own parts, ceilings and what each branch uses (section 2).

Inside the engine the tree is *expanded*: a nameless root stands above the top teams, and a team with children gets
one more child of its own id for the workloads submitted straight to it. So every workload belongs to a leaf, and a
branch is an index into the arrays below. Branches are numbered by id, parents before children.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import TeamInfo, TeamShare

ROOT = 0
NAMELESS = TeamInfo("", "the organisation")


class Tree:
    """The expanded tree, the same in all pools.

    ``paths[branch]`` is the way down from below the root to the branch itself; ``chains[leaf]`` are the branches of
    real teams from the leaf's own team up to its top team.
    """

    def __init__(self, teams: Iterable[TeamInfo]) -> None:
        ordered = sorted(teams, key=lambda team: team.id)
        known = {team.id for team in ordered}
        below: dict[str | None, list[TeamInfo]] = {}
        for team in ordered:
            below.setdefault(team.parent if team.parent in known else None, []).append(team)
        self.teams = [NAMELESS]
        self.own: list[bool] = [False]
        self.parents: list[int] = [-1]
        self.children: list[list[int]] = [[]]
        self.paths: list[tuple[int, ...]] = [()]
        self.chains: list[tuple[int, ...]] = [()]
        self.team_branch: dict[str, int] = {}
        self.leaf_of: dict[str, int] = {}
        waiting = [(ROOT, team) for team in reversed(below.get(None, []))]
        while waiting:
            parent, team = waiting.pop()
            branch = self._add(parent, team, own=False)
            self.team_branch[team.id] = self.leaf_of[team.id] = branch
            children = below.get(team.id, [])
            if children:
                self.leaf_of[team.id] = self._add(branch, team, own=True)
                waiting.extend((branch, child) for child in reversed(children))

    def __len__(self) -> int:
        return len(self.parents)

    def _add(self, parent: int, team: TeamInfo, *, own: bool) -> int:
        branch = len(self.parents)
        self.teams.append(team)
        self.own.append(own)
        self.parents.append(parent)
        self.children.append([])
        self.children[parent].append(branch)
        self.paths.append((*self.paths[parent], branch))
        self.chains.append(self.chains[parent] if own else (branch, *self.chains[parent]))
        return branch

    def parting(self, leaf: int, other: int) -> int:
        """How many branches the two paths have in common: the index at which they part."""
        depth = 0
        for mine, theirs in zip(self.paths[leaf], self.paths[other], strict=False):
            if mine != theirs:
                break
            depth += 1
        return depth

    def beside(self, leaf: int) -> list[list[int]]:
        """The branches beside each of the leaf's own, from below the root down."""
        path = self.paths[leaf]
        return [[each for each in self.children[self.parents[own]] if each != own] for own in path]

    def team_id(self, branch: int) -> str | None:
        """The id of the branch's team; ``None`` for the nameless root."""
        return self.teams[branch].id if branch else None

    def team_name(self, branch: int) -> str:
        """The name of the branch's team, for sentences."""
        return self.teams[branch].name


@dataclass(slots=True)
class BranchQuotas:
    """What each branch of the tree may have in one pool, in milli-GPUs.

    ``guarantee`` G, ``own`` O (0 for a branch that has its own leaf below: the leaf has it as guarantee), ``maximum``
    M, ``burst`` the guarantee with the burst limit on top. No limit is ``UNLIMITED``.
    """

    guarantee: list[int]
    own: list[int]
    maximum: list[int]
    burst: list[int]
    weight: list[int]
    usage_gpu_ms: list[int]

    @classmethod
    def of(cls, tree: Tree, pool: str) -> BranchQuotas:
        """The quotas of the teams' own rows for this pool: ``G = max(r, sum of G below)``, ``O = G - sum below``."""
        size = len(tree)
        quotas = cls([0] * size, [0] * size, [UNLIMITED] * size, [UNLIMITED] * size, [1] * size, [0] * size)
        for branch in range(size - 1, 0, -1):
            quotas._fill(tree, branch, pool)
        quotas.guarantee[ROOT] = sum(quotas.guarantee[child] for child in tree.children[ROOT])
        return quotas

    def _fill(self, tree: Tree, branch: int, pool: str) -> None:
        """Set the numbers of a branch after those of its children."""
        team = tree.teams[branch]
        share = next((share for share in team.shares if share.pool == pool), TeamShare(pool))
        self.weight[branch] = team.weight
        if tree.own[branch]:
            self.usage_gpu_ms[branch] = share.usage_gpu_ms
            return
        children = tree.children[branch]
        handed_out = sum(self.guarantee[child] for child in children)
        guarantee = max(share.reservation_milli, handed_out)
        self.guarantee[branch] = guarantee
        self.own[branch] = guarantee - handed_out
        if children:
            self.guarantee[children[0]] = guarantee - handed_out
            self.usage_gpu_ms[branch] = sum(self.usage_gpu_ms[child] for child in children)
        else:
            self.usage_gpu_ms[branch] = share.usage_gpu_ms
        maximum = team.maximum_milli if share.maximum_milli is None else share.maximum_milli
        if maximum is not None and maximum >= 0:
            self.maximum[branch] = maximum
        if team.burst_limit_percent is not None:
            self.burst[branch] = guarantee * (100 + team.burst_limit_percent) // 100

    def ceiling(self, branch: int) -> int:
        """``L = min(M, G x (1 + b/100))``, ``UNLIMITED`` if there is none."""
        return min(self.maximum[branch], self.burst[branch])


@dataclass(slots=True)
class BranchUsage:
    """What each branch has allocated in one pool while a cycle decides: ``used`` U, ``reserved`` R, in milli-GPUs.

    ``above[t]`` is the part of ``reserved[t]`` that is charged to own parts of ancestors of ``t``: it does not count
    against t's burst limit. ``changed`` are the leaves that came to use more or less, in order, for indexes that
    keep figures of their own.
    """

    tree: Tree
    used: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    above: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = [0] * len(self.tree)
        self.reserved = [0] * len(self.tree)
        self.above = [0] * len(self.tree)

    def add(self, leaf: int, milli: int, *, reserved: bool) -> None:
        """Count (or, negative, take back) an allocation in the leaf and every branch above it."""
        self.changed.append(leaf)
        for branch in (ROOT, *self.tree.paths[leaf]):
            self.used[branch] += milli
            if reserved:
                self.reserved[branch] += milli


@dataclass(frozen=True, slots=True)
class QuotaAccounts:
    """The tree, what its branches may have in one pool and what they use of it."""

    tree: Tree
    quotas: BranchQuotas
    usage: BranchUsage

    @classmethod
    def of(cls, tree: Tree, pool: str) -> QuotaAccounts:
        """The accounts of a pool in which nothing runs yet."""
        return cls(tree, BranchQuotas.of(tree, pool), BranchUsage(tree))
