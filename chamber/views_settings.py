"""One's own settings: profile, and the sessions with which one is signed in."""

from allauth.account.models import EmailAddress
from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from chamber import sessions, sign_in_trail
from chamber.errors import Conflict, Refusal, no_such
from chamber.factors.reading import real
from chamber.forms import Form
from chamber.http import page
from chamber.models import User
from chamber.people import actions
from chamber.people.mail import CONFIRMATIONS_PER_HOUR, bound
from chamber.people.values import LONGEST_NAME, is_free
from chamber.views_again import require_present
from chamber.views_sign_in import LONGEST_PASSWORD
from chamber.words import count
from teams.forms import show_refusal
from teams.members import roles_of
from teams.views.requests import actor, person


class ProfileForm(Form):
    """Name and e-mail address of oneself."""

    name = forms.CharField(
        label="Name", max_length=LONGEST_NAME, required=False, help_text="As others see it."
    )
    email = forms.CharField(label="E-mail address", max_length=254, required=False, widget=forms.EmailInput)
    password = forms.CharField(
        label="Present password",
        max_length=LONGEST_PASSWORD,
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        help_text="Asked for another e-mail address only.",
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # a Form's
        if settings.MAIL:
            self.fields[
                "email"
            ].help_text = "Another one counts once you have confirmed it by the link mailed there."
        else:
            del self.fields["password"]
            self.fields["email"].disabled = True
            self.fields[
                "email"
            ].help_text = "This server sends no mail: an organisation admin changes the address."


@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest) -> HttpResponse:
    """Show one's profile and sessions; a POST changes the profile."""
    user = person(request)
    initial = {"name": user.get_full_name(), "email": user.email}
    form = ProfileForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            _change(request, form)
        except Refusal as refusal:
            if refusal.status == 429:
                raise
            show_refusal(form, refusal)
        else:
            return redirect("chamber:settings")
    context = {
        "form": form,
        "sessions": sessions.of(user),
        "session_key": request.session.session_key,
        "tokens": user.api_tokens.filter(revoked_at=None).count(),
        "factors": real().filter(user=user.pk).count(),
        "roles": roles_of(user),
        "awaits": EmailAddress.objects.filter(user=user, verified=False).exclude(email=user.email).first(),
    }
    return page(request, "chamber/settings.html", context, status=422 if form.errors else 200)


def _change(request: HttpRequest, form: ProfileForm) -> None:
    """Store the name, and mail to a new address what confirms it."""
    user, email = person(request), form.cleaned_data["email"].lower()
    another = bool(email) and email != user.email
    if another:
        _require_password(request, user, form.cleaned_data["password"])
    free = another and is_free(user, email)
    if another:
        bound(request, "confirm", by=user, to=email, most=CONFIRMATIONS_PER_HOUR)
    actions.change(by=actor(request), user=user, name=form.cleaned_data["name"])
    if another:
        # Of an address of somebody else the same is said: it is not this person's to know who has an account.
        with transaction.atomic():
            sessions.lock_signed_in(user)
            sign_in_trail.address_asked(user, email)
            EmailAddress.objects.add_new_email(request, user, email, send_verification=free)
        messages.success(
            request, f"Confirm {email} by the link that is mailed there; until then the address stays."
        )
    else:
        messages.success(request, "Your profile is changed.")


def _require_password(request: HttpRequest, user: User, password: str) -> None:
    """Refuse a wrong present password: by the address a forgotten one is set anew, and a session may be stolen."""
    if not user.has_usable_password():
        raise Conflict(
            "Your account has no password to confirm it with: ask an organisation admin to change the address."
        )
    if not password:
        raise Refusal("Give your present password to change the e-mail address.", field="password")
    require_present(request, user, password)


@require_POST
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    """End one of one's own sessions; the present one as well."""
    user = person(request)
    found = next((each for each in sessions.of(user) if each.pk == session_id), None)
    if found is None:
        raise no_such("session", session_id)
    actions.end_sessions(by=actor(request), user=user, only=found)
    if found.session_key == request.session.session_key:
        return redirect("account_login")
    messages.success(request, "That session is ended.")
    return redirect("chamber:settings")


@require_POST
def end_others(request: HttpRequest) -> HttpResponse:
    """End all of one's own sessions but this one."""
    ended = actions.end_sessions(by=actor(request), user=person(request), keep=request)
    messages.success(request, f"{count(ended['sessions'], 'other session')} ended.")
    return redirect("chamber:settings")
