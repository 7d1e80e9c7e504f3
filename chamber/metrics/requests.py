"""The metrics of requests: how many, how long, with which status, by route; added up for all processes.

Routes are URL patterns, so there are as many as the program has.
"""

import bisect
import time
from collections.abc import Callable, Iterator, Mapping

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import resolve
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from chamber.metrics.counts import Counts, Field
from chamber.serving.leaving import waits_long

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""Stands for a method that is none of HTTP's, and for an address that no pattern matches."""

COUNT, SUM, BUCKET = "count", "sum", "bucket"
"""How fields begin: count, route, method, code; or sum, route; or bucket, route, upper bound."""


class RequestCounts(Counts):
    """Requests by route, method and status; their time by route."""

    def add(self, route: str, method: str, code: int, seconds: float | None) -> None:
        """Count a request; `seconds` is None where it was held open on purpose."""
        amounts: dict[Field, float] = {(COUNT, route, method, str(code)): 1}
        if seconds is not None:
            amounts |= {(SUM, route): seconds, (BUCKET, route, _bound(seconds)): 1}
        self.grow(amounts)


counts = RequestCounts("requests")


class RequestCountMiddleware:
    """Counts each request with its time until the answer begins; the outermost, so that nothing is left out."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on and count it."""
        began = time.monotonic()
        response = self.get_response(request)
        seconds = None if waits_long(request.path) else time.monotonic() - began
        method = request.method if request.method in METHODS else OTHER
        counts.add(route_of(request), method or OTHER, response.status_code, seconds)
        return response


def route_of(request: HttpRequest) -> str:
    """Return the URL pattern that a request's path matches: `/workloads/<slug>/`."""
    if request.path_info.startswith(settings.STATIC_URL):
        return settings.STATIC_URL
    match = request.resolver_match
    if match is None:  # answered before any view was looked for
        try:
            match = resolve(request.path_info)
        except Exception:
            return OTHER
    return f"/{match.route}"


def read() -> Iterator[Metric]:
    """Return the families of requests, with all that this process counted so far."""
    requests = CounterMetricFamily(
        "chamber_http_requests",
        "Requests that were answered, by URL pattern.",
        labels=("route", "method", "code"),
    )
    duration = HistogramMetricFamily(
        "chamber_http_request_duration_seconds",
        "Time until an answer began, by URL pattern; without what is held open on purpose.",
        labels=("route",),
    )
    amounts = counts.read() or {}
    buckets: dict[str, dict[str, float]] = {}
    for (kind, route, *rest), amount in sorted(amounts.items()):
        if kind == COUNT:
            requests.add_metric((route, *rest), amount)
        elif kind == BUCKET:
            buckets.setdefault(route, {})[rest[0]] = amount
    for route, counted in buckets.items():
        duration.add_metric((route,), list(_cumulated(counted)), amounts.get((SUM, route), 0.0))
    yield from (requests, duration)


def _cumulated(counted: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    total = 0.0
    for bound in (*map(str, BOUNDS), "+Inf"):
        total += counted.get(bound, 0.0)
        yield bound, total


def _bound(seconds: float) -> str:
    place = bisect.bisect_left(BOUNDS, seconds)
    return str(BOUNDS[place]) if place < len(BOUNDS) else "+Inf"
