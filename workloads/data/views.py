"""The pages of data sources: all that one may see, and one."""

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
from teams.permissions import Permission, may_anywhere, paths_where
from teams.views.requests import actor, person, team_choices
from workloads.data import actions, reading
from workloads.data.forms import LocationForm, NewSourceForm, SourceForm
from workloads.models import DataSource, SourceKind

PAGE_ROWS = 50


@require_http_methods(["GET", "HEAD", "POST"])
def sources(request: HttpRequest) -> HttpResponse:
    """List data sources, of one team where the address names it; a POST makes one."""
    reader = person(request)
    slug = request.GET.get("team", "")
    team = reading.team_for(reader, slug) if slug else None
    paths = paths_where(reader, Permission.MANAGE_CATALOGUE)
    form = NewSourceForm(
        request.POST if request.method == "POST" else None,
        teams=team_choices(paths) if paths else [],
        initial={"team": slug},
    )
    if request.method == "POST":
        if not paths:
            raise NotAllowed("Your role does not let you make data sources.")
        if form.is_valid() and (made := _made(request, form)):
            messages.success(request, f"The data source {made.reference} is made.")
            return redirect(address_of(made))
    rows = reading.sources_for(reader)
    if team is not None:
        rows = rows.filter(team=team)
    place = Paginator(rows, PAGE_ROWS).get_page(request.GET.get("page"))
    context = {
        "shown": reading.shown(place.object_list, reader),
        "place": place,
        "team": team,
        "query": urlencode({"team": slug}) if team else "",
        "form": form if paths else None,
    }
    return page(request, "workloads/data_sources.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def source(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Show one with the clusters that have it; a POST changes it."""
    row = reading.source_for(person(request), name, team)
    if request.method != "POST":
        return source_page(request, row)
    if not reading.may_change(person(request), row.team):
        raise NotAllowed(f"Your role does not let you change {row.reference}.")
    form = SourceForm(request.POST)
    if form.is_valid() and _changed(request, form, row):
        messages.success(request, f"{row.reference} is changed. What runs keeps what it was started with.")
        return redirect(address_of(row))
    return source_page(request, row, form=form)


def source_page(
    request: HttpRequest,
    row: DataSource,
    *,
    form: SourceForm | None = None,
    location_form: LocationForm | None = None,
) -> HttpResponse:
    """Show a data source, with a form that was filled in wrongly where one is given."""
    reader = person(request)
    may_operate = may_anywhere(reader, Permission.OPERATE_CLUSTERS)
    shown_form = form or SourceForm(initial={**row.details, "writable": row.writable})
    context = {
        "shown": reading.shown([row], reader)[0],
        "form": shown_form if reading.may_change(reader, row.team) else None,
        "may_operate": may_operate,
        "location_form": (location_form or LocationForm())
        if may_operate and row.kind != SourceKind.S3
        else None,
    }
    wrong = form is not None or location_form is not None
    return page(request, "workloads/data_source.html", context, status=422 if wrong else 200)


@require_POST
def delete(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Delete one; say why not where it cannot be."""
    row = reading.source_for(person(request), name, team)
    try:
        actions.delete_source(by=actor(request), source=row)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
        return redirect(address_of(row))
    messages.success(request, f"The data source {row.reference} is deleted.")
    return redirect("chamber:data-sources")


def address_of(row: DataSource) -> str:
    """Return where a data source's page is. The team must be loaded."""
    return reverse("chamber:data-source", args=[row.team.slug, row.name])


def _made(request: HttpRequest, form: NewSourceForm) -> DataSource | None:
    kind = SourceKind(form.cleaned_data["kind"])
    try:
        return actions.create_source(
            by=actor(request),
            team=reading.team_for(person(request), form.cleaned_data["team"]),
            name=form.cleaned_data["name"],
            kind=kind,
            details=form.details(kind),
            writable=form.cleaned_data["writable"],
            credential=form.cleaned_data["credential"],
        )
    except Refusal as refusal:
        show_refusal(form, refusal)
        return None


def _changed(request: HttpRequest, form: SourceForm, row: DataSource) -> bool:
    changes = {"details": form.details(SourceKind(row.kind)), "writable": form.cleaned_data["writable"]}
    try:
        actions.edit_source(by=actor(request), source=row, changes=changes)
    except Refusal as refusal:
        show_refusal(form, refusal)
        return False
    return True
