"""The rows of the tree's table: a team, what it may have of one pool, and what its reader may change of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from teams.models import Pool, Role, Team
from teams.permissions import Permission, paths_where, roles_by_path
from teams.picture import TreePicture
from teams.tree import Entitled, Quota, TeamTree, TreeNode, quotas_of

if TYPE_CHECKING:
    from chamber.models import User

LARGE = 300
"""From so many rows on, only two levels are shown at once; deeper ones have a page of their own."""
LEVELS_OF_LARGE = 2
MAX_LEVEL = 8
"""The deepest indentation there is a style for."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A team in one pool. `level` is its indentation; `closed` says that its children are not on this page."""

    team: Team
    level: int
    quota: Quota
    entitled: Entitled | None
    bound_by: str
    has_children: bool
    closed: bool
    may_limit: bool
    may_split: bool
    may_manage: bool

    @property
    def may_edit(self) -> bool:
        """Whether the row can be edited in place."""
        return self.may_limit or self.may_split


@dataclass(frozen=True, slots=True)
class Powers:
    """What somebody may change of which part of the tree, by paths; asks no query for a row."""

    admin: tuple[str, ...]
    lead: tuple[str, ...]
    visible: tuple[str, ...]
    org_admin: bool

    @classmethod
    def of(cls, user: "User") -> Self:
        """Return the powers of a user (one query, kept)."""
        return cls(
            admin=tuple(paths_where(user, Permission.MANAGE_TEAM)),
            lead=tuple(paths_where(user, Permission.SPLIT_AMONG_CHILDREN)),
            visible=tuple(paths_where(user, Permission.VIEW_TEAM)),
            org_admin=any(Role.ORG_ADMIN in roles for roles in roles_by_path(user).values()),
        )

    def may_limit(self, team: Team) -> bool:
        """Return whether all limits of the team may be changed."""
        return self._above(team).startswith(self.admin) if team.parent_id else self.org_admin

    def may_split(self, team: Team) -> bool:
        """Return whether its part of what its parent has may be changed."""
        return bool(team.parent_id) and self._above(team).startswith(self.lead)

    def may_manage(self, team: Team) -> bool:
        """Return whether the team may be renamed and get teams below it."""
        return team.path.startswith(self.admin)

    @staticmethod
    def _above(team: Team) -> str:
        return team.path[: -len(team.pk.hex) - 1]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a page, how many teams there are in all, and the picture of the whole tree that they are from."""

    rows: list[TreeRow]
    teams: int
    partial: bool
    picture: TreePicture

    @property
    def editable(self) -> list[TreeRow]:
        """The rows that may be edited."""
        return [row for row in self.rows if row.may_edit]


def table(user: "User", pool: Pool | None, *, under: Team | None = None) -> Table:
    """Return the rows of the teams the user may see, or of those under one (at most five queries)."""
    tree, quotas = TeamTree.load(), quotas_of([pool]) if pool else {}
    picture = TreePicture(tree.nodes, quotas, {pool.pk: pool} if pool else {})
    powers = Powers.of(user)
    seen = tree.under([under.path] if under else powers.visible)
    partial = len(seen) > LARGE
    rows = list(_rows(tree, seen, picture, pool, powers, partial=partial))
    return Table(rows, len(seen), partial, picture)


def teams_of_table(user: "User", *, under: Team | None = None) -> list[Team]:
    """Return the teams that have a row in that table (at most three queries)."""
    seen = TeamTree.load().under([under.path] if under else Powers.of(user).visible)
    return [team for team, _ in _shown(seen, partial=len(seen) > LARGE)]


def row(user: "User", team: Team, pool: Pool | None, *, under: Team | None = None) -> TreeRow | None:
    """Return one row as it stands in that table; None where it is not on the page."""
    return next((found for found in table(user, pool, under=under).rows if found.team.pk == team.pk), None)


def _shown(seen: TeamTree, *, partial: bool) -> list[tuple[Team, int]]:
    """Return the teams that have a row, each with its level (one query: only of these more is needed than the tree
    says).
    """
    top = min((node.depth for node in seen), default=0)
    levels = {node.id: node.depth - top for node in seen}
    shown = {key: level for key, level in levels.items() if not partial or level <= LEVELS_OF_LARGE}
    teams = Team.objects.in_bulk(list(shown))
    return [(teams[key], level) for key, level in shown.items() if key in teams]


def _rows(
    tree: TeamTree, seen: TeamTree, picture: TreePicture, pool: Pool | None, powers: Powers, *, partial: bool
) -> Iterator[TreeRow]:
    entitled = picture.entitled[pool.pk] if pool else {}
    for team, level in _shown(seen, partial=partial):
        found = entitled.get(team.pk)
        by = found.bound_by if found else None
        yield TreeRow(
            team=team,
            level=min(level, MAX_LEVEL),
            quota=picture.quota(pool.pk, team.pk) if pool else Quota(),
            entitled=found,
            bound_by="" if by is None or by == team.pk else _called(tree.nodes[by], powers),
            has_children=team.pk in tree.parents,
            closed=partial and level == LEVELS_OF_LARGE and team.pk in tree.parents,
            may_limit=powers.may_limit(team),
            may_split=powers.may_split(team),
            may_manage=powers.may_manage(team),
        )


def _called(team: TreeNode, powers: Powers) -> str:
    return team.name if team.path.startswith(powers.visible) else "a team above"
