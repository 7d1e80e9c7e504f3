"""Environments over the API."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import NewestFirst
from teams.api.requests import actor, person, team_for, values_of
from teams.api.shapes import StrictSerializer
from workloads.data.written import as_text
from workloads.environments import actions, reading
from workloads.environments.reading import ShownEnvironment
from workloads.models import Environment, EnvironmentVersion

MANAGE = "manage"
"""The scope that a token needs."""


class VersionValuesShape(StrictSerializer):
    """What a version has; what is left out, or null, it has not. Quantities are per pod."""

    image = serializers.JSONField(help_text="The image: by its digest, name@sha256:..., it stays the same.")
    command = serializers.JSONField(
        required=False, allow_null=True, help_text="What runs where a workload says nothing: text, or words."
    )
    variables = serializers.JSONField(required=False, allow_null=True, help_text="Names and values.")
    mounts = serializers.JSONField(
        required=False, allow_null=True, help_text="Data sources, as SOURCE:PATH or mappings."
    )
    working_dir = serializers.JSONField(required=False, allow_null=True)
    shm_mib = serializers.JSONField(required=False, allow_null=True, help_text="Shared memory.")
    scratch_mib = serializers.JSONField(required=False, allow_null=True, help_text="Disk at /scratch.")
    gpu_types = serializers.JSONField(required=False, allow_null=True, help_text="Acceptable types.")
    node_selector = serializers.JSONField(required=False, allow_null=True, help_text="Labels of nodes.")
    pull_credential = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="A credential of the type registry of the team, or of a team above it, as TEAM/NAME.",
    )
    note = serializers.JSONField(required=False, allow_null=True, help_text="What is new in it.")


class NewEnvironmentShape(VersionValuesShape):
    """An environment to be made, with its first version."""

    name = serializers.CharField(max_length=60)
    team = serializers.SlugField()


class EnvironmentChangeShape(StrictSerializer):
    """Whether submissions may name it."""

    archived = serializers.BooleanField()


class VersionShape(serializers.Serializer[Any]):
    """A version, which never changes."""

    number = serializers.IntegerField()
    image = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    variables = serializers.DictField(child=serializers.CharField())
    mounts = serializers.ListField(child=serializers.CharField(), help_text="As SOURCE:PATH:ro or :rw.")
    working_dir = serializers.CharField(allow_blank=True)
    shm_mib = serializers.IntegerField(allow_null=True)
    scratch_mib = serializers.IntegerField(allow_null=True)
    gpu_types = serializers.ListField(child=serializers.CharField())
    node_selector = serializers.DictField(child=serializers.CharField())
    pull_credential = serializers.CharField(allow_blank=True)
    note = serializers.CharField(allow_blank=True)
    made_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


class EnvironmentShape(serializers.Serializer[Any]):
    """An environment with its newest version."""

    name = serializers.CharField()
    reference = serializers.CharField(help_text="As workloads of any team below name it: TEAM/NAME.")
    team = serializers.SlugField()
    archived = serializers.BooleanField(help_text="Whether submissions name it no more.")
    newest = VersionShape()
    open_workloads = serializers.IntegerField(help_text="How many run in it, or wait to.")
    created_at = serializers.DateTimeField()


class OneEnvironmentShape(EnvironmentShape):
    """An environment with all its versions, the newest first."""

    versions = VersionShape(many=True)
    workloads = serializers.ListField(
        child=serializers.SlugField(), help_text="The newest open ones that you see."
    )


class NewestEnvironmentFirst(NewestFirst):
    """By when it was made."""

    ordering = ("-created_at", "-id")


def _version(row: EnvironmentVersion) -> dict[str, Any]:
    made_by = row.made_by.get_username() if row.made_by is not None else None
    return {
        "number": row.number,
        **actions.values_of(row),
        "mounts": [as_text(each) for each in row.mounts],
        "made_by": made_by,
        "created_at": row.created_at,
    }


def _body(shown: ShownEnvironment) -> dict[str, Any]:
    row = shown.row
    return {
        "name": row.name,
        "reference": row.reference,
        "team": row.team.slug,
        "archived": row.is_archived,
        "newest": _version(shown.newest),
        "open_workloads": shown.open_workloads,
        "created_at": row.created_at,
    }


def _one(request: Request, row: Environment) -> Any:
    shown = reading.shown_one(row, person(request))
    versions = [_version(each) for each in reading.versions_of(row)]
    return OneEnvironmentShape({**_body(shown), "versions": versions, "workloads": list(shown.named_by)}).data


class Environments(GenericAPIView[Any]):
    """Environments of the teams that you see, and of those above them."""

    token_scope = MANAGE
    serializer_class = EnvironmentShape
    pagination_class = NewestEnvironmentFirst

    @extend_schema(responses=EnvironmentShape(many=True))
    def get(self, request: Request) -> Response:
        """Return a page of them, the newest first."""
        rows = cast(
            "list[Environment]", self.paginate_queryset(reading.environments_for(person(request))) or []
        )
        return self.get_paginated_response(
            [EnvironmentShape(_body(each)).data for each in reading.shown(rows)]
        )

    @extend_schema(request=NewEnvironmentShape, responses={201: OneEnvironmentShape})
    def post(self, request: Request) -> Response:
        """Make one of a team; 409 where the name is taken."""
        values = values_of(request, NewEnvironmentShape)
        team = team_for(request, values.pop("team"), field="team")
        made = actions.create_environment(
            by=actor(request), team=team, name=values.pop("name"), values=values
        )
        return Response(_one(request, _found(request, made.name, made.team.slug)), status=201)


class EnvironmentDetail(APIView):
    """One environment of a team."""

    token_scope = MANAGE

    @extend_schema(responses=OneEnvironmentShape)
    def get(self, request: Request, slug: str, name: str) -> Response:
        """Return it with all its versions."""
        return Response(_one(request, _found(request, name, slug)))

    @extend_schema(request=EnvironmentChangeShape, responses=OneEnvironmentShape)
    def patch(self, request: Request, slug: str, name: str) -> Response:
        """Archive it, or take it back."""
        row = _found(request, name, slug)
        archived = values_of(request, EnvironmentChangeShape)["archived"]
        actions.archive_environment(by=actor(request), environment=row, archived=archived)
        return Response(_one(request, _found(request, name, slug)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, name: str) -> Response:
        """Delete it; 409 where a workload ran in it that is still kept."""
        actions.delete_environment(by=actor(request), environment=_found(request, name, slug))
        return Response(status=204)


class EnvironmentVersions(APIView):
    """The versions of an environment."""

    token_scope = MANAGE

    @extend_schema(request=VersionValuesShape, responses={201: OneEnvironmentShape, 200: OneEnvironmentShape})
    def post(self, request: Request, slug: str, name: str) -> Response:
        """Give it its next version; 200 and no new one where the newest has the same."""
        row = _found(request, name, slug)
        values = values_of(request, VersionValuesShape)
        made = actions.add_version(by=actor(request), environment=row, values=values)
        status = 201 if made.number > row.newest else 200
        return Response(_one(request, _found(request, name, slug)), status=status)


def _found(request: Request, name: str, slug: str) -> Environment:
    reader = person(request)
    return reading.environment_for(reader, name, reading.team_for(reader, slug))
