"""The pages of environments: all that one may see, and one with its versions."""

from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import NotAllowed, Refusal
from chamber.http import page
from teams.forms import show_refusal
from teams.permissions import Permission, paths_where
from teams.views.requests import actor, person, team_choices
from workloads.environments import actions, reading
from workloads.environments.forms import NewEnvironmentForm, VersionForm, initial_of
from workloads.models import Environment

PAGE_ROWS = 50
VERSIONS_SHOWN = 20
"""Versions on a page; each may have 64 KiB."""
ACTS = ("archive", "restore", "delete")


@require_http_methods(["GET", "HEAD", "POST"])
def environments(request: HttpRequest) -> HttpResponse:
    """List environments, of one team where the address names it; a POST makes one."""
    reader = person(request)
    slug = request.GET.get("team", "")
    team = reading.team_for(reader, slug) if slug else None
    paths = paths_where(reader, Permission.MANAGE_CATALOGUE)
    form = NewEnvironmentForm(
        request.POST if request.method == "POST" else None,
        teams=team_choices(paths) if paths else [],
        initial={"team": slug},
    )
    if request.method == "POST":
        if not paths:
            raise NotAllowed("Your role does not let you make environments.")
        if form.is_valid() and (made := _made(request, form)):
            messages.success(request, f"The environment {made.reference} is made.")
            return redirect(address_of(made))
    rows = reading.environments_for(reader)
    if team is not None:
        rows = rows.filter(team=team)
    archived = request.GET.get("archived") == "1"
    place = Paginator(rows.filter(archived_at__isnull=not archived), PAGE_ROWS).get_page(
        request.GET.get("page")
    )
    context = {
        "shown": reading.shown(place.object_list),
        "place": place,
        "team": team,
        "archived": archived,
        "query": urlencode({**({"team": slug} if team else {}), **({"archived": "1"} if archived else {})}),
        "form": form if paths else None,
    }
    return page(request, "workloads/environments.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def environment(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Show one with its versions; a POST gives it a new one."""
    row = _found(request, team, name)
    may_change = reading.may_change(person(request), row.team)
    shown = reading.shown_one(row, person(request))
    form = VersionForm(request.POST if request.method == "POST" else None, initial=initial_of(shown.newest))
    if request.method == "POST":
        if not may_change:
            raise NotAllowed(f"Your role does not let you change {row.reference}.")
        if form.is_valid() and (number := _versioned(request, form, row)):
            told = f"{row.reference}@{number} is what is newly submitted."
            messages.success(
                request, told if number > row.newest else f"{row.reference}@{number} has the same."
            )
            return redirect(address_of(row))
    place = Paginator(reading.versions_of(row), VERSIONS_SHOWN).get_page(request.GET.get("page"))
    context = {
        "shown": shown,
        "place": place,
        "form": form if may_change and not row.is_archived else None,
        "may_change": may_change,
    }
    return page(request, "workloads/environment.html", context, status=422 if form.errors else 200)


@require_POST
def act(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Archive, restore or delete one; say why not where it cannot be."""
    row = _found(request, team, name)
    wanted = request.POST.get("act", "")
    if wanted not in ACTS:
        raise Refusal(f"{wanted[:40]!r} is not among {', '.join(ACTS)}.", field="act")
    try:
        if wanted == "delete":
            actions.delete_environment(by=actor(request), environment=row)
        else:
            actions.archive_environment(by=actor(request), environment=row, archived=wanted == "archive")
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
        return redirect(address_of(row))
    done = {"archive": "is archived", "restore": "is offered again", "delete": "is deleted"}[wanted]
    messages.success(request, f"{row.reference} {done}.")
    return redirect("chamber:environments" if wanted == "delete" else address_of(row))


def address_of(row: Environment) -> str:
    """Return where an environment's page is. The team must be loaded."""
    return reverse("chamber:environment", args=[row.team.slug, row.name])


def _found(request: HttpRequest, team: str, name: str) -> Environment:
    reader = person(request)
    return reading.environment_for(reader, name, reading.team_for(reader, team))


def _made(request: HttpRequest, form: NewEnvironmentForm) -> Environment | None:
    try:
        team = reading.team_for(person(request), form.cleaned_data["team"])
        name = form.cleaned_data["name"]
        return actions.create_environment(by=actor(request), team=team, name=name, values=form.values())
    except Refusal as refusal:
        show_refusal(form, refusal)
        return None


def _versioned(request: HttpRequest, form: VersionForm, row: Environment) -> int:
    try:
        return actions.add_version(by=actor(request), environment=row, values=form.values()).number
    except Refusal as refusal:
        show_refusal(form, refusal)
        return 0
