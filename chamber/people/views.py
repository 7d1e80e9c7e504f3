"""The pages of people: all of them, one of them, and the page behind a link."""

from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST
from rest_framework.exceptions import Throttled

from chamber import sessions
from chamber.authentication import TRIES_PER_NAME, bound_tries, too_many
from chamber.errors import NotAllowed, Refusal
from chamber.factors import actions as factors
from chamber.factors.reading import factors_of
from chamber.http import page
from chamber.models import LinkPurpose, User
from chamber.oidc import admission
from chamber.oidc.providers import providers
from chamber.oidc.reading import accounts_of
from chamber.people import actions, notices, reading
from chamber.people.actions import Made
from chamber.people.forms import STATE_NAMES, DisableForm, InviteForm, LinkForm, PersonForm, RoleForm
from chamber.people.leaving import Leaving, find_heir
from chamber.people.mail import Delivered, bound, deliver, not_mailed, tell_old_address
from chamber.scim.reading import kept
from chamber.sessions import HELD_LINK
from chamber.words import count
from teams.forms import show_refusal
from teams.models import Binding, Role
from teams.permissions import Permission, grantable, grantable_anywhere, may_anywhere, paths_where
from teams.views.requests import actor, person, team_choices, team_for
from workloads.models import Workload
from workloads.models.workload import OPEN

PAGE_ROWS = 50
FACTOR = {"yes": True, "no": False}
"""What the filter by second factors may be, besides nothing."""
HELD = "password"
"""Stands in the address for the secret that the session holds."""


@require_http_methods(["GET", "HEAD", "POST"])
def people(request: HttpRequest) -> HttpResponse:
    """List people; a POST makes an account, and shows its link on the page it answers where it was not mailed."""
    reader = person(request)
    rows = reading.people_for(reader)
    form, made, delivered = _invite_form(request), None, Delivered()
    if request.method == "POST":
        if form is None:
            raise gives_no_role()
        if form.is_valid():
            made = _invited(request, form)
        if made is not None:
            delivered, form = deliver(made, request, by=actor(request)), _invite_form(request, fresh=True)
    powers = _powers(request)
    text, state = request.GET.get("q", "")[:100], request.GET.get("state", "")
    factor = request.GET.get("factor", "") if powers["may_manage"] else ""
    wrong: Refusal | None = None
    try:
        rows = reading.matching(rows, text=text, state=state, factor=FACTOR.get(factor))
    except Refusal as refusal:
        wrong, rows = refusal, rows.none()
    shown = Paginator(rows.order_by("username"), PAGE_ROWS).get_page(request.GET.get("page"))
    found = reading.shown(shown.object_list, reader)
    context = {
        "people": found,
        "place": shown,
        "query": urlencode({"q": text, "state": state, "factor": factor}),
        "q": text,
        "state": state,
        "factor": factor,
        "states": STATE_NAMES,
        "wrong": wrong,
        "form": form,
        "made": made,
        "delivered": delivered,
        "not_mailed": not_mailed(made) if made else "",
        **powers,
    }
    status = 422 if wrong or (form is not None and form.errors) else 200
    return _once(page(request, "people/list.html", context, status=status), delivered.url)


@require_http_methods(["GET", "HEAD", "POST"])
def one(request: HttpRequest, username: str) -> HttpResponse:
    """Show a person; a POST changes their name and address."""
    shown = reading.person_for(person(request), username)
    initial = {"name": shown.user.get_full_name(), "email": shown.user.email}
    form = PersonForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            changed = actions.change(by=actor(request), user=shown.user, **form.cleaned_data)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            tell_old_address(request, changed, shown.user.email)
            messages.success(request, f"{username} is changed.")
            return redirect("chamber:person", username)
    return person_page(request, shown, form=form)


@require_POST
def link(request: HttpRequest, username: str) -> HttpResponse:
    """Make another link for somebody; mail it, or show it on the page it answers."""
    shown = reading.person_for(person(request), username)
    mailed = settings.MAIL and bool(shown.user.email) and request.POST.get("show") != "1"
    try:
        actions.require_link(actor(request), shown.user)
        if mailed:
            bound(request, "links", by=person(request), to=shown.user.email)
        made = actions.new_link(by=actor(request), user=shown.user, mailed=mailed)
    except Refusal as refusal:
        return _refused(request, refusal, username)
    delivered = deliver(made, request, by=actor(request))
    if not delivered.url:
        if delivered.mailed_to:
            messages.success(request, f"A link is mailed to {delivered.mailed_to}.")
        else:
            messages.error(request, not_mailed(made))
        return redirect("chamber:person", username)
    shown = reading.person_for(person(request), username)
    return _once(person_page(request, shown, made=made, delivered=delivered), delivered.url)


@require_POST
def disable(request: HttpRequest, username: str) -> HttpResponse:
    """Put somebody out; do with their open workloads what was chosen."""
    shown = reading.person_for(person(request), username)
    form = DisableForm(request.POST)
    if form.is_valid():
        leaving = Leaving(form.cleaned_data["workloads"])
        actions.require_people(actor(request))  # before anything is told of who has an account
        try:
            heir = find_heir(form.cleaned_data["to"]) if leaving is Leaving.HAND_OVER else None
            ended = actions.disable(by=actor(request), user=shown.user, workloads=leaving, heir=heir)
        except Refusal as refusal:
            if refusal.status == 409:
                return _refused(request, refusal, username)
            show_refusal(form, refusal, {"who": "to"})
        else:
            messages.success(request, f"{username} is disabled; {_told(ended)}.")
            return redirect("chamber:person", username)
    return person_page(request, shown, disable_form=form)


@require_POST
def enable(request: HttpRequest, username: str) -> HttpResponse:
    """Let somebody in again."""
    shown = reading.person_for(person(request), username)
    try:
        actions.enable(by=actor(request), user=shown.user)
    except Refusal as refusal:
        return _refused(request, refusal, username)
    messages.success(request, f"{username} can sign in again.")
    return redirect("chamber:person", username)


@require_POST
def end_sessions(request: HttpRequest, username: str) -> HttpResponse:
    """End all sessions of somebody, and revoke their tokens."""
    shown = reading.person_for(person(request), username)
    try:
        actions.end_sessions(by=actor(request), user=shown.user, tokens=True)
    except Refusal as refusal:
        return _refused(request, refusal, username)
    messages.success(request, f"All sessions and tokens of {username} are ended.")
    return redirect("chamber:person", username)


@require_POST
def reset_factors(request: HttpRequest, username: str) -> HttpResponse:
    """Remove the second factors of somebody who lost theirs, and end their sessions."""
    shown = reading.person_for(person(request), username)
    try:
        removed = factors.reset(by=actor(request), user=shown.user)
    except Refusal as refusal:
        return _refused(request, refusal, username)
    notices.tell(request, shown.user, *factors.told_of_reset(removed))
    messages.success(
        request, f"{count(removed, 'second factor')} of {username} removed; all sessions are ended."
    )
    return redirect("chamber:person", username)


@require_POST
def unlink(request: HttpRequest, username: str, provider_id: str) -> HttpResponse:
    """Have an identity provider vouch for somebody no more."""
    shown = reading.person_for(person(request), username)
    try:
        admission.unlink(by=actor(request), user=shown.user, provider_id=provider_id)
    except Refusal as refusal:
        return _refused(request, refusal, username)
    messages.success(request, f"{username} does not sign in by {provider_id} any more.")
    return redirect("chamber:person", username)


@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Let whoever has a link set the password that it is for; 410 where it is of no use.

    The secret is kept in the session meanwhile: what is sent goes to an address without it, which logs may name.
    """
    try:
        bound_tries(request, "link", counts=False)
    except Throttled as error:
        raise too_many(error) from error
    if secret != HELD:
        return _held(request, secret)
    secret = str(request.session.get(HELD_LINK, ""))
    context: dict[str, Any] = {"form": LinkForm(request.POST if request.method == "POST" else None)}
    try:
        context["link"] = found = actions.find_link(secret)
        if found.purpose == LinkPurpose.INVITATION and found.user.email:
            context["providers"] = providers()
        if request.method == "POST":
            _bound_use(request, secret)
        if request.method == "POST" and context["form"].is_valid():
            user = actions.use_link(secret=secret, password=context["form"].cleaned_data["password1"])
            if context["link"].purpose == LinkPurpose.RESET:
                notices.password_changed(request, user, by_link=True)
            del request.session[HELD_LINK]
            messages.success(request, f"Your password is set. Sign in as {user.username}.")
            return redirect("account_login")
    except Refusal as refusal:
        if refusal.status == 410:
            return _gone(request, refusal)
        if refusal.status == 429:
            raise
        show_refusal(context["form"], refusal)
    status = 422 if context["form"].errors else 200
    return _once(page(request, "people/link.html", context, status=status), secret)


def _held(request: HttpRequest, secret: str) -> HttpResponse:
    """Go on at the address without the secret; 410 where it is of no use."""
    try:
        actions.find_link(secret)
    except Refusal as refusal:
        return _gone(request, refusal)
    request.session[HELD_LINK] = secret
    return redirect("chamber:link", HELD)


def _bound_use(request: HttpRequest, secret: str) -> None:
    """Count a password that is sent with a good link: judging one takes time."""
    try:
        bound_tries(request, "link-use", most=TRIES_PER_NAME, of=secret)
    except Throttled as error:
        raise too_many(error) from error


def _gone(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    request.session.pop(HELD_LINK, None)
    with suppress(Throttled):  # the next one is told
        bound_tries(request, "link")
    return page(request, "people/link.html", {"gone": refusal}, status=410)


def person_page(request: HttpRequest, shown: reading.ShownPerson, **more: Any) -> HttpResponse:
    """Render a person's page; `more` are forms that were refused, or a link that is shown this once."""
    powers, reader = _powers(request), person(request)
    if powers["may_manage"]:
        more["sessions"] = sessions.of(shown.user)
        more["factors"] = factors_of(shown.user)
        more["accounts"] = accounts_of(shown.user)
        more["kept"] = kept(shown.user)
        tokens = shown.user.api_tokens.filter(revoked_at=None)
        more["tokens"] = tokens.select_related("team").order_by("-created_at")
        more["open_workloads"] = Workload.objects.filter(owner=shown.user, status__in=OPEN).count()
    context = {
        "shown": shown,
        "may_link": actions.may_link(reader, shown.user),
        "state_name": STATE_NAMES[shown.state],
        "disable_form": DisableForm(),
        "role_form": role_form(reader) if shown.user.is_active else None,
        "takes": {each.pk for each in shown.roles if each.group is None and may_take(reader, each)},
        **powers,
        **more,
    }
    context.setdefault(
        "form", PersonForm(initial={"name": shown.user.get_full_name(), "email": shown.user.email})
    )
    forms = (context["form"], context["disable_form"], context["role_form"])
    wrong = any(form is not None and form.errors for form in forms)
    return page(request, "people/person.html", context, status=422 if wrong else 200)


def role_form(reader: User, data: Any = None) -> RoleForm | None:
    """Return the form by which the reader gives somebody a role; None where theirs gives none."""
    paths = paths_where(reader, Permission.MANAGE_MEMBERS)
    roles = [(role.value, role.label) for role in grantable_anywhere(reader)]
    return RoleForm(data, teams=team_choices(paths), roles=roles) if paths and roles else None


def may_take(reader: User, binding: Binding) -> bool:
    """Return whether the reader may take this role away, as far as their own role says."""
    return Role(binding.role) in grantable(reader, binding.team)


def _told(ended: dict[str, int]) -> str:
    return f"{count(ended['sessions'], 'session')} and {count(ended['tokens'], 'token')} ended"


def _invite_form(request: HttpRequest, *, fresh: bool = False) -> InviteForm | None:
    """Return the form by which the reader lets somebody in; None where their role gives nobody a role."""
    reader = person(request)
    paths = paths_where(reader, Permission.MANAGE_MEMBERS)
    if not paths:
        return None
    manages = may_anywhere(reader, Permission.MANAGE_PEOPLE)
    roles = [(role.value, role.label) for role in grantable_anywhere(reader)]
    data = request.POST if request.method == "POST" and not fresh else None
    return InviteForm(
        data, teams=team_choices(paths), roles=roles, mail=settings.MAIL, needs_team=not manages
    )


def _invited(request: HttpRequest, form: InviteForm) -> Made | None:
    """Make the account that the form describes; None where it is refused."""
    values = dict(form.cleaned_data)
    slug, role = values.pop("team"), values.pop("role")
    try:
        team = team_for(request, slug) if slug else None
        given = Role(role) if role else None
        actions.require_invite(actor(request), team, given)
        if settings.MAIL and values["email"]:
            bound(request, "links", by=person(request), to=values["email"])
        return actions.invite(
            by=actor(request),
            team=team,
            role=given,
            mailed=settings.MAIL and bool(values["email"]),
            **values,
        )
    except Refusal as refusal:
        if refusal.status == 429:
            raise
        if refusal.status == 403:
            form.add_error("role", refusal.message)
        else:
            show_refusal(form, refusal)
    return None


def gives_no_role() -> Refusal:
    """Return what whoever invites nobody is told."""
    return NotAllowed("Your role does not let you invite anybody: only who gives roles may.")


def _powers(request: HttpRequest) -> dict[str, Any]:
    return {"may_manage": may_anywhere(person(request), Permission.MANAGE_PEOPLE), "mail": settings.MAIL}


def _refused(request: HttpRequest, refusal: Refusal, username: str) -> HttpResponse:
    """Say on the person's page why something was not done."""
    if refusal.status in {403, 404, 429}:
        raise refusal
    messages.error(request, refusal.message)
    return redirect("chamber:person", username)


def _once(response: HttpResponse, secret: str) -> HttpResponse:
    """Have nobody keep a page that shows a secret."""
    if secret:
        response["Cache-Control"] = "no-store"
    return response
