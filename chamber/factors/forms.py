"""One small form per act on second factors."""

from typing import Any

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm, LoginWebAuthnForm
from django import forms
from django.core.exceptions import ValidationError
from rest_framework.exceptions import Throttled

from chamber import sign_in_trail
from chamber.authentication import SIGN_IN_WINDOW_SECONDS, TRIES_PER_NAME, bound_tries
from chamber.factors import passkeys
from chamber.factors.adapter import WRONG_CODE
from chamber.factors.codes import LONGEST, try_code
from chamber.forms import Form, Sentences
from teams.actors import Via

ONE_TIME = {"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True, "spellcheck": "false"}


def _code(help_text: str) -> forms.CharField:
    return forms.CharField(
        label="Code",
        max_length=LONGEST,
        help_text=help_text,
        widget=forms.TextInput(attrs={**ONE_TIME, "maxlength": LONGEST}),
    )


class AppForm(Form):
    """A code of an authenticator app that is to be added."""

    code = _code("The six digits that the app shows now.")


class PasskeyForm(Form):
    """A passkey that a browser made; `credential` is filled in by a script."""

    name = forms.CharField(
        label="Name", max_length=60, help_text="Where it lies: laptop, key on the key ring."
    )
    alone = forms.BooleanField(
        label="Signs in without the password",
        required=False,
        help_text="The device asks for a PIN or a fingerprint instead. Without this it goes with the password.",
    )
    credential = forms.CharField(max_length=passkeys.LONGEST_ANSWER, widget=forms.HiddenInput, required=False)

    def clean_credential(self) -> str:
        """Refuse what a browser without scripts sends."""
        text = str(self.cleaned_data["credential"])
        if not text:
            raise ValidationError(
                "Your browser made no passkey: this needs scripts, and a browser that knows passkeys."
            )
        return text


class NameForm(Form):
    """Another name of a passkey."""

    name = forms.CharField(label="Name", max_length=60)


class _Bounded:
    """For forms that end with too many tries: in how many seconds they may go on."""

    wait_seconds: int | None = None

    def refuse(self, error: Throttled) -> ValidationError:
        """Return what the form says then."""
        self.wait_seconds = int(getattr(error, "wait", SIGN_IN_WINDOW_SECONDS) or 1)
        return ValidationError(str(error.detail))


class CodeForm(Sentences, _Bounded, AuthenticateForm):
    """The second step of signing in: a code of the app, or a recovery code; used up when it is right."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"] = _code("Of your authenticator app, or one of your recovery codes.")

    def clean_code(self) -> str:
        """Find the factor whose code it is."""
        try:
            found = try_code(context.request, self.user, self.cleaned_data["code"], via=Via.PAGE)
        except Throttled as error:
            raise self.refuse(error) from error
        if found is None:
            raise ValidationError(WRONG_CODE)
        found.user = self.user
        self.authenticator = found
        return str(self.cleaned_data["code"])


class _UsePasskeyForm(Sentences, _Bounded):
    """A passkey's answer, filled in by a script."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["credential"] = forms.CharField(
            max_length=passkeys.LONGEST_ANSWER, widget=forms.HiddenInput, required=False
        )

    def clean_credential(self) -> Authenticator:
        """Find the passkey that it is of; note in the trail where it is of none."""
        user = self.user  # type: ignore[attr-defined]
        try:
            if user is None:
                bound_tries(context.request, "passkey")
            else:
                bound_tries(context.request, "passkey-of", most=TRIES_PER_NAME, of=str(user.pk))
            return passkeys.used(user, self.cleaned_data["credential"])
        except Throttled as error:
            raise self.refuse(error) from error
        except passkeys.WrongPasskey as error:
            sign_in_trail.factor_refused(user, Via.PAGE)
            raise ValidationError(str(error)) from error


class PasskeyStepForm(_UsePasskeyForm, AuthenticateWebAuthnForm):
    """The second step of signing in."""


class PasskeySignInForm(_UsePasskeyForm, LoginWebAuthnForm):
    """Signing in without a password."""
