"""Clusters, their nodes and their agents' tokens over the API."""

from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from django.db.models import Prefetch
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink import actions, bindings, maps, removal
from agentlink.models import AgentToken, BackendKind, Cluster, Device, Node
from chamber.api_document import in_query
from chamber.errors import one_of
from chamber.rest import NewestFirst
from teams.actors import Actor, Via
from teams.api.requests import one_page
from teams.api.shapes import GpusField, StrictSerializer
from teams.models import Pool

if TYPE_CHECKING:
    from chamber.models import User


def _actor(request: Request) -> Actor:
    return Actor.person(cast("User", request.user), Via.API)


class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    """A cluster as everybody in the organisation may see it."""

    nodes = serializers.IntegerField(source="node_count", read_only=True)
    gpus = serializers.IntegerField(
        source="gpu_count", read_only=True, help_text="GPUs; slices of GPUs are not among them."
    )
    slices = serializers.IntegerField(
        source="slice_count", read_only=True, help_text="MIG slices and replicas."
    )
    slice_gpus = GpusField(
        source="slices_milli", read_only=True, help_text="What the slices count as, in GPUs."
    )
    unclear_slices = serializers.IntegerField(
        read_only=True,
        help_text="Slices that its agent, older than the server, told as GPUs: they are not used.",
    )

    pools = serializers.SerializerMethodField(
        help_text="Slugs of the pools that it may serve, whatever the labels of its nodes."
    )
    warning = serializers.SerializerMethodField(
        help_text="Which nodes are labelled for pools that it is not bound to, as a sentence."
    )

    def get_pools(self, cluster: Cluster) -> list[str]:
        """Return the slugs, of pools that are read once for all clusters of an answer."""
        return [pool.slug for pool in self._pools if cluster.name in pool.clusters]

    def get_warning(self, cluster: Cluster) -> str | None:
        """Return the sentences as one, or nothing."""
        return " ".join(self._refused.get(cluster.pk, [])) or None

    @cached_property
    def _pools(self) -> list[Pool]:
        return list(Pool.objects.all())

    @cached_property
    def _refused(self) -> dict[UUID, list[str]]:
        return bindings.refused()

    class Meta:
        model = Cluster
        fields = (
            "id",
            "name",
            "backend",
            "pools",
            "warning",
            "connected",
            "last_seen_at",
            "released_at",
            "agent_version",
            "protocol",
            "nodes",
            "gpus",
            "slices",
            "slice_gpus",
            "unclear_slices",
            "lost_after_seconds",
            "created_at",
        )


class NewClusterSerializer(StrictSerializer):
    """A cluster to connect."""

    name = serializers.CharField(max_length=60)
    backend = serializers.ChoiceField(
        choices=BackendKind.choices,
        default=BackendKind.NATIVE,
        help_text="How workloads run there: by Kubernetes Jobs (native), or played (simulated).",
    )
    pools = serializers.ListField(
        child=serializers.CharField(max_length=60),
        required=False,
        help_text="Slugs of the pools that it may serve. Where none are named: those that name it already; of the "
        "first cluster, those that name no other too.",
    )


class TokenSerializer(serializers.ModelSerializer[AgentToken]):
    """An agent's token, without its secret."""

    class Meta:
        model = AgentToken
        fields = ("id", "prefix", "created_at", "expires_at", "revoked_at", "last_used_at")


class NewTokenSerializer(serializers.Serializer[actions.NewToken]):
    """A token that was just made; `token` is shown here and never again."""

    cluster = serializers.CharField(source="cluster.name")
    id = serializers.UUIDField(source="token.id")
    prefix = serializers.CharField(source="token.prefix")
    token = serializers.CharField(source="secret")


class LostSerializer(serializers.Serializer[Any]):
    """What was declared lost."""

    attempts = serializers.IntegerField(help_text="How many were ended.")


class DeviceSerializer(serializers.ModelSerializer[Device]):
    """A GPU, or a slice of one.

    `occupied` counts pods that may exist, `allocated` what is given to admitted workloads, in GPUs.
    """

    share = GpusField(
        source="share_milli", help_text="The part of a GPU that it counts as: 1 but for slices."
    )
    occupied = GpusField(source="occupied_milli")
    allocated = GpusField(source="allocated_milli")

    class Meta:
        model = Device
        fields = (
            "index",
            "gpu_type",
            "memory_mib",
            "foreign",
            "slicing",
            "share",
            "occupied",
            "allocated",
        )


class NodeSerializer(serializers.ModelSerializer[Node]):
    """A node with its devices."""

    cluster = serializers.CharField(source="cluster.name")
    pool = serializers.CharField(source="pool.slug", default=None, allow_null=True)
    devices = DeviceSerializer(many=True)

    class Meta:
        model = Node
        fields = (
            "id",
            "cluster",
            "name",
            "pool",
            "ready",
            "cordoned",
            "drained",
            "cpu_milli",
            "memory_mib",
            "labels",
            "taints",
            "partition",
            "sharing",
            "problem",
            "devices",
        )


def _clusters(request: Request) -> Any:
    return maps.with_counts(Cluster.objects.visible_to(request.user))


def _cluster(request: Request, name: str) -> Cluster:
    found: Cluster = one_of(_clusters(request), "cluster", name=name)
    return found


def _pool(request: Request, slug: str) -> Pool:
    return one_of(Pool.objects.visible_to(request.user), "pool", slug=slug)


class ByName(NewestFirst):
    """Clusters by name."""

    ordering = ("name",)


class ClusterList(generics.ListAPIView[Cluster]):
    """Clusters."""

    serializer_class = ClusterSerializer
    pagination_class = ByName

    def get_queryset(self) -> Any:
        """Return the clusters that the user may see."""
        return _clusters(self.request)

    def get(self, request: Request) -> Response:
        """Return a page of them, by name."""
        return self.list(request)

    @extend_schema(request=NewClusterSerializer, responses={201: NewTokenSerializer})
    def post(self, request: Request) -> Response:
        """Connect one (operators); the answer holds its agent's token, once."""
        body = NewClusterSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        values = body.validated_data
        made = actions.create_cluster(
            by=_actor(request),
            name=values["name"],
            backend=BackendKind(values["backend"]),
            pools=None if values.get("pools") is None else [_pool(request, slug) for slug in values["pools"]],
        )
        return Response(NewTokenSerializer(made).data, status=201)


class ClusterDetail(APIView):
    """One cluster."""

    @extend_schema(responses=ClusterSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Return the cluster."""
        return Response(ClusterSerializer(_cluster(request, name)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete it (operators); 409 while its agent is connected, and where anything ran there that is kept."""
        removal.delete_cluster(by=_actor(request), cluster=_cluster(request, name))
        return Response(status=204)


class ClusterLost(APIView):
    """Declare lost what runs in a silent cluster."""

    @extend_schema(request=None, responses=LostSerializer)
    def post(self, request: Request, name: str) -> Response:
        """End its attempts and requeue their workloads."""
        ended = actions.declare_lost(by=_actor(request), cluster=_cluster(request, name))
        return Response({"attempts": ended})


class ClusterPool(APIView):
    """A pool that a cluster may serve."""

    @extend_schema(request=None, responses={204: None})
    def put(self, request: Request, name: str, slug: str) -> Response:
        """Let the cluster serve the pool (operators); twice is as once."""
        actions.bind_pool(by=_actor(request), cluster=_cluster(request, name), pool=_pool(request, slug))
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, slug: str) -> Response:
        """Have it no longer serve the pool (operators); what runs there goes on."""
        actions.unbind_pool(by=_actor(request), cluster=_cluster(request, name), pool=_pool(request, slug))
        return Response(status=204)


class TokenList(APIView):
    """The tokens of a cluster's agent."""

    @extend_schema(responses=TokenSerializer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List them, for operators."""
        cluster = _cluster(request, name)
        actions.require_operator(_actor(request))
        return one_page([*TokenSerializer(cluster.tokens.order_by("-created_at"), many=True).data])

    @extend_schema(request=None, responses={201: NewTokenSerializer})
    def post(self, request: Request, name: str) -> Response:
        """Make another one; the answer holds it, once."""
        made = actions.add_token(by=_actor(request), cluster=_cluster(request, name))
        return Response(NewTokenSerializer(made).data, status=201)


class AgentTokenDetail(APIView):
    """One token of a cluster's agent."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, token_id: str) -> Response:
        """Revoke it; its connection is closed within a second."""
        cluster = _cluster(request, name)
        actions.require_operator(_actor(request))
        actions.revoke_token(
            by=_actor(request), token=one_of(AgentToken.objects.filter(cluster=cluster), "token", pk=token_id)
        )
        return Response(status=204)


class NodeList(generics.ListAPIView[Node]):
    """Nodes with their devices; `?cluster=` and `?pool=` narrow them down."""

    serializer_class = NodeSerializer

    @extend_schema(
        parameters=[in_query("cluster", "Name of a cluster."), in_query("pool", "Slug of a pool.")]
    )
    def get(self, request: Request) -> Response:
        """Return a page of the nodes that their agents still report."""
        return self.list(request)

    def get_queryset(self) -> Any:
        """Return the nodes that the user may see and that their agents still report."""
        found = Node.objects.visible_to(self.request.user).present().select_related("cluster", "pool")
        asked = self.request.query_params
        if name := asked.get("cluster"):
            found = found.filter(
                cluster=one_of(
                    Cluster.objects.visible_to(self.request.user), "cluster", field="cluster", name=name
                )
            )
        if slug := asked.get("pool"):
            pools = Pool.objects.visible_to(self.request.user)
            found = found.filter(pool=one_of(pools, "pool", field="pool", slug=slug))
        return found.prefetch_related(Prefetch("devices", Device.objects.order_by("index")))
