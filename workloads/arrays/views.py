"""Pages of arrays: one array with its members, and what is done to all of them."""

from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from chamber.errors import Conflict, one_of
from chamber.http import Watched, page
from chamber.words import span
from teams.actors import Actor, Via
from workloads import chains
from workloads.arrays import acts, counts
from workloads.arrays.asked import VALUE
from workloads.arrays.counts import ArrayCounts
from workloads.models import Status, Workload, WorkloadArray
from workloads.variables import sees_values

if TYPE_CHECKING:
    from chamber.models import User

MEMBERS_SHOWN = 50
PARAMETERS_SHOWN = 8
"""So many have a column; all are on the page of each member."""


def found(request: HttpRequest, slug: str) -> WorkloadArray:
    """Return the array with this slug as far as the reader may see it."""
    return one_of(
        WorkloadArray.objects.visible_to(request.user).select_related("team", "owner"), "array", slug=slug
    )


@require_GET
def array_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """Show how the members of an array stand, a page of them at a time; live."""
    watched = Watched.now("workloads")
    array = found(request, slug)
    user = cast("User", request.user)
    watched = watched.but_for(array.owner_id)
    now = timezone.now()
    status = request.GET.get("status", "")
    status = status if status in Status.values else ""
    counted = counts.of_arrays([array.pk])[array.pk]
    context: dict[str, Any] = {
        **told(array, counted, now),
        "array": array,
        "chain": chains.chain_of(array, user),
        "status": status,
        "place": _members(array, counted, status).get_page(request.GET.get("page")),
        "more_parameters": array.parameters[PARAMETERS_SHOWN:],
        "columns": (array.parameters or ([VALUE] if "list" in array.asked else []))[:PARAMETERS_SHOWN],
        "query": f"status={status}" if status else "",
        "statuses": [(each.value, each.label, n) for each, n in counted.shown],
        "sees_values": shows_values(array, user),
        "may_control": acts.is_controlled_by(user, array),
        "can": _can(array, counted),
    }
    if context["sees_values"]:
        for member in context["place"].object_list:
            vars(member)["parameters"] = [
                (heading(name), member.environment.get(name, "")) for name in context["columns"]
            ]
    return page(request, "workloads/array.html", context, fragment="workloads/_array.html", watched=watched)


def told(array: WorkloadArray, counted: ArrayCounts, now: Any) -> dict[str, Any]:
    """Return what every place says of an array: its counts, how far it is, and how long the rest takes."""
    left = counted.left(now)
    return {
        "counts": counted,
        "left": span(left.total_seconds()) if left else "",
        "forgotten": array.size - counted.total,
    }


def shows_values(array: WorkloadArray, user: "User") -> bool:
    """Return whether somebody sees the values of its parameters, which are variables of its members. Its team and owner
    must be loaded.
    """
    return sees_values(user, Workload(owner=array.owner, team=array.team))


def _members(array: WorkloadArray, counted: ArrayCounts, status: str) -> "Paginator[Workload]":
    """Return the pages of members in the order of their indexes; how many there are is counted already."""
    rows = Workload.objects.filter(array=array, **({"status": status} if status else {}))
    rows = rows.select_related("pool").order_by("array_index")
    pages = Paginator(rows, MEMBERS_SHOWN)
    vars(pages)["count"] = counted.of(status) if status else counted.total
    return pages


def heading(name: str) -> str:
    """Return what the column of a parameter is called."""
    return "Value" if name == VALUE else name


def _can(array: WorkloadArray, counted: ArrayCounts) -> dict[str, int]:
    """Return to how many members each act could be done now (1 query)."""
    pending = counted.of(Status.PENDING)
    held = acts.concerned(array, "release").count() if pending else 0
    failed = counted.of(Status.FAILED)
    return {"cancel": counted.open, "hold": max(0, pending - held), "release": held, acts.RETRY: failed}


@require_POST
def act(request: HttpRequest, slug: str, act: str) -> HttpResponse:
    """Do something to all members whose status allows it, and return to the array's page with how many those were."""
    array = found(request, slug)
    by = Actor.person(cast("User", request.user), Via.PAGE)
    try:
        done = acts.act_on(by=by, array=array, act=act)
    except Conflict as conflict:
        messages.warning(request, conflict.message)
    else:
        messages.success(request, acts.sentence(array, act, done))
    return redirect("workloads:array", slug=array.slug)
