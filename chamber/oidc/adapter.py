"""What allauth asks of a project about other providers: which there are, who is let in, and what went wrong."""

import logging
import re
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chamber import sign_in_trail
from chamber.errors import Refusal
from chamber.oidc import again, invitations, sync
from chamber.oidc.admission import admit
from chamber.oidc.asking import BoundedSession
from chamber.oidc.protocol import ProviderAnswer, app_of
from chamber.oidc.providers import providers
from chamber.sessions import HELD_LINK
from teams.actors import Via

logger = logging.getLogger(__name__)

ANSWERED = "{name} did not sign you in: it answered {code}. Try again, or ask whoever manages sign-in there."
CODE = re.compile(r"[a-z_]{1,40}")
"""An error as OAuth 2.0 and OpenID Connect name them."""
CANCELLED = "You did not sign in there: try again, or sign in otherwise."
FAILED = (
    "What came back cannot be used: it took too long, was used already, or is not of this sign-in. Try again; if it "
    "stays so, the log of this server says why."
)


class Providers(DefaultSocialAccountAdapter):
    """Knows the providers of the settings, and lets in whom `chamber.oidc.admission` does."""

    def list_apps(
        self,
        request: HttpRequest,  # noqa: ARG002 - allauth's signature
        provider: str | None = None,
        client_id: str | None = None,
    ) -> list[SocialApp]:
        """Return those of the settings; the database has none."""
        found = map(app_of, providers())
        return [
            app
            for app in found
            if provider in {None, app.provider, app.provider_id} and client_id in {None, app.client_id}
        ]

    def get_requests_session(self) -> BoundedSession:
        """Return with what a provider is asked."""
        return BoundedSession()

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Find out whose account it is; stop where nobody is let in, and where only the person was to be shown."""
        answer: ProviderAnswer = sociallogin.answer
        try:
            if again.is_asked(sociallogin.state):
                raise ImmediateHttpResponse(again.shown(request, sociallogin))
            invitation = invitations.secret_of(request, sociallogin.state)
            sociallogin.user = admit(answer.provider, answer.claims, invitation=invitation)
            if invitation:
                invitations.forget(request)
            sync.keep(answer)
        except Refusal as refusal:
            raise ImmediateHttpResponse(refused(request, refusal.message)) from refusal

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:  # noqa: ARG002
        """Return that allauth makes no account."""
        return False

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        """Say that it came to nothing, note it, and log why."""
        if error == AuthError.CANCELLED:
            raise ImmediateHttpResponse(refused(request, CANCELLED))
        begun = (extra_context or {}).get("state")
        code = request.GET.get("error", "")
        told = (
            code if CODE.fullmatch(code) else "an answer of another form"
        )  # nobody writes lines of the log by it
        why = exception or (told if begun else "it was not begun in this browser")
        logger.warning("A sign-in by %s came to nothing: %s", provider.sub_id, why or error)
        sign_in_trail.provider_refused(provider.sub_id, Via.PAGE)
        # Of an answer to this sign-in alone: else anybody could have the page say what they like.
        if begun and CODE.fullmatch(code):
            raise ImmediateHttpResponse(refused(request, ANSWERED.format(name=provider.app.name, code=code)))
        raise ImmediateHttpResponse(refused(request, FAILED))


def refused(request: HttpRequest, why: str) -> HttpResponse:
    """Return the page of who is not signed in by a provider."""
    context = {"why": why, "invitation": HELD_LINK in request.session}
    return render(request, "account/not_let_in.html", context, status=403)
