"""Leaving for an identity provider by a page of our own, and signing out there as well.

A form may lead to this server only (`form-action 'self'`), and where its answer redirects to counts as well. So the
form is answered by a page, which leads on: by a header, and by a link.
"""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from chamber.mailing import public
from chamber.oidc.asking import ProviderFailed, discovery_of
from chamber.oidc.providers import Provider
from chamber.oidc.sessions import Begun


def leaving(request: HttpRequest, url: str, provider: Provider, *, signed_out: bool = False) -> HttpResponse:
    """Return a page that leads on to a provider."""
    context = {"url": url, "provider": provider, "signed_out": signed_out}
    response = render(request, "account/leaving.html", context)
    response["Refresh"] = f"0; url={url}"
    response["Cache-Control"] = "no-store"
    return response


def end_there(request: HttpRequest, session: Begun) -> str:
    """Return where the browser signs out at the provider; "" where that knows no such thing, or is not reached."""
    try:
        endpoint = discovery_of(session.provider).end_session_endpoint
    except ProviderFailed:
        return ""
    if not endpoint:
        return ""
    asked = {
        "id_token_hint": session.id_token,
        "client_id": session.provider.client_id,
        "post_logout_redirect_uri": public(request.build_absolute_uri(reverse("account_login"))),
    }
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
