"""Signing in and out, a forgotten password, a new one, an address to confirm: allauth's views in Chamber's words."""

from typing import TYPE_CHECKING, Any, cast

from allauth.account import views
from allauth.account.forms import ChangePasswordForm, LoginForm, ResetPasswordForm, ResetPasswordKeyForm
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from rest_framework.exceptions import Throttled

from chamber import live, sign_in_trail
from chamber.authentication import SIGN_IN_WINDOW_SECONDS, TRIES_PER_NAME, bound_tries, too_many
from chamber.errors import Conflict, NotVisible, Refusal
from chamber.factors import passkeys
from chamber.forms import Sentences
from chamber.fragments import forget_session
from chamber.middleware import NOT_DONE, NOT_SENT
from chamber.names import user_of_address
from chamber.oidc import sessions as provided
from chamber.oidc.providers import providers
from chamber.oidc.reading import comes_by_providers_only
from chamber.oidc.sign_out import end_there, leaving
from chamber.people import notices
from chamber.people.mail import bound_mails_to
from chamber.people.reading import is_invited
from chamber.tokens import revoke_all
from chamber.words import count

if TYPE_CHECKING:
    from chamber.models import User

LONGEST_PASSWORD = 1000
WRONG_PRESENT = "enter_current_password"
"""The code of the error that tells it."""
RESETS_PER_NAME = 3
"""Mails to one address in the window of tries."""


def _bounded(form: BaseForm) -> None:
    """Have the fields of a form of allauth as Chamber's look, and take no password that only costs time."""
    for name, field in form.fields.items():
        field.widget.attrs.pop("placeholder", None)
        if "password" in name:
            field.max_length = LONGEST_PASSWORD  # type: ignore[attr-defined]  # a CharField's
            field.widget.attrs["maxlength"] = LONGEST_PASSWORD


class SignInForm(Sentences, LoginForm):
    """User name or e-mail address, and password; refused without a look at the password after too many tries."""

    wait_seconds: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _bounded(self)
        self.fields["login"].label = "User name or e-mail address"
        self.fields["login"].max_length = 254  # type: ignore[attr-defined]  # a CharField's
        self.fields["login"].widget.attrs.update(autocomplete="username", autofocus=True, maxlength=254)
        self.fields["password"].help_text = ""

    def clean(self) -> Any:
        """Find the person; a wrong pair and too many tries are errors of the whole form."""
        if len(self.data.get("password", "")) > LONGEST_PASSWORD:
            raise ValidationError(f"A password has at most {LONGEST_PASSWORD:,} characters.")
        try:
            return super().clean()
        except Throttled as error:
            self.wait_seconds = getattr(error, "wait", SIGN_IN_WINDOW_SECONDS)
            raise ValidationError(str(error.detail)) from error


class SignInPage(views.LoginView):
    """The sign-in page, answering 422 for a wrong pair and 429 with Retry-After after too many tries."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Say whether a forgotten password can be mailed for, and browsers have passkeys for this server."""
        return {
            **super().get_context_data(**kwargs),
            "mail": settings.MAIL,
            "not_done": NOT_DONE if NOT_SENT in self.request.GET else "",
            "passkeys": passkeys.are_possible(),
            "providers": providers(),
        }

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Show the form again with what is wrong."""
        response: HttpResponse = super().form_invalid(form)
        wait = form.wait_seconds if isinstance(form, SignInForm) else None
        response.status_code = 422 if wait is None else 429
        if wait is not None:
            response["Retry-After"] = str(wait)
        return response


class SignOut(views.LogoutView):
    """The end of a session; its other open pages are closed, and get no part any more."""

    http_method_names = ["post", "options"]

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        """End the session, then say so."""
        key, user = self.request.session.session_key, self.request.user
        there = provided.of(self.request)
        if user.is_authenticated:
            sign_in_trail.signed_out(user)
        response: HttpResponse = super().post(*args, **kwargs)
        if key:
            forget_session(key)
            live.announce(live.session_topic(key))
            live.flush()  # no process may take the session for open once this is answered
        url = end_there(self.request, there) if there else ""
        return leaving(self.request, url, there.provider, signed_out=True) if there and url else response


class _WithMail:
    """A page that there is only where mail can be sent."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Refuse where none can be."""
        if not settings.MAIL:
            raise NotVisible("This server sends no mail: ask an organisation admin for a link.")
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc,no-any-return]  # of a view


class ForgottenForm(Sentences, ResetPasswordForm):
    """The address to which a link is sent, where it is somebody's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _bounded(self)
        self.fields["email"].label = "E-mail address"

    def clean_email(self) -> str:
        """Find whose address it is; one that waits to be confirmed is nobody's.

        Who was invited and never signed in has no password to forget: the address may be that of whoever typed it. Nor
        has who signs in by a provider: with one they would still be let in where that lets them in no more.
        """
        email: str = self.cleaned_data["email"]
        user = user_of_address(email)
        has_none = user is None or is_invited(user) or comes_by_providers_only(user)
        self.users = [user] if user is not None and user.is_active and not has_none else []
        return email


@method_decorator(login_not_required, name="dispatch")
class Forgotten(_WithMail, views.PasswordResetView):
    """Sends a link for a new password, and says the same whether or not there is such an account."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = ForgottenForm

    def form_valid(self, form: BaseForm) -> HttpResponse:
        """Send the link, unless very many were asked for."""
        try:
            bound_tries(self.request, "reset")
            bound_tries(self.request, "reset-name", most=RESETS_PER_NAME, of=form.cleaned_data["email"])
            bound_mails_to(self.request, form.cleaned_data["email"])
        except Throttled as error:
            form.add_error(None, str(error.detail))
            response = self.form_invalid(form)
            response.status_code, response["Retry-After"] = 429, _wait(error)
            return response
        sign_in_trail.reset_asked(next(iter(cast("ForgottenForm", form).users), None))
        return super().form_valid(form)  # type: ignore[no-any-return]  # allauth's

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Show the form again with what is wrong."""
        return _wrong(super().form_invalid(form))


@method_decorator(login_not_required, name="dispatch")
class ForgottenSent(_WithMail, views.PasswordResetDoneView):
    """Says that the mail is on its way."""

    http_method_names = ["get", "head", "options"]


class NewPasswordForm(Sentences, ResetPasswordKeyForm):
    """A new password, twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _twice(self)


@method_decorator(login_not_required, name="dispatch")
class NewPassword(views.PasswordResetFromKeyView):
    """Sets a new password for who followed a mailed link; used or too old, it says so with 410."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = NewPasswordForm
    success_url = reverse_lazy("account_login")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Bound how many links are tried."""
        if str(request.method).lower() not in self.http_method_names:
            return self.http_method_not_allowed(request)  # type: ignore[no-any-return]  # allauth's
        try:
            bound_tries(request, "reset-key")
        except Throttled as error:
            raise too_many(error) from error
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        if getattr(self, "reset_user", None) is None and response.status_code == 200:
            response.status_code = 410
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name whose link it is, for the meter beside the password."""
        return {**super().get_context_data(**kwargs), "uidb36": self.kwargs["uidb36"]}

    def form_valid(self, form: BaseForm) -> HttpResponse:
        """Set it; whoever was put out meanwhile is not let in by it."""
        if not self.reset_user.is_active:
            raise Refusal("This account is disabled: ask an organisation admin.")
        response: HttpResponse = super().form_valid(form)
        notices.password_changed(self.request, self.reset_user, by_link=True)
        messages.success(self.request, "The new password is set; sign in with it.")
        return response

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Show the form again with what is wrong."""
        return _wrong(super().form_invalid(form))


class ChangeForm(Sentences, ChangePasswordForm):
    """The present password, and a new one twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _twice(self)
        self.fields["oldpassword"].label = "Present password"
        self.fields["oldpassword"].help_text = ""
        self.fields["revoke"] = forms.BooleanField(
            label="Revoke my access tokens too",
            required=False,
            help_text="Where somebody else may know the password: they may have made some.",
        )


class ChangePassword(views.PasswordChangeView):
    """Changes one's own password, which ends all other sessions of one's own."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = ChangeForm
    success_url = reverse_lazy("chamber:settings")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Refuse who has none to change."""
        if str(request.method).lower() not in self.http_method_names:
            return self.http_method_not_allowed(request)  # type: ignore[no-any-return]  # allauth's
        if request.user.is_authenticated and not request.user.has_usable_password():
            raise Conflict(
                "Your account has no password to change: ask an organisation admin for a link to set one."
            )
        return super().dispatch(request, *args, **kwargs)  # type: ignore[no-any-return]  # allauth's

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Refuse too many tries without a look at the password: whoever has the session need not know it."""
        try:
            bound_tries(request, "present-password", most=TRIES_PER_NAME, of=str(request.user.pk))
        except Throttled as error:
            raise too_many(error) from error
        return super().post(request, *args, **kwargs)  # type: ignore[no-any-return]  # allauth's

    def form_valid(self, form: BaseForm) -> HttpResponse:
        """Change it and say so; revoke tokens where that was asked for."""
        user, ended = cast("User", self.request.user), "your other sessions"
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            if form.cleaned_data["revoke"]:
                revoked = revoke_all(user)
                sign_in_trail.tokens_revoked(user, revoked)
                ended += f" and {count(revoked, 'token')}"
        notices.password_changed(self.request, user)
        messages.success(self.request, f"Your password is changed; {ended} are ended.")
        return response

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Show the form again with what is wrong, and note a wrong password."""
        if form.has_error("oldpassword", code=WRONG_PRESENT):
            sign_in_trail.password_refused(cast("User", self.request.user))
        return _wrong(super().form_invalid(form))


class ConfirmAddress(views.ConfirmEmailView):
    """Asks who followed a mailed link to confirm that the address is theirs; 410 where it is of no use."""

    http_method_names = ["get", "head", "post", "options"]
    template_name = "account/email_confirm.html"

    def get(self, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the button that confirms it."""
        response: HttpResponse = super().get(*args, **kwargs)
        if self.object is None:
            response.status_code = 410
        return response

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        """Confirm it."""
        try:
            response: HttpResponse = super().post(*args, **kwargs)
        except Http404:
            response = self.get(*args, **kwargs)
        return response

    def logout_other_user(self, confirmation: object) -> None:
        """Leave whoever reads this signed in: the address is another's, their session is their own."""

    def respond(self, success: bool) -> HttpResponse:
        """Say what came of it."""
        if success:
            messages.success(self.request, f"{self.object.email_address.email} is confirmed.")
        else:
            messages.error(
                self.request, "This address belongs to another account; yours keeps the one it had."
            )
        return redirect("chamber:settings" if self.request.user.is_authenticated else "account_login")


def _twice(form: BaseForm) -> None:
    _bounded(form)
    form.fields["password1"].label = "New password"
    form.fields[
        "password1"
    ].help_text = "12 to 128 characters, not easily guessed: several uncommon words, say."
    form.fields["password2"].label = "New password, again"


def _wrong(response: HttpResponse) -> HttpResponse:
    response.status_code = 422
    return response


def _wait(error: Throttled) -> str:
    """Return for how many seconds whoever tried too often has to wait."""
    return str(getattr(error, "wait", SIGN_IN_WINDOW_SECONDS) or 1)
