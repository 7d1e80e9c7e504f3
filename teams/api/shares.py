"""What a team is guaranteed of each pool, and at most may hold of it."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import require_version
from teams import actions
from teams.api import shapes
from teams.api.requests import actor, milli_keys, one_page, pool_for, team_for, values_of, versioned
from teams.api.teams import IF_MATCH, share_body
from teams.capacity import capacity_milli, oversubscribed
from teams.models import Pool, Team
from teams.picture import TreePicture
from teams.values import ShareChanges


def _body(team: Team, pool: Pool) -> dict[str, Any]:
    picture = TreePicture.load()
    warning = oversubscribed(picture, capacity_milli([pool])).get(pool.pk)
    return {**share_body(team.pk, pool, picture), "warning": warning}


class TeamShares(APIView):
    """A team's shares of all pools."""

    @extend_schema(responses=shapes.EntitledShape(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """Return them in the order of the pools."""
        team, picture = team_for(request, slug), TreePicture.load()
        return one_page([share_body(team.pk, pool, picture) for pool in picture.pools.values()])


class ShareDetail(APIView):
    """A team's share of one pool."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(responses=shapes.ShareShape)
    def get(self, request: Request, slug: str, pool_slug: str) -> Response:
        """Return it; version 0 where nothing was set."""
        body = _body(team_for(request, slug), pool_for(request, pool_slug))
        return versioned(body, body["version"])

    @extend_schema(request=shapes.SharePatch, responses=shapes.ShareShape, parameters=[IF_MATCH])
    def patch(self, request: Request, slug: str, pool_slug: str) -> Response:
        """Change it. Guarantees above the pool's capacity are taken, with a `warning`."""
        team, pool = team_for(request, slug), pool_for(request, pool_slug)
        current = TreePicture.load().quota(pool.pk, team.pk).version
        require_version(request, current)
        values = milli_keys(values_of(request, shapes.SharePatch), "reservation", "maximum")
        changes = cast("ShareChanges", values)
        share = actions.set_share(by=actor(request), team=team, pool=pool, version=current, changes=changes)
        return versioned(_body(team, pool), share.version)
