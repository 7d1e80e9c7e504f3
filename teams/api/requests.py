"""What every view of this part does first: who asks, about which row, with which values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rest_framework.request import Request
from rest_framework.response import Response

from chamber.errors import no_such, one_of
from chamber.rest import etag
from teams.actors import Actor, Via
from teams.api.shapes import StrictSerializer
from teams.models import Pool, Team

if TYPE_CHECKING:
    from chamber.models import User


def person(request: Request) -> "User":
    """Return who is signed in; the default permissions let nobody else through."""
    return cast("User", request.user)


def via(request: Request) -> Via:
    """Return the door: the API, or the command line that uses it."""
    by_cli = request.headers.get("User-Agent", "").startswith("chamber-cli/")
    return Via.CLI if by_cli else Via.API


def actor(request: Request) -> Actor:
    """Return who acts, and whether through the command line."""
    return Actor.person(person(request), via(request))


def team_for(request: Request, slug: str, *, field: str | None = None) -> Team:
    """Return the team with this slug as far as the asker may see it; raise `NotVisible` otherwise."""
    rows = Team.objects.visible_to(person(request)).select_related("parent")
    return one_of(rows, "team", field=field, slug=slug)


def teams_for(request: Request, slugs: Iterable[str]) -> dict[str, Team]:
    """Return those teams with these slugs that the asker may see, by slug (one query)."""
    found = Team.objects.visible_to(person(request)).select_related("parent").filter(slug__in=set(slugs))
    return {team.slug: team for team in found}


def team_among(request: Request, teams: Mapping[str, Team], slug: str, *, field: str | None = None) -> Team:
    """Return one of the teams that `teams_for` found; raise `NotVisible` otherwise."""
    return teams[slug] if slug in teams else team_for(request, slug, field=field)


def pools_for(request: Request) -> dict[str, Pool]:
    """Return the pools that the asker may see, by slug (one query)."""
    return {pool.slug: pool for pool in Pool.objects.visible_to(person(request))}


def pool_among(pools: Mapping[str, Pool], slug: str, *, field: str | None = None) -> Pool:
    """Return one of the pools that `pools_for` found; raise `NotVisible` otherwise."""
    if slug not in pools:
        raise no_such("pool", slug, field=field, known=pools)
    return pools[slug]


def pool_for(request: Request, slug: str, *, field: str | None = None) -> Pool:
    """Return the pool with this slug; raise `NotVisible` where there is none for the asker."""
    return one_of(Pool.objects.visible_to(person(request)), "pool", field=field, slug=slug)


def values_of(request: Request, shape: type[StrictSerializer]) -> dict[str, Any]:
    """Return the validated body."""
    asked = shape(data=request.data)
    asked.is_valid(raise_exception=True)
    return cast("dict[str, Any]", dict(asked.validated_data))


def milli_keys(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the values with `keys` under the names they have inside: `maximum` is `maximum_milli`."""
    return {f"{key}_milli" if key in keys else key: value for key, value in values.items()}


def versioned(body: Any, version: int, *, status: int = 200) -> Response:
    """Return an answer with the ETag of the row's version."""
    return Response(body, status=status, headers={"ETag": etag(version)})


def one_page(results: Sequence[Any]) -> Response:
    """Return a list that is never more than one page, in the shape of all lists."""
    return Response({"next": None, "previous": None, "results": list(results)})
