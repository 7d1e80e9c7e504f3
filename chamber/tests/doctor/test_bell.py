"""What the doctor says of a Redis that is missing, away, guarded, or deaf."""

from collections.abc import Callable, Iterator

import pytest
import redis
from pytest_django.fixtures import Settings

from chamber import stores
from chamber.doctor import bell, database
from chamber.doctor.finding import DoctorFinding
from chamber.serving import absence
from chamber.tests.doctor.conftest import Named
from rig import servers


def only(check: Callable[[], Iterator[DoctorFinding]]) -> DoctorFinding:
    [found] = check()
    return found


@pytest.fixture
def server(settings: Settings) -> Iterator[servers.Redis]:
    """A Redis that the settings name."""
    with servers.redis() as running:
        settings.REDIS = running.url
        settings.CHANNEL_LAYERS = stores.channel_layers(running.url)
        yield running


def test_the_embedded_default_needs_none(settings: Settings, named: Named) -> None:
    settings.REDIS = ""
    named("sqlite:////nowhere/chamber.sqlite3")
    settings.CHANNEL_LAYERS = stores.channel_layers("")
    assert list(bell.answers()) == list(bell.clock()) == list(bell.channel_layer()) == []


def test_several_processes_need_one(settings: Settings, named: Named) -> None:
    settings.REDIS = ""
    named("postgresql://chamber@db.example.org/chamber")
    assert only(bell.answers).problem == (
        "No Redis is named: announcements and bells do not leave their process."
    )


@pytest.mark.redis
def test_one_that_works(server: servers.Redis) -> None:
    assert list(bell.answers()) == list(bell.clock()) == list(bell.channel_layer()) == []


@pytest.mark.redis
def test_one_that_was_dropped(server: servers.Redis) -> None:
    server.stop()
    found = only(bell.answers)
    assert found.problem == f"Redis does not answer: 127.0.0.1:{server.port}: Connection refused."
    assert found.advice == "Start it, or correct its address in CHAMBER_REDIS."


def test_sentinels_that_are_away(settings: Settings) -> None:
    settings.REDIS = f"redis+sentinel://127.0.0.1:{servers.free_port()}/main"
    found = only(bell.answers)
    assert found.problem == "Redis does not answer: no sentinel answers that knows the name 'main'."
    assert "sentinels" in found.advice


@pytest.mark.redis
def test_a_redis_that_is_no_sentinel(server: servers.Redis, settings: Settings) -> None:
    settings.REDIS = server.url.replace("redis://", "redis+sentinel://").replace("/0", "/main")
    assert "sentinels" in only(bell.answers).advice


@pytest.mark.redis
def test_one_that_wants_a_password(server: servers.Redis) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "guarded")
    assert only(bell.answers).problem == (
        "Redis refuses the sign-in: it wants a password, and CHAMBER_REDIS has none (redis://:password@host:6379/0)."
    )
    told = absence.Absence("Redis", absence._probe_redis)._tried()
    assert told is not None
    assert absence.trouble_of(told) is absence.SIGN_IN


@pytest.mark.redis
def test_one_given_a_wrong_password(server: servers.Redis, settings: Settings) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "guarded")
    settings.REDIS = server.url.replace("redis://", "redis://:wrong@")
    found = only(bell.answers)
    assert found.problem.startswith("Redis refuses the sign-in: invalid username-password")
    assert "wrong@" not in found.problem


@pytest.mark.redis
def test_an_announcement_that_does_not_arrive(
    server: servers.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers.redis() as another:
        settings.CHANNEL_LAYERS = stores.channel_layers(another.url)
        another.stop()
        monkeypatch.setattr(bell, "PATIENCE_SECONDS", 1.0)
        found = only(bell.channel_layer)
    assert found.problem.startswith("An announcement sent through the channel layer did not arrive")


@pytest.mark.redis
def test_a_clock_that_differs(server: servers.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis.Redis, "time", lambda _: (1_000_000_000, 0))
    assert only(bell.clock).problem.endswith(" ahead of that of Redis' machine.")


def test_up_to_two_seconds_are_no_difference() -> None:
    assert list(database.skew("another machine", 2.0)) == list(database.skew("another machine", -2.0)) == []
