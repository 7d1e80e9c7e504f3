"""The whole tree in memory: one query for the teams, one for their shares, and what each may have by them.

The quantities are the scheduler's, from the tree alone (nothing here knows what runs): the guarantee
`G = max(reservation, sum of the children's G)`, the own part `O = G - sum of the children's G`, the ceiling
`L = min(M, G x (1 + b/100))`. All in milli-GPUs; None is no limit. Archived teams count for nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from teams.models import Pool, Share, Team


@dataclass(frozen=True, slots=True)
class Quota:
    """What one team was given of one pool. `version` is the share's; 0 where there is no row yet."""

    reservation_milli: int = 0
    maximum_milli: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A team as the arithmetic needs it; plain values, so that an edit can be tried without saving it."""

    id: UUID
    parent_id: UUID | None
    name: str
    burst_limit_percent: int | None
    maximum_milli: int | None


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


def entitled(nodes: Iterable[Node], quotas: Mapping[UUID, Quota]) -> dict[UUID, Entitled]:
    """Return what each team may have of one pool; `nodes` come parents first, `quotas` by team id."""
    ordered = list(nodes)
    handed_out: dict[UUID, int] = {}
    guarantees: dict[UUID, int] = {}
    for node in reversed(ordered):
        reservation = quotas.get(node.id, _NOTHING).reservation_milli
        guarantees[node.id] = max(reservation, handed_out.get(node.id, 0))
        if node.parent_id is not None:
            handed_out[node.parent_id] = handed_out.get(node.parent_id, 0) + guarantees[node.id]
    found: dict[UUID, Entitled] = {}
    for node in ordered:
        quota = quotas.get(node.id, _NOTHING)
        ceiling = _ceiling(node, quota, guarantees[node.id])
        above = found.get(node.parent_id) if node.parent_id else None
        bound, bound_by = (above.bound_milli, above.bound_by) if above else (None, None)
        if ceiling is not None and (bound is None or ceiling < bound):
            bound, bound_by = ceiling, node.id
        found[node.id] = Entitled(
            reservation_milli=quota.reservation_milli,
            guarantee_milli=guarantees[node.id],
            children_milli=handed_out.get(node.id, 0),
            ceiling_milli=ceiling,
            bound_milli=bound,
            bound_by=bound_by,
        )
    return found


def maximum_of(node: Node, quota: Quota) -> int | None:
    """Return the maximum that holds in a pool: the pool's own where there is one, else the team's."""
    return node.maximum_milli if quota.maximum_milli is None else quota.maximum_milli


def _ceiling(node: Node, quota: Quota, guarantee: int) -> int | None:
    limits = [maximum_of(node, quota)]
    if node.burst_limit_percent is not None:
        limits.append(guarantee * (100 + node.burst_limit_percent) // 100)
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True)
class Tree:
    """All teams that are not archived, parents before children and siblings by name (depth first)."""

    teams: tuple[Team, ...]

    @classmethod
    def load(cls, *, archived: bool = False) -> "Tree":
        """Read the tree (one query); with `archived`, archived teams too."""
        teams = Team.objects.all() if archived else Team.objects.active()
        return cls.of(teams.order_by("depth", "name", "id"))

    @classmethod
    def of(cls, teams: Iterable[Team]) -> "Tree":
        """Arrange teams that come by depth; those whose parent is not among them stand at the top."""
        rows = list(teams)
        known = {team.pk for team in rows}
        below: dict[UUID | None, list[Team]] = {}
        for team in rows:
            below.setdefault(team.parent_id if team.parent_id in known else None, []).append(team)
        ordered: list[Team] = []
        waiting = below.get(None, [])[::-1]
        while waiting:
            team = waiting.pop()
            ordered.append(team)
            waiting.extend(reversed(below.get(team.pk, [])))
        return cls(tuple(ordered))

    def __iter__(self) -> Iterator[Team]:
        return iter(self.teams)

    def __len__(self) -> int:
        return len(self.teams)

    @cached_property
    def by_id(self) -> dict[UUID, Team]:
        """The teams by their ids."""
        return {team.pk: team for team in self.teams}

    @cached_property
    def nodes(self) -> dict[UUID, Node]:
        """The teams as plain values, parents first."""
        return {
            team.pk: Node(team.pk, team.parent_id, team.name, team.burst_limit_percent, team.maximum_milli)
            for team in self.teams
        }

    @cached_property
    def parents(self) -> set[UUID]:
        """The ids of the teams that have children."""
        return {team.parent_id for team in self.teams if team.parent_id}

    def under(self, paths: Iterable[str]) -> "Tree":
        """Return the part below `paths`, in the same order."""
        prefixes = tuple(paths)
        return Tree(tuple(team for team in self.teams if team.path.startswith(prefixes)))

    def ancestors(self, team_id: UUID) -> list[UUID]:
        """Return the ids from the team's parent up to the root."""
        found = []
        above = self.nodes[team_id].parent_id
        while above is not None and above in self.nodes:
            found.append(above)
            above = self.nodes[above].parent_id
        return found


def moved(nodes: Mapping[UUID, Node], team_id: UUID, parent_id: UUID) -> list[Node]:
    """Return the nodes as they would be with the team below another parent, parents first."""
    changed = {**nodes, team_id: replace(nodes[team_id], parent_id=parent_id)}
    children: dict[UUID | None, list[Node]] = {}
    for node in changed.values():
        children.setdefault(node.parent_id, []).append(node)
    ordered: list[Node] = []
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
