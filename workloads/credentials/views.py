"""The pages of credentials: all that one may see, and one. Values are typed here and never shown."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from chamber import invalid
from chamber.errors import NotAllowed, Refusal
from chamber.http import page
from teams.forms import show_refusal
from teams.permissions import Permission, paths_where
from teams.views.requests import actor, person, team_choices, team_for
from workloads.credentials import actions, keys, reading
from workloads.credentials.forms import NewCredentialForm, ValuesForm
from workloads.models import Credential, CredentialKind

PAGE_ROWS = 50


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def credentials(request: HttpRequest) -> HttpResponse:
    """List credentials, of one team where the address names it; a POST makes one."""
    reader = person(request)
    slug = request.GET.get("team", "")
    team = team_for(request, slug) if slug else None
    kind = _kind(request)
    choices = team_choices(paths_where(reader, Permission.MANAGE_CREDENTIALS))
    is_made = request.method == "POST"
    form = NewCredentialForm(
        request.POST if is_made else None,
        request.FILES if is_made else None,
        kind=kind,
        teams=choices,
        initial={"team": slug},
    )
    if is_made and form.is_valid() and (made := _made(request, form)):
        messages.success(request, f"The credential {made.reference} is made.")
        return redirect(address_of(made))
    rows = reading.credentials_for(reader) if team is None else reading.of_team(reader, team)
    place = Paginator(rows, PAGE_ROWS).get_page(request.GET.get("page"))
    context = {
        "shown": [(each, address_of(each.row)) for each in reading.shown(place.object_list, reader)],
        "place": place,
        "query": urlencode({"team": slug}) if team else "",
        "team": team,
        "form": form,
        "kinds": CredentialKind.choices,
        "kind": kind,
        "has_key": keys.is_there(),
    }
    return page(request, "workloads/credentials.html", context, status=422 if form.errors else 200)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def credential(request: HttpRequest, name: str, team: str = "") -> HttpResponse:
    """Show one; a POST gives it other values."""
    row = _found(request, name, team)
    kind = CredentialKind(row.kind)
    initial = {key: _line(value) for key, value in row.details.items()}
    form = ValuesForm(request.POST or None, request.FILES or None, kind=kind, initial=initial)
    if request.method == "POST":
        form = ValuesForm(request.POST, request.FILES, kind=kind, initial=initial)
        if not _may_change(request, row):
            raise NotAllowed(f"Your role does not let you change {row.reference}.")
        if form.is_valid() and _replaced(request, form, row):
            messages.success(request, f"{row.reference} has other values. What runs keeps those of before.")
            return redirect(address_of(row))
    context = {
        "shown": reading.shown([row], person(request))[0],
        "form": form if _may_change(request, row) else None,
        "address": address_of(row),
    }
    return page(request, "workloads/credential.html", context, status=422 if form.errors else 200)


@require_POST
def delete(request: HttpRequest, name: str, team: str = "") -> HttpResponse:
    """Delete one and go back to the list."""
    row = _found(request, name, team)
    actions.delete_credential(by=actor(request), credential=row)
    messages.success(request, f"The credential {row.reference} is deleted.")
    return redirect("chamber:credentials")


def address_of(row: Credential) -> str:
    """Return where a credential's page is. The team must be loaded."""
    if row.team is None:
        return reverse("chamber:credential", args=[row.name])
    return reverse("chamber:team-credential", args=[row.team.slug, row.name])


def _found(request: HttpRequest, name: str, team: str) -> Credential:
    return reading.credential_for(person(request), name, team_for(request, team) if team else None)


def _may_change(request: HttpRequest, row: Credential) -> bool:
    return row.team is None or reading.may_manage(person(request), row.team)


def _kind(request: HttpRequest) -> CredentialKind:
    """Return of which type the form is; the first where none is said."""
    given = request.POST.get("type") or request.GET.get("type") or CredentialKind.TOKEN.value
    if given not in CredentialKind.values:
        raise Refusal(invalid.not_among("type", given, CredentialKind.values), field="type")
    return CredentialKind(given)


def _made(request: HttpRequest, form: NewCredentialForm) -> Credential | None:
    slug = form.cleaned_data["team"]
    try:
        return actions.create_credential(
            by=actor(request),
            name=form.cleaned_data["name"],
            kind=form.kind,
            content=form.content(),
            team=team_for(request, slug) if slug else None,
        )
    except Refusal as refusal:
        show_refusal(form, _labelled(form, refusal))
        return None


def _replaced(request: HttpRequest, form: ValuesForm, row: Credential) -> bool:
    try:
        actions.replace_values(by=actor(request), credential=row, content=form.content())
    except Refusal as refusal:
        show_refusal(form, _labelled(form, refusal))
        return False
    return True


def _labelled(form: ValuesForm, refusal: Refusal) -> Refusal:
    """Return a refusal whose sentences call the parts as the form does."""
    if not refusal.fields or refusal.status in {403, 404}:
        return refusal
    told = {
        name: f"{form.fields[name].label}{text.removeprefix(name)}"
        if name in form.fields and text.startswith(f"{name} ")
        else text
        for name, text in refusal.fields.items()
    }
    return Refusal(refusal.message, fields=told, code=refusal.code)


def _line(value: Any) -> Any:
    return "\n".join(f"{name}={key}" for name, key in value.items()) if isinstance(value, dict) else value
