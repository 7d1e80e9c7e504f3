"""What a workload makes of its GPUs over the API."""

from typing import Any

from django.db.models import F
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agentlink.use_chart import BY_KEY, smallest_window
from agentlink.views_use import chart_of, life_of, use_now
from chamber.api_document import in_query
from chamber.errors import Refusal
from teams.api.requests import one_page, person, pool_for, team_for
from teams.api.shapes import GpusField
from teams.models import Team
from workloads.models import Workload
from workloads.models.workload import ADMITTED
from workloads.querysets import FIGURES_HOLD

MOST_HOLDERS = 500
SORTS = {
    "gpus": (F("attempt__gpus_milli").desc(),),
    "idle": (F("attempt__gpu_use__idle_milli").desc(nulls_last=True),),
    "busy": (F("attempt__gpu_use__busy_percent").desc(nulls_last=True),),
    "memory": (F("attempt__gpu_use__memory_mib").desc(nulls_last=True),),
}


class MeasuredShape(serializers.Serializer[Any]):
    """Percentages are means of the GPUs that were measured, memory and power sums; null where they are not known."""

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
    """`now` is null where it is not known; `samples` are means of steps, oldest first."""

    workload = serializers.CharField()
    now = UseNowShape(allow_null=True)
    within = serializers.CharField(allow_null=True)
    step_seconds = serializers.IntegerField(allow_null=True)
    samples = MeasuredShape(many=True)


class HolderShape(serializers.Serializer[Any]):
    """A workload that holds GPUs, and what it makes of them: null where that is not known."""

    workload = serializers.SlugField(source="slug")
    team = serializers.CharField(source="team.slug")
    owner = serializers.CharField(source="owner.username")
    pool = serializers.CharField(source="pool.slug", allow_null=True)
    status = serializers.CharField()
    gpus = GpusField(source="attempt.gpus_milli")
    since = serializers.DateTimeField(source="status_since")
    now = serializers.SerializerMethodField()

    @extend_schema_field(UseNowShape(allow_null=True))
    def get_now(self, workload: Workload) -> dict[str, Any] | None:
        """Return the last figure, unless that is too old to say anything of now."""
        use = getattr(workload.attempt, "gpu_use", None)
        known = use is not None and use.at >= self.context["known_since"]
        return dict(UseNowShape(use).data) if known else None


class UseView(APIView):
    """The workloads that hold GPUs, and what they make of them."""

    @extend_schema(
        parameters=[
            in_query("team", "Slug of a team: of it and those below it."),
            in_query("pool", "Slug of a pool."),
            in_query("sort", "What is most, first.", enum=list(SORTS), default="gpus"),
            in_query("limit", "How many.", type="integer", minimum=1, maximum=MOST_HOLDERS, default=50),
        ],
        responses=HolderShape(many=True),
    )
    def get(self, request: Request) -> Response:
        """Return the workloads that hold most, of those you may see (three queries)."""
        asked, now = request.query_params, timezone.now()
        sort, limit = asked.get("sort") or "gpus", asked.get("limit", "50")
        if sort not in SORTS:
            raise Refusal(f"sort is {sort[:40]!r}; allowed are {', '.join(SORTS)}.", field="sort")
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= MOST_HOLDERS):
            raise Refusal(
                f"limit is {limit[:40]!r}; it must be a number from 1 to {MOST_HOLDERS}.", field="limit"
            )
        rows = Workload.objects.visible_to(person(request)).filter(status__in=ADMITTED, attempt__isnull=False)
        if slug := asked.get("team"):
            rows = rows.of_teams(Team.objects.within(team_for(request, slug, field="team")))
        if slug := asked.get("pool"):
            rows = rows.filter(pool=pool_for(request, slug, field="pool"))
        rows = rows.select_related("team", "owner", "pool", "attempt__gpu_use").order_by(*SORTS[sort], "pk")
        context = {"known_since": now - FIGURES_HOLD}
        return one_page([HolderShape(row, context=context).data for row in rows[: int(limit)]])


class WorkloadUsage(APIView):
    """How busy the GPUs of a workload are and were."""

    @extend_schema(
        parameters=[
            in_query(
                "within", "The time until its end, or until now; else all of its life.", enum=list(BY_KEY)
            )
        ],
        responses=UsageShape,
    )
    def get(self, request: Request, slug: str) -> Response:
        """Return the last figure, and samples of the time until the workload's end, or until now."""
        workload = Workload.objects.visible_to(person(request)).by_slug(slug)
        asked = request.query_params.get("within", "")
        if asked and asked not in BY_KEY:
            raise Refusal(f"within is {asked[:40]!r}; allowed are {', '.join(BY_KEY)}.", field="within")
        now = timezone.now()
        use, life = use_now(workload, now), life_of(workload, now)
        drawn = chart_of(workload, BY_KEY.get(asked) or smallest_window(*life), now) if life else None
        return Response(
            {
                "workload": workload.slug,
                "now": use and UseNowShape(use).data,
                "within": drawn and drawn.window.key,
                "step_seconds": drawn and int(drawn.window.step.total_seconds()),
                "samples": [MeasuredShape(step.sample).data for step in drawn.steps] if drawn else [],
            }
        )
