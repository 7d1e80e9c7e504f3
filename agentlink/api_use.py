"""What a workload makes of its GPUs over the API."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink.use_chart import BY_KEY
from agentlink.views_use import chart_of, use_now
from chamber.errors import NotVisible, Refusal
from teams.api.requests import person
from teams.api.shapes import GpusField
from workloads.models import Workload


class MeasuredShape(serializers.Serializer[Any]):
    """Percentages are means of the GPUs that were measured, memory and power sums; null where nobody knows."""

    at = serializers.DateTimeField()
    gpus = serializers.IntegerField(help_text="How many were measured.")
    busy_percent = serializers.IntegerField(help_text="Cycles with work on their multiprocessors.")
    tensor_percent = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField()
    power_watts = serializers.IntegerField(allow_null=True)


class UseNowShape(MeasuredShape):
    """How it is now, and what is held and stands idle."""

    idle_gpus = GpusField(source="idle_milli")
    idle_since = serializers.DateTimeField(allow_null=True)


class UsageShape(serializers.Serializer[Any]):
    """`now` is null where nobody knows; `samples` are means of steps, oldest first."""

    workload = serializers.CharField()
    now = UseNowShape(allow_null=True)
    within = serializers.CharField(allow_null=True)
    step_seconds = serializers.IntegerField(allow_null=True)
    samples = MeasuredShape(many=True)


class WorkloadUsage(APIView):
    """How busy the GPUs of a workload are and were."""

    @extend_schema(
        parameters=[
            OpenApiParameter("within", str, description=f"{', '.join(BY_KEY)}; else all of its life.")
        ],
        responses=UsageShape,
    )
    def get(self, request: Request, slug: str) -> Response:
        """Return the last figure, and samples of the time until the workload's end, or until now."""
        workload = Workload.objects.visible_to(person(request)).filter(slug=slug).first()
        if workload is None:
            raise NotVisible(f"There is no workload {slug!r}, or not for you.")
        asked = request.query_params.get("within", "")
        if asked and asked not in BY_KEY:
            raise Refusal(f"within is {asked[:40]!r}; allowed are {', '.join(BY_KEY)}.", field="within")
        now = timezone.now()
        use, drawn = use_now(workload, now), chart_of(workload, BY_KEY.get(asked), now)
        return Response(
            {
                "workload": workload.slug,
                "now": use and UseNowShape(use).data,
                "within": drawn and drawn.window.key,
                "step_seconds": drawn and int(drawn.window.step.total_seconds()),
                "samples": [MeasuredShape(step.sample).data for step in drawn.steps] if drawn else [],
            }
        )
