"""Namespaces that are bound to teams, over the API."""

from typing import TYPE_CHECKING, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink import spaces
from agentlink.models import BoundNamespace, Cluster
from chamber.errors import one_of
from teams.actors import Actor, Via
from teams.api.requests import one_page
from teams.api.shapes import StrictSerializer
from teams.models import Team

if TYPE_CHECKING:
    from chamber.models import User


def _actor(request: Request) -> Actor:
    return Actor.person(cast("User", request.user), Via.API)


def _cluster(request: Request, name: str) -> Cluster:
    return one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)


class RefusedJob(serializers.Serializer[dict[str, str]]):
    """A Job that asks for adoption and was refused."""

    name = serializers.CharField()
    why = serializers.CharField()


class UnmanagedObject(serializers.Serializer[dict[str, str]]):
    """An object that Chamber does not run: another kind of workload, or one for Kueue."""

    kind = serializers.CharField()
    name = serializers.CharField()
    why = serializers.CharField()


class NamespaceSerializer(serializers.ModelSerializer[BoundNamespace]):
    """A namespace of a cluster that is a team's; `adopted` counts its Jobs that Chamber runs and that are not over."""

    team = serializers.CharField(source="team.slug")
    adopted = serializers.IntegerField(read_only=True)
    refused = RefusedJob(many=True)
    unmanaged = UnmanagedObject(many=True, source="unmanaged_objects", help_text="The first of them.")
    unmanaged_count = serializers.IntegerField(read_only=True)
    foreign_pod_names = serializers.ListField(
        child=serializers.CharField(), source="foreign_pods_named", help_text="The first of them."
    )

    class Meta:
        model = BoundNamespace
        fields = (
            "namespace",
            "team",
            "since",
            "ready",
            "problem",
            "security",
            "adopted",
            "refused",
            "foreign_jobs",
            "foreign_gpus",
            "foreign_pods",
            "foreign_pod_names",
            "unmanaged",
            "unmanaged_count",
        )


class NewNamespaceSerializer(StrictSerializer):
    """A namespace to bind to a team."""

    team = serializers.CharField(max_length=60)
    namespace = serializers.CharField(max_length=100)


class NamespaceList(APIView):
    """The namespaces of a cluster that are bound to teams."""

    @extend_schema(responses=NamespaceSerializer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List those of teams that the user may see."""
        rows = spaces.shown(_cluster(request, name), request.user)
        return one_page([*NamespaceSerializer(rows, many=True).data])

    @extend_schema(request=NewNamespaceSerializer, responses={201: NamespaceSerializer})
    def post(self, request: Request, name: str) -> Response:
        """Bind one to a team."""
        cluster = _cluster(request, name)
        body = NewNamespaceSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        seen = Team.objects.visible_to(request.user)
        team = one_of(seen, "team", field="team", slug=body.validated_data["team"])
        bound = spaces.bind_namespace(
            by=_actor(request), cluster=cluster, team=team, namespace=body.validated_data["namespace"]
        )
        (shown,) = (row for row in spaces.shown(cluster, request.user) if row.pk == bound.pk)
        return Response(NamespaceSerializer(shown).data, status=201)


class NamespaceDetail(APIView):
    """One namespace that is bound to a team."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, namespace: str) -> Response:
        """Unbind it; it stays in the cluster as it is."""
        rows = BoundNamespace.objects.visible_to(request.user).select_related("team", "cluster")
        bound = one_of(rows, "namespace", cluster=_cluster(request, name), namespace=namespace)
        spaces.unbind_namespace(by=_actor(request), bound=bound)
        return Response(status=204)
