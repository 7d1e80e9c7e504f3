"""Pages and fragments of scheduling: queues, reasons, a preview of a submission, the figures of teams."""

from typing import TYPE_CHECKING, Any, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from chamber.errors import Refusal, one_of
from chamber.http import Watched, page
from scheduling.explain import allocations
from scheduling.explain import silence as silences
from scheduling.explain import workload as explaining
from scheduling.explain.queue import pool_for, queues_of, read_queue
from scheduling.whatif import freed
from scheduling.whatif.desk import TooMany
from scheduling.whatif.preview import Preview, preview
from teams import sight
from teams.actors import Actor, Via
from teams.models import Pool, Team
from teams.rows import teams_of_table
from workloads.forms import requests_from
from workloads.models import Status, Workload

if TYPE_CHECKING:
    from chamber.models import User

PLACEHOLDER = "preview"
WAIT_SECONDS = 1.5
"""A page that has no answer of the engine by then says that it is worked out, and asks again."""


@require_safe
def silence(request: HttpRequest) -> HttpResponse:
    """What is not known now, of the scheduler and of clusters: the part of every page that says so.

    It says by a number, too, what its reader may see.
    """
    watched = Watched.now(silences.TOPIC, sight.TOPIC)
    context = {"silence": silences.told_to(request.user), "sight": sight.sight_of(request.user)}
    return page(
        request, "scheduling/silence.html", context, fragment="scheduling/_silence.html", watched=watched
    )


@require_safe
def queue(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """Who waits in a pool, in which order and why; live."""
    pool = pool_for(request.user, slug)
    watched = Watched.now(f"queue:{pool.slug}", silences.TOPIC) if pool else None
    context = {
        "undecided": silences.look().undecided,
        "pools": Pool.objects.visible_to(request.user),
        "pool": pool,
        "queue": pool and read_queue(request.user, pool, cursor=request.GET.get("cursor", "")),
    }
    return page(request, "scheduling/queue.html", context, fragment="scheduling/_queue.html", watched=watched)


@require_safe
def queue_next(request: HttpRequest, slug: str) -> HttpResponse:
    """Who would start if GPUs were freed: a part of the queue's page."""
    pool = pool_for(request.user, slug)
    typed = request.GET.get("gpus", "")
    context: dict[str, Any] = {"pool": pool, "typed": typed, "most": freed.MOST_GPUS}
    try:
        context["gpus"] = gpus = freed.gpus_asked(typed)
        if pool is not None:
            context["found"] = freed.who_is_next(request.user, pool, gpus, wait_seconds=WAIT_SECONDS)
    except TooMany as others:
        context["busy"] = others.message
    except Refusal as refusal:
        context["problem"] = refusal.message
    status = 422 if "problem" in context else 200
    return page(request, "scheduling/next.html", context, fragment="scheduling/_next.html", status=status)


@require_safe
def explain(request: HttpRequest, slug: str) -> HttpResponse:
    """Why a workload waits, its position and when it starts: a part of the workload's page."""
    workload = Workload.objects.visible_to(request.user).by_slug(slug)
    queues = [f"queue:{queue}" for queue in queues_of(workload)]
    nodes = ["pools"] if workload.status in (Status.STARTING, Status.RUNNING) else []
    watched = Watched.now(f"workload:{workload.pk}", silences.TOPIC, *queues, *nodes)
    workload.refresh_from_db()  # what was read before the versions may be older than they say
    context = {"workload": workload, "reason": explaining.explain(workload, request.user)}
    return page(
        request, "scheduling/explain.html", context, fragment="scheduling/_explain.html", watched=watched
    )


@require_safe
def team_figures(request: HttpRequest) -> HttpResponse:
    """A cell with a bar for each row of the page of teams: parts of it, swapped in by their ids."""
    watched = Watched.now("teams", "overview")
    pool = pool_for(request.user, request.GET.get("pool") or None)
    bars = allocations.team_bars(request.user, pool, teams=_teams_of(request)) if pool else []
    return page(request, "scheduling/_team_figures.html", {"bars": bars}, watched=watched)


def _teams_of(request: HttpRequest) -> list[Team]:
    """Return the teams that have a row on the page that asks."""
    under = request.GET.get("under")
    top = one_of(Team.objects.visible_to(request.user), "team", field="under", slug=under) if under else None
    return teams_of_table(cast("User", request.user), under=top)


@require_POST
def preview_submission(request: HttpRequest) -> HttpResponse:
    """What would become of the submit form as it stands; nothing is written. Refusals are part of the answer."""
    data = request.POST.copy()
    for name in ("name", "image"):
        data[name] = data.get(name, "").strip() or PLACEHOLDER
    actor = Actor.person(cast("User", request.user), Via.PAGE)
    answers: list[Preview] = []
    refusal: Refusal | None = None
    try:
        asked = requests_from(data, actor)
        answers = [preview(by=actor, request=asked[0])]
    except Refusal as error:
        refusal = error
    context = {"answers": answers, "refusal": refusal, "others": 0 if refusal else len(asked) - 1}
    return render(request, "scheduling/_preview.html", context)
