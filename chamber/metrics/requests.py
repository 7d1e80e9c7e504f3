"""The metrics of requests: how many, how long, with which status, by route; added up for all processes.

Each process counts in its memory, and adds what it counted to one hash in Redis every few seconds (`flush`), so that it
does not matter which process is scraped. Without Redis one process is all. What Redis loses begins at zero again, which
Prometheus takes for a restart. Routes are URL patterns, so there are as many as the program has.
"""

import bisect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import redis
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import resolve
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from chamber.metrics.processes import client
from chamber.serving.leaving import waits_long

logger = logging.getLogger(__name__)

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""Stands for a method that is none of HTTP's, and for an address that no pattern matches."""

COUNT, SUM, BUCKET = "count", "sum", "bucket"
Field = tuple[str, ...]
"""count, route, method, code; or sum, route; or bucket, route, upper bound."""


class RequestCounts:
    """What was counted and not taken yet; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._amounts: Counter[Field] = Counter()

    def add(self, route: str, method: str, code: int, seconds: float | None) -> None:
        """Count a request; `seconds` is None where it was held open on purpose."""
        with self._lock:
            self._amounts[COUNT, route, method, str(code)] += 1
            if seconds is not None:
                self._amounts[SUM, route] += seconds  # type: ignore[assignment]  # amounts are floats here
                self._amounts[BUCKET, route, _bound(seconds)] += 1

    def take(self) -> Mapping[Field, float]:
        """Return what was counted, and begin anew."""
        with self._lock:
            taken, self._amounts = self._amounts, Counter()
        return taken

    def put_back(self, amounts: Mapping[Field, float]) -> None:
        """Count again what could not be passed on."""
        with self._lock:
            for field, amount in amounts.items():
                self._amounts[field] += amount  # type: ignore[assignment]  # amounts are floats here


counts = RequestCounts()
_alone: Counter[Field] = Counter()


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


def flush() -> None:
    """Add what this process counted to what all have; what cannot be added is kept for the next time."""
    taken = counts.take()
    if not settings.REDIS:
        for field, amount in taken.items():
            _alone[field] += amount  # type: ignore[assignment]  # amounts are floats here
        return
    if not taken:
        return
    try:
        with closing(client()) as server:
            pipeline = server.pipeline(transaction=True)
            for field, amount in taken.items():
                pipeline.hincrbyfloat(_key(), "\t".join(field), amount)
            pipeline.execute()
    except redis.RedisError as error:
        logger.debug("Requests are counted later: %s", error)
        counts.put_back(taken)


def forget() -> None:
    """Drop what was counted here."""
    counts.take()
    _alone.clear()


def read() -> Iterator[Metric]:
    """Return the families of requests, with all that this process counted so far."""
    flush()
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
    amounts = _shared() if settings.REDIS else dict(_alone)
    buckets: dict[str, dict[str, float]] = {}
    for (kind, route, *rest), amount in sorted(amounts.items()):
        if kind == COUNT:
            requests.add_metric((route, *rest), amount)
        elif kind == BUCKET:
            buckets.setdefault(route, {})[rest[0]] = amount
    for route, counted in buckets.items():
        duration.add_metric((route,), list(_cumulated(counted)), amounts.get((SUM, route), 0.0))
    yield from (requests, duration)


def _shared() -> dict[Field, float]:
    try:
        with closing(client()) as server:
            stored = server.hgetall(_key())
    except redis.RedisError as error:
        logger.warning("Redis does not answer, /metrics goes without requests: %s", error)
        return {}
    return {_field(field): float(amount) for field, amount in stored.items()}


def _field(stored: bytes | str) -> Field:
    return tuple((stored if isinstance(stored, str) else stored.decode()).split("\t"))


def _cumulated(counted: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    total = 0.0
    for bound in (*map(str, BOUNDS), "+Inf"):
        total += counted.get(bound, 0.0)
        yield bound, total


def _bound(seconds: float) -> str:
    place = bisect.bisect_left(BOUNDS, seconds)
    return str(BOUNDS[place]) if place < len(BOUNDS) else "+Inf"


def _key() -> str:
    return f"{settings.CHANNEL_LAYERS['default']['CONFIG']['prefix']}:requests"
