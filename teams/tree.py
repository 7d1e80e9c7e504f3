"""The whole tree in memory: one query for the teams, one for their shares, and what each may have by them.

The quantities are the scheduler's, from the tree alone (nothing here knows what runs): the guarantee
`G = max(reservation, sum of the children's G)`, the own part `O = G - sum of the children's G`, the ceiling
`L = min(M, G x (1 + b/100))`. All in milli-GPUs; None is no limit. Archived teams count for nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from teams.models import Pool, Share, Team


@dataclass(frozen=True, slots=True)
class Quota:
    """What one team was given of one pool. `version` is the share's; 0 where there is no row yet."""

    reservation_milli: int = 0
    maximum_milli: int | None = None
    version: int = 0


class TreeNode(NamedTuple):
    """A team as the arithmetic and the order of the tree need it; plain values, so that an edit can be tried without
    saving it, and thousands are read at once. `path` and `depth` are those that are stored, whatever is tried.
    """

    id: UUID
    parent_id: UUID | None
    name: str
    burst_limit_percent: int | None
    maximum_milli: int | None
    slug: str = ""
    path: str = ""
    depth: int = 0

    @classmethod
    def of(cls, team: Team) -> "TreeNode":
        """Return a team's values."""
        return cls._make(getattr(team, name) for name in cls._fields)


@dataclass(frozen=True, slots=True)
class Entitled:
    """What one team may have of one pool.

    `children_milli` is the sum of the children's guarantees, `ceiling_milli` the team's own ceiling and
    `bound_milli` the lowest of it and its ancestors', which `bound_by` names.
    """

    reservation_milli: int
    guarantee_milli: int
    children_milli: int
    ceiling_milli: int | None
    bound_milli: int | None
    bound_by: UUID | None

    @property
    def own_part_milli(self) -> int:
        """Return what of the guarantee is not the children's."""
        return self.guarantee_milli - self.children_milli

    @property
    def excess_milli(self) -> int:
        """Return by how much the children's guarantees exceed the reservation, where there is one."""
        return max(0, self.children_milli - self.reservation_milli) if self.reservation_milli else 0


_NOTHING = Quota()


class Entitlements(Mapping[UUID, Entitled]):
    """What each team may have of one pool, worked out for whom somebody asks: of thousands a page shows a few.

    A guarantee comes from the reservations at or below a team, so only ways up from these are walked; a ceiling that
    binds is the team's own or one above it.
    """

    def __init__(self, nodes: Mapping[UUID, TreeNode], quotas: Mapping[UUID, Quota]) -> None:
        self._nodes, self._quotas = nodes, quotas
        self._children = _guaranteed_children(nodes, quotas)
        self._guarantees: dict[UUID, int] = {}
        self._found: dict[UUID, Entitled] = {}

    def __getitem__(self, team_id: UUID) -> Entitled:
        """Return what one team may have; teams above it are worked out on the way."""
        found = self._found.get(team_id)
        if found is None:
            found = self._found[team_id] = self._work_out(self._nodes[team_id])
        return found

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def _work_out(self, node: TreeNode) -> Entitled:
        quota, guarantee = self._quotas.get(node.id, _NOTHING), self._guarantee(node.id)
        ceiling = _ceiling(node, quota, guarantee)
        above = self.get(node.parent_id) if node.parent_id else None
        bound, bound_by = (above.bound_milli, above.bound_by) if above else (None, None)
        if ceiling is not None and (bound is None or ceiling < bound):
            bound, bound_by = ceiling, node.id
        return Entitled(
            reservation_milli=quota.reservation_milli,
            guarantee_milli=guarantee,
            children_milli=self._handed_out(node.id),
            ceiling_milli=ceiling,
            bound_milli=bound,
            bound_by=bound_by,
        )

    def _guarantee(self, team_id: UUID) -> int:
        known = self._guarantees.get(team_id)
        if known is None:
            reservation = self._quotas.get(team_id, _NOTHING).reservation_milli
            known = self._guarantees[team_id] = max(reservation, self._handed_out(team_id))
        return known

    def _handed_out(self, team_id: UUID) -> int:
        return sum(self._guarantee(child) for child in self._children.get(team_id, ()))


def _guaranteed_children(
    nodes: Mapping[UUID, TreeNode], quotas: Mapping[UUID, Quota]
) -> dict[UUID, set[UUID]]:
    """Return of each team the children that are guaranteed anything: with a reservation at or below them."""
    found: dict[UUID, set[UUID]] = {}
    for team_id, quota in quotas.items():
        node = nodes.get(team_id) if quota.reservation_milli else None
        while node is not None and node.parent_id is not None:
            siblings = found.setdefault(node.parent_id, set())
            if node.id in siblings:
                break
            siblings.add(node.id)
            node = nodes.get(node.parent_id)
    return found


def maximum_of(node: TreeNode, quota: Quota) -> int | None:
    """Return the maximum that holds in a pool: the pool's own where there is one, else the team's."""
    return node.maximum_milli if quota.maximum_milli is None else quota.maximum_milli


def _ceiling(node: TreeNode, quota: Quota, guarantee: int) -> int | None:
    limits = [maximum_of(node, quota)]
    if node.burst_limit_percent is not None:
        limits.append(guarantee * (100 + node.burst_limit_percent) // 100)
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True)
class TeamTree:
    """All teams that are not archived, parents before children and siblings by name (depth first)."""

    nodes: Mapping[UUID, TreeNode]

    @classmethod
    def load(cls, *, archived: bool = False) -> "TeamTree":
        """Read the tree (one query); with `archived`, archived teams too."""
        teams = Team.objects.all() if archived else Team.objects.active()
        rows = teams.order_by("depth", "name", "id").values_list(*TreeNode._fields)
        return cls.of(map(TreeNode._make, rows))

    @classmethod
    def of(cls, nodes: Iterable[TreeNode]) -> "TeamTree":
        """Arrange nodes that come by depth; those whose parent is not among them stand at the top."""
        known = {node.id: node for node in nodes}
        below: dict[UUID | None, list[TreeNode]] = {}
        for node in known.values():
            parent_id = node.parent_id if node.parent_id in known else None
            below.setdefault(parent_id, []).append(node)
        ordered: dict[UUID, TreeNode] = {}
        waiting = below.pop(None, [])[::-1]
        while waiting:
            node = waiting.pop()
            ordered[node.id] = node
            waiting.extend(reversed(below.get(node.id, ())))
        return cls(ordered)

    def __iter__(self) -> Iterator[TreeNode]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def parents(self) -> set[UUID]:
        """The ids of the teams that have children."""
        return {node.parent_id for node in self if node.parent_id}

    def under(self, paths: Iterable[str]) -> "TeamTree":
        """Return the part below `paths`, in the same order."""
        prefixes = tuple(paths)
        return TeamTree({node.id: node for node in self if node.path.startswith(prefixes)})

    def ancestors(self, team_id: UUID) -> list[UUID]:
        """Return the ids from the team's parent up to the root."""
        found = []
        above = self.nodes[team_id].parent_id
        while above is not None and above in self.nodes:
            found.append(above)
            above = self.nodes[above].parent_id
        return found


def moved(nodes: Mapping[UUID, TreeNode], team_id: UUID, parent_id: UUID) -> list[TreeNode]:
    """Return the nodes as they would be with the team below another parent, parents first."""
    changed = {**nodes, team_id: nodes[team_id]._replace(parent_id=parent_id)}
    children: dict[UUID | None, list[TreeNode]] = {}
    for node in changed.values():
        children.setdefault(node.parent_id, []).append(node)
    ordered: list[TreeNode] = []
    waiting = children.get(None, [])
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting.extend(children.get(node.id, []))
    return ordered


def quotas_of(pools: Iterable[Pool] | None = None) -> dict[UUID, dict[UUID, Quota]]:
    """Return what every team was given, by pool id and team id (one query); only of `pools` where given."""
    shares = Share.objects.all() if pools is None else Share.objects.filter(pool__in=list(pools))
    found: dict[UUID, dict[UUID, Quota]] = {}
    rows = shares.values_list("pool_id", "team_id", "reservation_milli", "maximum_milli", "version")
    for pool_id, team_id, reservation, maximum, version in rows:
        found.setdefault(pool_id, {})[team_id] = Quota(reservation, maximum, version)
    return found
