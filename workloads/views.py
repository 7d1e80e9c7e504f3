"""Pages of workloads: the list, one workload, and the form that submits."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chamber.errors import Conflict, NotAllowed, Refusal, no_such, one_of
from chamber.http import Watched, page, too_soon, wants_fragment
from chamber.words import count, plural
from teams.actors import Actor, Via
from teams.job_classes import OrganisationClasses
from teams.models import JobClass, Pool, Team
from teams.permissions import Permission, may_anywhere
from teams.querysets import TeamQuerySet
from teams.rules import priority_limits
from workloads import actions, detail, form_values, forms, listing, manifests, warnings
from workloads import statuses as reference
from workloads.admissible import range_text
from workloads.arrays import folding
from workloads.arrays import views as arrays
from workloads.arrays.asked import TOLD
from workloads.credentials import naming
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import Submitted, submit_all

if TYPE_CHECKING:
    from chamber.models import User


def _user(request: HttpRequest) -> "User":
    """Return who is signed in; pages are for nobody else."""
    return cast("User", request.user)


def _actor(request: HttpRequest) -> Actor:
    return Actor.person(_user(request), Via.PAGE)


def _found(request: HttpRequest, slug: str) -> Workload:
    # Whether it was adopted, by the name of the relation: the room that owns that lies above this one.
    rows = Workload.objects.visible_to(request.user).select_related(
        "team", "owner", "pool", "attempt", "array", "adopted_job__cluster", "adopted_job__named_owner"
    )
    return one_of(rows.with_dependence().with_placed_pods(), "workload", slug=slug)


# The list


@require_GET
def workload_list(request: HttpRequest) -> HttpResponse:
    """Show the workloads that match the address, a page at a time; live.

    None, with a sentence for each filter, where the address asks for what cannot be: to leave it out would show others.
    """
    filters = listing.Filters.read(request.GET)
    wrong = filters.problems(request.GET, _user(request))
    watched = Watched.now("workloads", only=_user(request).pk if filters.owner == listing.MINE else None)
    now = timezone.now()
    rows = Workload.objects.visible_to(request.user)
    rows = (
        rows.select_related("team", "owner", "pool", "attempt", "array__owner")
        .with_idleness(now)
        .with_placed_pods()
    )
    rows = rows.none() if wrong else filters.apply(rows, user=_user(request), now=now, folded=True)
    shown = listing.page_of(rows, sort=filters.sort, cursor=request.GET.get("cursor"))
    context = {
        "page": shown,
        "rows": folding.rows_of(
            shown.rows, unfold=request.GET.get("unfold", ""), flat=bool(filters.array), now=now
        ),
        "filters": filters,
        "wrong": wrong,
        "default_sort": listing.DEFAULT_SORT,
        "status_choices": listing.STATUS_CHOICES,
        "class_choices": listing.CLASS_CHOICES,
        "job_classes": lambda: list(JobClass.objects.values_list("slug", "name")),
        "within_choices": [(key, label) for key, (label, _) in listing.WITHIN.items()],
        # A callable: only the whole page, not its live part, asks for them.
        "team_choices": lambda: _options(
            Team.objects.visible_to(request.user).order_by("path"), filters.team
        ),
        "pools": Pool.objects.visible_to(request.user),
        "may_submit": may_anywhere(request.user, Permission.SUBMIT),
    }
    status = 422 if wrong and not wants_fragment(request) else 200
    return page(
        request,
        "workloads/list.html",
        context,
        fragment="workloads/_list.html",
        status=status,
        watched=watched,
    )


def _options(teams: TeamQuerySet, chosen: str) -> SafeString:
    """Return the teams as options of a `<select>`; made here, for a template takes a while over thousands."""
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        (
            (slug, mark_safe(" selected") if slug == chosen else "", name)
            for slug, name in teams.values_list("slug", "name")
        ),
    )


_DONE = {"cancel": "Cancelled", "hold": "Held", "release": "Released", "requeue": "Requeued"}


@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Cancel, hold, release or requeue the chosen workloads that the person may change, and say how many."""
    act = request.POST.get("act", "")
    if act not in actions.BULK_ACTS:
        raise Refusal(f"{act!r} is not among {', '.join(actions.BULK_ACTS)}.")
    if arrays := request.POST.getlist("array")[: listing.LARGEST_PAGE]:
        for sentence, went in folding.act_on_chosen(request.user, _actor(request), act, arrays):
            (messages.success if went else messages.warning)(request, sentence)
        if not request.POST.getlist("id"):
            return redirect(_safe_next(request, reverse("workloads:list")))
    chosen = request.POST.getlist("id")[: listing.LARGEST_PAGE]
    rows = list(
        Workload.objects.visible_to(request.user)
        .select_related("team", "owner", "adopted_job")
        .filter(slug__in=chosen)
    )
    done = actions.act_on_many(by=_actor(request), act=act, workloads=rows)
    left = len(chosen) - len(done)
    text = f"{_DONE[act]} {len(done)} of {count(len(chosen), 'workload')}."
    if left == 1:
        text += " 1 was left as it is: it is not yours, or its status does not allow it."
    elif left:
        text += f" {left} were left as they are: they are not yours, or their status does not allow it."
    (messages.success if done else messages.warning)(request, text)
    return redirect(_safe_next(request, reverse("workloads:list")))


def _safe_next(request: HttpRequest, otherwise: str) -> str:
    target = request.POST.get("next", "")
    return (
        target if url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}) else otherwise
    )


# One workload


@require_GET
def workload_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """Show where a workload stands, why, and all that happened to it; live."""
    known = Workload.objects.visible_to(request.user).filter(slug=slug)
    found = known.values_list("pk", "owner", "adopted_job__named_owner").first()
    if found is None:
        raise no_such("workload", slug)
    pk, owner, named = found
    # Before its rows are read: what changes in between is fetched again rather than missed.
    watched = Watched.now(f"workload:{pk}").but_for(named or owner)
    workload = _found(request, slug)
    context = detail.of(workload, _user(request))
    return page(request, "workloads/detail.html", context, fragment="workloads/_detail.html", watched=watched)


_ACTS = {
    "cancel": (actions.cancel, "{} is cancelled; pods that it has are being stopped."),
    "hold": (actions.hold, "{} is held until somebody releases it."),
    "release": (actions.release, "{} is released."),
    "requeue": (actions.requeue, "{} is back in the queue."),
}


@require_POST
def act(request: HttpRequest, slug: str, act: str) -> HttpResponse:
    """Cancel, hold, release or requeue one workload, and return to its page with what came of it."""
    workload = _found(request, slug)
    action, sentence = _ACTS[act]
    try:
        action(by=_actor(request), workload=workload)
    except Conflict as conflict:
        messages.warning(request, conflict.message)
    else:
        messages.success(request, sentence.format(workload.name))
    return redirect("workloads:detail", slug=workload.slug)


# Submitting


@require_GET
def statuses(request: HttpRequest) -> HttpResponse:
    """Say what each status and each end means, and what to do."""
    tables = [
        {"id": "life", "title": "Statuses", "first": "Status", "rows": reference.STATUSES},
        {
            "id": "ends",
            "title": "Why a workload failed or was ended",
            "first": "Cause",
            "rows": reference.ENDS,
        },
        {
            "id": "refusals",
            "title": "Why a cluster does not take a workload, which then returns to the queue",
            "first": "Cause",
            "rows": reference.REFUSALS,
        },
    ]
    return page(request, "workloads/statuses.html", {"tables": tables, "often": reference.PREEMPTED_OFTEN})


@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form, proposed for a job class or copied from a workload, and submit what was filled in."""
    if not may_anywhere(request.user, Permission.SUBMIT):
        raise NotAllowed(
            "Your role does not let you submit workloads: ask a lead of a team to make you a researcher."
        )
    if request.method == "POST" and "propose" not in request.POST:
        return _take(request)
    if "clone" in request.GET or "array" in request.GET:
        copied = _copied_array if "array" in request.GET else _copied
        content = copied(request, request.GET.get("array") or request.GET["clone"])
        proposals = _proposals(request, str(content["team"]))
        values = form_values.values_of(content, proposals)
        values["manifest"] = manifests.to_yaml(content)
    elif request.method == "POST":
        proposals = _proposals(request, request.POST.get("team", ""), request.POST.get("proposed_in", ""))
        values = form_values.values_after_change(request.POST, proposals)
    else:
        team = request.GET.get("team", "")
        proposals = _proposals(request, team)
        values = form_values.first_values(proposals, team=team)
        values |= {"team": team, "manifest": _example(request)}
    values["tab"] = "yaml" if request.GET.get("tab") == "yaml" else ""
    form = forms.SubmitForm(initial=values, user=_user(request), classes=proposals.classes)
    return _form_page(request, form)


def _proposals(request: HttpRequest, *teams: str) -> form_values.Proposals:
    return form_values.Proposals.read(_user(request), *teams)


def _take(request: HttpRequest) -> HttpResponse:
    form = forms.SubmitForm(request.POST, user=_user(request), classes=OrganisationClasses.read())
    key, digest = _idempotency(request)
    asked = None
    try:
        asked = forms.requests_from(request.POST, _actor(request))
        made = submit_all(by=_actor(request), requests=asked, key=key, body_sha256=digest)
    except Refusal as refusal:
        by_line = asked is not None and request.POST.get("tab") == "yaml"
        form.refuse(manifests.located(refusal, request.POST.get("manifest", "")) if by_line else refusal)
        return too_soon(_form_page(request, form, status=422), refusal)
    _warn(request, made, asked)
    if len(made.workloads) == 1 and not made.arrays:
        messages.success(request, f"{made.workloads[0].name} is submitted.")
        return redirect("workloads:detail", slug=made.workloads[0].slug)
    if len(made.arrays) == 1 and not made.workloads:
        array = made.arrays[0]
        messages.success(request, f"{array.name} is submitted, with {count(array.size, 'member')}.")
        return redirect("workloads:array", slug=array.slug)
    several = [count(len(made.workloads), "workload")] if made.workloads else []
    if made.arrays:
        several.append(count(len(made.arrays), "array"))
    messages.success(request, f"{' and '.join(several)} are submitted.")
    return HttpResponseRedirect(f"{reverse('workloads:list')}?{urlencode({'owner': listing.MINE})}")


def _warn(request: HttpRequest, made: Submitted, asked: Sequence[SubmissionRequest]) -> None:
    """Tell what keeps something from ever starting, and what it has otherwise than it was asked for."""
    told = warnings.of([*made.workloads, *made.firsts])
    single = [each for each in asked if each.array is None]
    for workload, each in zip(made.workloads, single, strict=True):
        for text in [*warnings.of_sharing(workload, each), *told[workload.pk]]:
            messages.warning(request, f"{workload.name}: {text}")
    for first in made.firsts:
        for text in told[first.pk]:
            messages.warning(request, f"{first.name}, each member: {text}")


def _idempotency(request: HttpRequest) -> tuple[str | None, str]:
    """Return key and digest of a posted form: pressing its button twice submits once, a changed form submits
    anew.
    """
    token = request.POST.get("token", "")
    said = sorted((name, values) for name, values in request.POST.lists() if name != "csrfmiddlewaretoken")
    digest = hashlib.sha256(repr(said).encode()).hexdigest()
    return (f"form-{token[:40]}-{digest[:32]}" if token else None), digest


def _form_page(request: HttpRequest, form: forms.SubmitForm, *, status: int = 200) -> HttpResponse:
    teams = forms.teams_to_submit_to(_user(request))
    slug = str(form["team"].value() or "").replace("\x00", "")  # PostgreSQL takes none
    chosen = teams.filter(slug=slug).first() or teams.first()
    limits = priority_limits(request.user, chosen) if chosen else None
    context = {
        "form": form,
        "yaml": form["tab"].value() == "yaml",
        "chosen_team": chosen,
        "priorities": range_text(limits) if limits else "",
        "proposed_for": form["job_class"].value(),
        "proposed_in": slug,
    }
    return page(request, "workloads/submit.html", context, fragment="workloads/_form.html", status=status)


def _copied(request: HttpRequest, slug: str) -> dict[str, object]:
    """Return what a workload was asked for, without the credentials that whoever copies it may not use, and say so."""
    slugs = {str(pk): pool for pk, pool in Pool.objects.values_list("pk", "slug")}
    workload, user = _found(request, slug), _user(request)
    content = manifests.content_of(workload, slugs, user=user)
    kept, left = naming.carried(user, workload)
    if left:
        content["credentials"] = kept
        messages.warning(
            request,
            f"Not copied, for you may not use {'it' if len(left) == 1 else 'them'} here: the "
            f"{plural(len(left), 'credential')} {', '.join(left)}. Name your own instead, or what runs has none.",
        )
    return content


def _copied_array(request: HttpRequest, slug: str) -> dict[str, object]:
    """Return what an array was asked for. Values of parameters are left out for whoever may not see them: then it is a
    workload without an array.
    """
    array, user = arrays.found(request, slug), _user(request)
    first = (
        Workload.objects.filter(array=array).order_by("array_index").values_list("slug", flat=True).first()
    )
    if first is None:
        raise no_such("array", slug)
    content = _copied(request, first)
    own = {*array.parameters, *TOLD}
    variables = cast("dict[str, str]", content.pop("environment", {}))
    if kept := {name: value for name, value in variables.items() if name not in own}:
        content["environment"] = kept
    if "range" not in array.asked and not arrays.shows_values(array, user):
        messages.warning(
            request, "Not copied: the parameters, whose values are shown to its owner. Give your own."
        )
        return content
    content["array"] = array.asked
    if array.max_parallel:
        content["max_parallel"] = array.max_parallel
    return content


def _example(request: HttpRequest) -> str:
    team = forms.teams_to_submit_to(_user(request)).last()
    if team is None:
        raise Http404
    return manifests.to_yaml(
        {
            "name": "bert-sweep",
            "team": team.slug,
            "image": "registry.example/train:1.4",
            "command": ["python", "train.py", "--epochs", "3"],
            "pods": 1,
            "gpus": 1,
            "priority": "normal",
            "time_limit": "4h",
        }
    )
