"""The page on which somebody who is signed in shows that it is them, and goes on with what they were about to do."""

from typing import Any

from allauth.account.utils import get_next_redirect_url
from django import forms
from django.contrib.auth.hashers import check_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from rest_framework.exceptions import Throttled

from chamber import sign_in_trail
from chamber.authentication import TRIES_PER_NAME, bound_tries, too_many
from chamber.errors import Refusal
from chamber.factors import passkeys
from chamber.factors.adapter import WRONG_CODE
from chamber.factors.codes import LONGEST, try_code
from chamber.factors.forms import ONE_TIME
from chamber.factors.reading import FactorKind, factors_of
from chamber.forms import Form
from chamber.http import page
from chamber.models import User
from chamber.oidc.reading import providers_of
from chamber.reauthentication import HeldRequest, confirm, held, release, window_seconds
from chamber.views_sign_in import LONGEST_PASSWORD
from teams.actors import Via
from teams.views.requests import person


class PasswordAgainForm(Form):
    """The present password."""

    password = forms.CharField(
        label="Password",
        max_length=LONGEST_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )


class CodeAgainForm(Form):
    """A code of an app, or a recovery code."""

    code = forms.CharField(
        label="Code",
        max_length=LONGEST,
        help_text="Of your authenticator app, or one of your recovery codes.",
        widget=forms.TextInput(attrs={**ONE_TIME, "autofocus": False}),
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def again(request: HttpRequest) -> HttpResponse:
    """Ask for the password, a code or a passkey; a right one goes on with the request that was held."""
    user, key = person(request), request.GET.get("held", "")
    wrong = ""
    forms_of = {"password": PasswordAgainForm(), "code": CodeAgainForm()}
    if request.method == "POST":
        try:
            by = _shown_by(request, user, forms_of)
        except Refusal as refusal:
            if refusal.status == 429:
                raise
            wrong = refusal.message
        else:
            if by:
                confirm(request)
                sign_in_trail.confirmed(user, by)
                return go_on(request, release(request, key))
    kinds = {each.kind for each in factors_of(user)}
    found = held(request, key)
    context: dict[str, Any] = {
        "act": found.act if found else "",
        "minutes": window_seconds() // 60,
        "wrong": wrong,
        "password_form": forms_of["password"] if user.has_usable_password() else None,
        "code_form": forms_of["code"] if kinds - {FactorKind.PASSKEY} else None,
        "providers": providers_of(user),
        "held": key,
        "asked": passkeys.for_using(user) if FactorKind.PASSKEY in kinds and passkeys.are_possible() else "",
    }
    return page(request, "account/again.html", context, status=422 if request.method == "POST" else 200)


def _shown_by(request: HttpRequest, user: User, forms_of: dict[str, Form]) -> str:
    """Return by what the form showed that it is them; "" where it is not filled in as it has to be, which it tells.

    Raises a `Refusal` for what is wrong.
    """
    if "credential" in request.POST:
        return _by_passkey(request, user)
    name = "code" if "code" in request.POST else "password"
    form = forms_of[name] = (CodeAgainForm if name == "code" else PasswordAgainForm)(request.POST)
    if not form.is_valid():
        return ""
    if name == "code":
        return _by_code(request, user, form.cleaned_data["code"])
    require_present(request, user, form.cleaned_data["password"])
    return "password"


def require_present(request: HttpRequest, user: User, password: str) -> None:
    """Refuse a password that is not the person's; with 429 after too many tries, without a look at it."""
    try:
        bound_tries(request, "present-password", most=TRIES_PER_NAME, of=str(user.pk))
    except Throttled as error:
        raise too_many(error) from error
    if not check_password(password, user.password):
        sign_in_trail.password_refused(user)
        raise Refusal("This is not your password.", field="password")


def _by_code(request: HttpRequest, user: User, code: str) -> str:
    try:
        found = try_code(request, user, code, via=Via.PAGE, signed_in=True)
    except Throttled as error:
        raise too_many(error) from error
    if found is None:
        raise Refusal(WRONG_CODE, field="code")
    return "code"


def _by_passkey(request: HttpRequest, user: User) -> str:
    try:
        bound_tries(request, "passkey-of", most=TRIES_PER_NAME, of=str(user.pk))
        passkeys.used(user, request.POST.get("credential", "")).record_usage()
    except Throttled as error:
        raise too_many(error) from error
    except passkeys.WrongPasskey as error:
        sign_in_trail.factor_refused(user, Via.PAGE, signed_in=True)
        raise Refusal(str(error)) from error
    return "passkey"


def go_on(request: HttpRequest, found: HeldRequest | None) -> HttpResponse:
    """Go on to the page that was asked for, or send the form that was held: from a page, whose script does it."""
    if found is None:
        return redirect(get_next_redirect_url(request) or "chamber:settings")
    if found.fields is None:
        return redirect(found.path)
    return render(request, "account/go_on.html", {"held": found})
