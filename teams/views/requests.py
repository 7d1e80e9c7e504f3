"""What every view of this app does first: who asks, about which row."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from chamber.errors import NotVisible, one_of
from teams.actors import Actor, Via
from teams.models import Pool, Team
from teams.tree import TeamTree, TreeNode

if TYPE_CHECKING:
    from chamber.models import User


def person(request: HttpRequest) -> "User":
    """Return who is signed in; every page needs that."""
    return cast("User", request.user)


def actor(request: HttpRequest) -> Actor:
    """Return who acts."""
    return Actor.person(person(request), Via.PAGE)


def team_for(request: HttpRequest, slug: str) -> Team:
    """Return the team with this slug as far as the asker may see it; raise `NotVisible` otherwise."""
    return one_of(Team.objects.visible_to(person(request)).select_related("parent"), "team", slug=slug)


def pool_for(request: HttpRequest, slug: str | None) -> Pool | None:
    """Return the pool with this slug, the first one without a slug; None where there are no pools."""
    pools = Pool.objects.visible_to(person(request))
    return one_of(pools, "pool", slug=slug) if slug else pools.first()


def choices_below(paths: list[str], tree: TeamTree) -> list[tuple[TreeNode, str]]:
    """Return the teams below `paths` in the order of the tree, each with its name indented by depth."""
    below = tree.under(paths)
    top = min((node.depth for node in below), default=0)
    return [(node, "\u2003" * (node.depth - top) + node.name) for node in below]


def team_choices(paths: list[str]) -> list[tuple[str, str]]:
    """Return the active teams below `paths` as choices by slug."""
    return [(node.slug, name) for node, name in choices_below(paths, TeamTree.load())]


@dataclass(frozen=True, slots=True)
class TreePlace:
    """Which page of the tree a row stands on: the pool it shows, and the team it begins with if any."""

    pool: Pool | None
    under: Team | None

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """Return what the address says."""
        under = request.GET.get("under")
        pool = pool_for(request, request.GET.get("pool"))
        return cls(pool=pool, under=team_for(request, under) if under else None)

    @property
    def sharing(self) -> Pool:
        """The pool, where there must be one."""
        if self.pool is None:
            raise NotVisible("There is no pool to share yet.")
        return self.pool

    @property
    def query(self) -> str:
        """The query of the address that leads there."""
        asked = {"pool": self.pool.slug if self.pool else "", "under": self.under.slug if self.under else ""}
        return urlencode({name: slug for name, slug in asked.items() if slug})

    @property
    def url(self) -> str:
        """The page's address."""
        return f"{reverse('teams:tree')}?{self.query}"
