"""Credentials over the API: values go in, and never come out."""

from collections.abc import Mapping
from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.errors import Refusal
from chamber.rest import NewestFirst
from teams.api.requests import actor, person, team_for, values_of
from teams.api.shapes import StrictSerializer
from workloads.credentials import actions, reading
from workloads.credentials.reading import ShownCredential
from workloads.models import Credential, CredentialKind

MANAGE = "manage"
"""The scope that a token needs."""
VALUES = "What a credential of this type has: see docs/credentials.md. They are never answered."


class CredentialShape(serializers.Serializer[Any]):
    """A credential without its values."""

    name = serializers.CharField()
    reference = serializers.CharField(
        help_text="As workloads name it: NAME of one's own, TEAM/NAME of a team."
    )
    team = serializers.SlugField(allow_null=True, help_text="Null where it is your own.")
    type = serializers.ChoiceField(choices=CredentialKind.choices)
    details = serializers.DictField(help_text="What is no secret of it.")
    parts = serializers.ListField(child=serializers.CharField(), help_text="Names of what is secret.")
    made_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    replaced_at = serializers.DateTimeField(help_text="When its values were last given.")
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="When a cluster was last handed it.")
    open_workloads = serializers.IntegerField(help_text="How many name it.")
    workloads = serializers.ListField(
        child=serializers.SlugField(), help_text="The newest of them that you see."
    )


class NewCredentialShape(StrictSerializer):
    """A credential to be made; your own without a team."""

    name = serializers.CharField(max_length=60)
    team = serializers.SlugField(required=False, allow_null=True, default=None)
    type = serializers.ChoiceField(choices=CredentialKind.choices)
    values = serializers.JSONField(write_only=True, allow_null=True, help_text=VALUES)


class CredentialValuesShape(StrictSerializer):
    """Other values: all secrets anew."""

    values = serializers.JSONField(write_only=True, allow_null=True, help_text=VALUES)


class NewestCredentialFirst(NewestFirst):
    """By when it was made."""

    ordering = ("-created_at", "-id")


def _shape(shown: ShownCredential) -> Any:
    row = shown.row
    body = {
        "name": row.name,
        "reference": row.reference,
        "team": row.team.slug if row.team is not None else None,
        "type": row.kind,
        "details": row.details,
        "parts": row.parts,
        "made_by": row.made_by.get_username() if row.made_by is not None else None,
        "created_at": row.created_at,
        "replaced_at": row.replaced_at,
        "last_used_at": row.last_used_at,
        "open_workloads": shown.open_workloads,
        "workloads": list(shown.named_by),
    }
    return CredentialShape(body).data


def _content(values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise Refusal("values must be a mapping of names to values.", field="values")
    return values


def _one(request: Request, row: Credential) -> Any:
    found = reading.credentials_for(person(request)).filter(pk=row.pk)
    return _shape(reading.shown(found, person(request))[0])


class Credentials(GenericAPIView[Any]):
    """Credentials: your own, and those of teams that you may submit to."""

    token_scope = MANAGE
    serializer_class = CredentialShape
    pagination_class = NewestCredentialFirst

    @extend_schema(responses=CredentialShape(many=True))
    def get(self, request: Request) -> Response:
        """Return a page of them, the newest first."""
        rows = cast(
            "list[Credential]", self.paginate_queryset(reading.credentials_for(person(request))) or []
        )
        return self.get_paginated_response([_shape(each) for each in reading.shown(rows, person(request))])

    @extend_schema(request=NewCredentialShape, responses={201: CredentialShape})
    def post(self, request: Request) -> Response:
        """Make one of your own, or of a team; 409 where the name is taken."""
        values = values_of(request, NewCredentialShape)
        team = team_for(request, values["team"], field="team") if values["team"] else None
        made = actions.create_credential(
            by=actor(request),
            name=values["name"],
            kind=CredentialKind(values["type"]),
            content=_content(values["values"]),
            team=team,
        )
        return Response(_one(request, made), status=201)


class CredentialDetail(APIView):
    """One credential: your own, or a team's."""

    token_scope = MANAGE

    @extend_schema(responses=CredentialShape)
    def get(self, request: Request, name: str, slug: str = "") -> Response:
        """Return it."""
        return Response(_one(request, _found(request, name, slug)))

    @extend_schema(request=CredentialValuesShape, responses=CredentialShape)
    def put(self, request: Request, name: str, slug: str = "") -> Response:
        """Give it other values: what runs keeps the ones it was started with."""
        row = _found(request, name, slug)
        content = _content(values_of(request, CredentialValuesShape)["values"])
        return Response(
            _one(request, actions.replace_values(by=actor(request), credential=row, content=content))
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, slug: str = "") -> Response:
        """Delete it: what runs keeps it, and what names it and waits does not start."""
        actions.delete_credential(by=actor(request), credential=_found(request, name, slug))
        return Response(status=204)


def _found(request: Request, name: str, slug: str) -> Credential:
    return reading.credential_for(person(request), name, team_for(request, slug) if slug else None)
