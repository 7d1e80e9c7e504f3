"""Requests on /metrics: counted by URL pattern for all processes, whatever of them breaks."""

from collections.abc import Iterator

import pytest
from django.test import Client, RequestFactory
from prometheus_client.core import Metric
from pytest_django.fixtures import Settings

from chamber.metrics import requests
from chamber.tests.metrics.test_metrics import scrape
from rig import servers
from teams.models import Role
from teams.tests.factories import make_org, member

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_was_counted() -> Iterator[None]:
    requests.counts.forget()
    yield
    requests.counts.forget()


@pytest.fixture
def alone(settings: Settings) -> None:
    """One process is all."""
    settings.REDIS = ""


def told() -> dict[tuple[str, ...], float]:
    """Return the samples of requests, by name and labels."""
    families: list[Metric] = list(requests.read())
    return {
        (sample.name.removeprefix("chamber_http_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.usefixtures("alone")
def test_requests_are_counted_by_pattern_method_and_status(client: Client) -> None:
    client.force_login(member(make_org(), Role.RESEARCHER))
    for path in (
        "/workloads/one/",
        "/workloads/two/",
        "/workloads/",
        "/api/v1/workloads/one/",
        "/nowhere/1/",
    ):
        client.get(path)
    client.generic("BREW", "/workloads/")
    found = told()
    assert found["requests_total", "/workloads/<slug:slug>/", "GET", "404"] == 2
    assert found["requests_total", "/workloads/", "GET", "200"] == 1
    assert found["requests_total", "/workloads/", "other", "405"] == 1
    assert found["requests_total", "/api/v1/workloads/<slug:slug>/", "GET", "404"] == 1
    assert found["requests_total", "other", "GET", "404"] == 1
    assert found["request_duration_seconds_count", "/workloads/<slug:slug>/"] == 2


@pytest.mark.usefixtures("alone")
def test_a_view_that_breaks_is_counted_as_a_fault(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.raise_request_exception = False
    client.force_login(member(make_org(), Role.RESEARCHER))

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("chamber.views.allocations.pool_bars", broken)
    assert client.get("/").status_code == 500
    assert told()["requests_total", "/", "GET", "500"] == 1


@pytest.mark.usefixtures("alone")
def test_what_is_held_open_on_purpose_has_no_duration(client: Client) -> None:
    client.post("/agent/v1/sync")
    found = told()
    assert found["requests_total", "/agent/v1/sync", "POST", "401"] == 1
    assert ("request_duration_seconds_count", "/agent/v1/sync") not in found


@pytest.mark.usefixtures("alone")
def test_buckets_hold_what_is_no_larger_than_their_bound() -> None:
    for seconds in (0.004, 0.005, 0.3, 11.0):
        requests.counts.add("/", "GET", 200, seconds)
    found = told()
    bucket = {
        bound: found["request_duration_seconds_bucket", "/", bound]
        for bound in ("0.005", "0.5", "10.0", "+Inf")
    }
    assert bucket == {"0.005": 2, "0.5": 3, "10.0": 3, "+Inf": 4}
    assert found["request_duration_seconds_sum", "/"] == pytest.approx(11.309)


def test_static_files_are_one_route() -> None:
    assert requests.route_of(RequestFactory().get("/static/css/base.css")) == "/static/"


@pytest.mark.usefixtures("alone")
def test_they_stand_on_the_page(client: Client) -> None:
    client.get("/livez")
    found = scrape(client)
    key = (("code", "200"), ("method", "GET"), ("route", "/livez"))
    assert found["chamber_http_requests_total", key] == 1


@pytest.mark.redis
def test_processes_add_up_in_redis_and_what_cannot_be_added_is_kept(settings: Settings) -> None:
    layer = {"default": {"CONFIG": {"prefix": "test"}}}
    settings.CHANNEL_LAYERS = {"default": {**settings.CHANNEL_LAYERS["default"], **layer["default"]}}
    with servers.redis() as running:
        settings.REDIS = running.url
        requests.counts.add("/", "GET", 200, 0.1)
        requests.counts.flush()
        another = requests.RequestCounts("requests")
        another.add("/", "GET", 200, 0.1)
        another.flush()
        assert told()["requests_total", "/", "GET", "200"] == 2
        running.stop()
        requests.counts.add("/", "GET", 503, 0.1)
        assert told() == {}
        running.start()
        found = told()
    assert found["requests_total", "/", "GET", "503"] == 1
