"""Second factors on the page Settings: a list, and adding, naming and removing one."""

from base64 import b64encode

from allauth.mfa.adapter import get_adapter
from allauth.mfa.totp.internal.auth import generate_totp_secret
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST
from rest_framework.exceptions import Throttled

from chamber import encryption
from chamber.authentication import TRIES_PER_NAME, bound_tries, too_many
from chamber.errors import Conflict, Refusal
from chamber.factors import actions, passkeys
from chamber.factors.actions import Added
from chamber.factors.forms import AppForm, NameForm, PasskeyForm
from chamber.factors.reading import FactorKind, factor_of, factors_of
from chamber.http import page, posted_from
from chamber.oidc.reading import comes_by_providers_only
from chamber.people.notices import tell
from chamber.templatetags.chamber_ui import device
from teams.forms import show_refusal
from teams.views.requests import actor, person

HELD_SECRET = "factor-app"  # noqa: S105 - a key of the session
"""Of a session: the encrypted secret of the app that is being added."""


@require_http_methods(["GET", "HEAD"])
def factors(request: HttpRequest) -> HttpResponse:
    """List one's own second factors."""
    found = factors_of(person(request))
    context = {
        "apps": [each for each in found if each.kind is FactorKind.APP],
        "passkeys": [each for each in found if each.kind is FactorKind.PASSKEY],
        "codes": next((each for each in found if each.kind is FactorKind.RECOVERY_CODES), None),
        "may_have_passkeys": passkeys.are_possible(),
    }
    return page(request, "factors/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def app(request: HttpRequest) -> HttpResponse:
    """Show the secret of a new authenticator app; a POST adds the app by a code that it shows."""
    user = person(request)
    if any(each.kind is FactorKind.APP for each in factors_of(user)):
        raise Conflict("You have an authenticator app already: remove that one first.")
    form = AppForm(request.POST if request.method == "POST" else None)
    secret = _secret(request, fresh=request.method != "POST")
    if request.method == "POST" and form.is_valid():
        _bound(request)
        try:
            added = actions.add_app(by=actor(request), secret=secret, code=form.cleaned_data["code"])
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            request.session.pop(HELD_SECRET, None)
            return _show_added(request, added, "An authenticator app was added.")
    url = get_adapter().build_totp_url(user, secret)
    picture = b64encode(get_adapter().build_totp_svg(url).encode()).decode()
    context = {"form": form, "secret": secret, "picture": f"data:image/svg+xml;base64,{picture}", "url": url}
    return _unkept(page(request, "factors/app.html", context, status=422 if form.errors else 200))


@require_http_methods(["GET", "HEAD", "POST"])
def passkey(request: HttpRequest) -> HttpResponse:
    """Have the browser make a passkey; a POST adds it."""
    user = person(request)
    initial = {"name": device(request.headers.get("User-Agent", "")), "alone": True}
    form = PasskeyForm(request.POST if request.method == "POST" else None, initial=initial)
    if comes_by_providers_only(user):
        del form.fields["alone"]
    if request.method == "POST" and form.is_valid():
        values = {"alone": False, **form.cleaned_data}
        _bound(request)
        try:
            made = passkeys.added(values["credential"], alone=values["alone"])
            added = actions.add_passkey(
                by=actor(request), name=values["name"], credential=made, alone=values["alone"]
            )
        except passkeys.WrongPasskey as wrong:
            form.add_error(None, str(wrong))
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            return _show_added(request, added, "A passkey was added.")
    context = {"form": form, "asked": passkeys.for_adding(user), "possible": passkeys.are_possible()}
    return _unkept(page(request, "factors/passkey.html", context, status=422 if form.errors else 200))


@posted_from("chamber:factors")
def codes(request: HttpRequest) -> HttpResponse:
    """Make recovery codes, and show them on the page that this answers, nowhere else."""
    made = actions.new_codes(by=actor(request))
    told = "New recovery codes were made; those of before are of no use."
    tell(request, person(request), "New recovery codes were made for your account", told)
    return _show_codes(request, made)


@require_POST
def rename(request: HttpRequest, factor_id: int) -> HttpResponse:
    """Give a passkey another name."""
    factor = factor_of(person(request), factor_id, FactorKind.PASSKEY)
    form = NameForm(request.POST)
    if not form.is_valid():
        raise Refusal(" ".join(str(text) for texts in form.errors.values() for text in texts))
    actions.rename_passkey(by=actor(request), factor=factor, name=form.cleaned_data["name"])
    messages.success(request, f"The passkey is named {form.cleaned_data['name']}.")
    return redirect("chamber:factors")


@require_POST
def remove(request: HttpRequest, factor_id: int) -> HttpResponse:
    """Remove an app or a passkey."""
    factor = factor_of(person(request), factor_id)
    try:
        actions.remove(by=actor(request), factor=factor)
    except Refusal as refusal:
        messages.error(request, refusal.message)
        return redirect("chamber:factors")
    tell(request, person(request), "A second factor was removed")
    messages.success(request, "The second factor is removed.")
    return redirect("chamber:factors")


def _secret(request: HttpRequest, *, fresh: bool) -> str:
    """Return the secret of the app that is being added: a new one, or that of the page that was sent."""
    held = str(request.session.get(HELD_SECRET, ""))
    if held and not fresh:
        return encryption.decrypt(held)
    secret: str = generate_totp_secret()
    request.session[HELD_SECRET] = encryption.encrypt(secret)
    return secret


def _bound(request: HttpRequest) -> None:
    try:
        bound_tries(request, "add-factor", most=TRIES_PER_NAME, of=str(person(request).pk))
    except Throttled as error:
        raise too_many(error) from error


def _show_added(request: HttpRequest, added: Added, what: str) -> HttpResponse:
    """Say that a factor was added; show the recovery codes where they came with it."""
    tell(request, person(request), what.rstrip("."))
    messages.success(request, what)
    return _show_codes(request, added.codes) if added.codes else redirect("chamber:factors")


def _show_codes(request: HttpRequest, made: list[str]) -> HttpResponse:
    return _unkept(page(request, "factors/codes.html", {"codes": made}))


def _unkept(response: HttpResponse) -> HttpResponse:
    """Have nobody keep a page that shows a secret."""
    response["Cache-Control"] = "no-store"
    return response
