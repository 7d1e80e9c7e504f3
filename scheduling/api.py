"""The API of scheduling: queues, why somebody waits, the last cycles, and what teams hold."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.api_document import in_query
from chamber.errors import NotVisible, Refusal
from chamber.rest import MAX_CURSOR, NewestFirst
from scheduling.explain import silence
from scheduling.explain.allocations import TeamBar, pool_bars, team_bars
from scheduling.explain.explanation import Explanation
from scheduling.explain.queue import QueueRow, is_cursor, pool_for, read_queue
from scheduling.explain.workload import explain
from scheduling.models import Cycle
from teams.api.requests import one_page, person
from teams.api.shapes import GpusField
from teams.permissions import Permission, may_anywhere
from workloads.api import CURSOR
from workloads.models import Workload

POOL = in_query("pool", "Slug of a pool; the organisation's first where it is left out.")


UNDECIDED_HELP = (
    "When the last cycle ended, where none has for ten seconds: nothing was decided since. Else null."
)
WAITING_HELP = (
    "Workloads that are pending and not on hold, whether or not they stand in a queue; with those that no cycle looked "
    "at yet."
)
NOT_QUEUED_HELP = "How many of those that wait stand in no queue: they wait for something else first."


class EtaShape(serializers.Serializer[Any]):
    """When a workload starts; both times are null where nobody can tell."""

    earliest = serializers.DateTimeField(source="starts_at", allow_null=True)
    latest = serializers.DateTimeField(source="starts_by", allow_null=True)
    text = serializers.CharField(source="eta")


class ReasonShape(serializers.Serializer[Any]):
    """Why a workload waits, or how it ended."""

    code = serializers.CharField()
    kind = serializers.CharField(help_text="wait, change, admin or failed: who can do something about it.")
    message = serializers.CharField(source="sentence")
    next_step = serializers.CharField()
    level = serializers.CharField(help_text="The team, pool or level of the topology that it comes from.")
    team = serializers.CharField(help_text="Whose limit it is.")
    asked = GpusField(source="asked_milli", allow_null=True)
    available = GpusField(source="available_milli", allow_null=True)
    limit = GpusField(source="limit_milli", allow_null=True)


class ExplainShape(serializers.Serializer[Any]):
    """One workload explained; `reason` is null for one that completed, or runs with all its pods in a
    cluster that is in touch.
    """

    workload = serializers.CharField()
    status = serializers.CharField()
    position = serializers.IntegerField(allow_null=True)
    reason = ReasonShape(allow_null=True)
    eta = EtaShape(allow_null=True)
    undecided_since = serializers.DateTimeField(allow_null=True, help_text=UNDECIDED_HELP)


class QueueRowShape(serializers.Serializer[Any]):
    """One that waits. `workload`, `owner` and `message` are null where you may not know which one it is."""

    position = serializers.IntegerField(allow_null=True)
    workload = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    team = serializers.CharField()
    reserved = serializers.BooleanField()
    priority = serializers.IntegerField()
    gpus = GpusField(allow_null=True)
    code = serializers.CharField()
    message = serializers.CharField(allow_null=True)
    eta = EtaShape()
    submitted_at = serializers.DateTimeField()


class KeptShape(serializers.Serializer[Any]):
    """Nodes that are kept for the first who finds no place."""

    workload = serializers.CharField(source="called")
    nodes = serializers.ListField(child=serializers.CharField())
    at = serializers.DateTimeField(allow_null=True)


class QueueShape(serializers.Serializer[Any]):
    """A page of a pool's queue."""

    pool = serializers.CharField()
    waiting = serializers.IntegerField(help_text=WAITING_HELP)
    not_queued = serializers.IntegerField(help_text=NOT_QUEUED_HELP)
    held = serializers.IntegerField(help_text="How many are on hold: listed, and not counted as waiting.")
    undecided_since = serializers.DateTimeField(allow_null=True, help_text=UNDECIDED_HELP)
    reservations = KeptShape(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = QueueRowShape(many=True)


class CycleShape(serializers.ModelSerializer[Cycle]):
    """A cycle that decided, and what it did."""

    starts = serializers.IntegerField(source="figures.starts", default=0)
    preemptions = serializers.IntegerField(source="figures.preemptions", default=0)
    waiting = serializers.DictField(
        source="figures.waiting", default=dict, help_text="How many wait, by reason."
    )
    findings = serializers.ListField(source="figures.findings", default=list)
    error = serializers.CharField(source="figures.error", default="")

    class Meta:
        model = Cycle
        fields = (
            "number", "began_at", "took_ms", "decide_ms", "ran_by", "decisions", "left_out",
            "starts", "preemptions", "waiting", "findings", "error",
        )  # fmt: skip


class TeamFiguresShape(serializers.Serializer[Any]):
    """What a team with all below it holds of a pool, and what it may hold."""

    team = serializers.CharField(source="team.slug")
    guarantee = GpusField(source="limits.guarantee_milli")
    entitlement = GpusField(source="limits.entitlement_milli")
    ceiling = GpusField(source="limits.ceiling_milli", allow_null=True)
    in_use = GpusField(source="use.in_use_milli")
    slices = serializers.IntegerField(help_text="How many slices of GPUs are in use: of MIG, or replicas.")
    slice_gpus = GpusField(source="slices_milli", help_text="What of the use these count as, in GPUs.")
    reserved = GpusField(source="use.reserved_milli")
    elastic = GpusField(source="use.elastic_milli", help_text="Elastic use inside a guarantee.")
    burst = GpusField(source="use.burst_milli", help_text="Use beyond the guarantee.")
    waiting = serializers.IntegerField(source="waiting.workloads", help_text=WAITING_HELP)
    not_queued = serializers.IntegerField(source="waiting.not_queued", help_text=NOT_QUEUED_HELP)
    waiting_for = GpusField(source="waiting.milli")


class PoolFiguresShape(serializers.Serializer[Any]):
    """What is held of a pool, and what is left."""

    pool = serializers.CharField(source="pool.slug")
    capacity = GpusField(source="capacity_milli", help_text="Every device, a slice by its share of a GPU.")
    slices = serializers.IntegerField(help_text="How many of the devices are slices: of MIG, or replicas.")
    slice_gpus = GpusField(source="slices_milli", help_text="What the slices count as, in GPUs.")
    unavailable = GpusField(source="unavailable_milli", help_text="What nobody can get at the moment.")
    in_use = GpusField(source="in_use_milli")
    reserved = GpusField(source="reserved_milli")
    elastic = GpusField(source="elastic_milli", help_text="Elastic use inside a guarantee.")
    burst = GpusField(source="burst_milli", help_text="Use beyond every guarantee.")
    idle = GpusField(source="idle_milli")
    waiting = serializers.IntegerField(help_text=WAITING_HELP)
    not_queued = serializers.IntegerField(help_text=NOT_QUEUED_HELP)


class PoolQueue(APIView):
    """The queue of a pool."""

    @extend_schema(responses=QueueShape, parameters=[POOL, CURSOR])
    def get(self, request: Request) -> Response:
        """Return who waits, in the order of the queue, 50 at a time."""
        pool = pool_for(person(request), request.query_params.get("pool"))
        if pool is None:
            raise NotVisible(
                "There is no pool that you may see: an operator makes one on the page Pools, or with "
                "`chamber apply -f FILE`."
            )
        cursor = request.query_params.get("cursor", "")
        if cursor and not (len(cursor) <= MAX_CURSOR and is_cursor(cursor)):
            raise Refusal("cursor is none of this list: begin without one.", field="cursor")
        queue = read_queue(person(request), pool, cursor=cursor)
        return Response(
            {
                "pool": pool.slug,
                "waiting": queue.waiting,
                "not_queued": queue.outside,
                "held": queue.held,
                "undecided_since": _undecided_since(),
                "reservations": KeptShape(queue.kept, many=True).data,
                "next": _link(request, queue.after),
                "previous": _link(request, queue.before),
                "results": [_row(row) for row in queue.rows],
            }
        )


class Explain(APIView):
    """Why a workload waits, its position and when it starts."""

    @extend_schema(responses=ExplainShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return the one dominant reason, from the last cycle."""
        workload = Workload.objects.visible_to(person(request)).by_slug(slug)
        reason = explain(workload, person(request))
        return Response(
            {
                "workload": workload.slug,
                "status": workload.status,
                "position": reason and reason.position,
                "reason": reason and ReasonShape(reason).data,
                "eta": reason and EtaShape(reason).data,
                "undecided_since": _undecided_since(),
            }
        )


class CyclesNewestFirst(NewestFirst):
    """Pages of cycles."""

    ordering = ("-number",)


class Plans(GenericAPIView[Cycle]):
    """The last cycles that decided something."""

    serializer_class = CycleShape
    pagination_class = CyclesNewestFirst

    def get_queryset(self) -> QuerySet[Cycle]:
        """Return all of them to members of the organisation, none to others."""
        cycles = Cycle.objects.defer("plan", "snapshot")
        return cycles if may_anywhere(person(self.request), Permission.VIEW_TEAM) else cycles.none()

    @extend_schema(responses=CycleShape(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Return when each began, how long it took and what it decided, newest first."""
        rows = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(CycleShape(rows, many=True).data)


class TeamsFigures(APIView):
    """What teams hold of a pool, and what they may hold."""

    @extend_schema(responses=TeamFiguresShape(many=True), parameters=[POOL])
    def get(self, request: Request) -> Response:
        """Return the teams you may see, in the order of the tree; each counts all below it."""
        pool = pool_for(person(request), request.query_params.get("pool"))
        bars: list[TeamBar] = team_bars(person(request), pool) if pool else []
        return one_page([*TeamFiguresShape(bars, many=True).data])


class PoolsFigures(APIView):
    """How full the pools are."""

    @extend_schema(responses=PoolFiguresShape(many=True))
    def get(self, request: Request) -> Response:
        """Return the pools you may see, in the organisation's order."""
        return one_page([*PoolFiguresShape(pool_bars(person(request)), many=True).data])


def _undecided_since() -> datetime | None:
    """Return when the last cycle ended, where that is ten seconds ago or more."""
    return silence.look().since


def _row(row: QueueRow) -> dict[str, Any]:
    """Return a row as QueueRowShape says."""
    explanation: Explanation = row.explanation
    shown = row.workload
    return {
        "position": row.position,
        "workload": shown.slug if shown else None,
        "owner": shown.owner.username if shown else None,
        "team": row.team,
        "reserved": row.reserved,
        "priority": row.priority,
        "gpus": None if row.gpus_milli is None else GpusField().to_representation(row.gpus_milli),
        "code": row.code,
        "message": explanation.sentence if shown else None,
        "eta": EtaShape(explanation).data,
        "submitted_at": row.submitted_at,
    }


def _link(request: Request, cursor: str | None) -> str | None:
    """Return the address of another page of the same list."""
    if cursor is None:
        return None
    parameters = request.query_params.copy()
    parameters["cursor"] = cursor
    return request.build_absolute_uri(f"{request.path}?{parameters.urlencode()}")
