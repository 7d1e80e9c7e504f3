"""The address at which an identity provider keeps people and groups."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from chamber.oidc.providers import providers


@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def scim(request: HttpRequest, provider_id: str, path: str) -> HttpResponse:
    """Answer an identity provider."""
    from chamber.scim import protocol  # takes a third of all loading; not every installation uses it

    return protocol.answer_to(request, provider_id, path)


def load() -> None:
    """Load the protocol where a provider uses it, so that its first request does not wait for that."""
    if any(provider.provisions for provider in providers()):
        from chamber.scim import protocol  # noqa: F401 - for its loading
