"""Teams over the API: read the tree, make, change, move, archive."""

from collections.abc import Collection, Mapping
from typing import Any, cast
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.api_document import in_query
from chamber.rest import flag_of, require_version
from teams import actions
from teams.actions import ShareEdit, TeamEdit
from teams.api import shapes
from teams.api.requests import (
    actor,
    milli_keys,
    one_page,
    person,
    pool_among,
    pools_for,
    team_among,
    team_for,
    teams_for,
    values_of,
    versioned,
)
from teams.api.shapes import in_gpus
from teams.models import Pool, Team
from teams.permissions import Permission, paths_where
from teams.picture import TreePicture
from teams.tree import TeamTree
from teams.values import ShareChanges, TeamChanges

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "minLength": 1},
    OpenApiParameter.HEADER,
    required=True,
    description="The ETag of the version that you edited; `*` is any.",
)


def team_body(team: Team, picture: TreePicture, slugs: dict[UUID, str]) -> dict[str, Any]:
    """Return a team as `TeamShape` says; `slugs` are those of the teams that the asker may see.

    Written out by hand: a tree of 2,000 teams goes through here.
    """
    parent = team.parent_id
    return {
        "id": team.pk,
        "slug": team.slug,
        "name": team.name,
        "parent": slugs.get(parent) if parent else None,
        "depth": team.depth,
        "archived_at": team.archived_at,
        "bursting_priority": team.bursting_priority,
        "burst_limit_percent": team.burst_limit_percent,
        "maximum": in_gpus(team.maximum_milli),
        "version": team.version,
        "pools": [share_body(team.pk, pool, picture) for pool in picture.pools.values()],
    }


def share_body(team_id: UUID, pool: Pool, picture: TreePicture) -> dict[str, Any]:
    """Return what a team may have of a pool; an archived team has only what it would get back."""
    quota = picture.quota(pool.pk, team_id)
    found = picture.entitled[pool.pk].get(team_id)
    return {
        "pool": pool.slug,
        "reservation": in_gpus(quota.reservation_milli),
        "maximum": in_gpus(quota.maximum_milli),
        "guarantee": in_gpus(found.guarantee_milli) if found else 0,
        "own_part": in_gpus(found.own_part_milli) if found else 0,
        "ceiling": in_gpus(found.ceiling_milli) if found else 0,
        "version": quota.version,
    }


def _answer(request: Request, team: Team, *, code: int = status.HTTP_200_OK) -> Response:
    above: Collection[UUID] = [team.parent_id] if team.parent_id else []
    slugs = dict(Team.objects.visible_to(person(request)).filter(pk__in=above).values_list("pk", "slug"))
    return versioned(team_body(team, TreePicture.load(), slugs), team.version, status=code)


class Teams(APIView):
    """The tree."""

    @extend_schema(
        responses=shapes.TeamShape(many=True),
        parameters=[in_query("archived", "With archived teams.", type="boolean")],
    )
    def get(self, request: Request) -> Response:
        """Return the teams you may see, parents before children; six queries whatever their number."""
        with_archived = flag_of(request, "archived")
        picture = TreePicture.load()
        whole = TeamTree.load(archived=True) if with_archived else TeamTree(picture.nodes)
        seen = whole.under(paths_where(person(request), Permission.VIEW_TEAM))
        slugs = {node.id: node.slug for node in seen}
        teams = {team.pk: team for team in Team.objects.visible_to(person(request))}
        return one_page([team_body(teams[key], picture, slugs) for key in slugs if key in teams])

    @extend_schema(request=shapes.NewTeam, responses={201: shapes.TeamShape})
    def post(self, request: Request) -> Response:
        """Make a team below another."""
        values = milli_keys(values_of(request, shapes.NewTeam), "maximum")
        parent = team_for(request, values.pop("parent"), field="parent")
        team = actions.create_team(by=actor(request), parent=parent, **values)
        return _answer(request, team, code=status.HTTP_201_CREATED)


class TeamDetail(APIView):
    """One team."""

    @property
    def token_scope(self) -> str:
        """The scope that a token needs: a lead edits a split, an admin deletes."""
        return "admin" if self.request.method == "DELETE" else "manage"

    @extend_schema(responses=shapes.TeamShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return it, with what it may have of each pool."""
        return _answer(request, team_for(request, slug))

    @extend_schema(request=shapes.TeamPatch, responses=shapes.TeamShape, parameters=[IF_MATCH])
    def patch(self, request: Request, slug: str) -> Response:
        """Change names and limits; 412 where somebody was quicker, 428 without `If-Match`."""
        team = team_for(request, slug)
        require_version(request, team.version)
        changes = cast("TeamChanges", milli_keys(values_of(request, shapes.TeamPatch), "maximum"))
        changed = actions.edit_team(by=actor(request), team=team, version=team.version, changes=changes)
        return _answer(request, changed)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete it; 409 while teams lie below it, and where it has workloads, over or not: archive it then."""
        actions.delete_team(by=actor(request), team=team_for(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)


class MoveTeam(APIView):
    """Another place in the tree."""

    @extend_schema(request=shapes.Move, responses=shapes.TeamShape, parameters=[IF_MATCH])
    def post(self, request: Request, slug: str) -> Response:
        """Move the team with all below it."""
        team = team_for(request, slug)
        require_version(request, team.version)
        parent = team_for(request, values_of(request, shapes.Move)["parent"], field="parent")
        moved = actions.move_team(by=actor(request), team=team, parent=parent, version=team.version)
        return _answer(request, moved)


class ArchiveTeam(APIView):
    """A team that takes nothing new."""

    @extend_schema(request=None, responses=shapes.TeamShape)
    def post(self, request: Request, slug: str) -> Response:
        """Archive it with all below it; 409 while any of them has a workload that is not over."""
        return _answer(request, actions.archive_team(by=actor(request), team=team_for(request, slug)))


class UnarchiveTeam(APIView):
    """A team back from the archive."""

    @extend_schema(request=None, responses=shapes.TeamShape)
    def post(self, request: Request, slug: str) -> Response:
        """Restore it with what was archived together with it."""
        return _answer(request, actions.unarchive_team(by=actor(request), team=team_for(request, slug)))


class TeamEdits(APIView):
    """A draft of edits."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=shapes.Draft, responses=shapes.TeamShape(many=True))
    def post(self, request: Request) -> Response:
        """Save all edits as one audited change, or none; each names the versions it was made on."""
        asked = values_of(request, shapes.Draft)["edits"]
        teams, pools = teams_for(request, [values["team"] for values in asked]), pools_for(request)
        edits = [edit_of(request, values, teams, pools) for values in asked]
        actions.set_many(by=actor(request), edits=edits)
        picture = TreePicture.load()
        stored = Team.objects.in_bulk([edit.team.pk for edit in edits])
        seen = Team.objects.visible_to(person(request))
        slugs = dict(seen.filter(children__in=list(stored)).values_list("pk", "slug"))
        return one_page([team_body(stored[edit.team.pk], picture, slugs) for edit in edits])


def edit_of(
    request: Request, values: dict[str, Any], teams: Mapping[str, Team], pools: Mapping[str, Pool]
) -> TeamEdit:
    """Return an edit of a draft as the action takes it; raise `NotVisible` for a team or pool that is not there."""
    values = milli_keys(values, "maximum")
    team, version = team_among(request, teams, values.pop("team")), values.pop("version")
    shares = []
    for share in values.pop("shares", []):
        pool = pool_among(pools, share.pop("pool"), field=f"{team.slug}.shares")
        changes = cast("ShareChanges", milli_keys(share, "reservation", "maximum"))
        number = cast("dict[str, Any]", changes).pop("version")
        shares.append(ShareEdit(pool=pool, version=number, changes=changes))
    return TeamEdit(team=team, version=version, changes=cast("TeamChanges", values), shares=tuple(shares))
