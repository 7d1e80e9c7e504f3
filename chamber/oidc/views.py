"""Signing in by an identity provider: leaving for it, coming back, and being told that somebody signed out there."""

import logging
from contextlib import suppress
from typing import Any

from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from rest_framework.exceptions import Throttled

from chamber.authentication import bound_tries, too_many
from chamber.errors import Refusal
from chamber.oidc import again, invitations, sessions
from chamber.oidc.adapter import refused
from chamber.oidc.asking import ProviderFailed
from chamber.oidc.claims import WrongToken
from chamber.oidc.protocol import Callback, Flow
from chamber.oidc.providers import Provider, provider_of
from chamber.oidc.sign_out import leaving

LONGEST_NEXT = 2000
logger = logging.getLogger(__name__)

AWAY = (
    "{name} cannot be reached, or does not answer as it should: try again in a moment, or sign in otherwise."
)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send somebody to a provider, to sign in or to show that it is them; a GET leads to the sign-in page."""
    provider = provider_of(provider_id)
    if request.method != "POST":
        return redirect("account_login")
    _bound(request)
    flow = get_adapter().get_provider(request, provider.id)
    shows = "held" in request.POST and request.user.is_authenticated
    more: dict[str, Any] = {}
    if shows:
        more = {"data": again.asked(request.POST["held"]), "auth_params": again.FRESH}
    elif invitations.ASKED in request.POST:
        more = {"data": invitations.asked(request)}
    onward = get_next_redirect_url(request) or ""
    try:
        # It is kept in the session: who is not signed in makes no large one.
        answer = flow.redirect(
            request, "login", next_url=onward if len(onward) <= LONGEST_NEXT else None, **more
        )
    except OAuth2Error as error:
        return _away(request, provider, error)
    return leaving(request, answer["Location"], provider)


@login_not_required
@never_cache
@require_safe
def back(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Take in whom a provider sends back: sign them in, or say why not."""
    provider = provider_of(provider_id)
    _bound(request)
    try:
        response: HttpResponse = Callback.adapter_view(Flow(request, provider.id))(request)
    except OAuth2Error as error:
        return _away(request, provider, error)
    return response


@csrf_exempt
@login_not_required
@never_cache
@require_POST
def ended(request: HttpRequest, provider_id: str) -> HttpResponse:
    """End the sessions of who signed out at a provider, which says so itself (OpenID Connect Back-Channel Logout)."""
    provider = provider_of(provider_id)
    _bound(request, counts=False)  # one address tells of everybody who signs out
    try:
        sessions.signed_out_there(provider, request.POST.get("logout_token", ""))
    except (WrongToken, ProviderFailed) as error:
        with suppress(Refusal):
            _bound(request)
        body = {"error": "invalid_request", "error_description": str(error)[:300]}
        return JsonResponse(body, status=400)
    return HttpResponse(status=200)


def _away(request: HttpRequest, provider: Provider, error: OAuth2Error) -> HttpResponse:
    logger.warning("Nobody can sign in by %s: %s", provider.id, error)
    return refused(request, AWAY.format(name=provider.name))


def _bound(request: HttpRequest, *, counts: bool = True) -> None:
    try:
        bound_tries(request, "provider", counts=counts)
    except Throttled as error:
        raise too_many(error) from error
