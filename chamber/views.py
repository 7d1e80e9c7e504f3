"""Pages that belong to no app: the overview, and in the demo the switch of a simulated agent."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from chamber import fragments
from chamber.errors import no_such
from chamber.http import Watched, page, wants_fragment
from scheduling.explain import allocations, silence
from teams.permissions import Permission, may_anywhere
from workloads.models import Event, EventKind, Workload


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """One screen: how full the pools are, why who waits, what happened lately, and my own workloads."""
    watched = Watched.now("overview", silence.TOPIC)
    now = timezone.now()
    waiting, idle = allocations.waiting_and_idle(request.user, now)
    context = {
        "pools": _pools(request, watched),
        "waiting": waiting,
        "idle": idle,
        "events": _latest_changes(request, since=now - timedelta(hours=1)),
        "has_teams": may_anywhere(request.user, Permission.VIEW_TEAM),
        # A part of its own, which the fragment leaves alone: the rest is the same for many.
        "own": None if wants_fragment(request) else _own(request),
    }
    return page(request, "chamber/overview.html", context, fragment="chamber/_overview.html", watched=watched)


SUMS = list[tuple[UUID | None, dict[str, int]]]
"""The sums of pools as JSON can hold them: by pairs, for one key is none."""


def _pools(request: HttpRequest, watched: Watched) -> list[allocations.PoolBar]:
    """Return the bars of the pools; open pages share what is added up for them, for it is nobody's own."""
    if not wants_fragment(request):
        return allocations.pool_bars(request.user)

    def sums() -> allocations.PoolSums:
        return dict(
            fragments.alike("pool-sums", watched, lambda: list(allocations.pool_sums().items()), SUMS)
        )

    return allocations.pool_bars(request.user, sums=sums)


@require_safe
def mine(request: HttpRequest) -> HttpResponse:
    """My newest workloads: a part of the overview."""
    own = _own(request)
    return page(
        request, "chamber/_mine.html", {"own": own}, fragment="chamber/_mine.html", watched=own["watched"]
    )


def _own(request: HttpRequest) -> dict[str, Any]:
    user_id = request.user.pk
    watched = Watched.now(f"owner:{user_id}", only=user_id)
    rows = Workload.objects.visible_to(request.user).filter(owner=user_id).select_related("team", "pool")
    return {"watched": watched, "workloads": rows.with_placed_pods()[:8]}


def _latest_changes(request: HttpRequest, *, since: object) -> list[Event]:
    """Return the newest changes of status of workloads that the viewer may see, at most eight."""
    visible = Workload.objects.visible_to(request.user).values("id")
    kinds = (EventKind.SUBMITTED, EventKind.STATUS)
    events = Event.objects.filter(at__gte=since, kind__in=kinds, workload__in=visible)
    return list(events.select_related("workload").order_by("-at", "-id")[:8])


@require_POST
def demo_agent(request: HttpRequest, name: str) -> HttpResponse:
    """Stop or start the simulated agent of a cluster; its pods go on. Only in the demo, only for operators."""
    from chamber.demo import supervisor

    agents = supervisor.current() if settings.DEMO else None
    if (
        agents is None
        or name not in agents.names()
        or not may_anywhere(request.user, Permission.OPERATE_CLUSTERS)
    ):
        raise no_such("simulated agent", name)
    if request.POST.get("action") == "start":
        agents.start(name)
        messages.success(request, f"The simulated agent of {name} starts; it says hello in a moment.")
    else:
        agents.stop(name)
        messages.success(
            request,
            f"The simulated agent of {name} is stopped; its cluster counts as disconnected after 30 s of silence.",
        )
    return redirect("agentlink:cluster", name)
