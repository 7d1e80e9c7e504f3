"""Who may read `/metrics`."""

import hmac
from ipaddress import ip_address

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from chamber.metrics.collector import DeploymentCollector
from chamber.serving.proxies import FORWARDED


@require_safe
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics; to nobody else than `CHAMBER_METRICS_TOKEN` allows."""
    if settings.METRICS_TOKEN and not _has_token(request):
        sentence = "Send the metrics token as `Authorization: Bearer ...`.\n"
        answer = HttpResponse(sentence, status=401, content_type="text/plain")
        answer["WWW-Authenticate"] = 'Bearer realm="metrics"'
        return answer
    if not settings.METRICS_TOKEN and not _is_near(request):
        sentence = "Without CHAMBER_METRICS_TOKEN, only programs on the server's own machine may read this.\n"
        return HttpResponse(sentence, status=403, content_type="text/plain")
    return HttpResponse(generate_latest(DeploymentCollector()), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    expected = settings.METRICS_TOKEN.encode()
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), expected)


def _is_near(request: HttpRequest) -> bool:
    """Return whether a program on this machine asks, with no proxy in between."""
    if request.META.get(FORWARDED) or "X-Real-IP" in request.headers:
        return False
    try:
        return bool(ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback)
    except ValueError:  # a Unix socket has no address, and a proxy may stand behind it
        return False
