"""Groups over the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from teams import actions
from teams.api import shapes
from teams.api.requests import actor, one_page, person, values_of
from teams.groups import ShownGroup, group_for, groups_for, person_in


def _body(shown: ShownGroup) -> dict[str, Any]:
    roles = [{"team": binding.team.slug, "role": binding.role} for binding in shown.roles]
    return {"id": shown.group.pk, "name": shown.group.name, "size": shown.size, "roles": roles}


def _whole(shown: ShownGroup) -> dict[str, Any]:
    people = shown.group.user_set.order_by("username").values_list("username", flat=True)
    return {**_body(shown), "people": list(people)}


class Groups(APIView):
    """Groups of people, who are given roles together."""

    @extend_schema(responses=shapes.GroupShape(many=True))
    def get(self, request: Request) -> Response:
        """Return all, for those who may give roles."""
        return one_page([_body(shown) for shown in groups_for(person(request))])

    @extend_schema(request=shapes.NewGroup, responses={201: shapes.GroupShape})
    def post(self, request: Request) -> Response:
        """Make one."""
        made = actions.create_group(by=actor(request), name=values_of(request, shapes.NewGroup)["name"])
        return Response(_whole(ShownGroup(made, 0, ())), status=status.HTTP_201_CREATED)


class GroupDetail(APIView):
    """One group."""

    @extend_schema(responses=shapes.GroupShape)
    def get(self, request: Request, group_id: int) -> Response:
        """Return it with its people."""
        return Response(_whole(group_for(person(request), group_id)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, group_id: int) -> Response:
        """Delete it; 409 where it has roles."""
        actions.delete_group(by=actor(request), group=group_for(person(request), group_id).group)
        return Response(status=status.HTTP_204_NO_CONTENT)


class GroupPeople(APIView):
    """The people of a group."""

    @extend_schema(
        operation_id="groups_people_add", request=shapes.NewPerson, responses={201: shapes.GroupShape}
    )
    def post(self, request: Request, group_id: int) -> Response:
        """Put somebody into it."""
        group, values = group_for(person(request), group_id).group, values_of(request, shapes.NewPerson)
        actions.add_to_group(by=actor(request), group=group, who=values["who"])
        return Response(_whole(group_for(person(request), group_id)), status=status.HTTP_201_CREATED)


class GroupPerson(APIView):
    """One person of a group."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, group_id: int, username: str) -> Response:
        """Take them out; 409 for the last organisation admin."""
        group = group_for(person(request), group_id).group
        actions.remove_from_group(by=actor(request), group=group, user=person_in(group, username))
        return Response(status=status.HTTP_204_NO_CONTENT)
