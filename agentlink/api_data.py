"""Which clusters have a data source, over the API; for operators."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink import data
from agentlink.models import Cluster, DataLocation
from chamber.errors import one_of
from teams.api.requests import actor, person, values_of
from teams.api.shapes import StrictSerializer
from workloads.data import reading
from workloads.data.api import DataSourceShape, body_of


class NewLocationShape(StrictSerializer):
    """A cluster that has the source. Of a claim: what it is called there, for pods of which namespace."""

    cluster = serializers.CharField(max_length=100)
    namespace = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    claim = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class DataLocations(APIView):
    """Where clusters have a data source."""

    @extend_schema(request=NewLocationShape, responses={201: DataSourceShape})
    def post(self, request: Request, slug: str, name: str) -> Response:
        """Say that a cluster has it, or of a claim what it is called there now."""
        source = reading.source_for(person(request), name, slug)
        values = values_of(request, NewLocationShape)
        cluster = one_of(
            Cluster.objects.visible_to(person(request)), "cluster", field="cluster", name=values["cluster"]
        )
        data.locate(
            by=actor(request),
            source=source,
            cluster=cluster,
            namespace=values["namespace"],
            claim=values["claim"],
        )
        return Response(body_of(source, person(request)), status=201)


class DataLocationDetail(APIView):
    """One cluster that has a data source."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, name: str, location_id: str) -> Response:
        """Say that it has it no more: what runs there keeps it, what waits is placed elsewhere."""
        source = reading.source_for(person(request), name, slug)
        rows = DataLocation.objects.filter(source=source).select_related("cluster", "source__team")
        data.forget_location(by=actor(request), location=one_of(rows, "location", pk=location_id))
        return Response(status=204)
