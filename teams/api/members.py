"""Who has which role on a team."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.errors import NotVisible
from teams import actions
from teams.api import shapes
from teams.api.requests import actor, one_page, person, team_for, values_of
from teams.members import members_of
from teams.models import Binding, Role, Team


def _body(binding: Binding, team: Team) -> dict[str, Any]:
    return {
        "id": binding.pk,
        "username": binding.user.username if binding.user else None,
        "name": str(binding.user or binding.group),
        "group": binding.group.name if binding.group else None,
        "role": binding.role,
        "team": binding.team.slug,
        "inherited": binding.team_id != team.pk,
    }


def _binding(team: Team, binding_id: uuid.UUID) -> Binding:
    found = Binding.objects.select_related("team", "user", "group").filter(pk=binding_id, team=team).first()
    if found is None:
        raise NotVisible(f"{team.name} has no member {str(binding_id)!r} of its own.")
    return found


class Members(APIView):
    """The members of a team."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(responses=shapes.MemberShape(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """Return its own, then those of the teams above that you may see, whose roles reach it."""
        team = team_for(request, slug)
        return one_page([_body(binding, team) for binding in members_of(team, person(request))])

    @extend_schema(request=shapes.NewMember, responses={201: shapes.MemberShape})
    def post(self, request: Request, slug: str) -> Response:
        """Give somebody a role."""
        team, values = team_for(request, slug), values_of(request, shapes.NewMember)
        role = Role(values["role"])
        binding = actions.add_member(by=actor(request), team=team, who=values["who"], role=role)
        return Response(_body(binding, team), status=status.HTTP_201_CREATED)


class MemberDetail(APIView):
    """One role of one member."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=shapes.RolePatch, responses=shapes.MemberShape)
    def patch(self, request: Request, slug: str, binding_id: uuid.UUID) -> Response:
        """Give another role in its place."""
        team = team_for(request, slug)
        role = Role(values_of(request, shapes.RolePatch)["role"])
        binding = actions.change_role(by=actor(request), binding=_binding(team, binding_id), role=role)
        return Response(_body(binding, team))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, binding_id: uuid.UUID) -> Response:
        """Take the role away."""
        team = team_for(request, slug)
        actions.remove_member(by=actor(request), binding=_binding(team, binding_id))
        return Response(status=status.HTTP_204_NO_CONTENT)
