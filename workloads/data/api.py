"""Data sources over the API; which clusters have them is said by `agentlink.api_data`."""

from typing import TYPE_CHECKING, Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import NewestFirst
from teams.api.requests import actor, person, team_for, values_of
from teams.api.shapes import StrictSerializer
from workloads.data import actions, reading
from workloads.data.reading import ShownSource
from workloads.models import DataSource, SourceKind

if TYPE_CHECKING:
    from chamber.models import User

MANAGE = "manage"
"""The scope that a token needs."""


class SourceLocationShape(serializers.Serializer[Any]):
    """A cluster that has a source."""

    id = serializers.UUIDField()
    cluster = serializers.CharField()
    namespace = serializers.CharField(
        allow_blank=True, help_text="Of a claim: for pods of this namespace; empty: the agent's own."
    )
    claim = serializers.CharField(allow_blank=True)


class DataSourceShape(serializers.Serializer[Any]):
    """A data source."""

    name = serializers.CharField()
    reference = serializers.CharField(help_text="As workloads of any team below name it: TEAM/NAME.")
    team = serializers.SlugField()
    kind = serializers.ChoiceField(choices=SourceKind.choices)
    server = serializers.CharField(allow_blank=True, help_text="Of NFS.")
    path = serializers.CharField(allow_blank=True, help_text="Of NFS: what of the server.")
    address = serializers.CharField(allow_blank=True, help_text="Of S3: s3://BUCKET/PREFIX.")
    credential = serializers.CharField(allow_blank=True, help_text="Of S3: by what pods reach it.")
    writable = serializers.BooleanField(help_text="Workloads may mount it to write.")
    locations = SourceLocationShape(many=True, help_text="The clusters that have it; S3 needs none.")
    open_workloads = serializers.IntegerField(help_text="How many mount it.")
    created_at = serializers.DateTimeField()


class NewDataSourceShape(StrictSerializer):
    """A data source to be made."""

    name = serializers.CharField(max_length=60)
    team = serializers.SlugField()
    kind = serializers.ChoiceField(choices=SourceKind.choices)
    server = serializers.CharField(max_length=253, required=False, allow_blank=True)
    path = serializers.CharField(max_length=255, required=False, allow_blank=True)
    address = serializers.CharField(max_length=255, required=False, allow_blank=True)
    credential = serializers.CharField(max_length=110, required=False, allow_blank=True)
    writable = serializers.BooleanField(default=False)


class DataSourceChangeShape(StrictSerializer):
    """What may be changed; absent keys stay as they are."""

    server = serializers.CharField(max_length=253, required=False)
    path = serializers.CharField(max_length=255, required=False)
    address = serializers.CharField(max_length=255, required=False)
    writable = serializers.BooleanField(required=False)


class NewestSourceFirst(NewestFirst):
    """By when it was made."""

    ordering = ("-created_at", "-id")


DETAILS = ("server", "path", "address")


def _body(shown: ShownSource) -> Any:
    row = shown.row
    places = [
        {"id": each.pk, "cluster": each.cluster.name, "namespace": each.namespace, "claim": each.claim}
        for each in shown.locations
    ]
    return DataSourceShape(
        {
            "name": row.name,
            "reference": row.reference,
            "team": row.team.slug,
            "kind": row.kind,
            **{name: row.details.get(name, "") for name in DETAILS},
            "credential": row.credential_name,
            "writable": row.writable,
            "locations": places,
            "open_workloads": shown.open_workloads,
            "created_at": row.created_at,
        }
    ).data


def body_of(row: DataSource, reader: "User") -> Any:
    """Return one as the API shows it to a reader."""
    return _body(reading.shown([row], reader)[0])


class DataSources(GenericAPIView[Any]):
    """Data sources of the teams that you see, and of those above them."""

    token_scope = MANAGE
    serializer_class = DataSourceShape
    pagination_class = NewestSourceFirst

    @extend_schema(responses=DataSourceShape(many=True))
    def get(self, request: Request) -> Response:
        """Return a page of them, the newest first."""
        rows = cast("list[DataSource]", self.paginate_queryset(reading.sources_for(person(request))) or [])
        return self.get_paginated_response([_body(each) for each in reading.shown(rows, person(request))])

    @extend_schema(request=NewDataSourceShape, responses={201: DataSourceShape})
    def post(self, request: Request) -> Response:
        """Make one of a team; 409 where the name is taken."""
        values = values_of(request, NewDataSourceShape)
        made = actions.create_source(
            by=actor(request),
            team=team_for(request, values["team"], field="team"),
            name=values["name"],
            kind=SourceKind(values["kind"]),
            details={name: values[name] for name in DETAILS if name in values},
            writable=values["writable"],
            credential=values.get("credential", ""),
        )
        return Response(body_of(made, person(request)), status=201)


class DataSourceDetail(APIView):
    """One data source of a team."""

    token_scope = MANAGE

    @extend_schema(responses=DataSourceShape)
    def get(self, request: Request, slug: str, name: str) -> Response:
        """Return it with where clusters have it."""
        return Response(body_of(reading.source_for(person(request), name, slug), person(request)))

    @extend_schema(request=DataSourceChangeShape, responses=DataSourceShape)
    def patch(self, request: Request, slug: str, name: str) -> Response:
        """Change it; what runs keeps what it was started with."""
        row = reading.source_for(person(request), name, slug)
        values = values_of(request, DataSourceChangeShape)
        changes: dict[str, Any] = {"details": {key: values[key] for key in DETAILS if key in values}}
        if "writable" in values:
            changes["writable"] = values["writable"]
        actions.edit_source(by=actor(request), source=row, changes=changes)
        return Response(body_of(reading.source_for(person(request), name, slug), person(request)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, name: str) -> Response:
        """Delete it; 409 while open workloads mount it."""
        actions.delete_source(by=actor(request), source=reading.source_for(person(request), name, slug))
        return Response(status=204)
