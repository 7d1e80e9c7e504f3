"""The pages of service accounts: all of them, and one with its tokens."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from chamber.errors import NotAllowed, Refusal
from chamber.http import page, posted_from, too_soon
from chamber.models import Scope, ServiceToken
from chamber.people.leaving import Leaving, find_heir
from chamber.services import actions, reading
from chamber.services.forms import (
    DisableServiceForm,
    LimitsForm,
    NewServiceForm,
    RotateForm,
    ServiceForm,
    ServiceTokenForm,
)
from chamber.tokens import TokenRequest
from chamber.words import count
from teams.forms import show_refusal
from teams.models import Role, Team
from teams.permissions import Permission, grantable_anywhere, may_anywhere, paths_where
from teams.views.requests import actor, person, team_choices, team_for
from workloads.models import Workload
from workloads.models.workload import OPEN

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A token that was just made, shown this once."""

    token: ServiceToken
    secret: str


@require_http_methods(["GET", "HEAD", "POST"])
def services(request: HttpRequest) -> HttpResponse:
    """List service accounts; a POST makes one."""
    reader = person(request)
    rows = reading.services_for(reader)
    form = _new_form(request)
    if request.method == "POST":
        if form is None:
            raise NotAllowed("Your role does not let you make service accounts: only who gives roles may.")
        if form.is_valid() and (made := _created(request, form)):
            return redirect("chamber:service-account", made)
    place = Paginator(rows, PAGE_ROWS).get_page(request.GET.get("page"))
    context = {"services": reading.shown(place.object_list, reader), "place": place, "form": form}
    status = 422 if form is not None and form.errors else 200
    return page(request, "services/list.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def service(request: HttpRequest, name: str) -> HttpResponse:
    """Show one; a POST changes its description and its team."""
    shown = reading.service_for(person(request), name)
    if request.method != "POST":
        return _service_page(request, shown)
    form = ServiceForm(request.POST, teams=_owners(request, shown.account.team))
    if form.is_valid():
        try:
            team = team_for(request, form.cleaned_data["team"])
            actions.change_service(
                by=actor(request),
                account=shown.account,
                description=form.cleaned_data["description"],
                team=team,
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"{name} is changed.")
            if reading.services_for(person(request)).filter(pk=shown.account.pk).exists():
                return redirect("chamber:service-account", name)
            return redirect("chamber:service-accounts")
    return _service_page(request, shown, form=form)


@posted_from("chamber:service-account", "name")
def make_token(request: HttpRequest, name: str) -> HttpResponse:
    """Make a token, and show its secret on the page it answers, nowhere else."""
    shown = reading.service_for(person(request), name)
    form = ServiceTokenForm(request.POST, teams=_reaches(request))
    if form.is_valid():
        values = form.cleaned_data
        try:
            team = team_for(request, values["team"]) if values["team"] else None
            wanted = TokenRequest(values["name"], Scope(values["scope"]), values["expires_in_days"], team)
            made = actions.make_token(by=actor(request), account=shown.account, wanted=wanted)
        except Refusal as refusal:
            show_refusal(form, refusal)
            return too_soon(_service_page(request, shown, token_form=form), refusal)
        else:
            return _with_secret(request, name, *made)
    return _service_page(request, shown, token_form=form)


@posted_from("chamber:service-account", "name")
def rotate_token(request: HttpRequest, name: str, token_id: uuid.UUID) -> HttpResponse:
    """Make a token in place of another, and show its secret on the page it answers."""
    shown = reading.service_for(person(request), name)
    token = reading.token_for(shown.account, token_id)
    form = RotateForm(request.POST)
    if not form.is_valid():
        return _service_page(request, shown, rotate_form=form)
    try:
        made = actions.rotate_token(
            by=actor(request), token=token, overlap_minutes=form.cleaned_data["overlap_minutes"]
        )
    except Refusal as refusal:
        return _refused(request, refusal, name)
    return _with_secret(request, name, *made)


@posted_from("chamber:service-account", "name")
def revoke_token(request: HttpRequest, name: str, token_id: uuid.UUID) -> HttpResponse:
    """Revoke a token."""
    shown = reading.service_for(person(request), name)
    token = reading.token_for(shown.account, token_id)
    actions.revoke_token(by=actor(request), token=token)
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("chamber:service-account", name)


@posted_from("chamber:service-account", "name")
def limits(request: HttpRequest, name: str) -> HttpResponse:
    """Give it limits of its own; what is empty is as everybody's."""
    shown = reading.service_for(person(request), name)
    form = LimitsForm(request.POST)
    if form.is_valid():
        actions.set_limits(by=actor(request), account=shown.account, limits=form.cleaned_data)
        messages.success(request, f"The limits of {name} are saved.")
        return redirect("chamber:service-account", name)
    return _service_page(request, shown, limits_form=form)


@posted_from("chamber:service-account", "name")
def disable(request: HttpRequest, name: str) -> HttpResponse:
    """Have its tokens let nobody in any more; do with its open workloads what was chosen."""
    shown = reading.service_for(person(request), name)
    form = DisableServiceForm(request.POST)
    if form.is_valid():
        leaving = Leaving(form.cleaned_data["workloads"])
        actions.require_manage(actor(request), shown.account)  # before anything is told of who has an account
        try:
            heir = find_heir(form.cleaned_data["to"]) if leaving is Leaving.HAND_OVER else None
            ended = actions.disable_service(
                by=actor(request), account=shown.account, workloads=leaving, heir=heir
            )
        except Refusal as refusal:
            if refusal.status in {403, 409}:
                return _refused(request, refusal, name)
            show_refusal(form, refusal, {"who": "to"})
        else:
            messages.success(request, f"{name} is disabled; {count(ended['tokens'], 'token')} revoked.")
            return redirect("chamber:service-account", name)
    return _service_page(request, shown, disable_form=form)


@posted_from("chamber:service-account", "name")
def enable(request: HttpRequest, name: str) -> HttpResponse:
    """Have it be used again."""
    shown = reading.service_for(person(request), name)
    try:
        actions.enable_service(by=actor(request), account=shown.account)
    except Refusal as refusal:
        return _refused(request, refusal, name)
    messages.success(request, f"{name} is enabled; make it a new token.")
    return redirect("chamber:service-account", name)


def _service_page(
    request: HttpRequest, shown: reading.ShownAccount, *, made: MadeToken | None = None, **forms: Any
) -> HttpResponse:
    account = shown.account
    manages = reading.may_manage(person(request), account)
    context: dict[str, Any] = {
        "shown": shown,
        "account": account,
        "made": made,
        "may_manage": manages,
        "open_workloads": Workload.objects.visible_to(request.user)
        .filter(owner=account.user_id, status__in=OPEN)
        .count(),
    }
    if manages:
        initial = {"description": account.description, "team": account.team.slug}
        context |= {
            "form": ServiceForm(teams=_owners(request, account.team), initial=initial),
            "token_form": ServiceTokenForm(teams=_reaches(request)),
            "rotate_form": RotateForm(),
            "disable_form": DisableServiceForm(),
        }
    if may_anywhere(person(request), Permission.MANAGE_PEOPLE):
        context["limits_form"] = LimitsForm(initial=account.limits or {})
    wrong = any(form.errors for form in forms.values())
    response = page(request, "services/service.html", {**context, **forms}, status=422 if wrong else 200)
    if made is not None:
        response["Cache-Control"] = "no-store"
    return response


def _with_secret(request: HttpRequest, name: str, token: ServiceToken, secret: str) -> HttpResponse:
    shown = reading.service_for(person(request), name)
    return _service_page(request, shown, made=MadeToken(token, secret))


def _new_form(request: HttpRequest) -> NewServiceForm | None:
    """Return the form by which one is made; None where the reader's role gives nobody a role."""
    reader = person(request)
    paths = paths_where(reader, Permission.MANAGE_MEMBERS)
    if not paths:
        return None
    roles = [(role.value, role.label) for role in grantable_anywhere(reader)]
    data = request.POST if request.method == "POST" else None
    return NewServiceForm(
        data, teams=team_choices(paths), roles=roles, initial={"team": request.GET.get("team", "")}
    )


def _created(request: HttpRequest, form: NewServiceForm) -> str:
    """Make the service account that the form describes; return its name, "" where it is refused."""
    values = dict(form.cleaned_data)
    slug, role = values.pop("team"), values.pop("role")
    try:
        made = actions.create_service(
            by=actor(request), team=team_for(request, slug), role=Role(role) if role else None, **values
        )
    except Refusal as refusal:
        if refusal.status == 403:
            form.add_error("role" if role else "team", refusal.message)
        else:
            show_refusal(form, refusal)
        return ""
    messages.success(request, f"{made.name} is made. Make it a token.")
    return made.name


def _owners(request: HttpRequest, team: Team) -> list[tuple[str, str]]:
    """Return the teams that may own it; the present one too, were it archived."""
    found = team_choices(paths_where(person(request), Permission.MANAGE_MEMBERS))
    return found if team.slug in dict(found) else [(team.slug, team.name), *found]


def _reaches(request: HttpRequest) -> list[tuple[str, str]]:
    return team_choices(paths_where(person(request), Permission.VIEW_TEAM))


def _refused(request: HttpRequest, refusal: Refusal, name: str) -> HttpResponse:
    """Say on its page why something was not done."""
    if refusal.status in {403, 404}:
        raise refusal
    messages.error(request, refusal.message)
    return redirect("chamber:service-account", name)
