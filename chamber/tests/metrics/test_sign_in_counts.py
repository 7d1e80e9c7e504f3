"""Refused sign-ins on /metrics, by what was not taken."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import authentication, sign_in_trail
from chamber.metrics import sign_ins
from teams.actors import Via
from teams.tests.factories import make_user


@pytest.fixture(autouse=True)
def _nothing_was_counted(settings: Settings) -> Iterator[None]:
    settings.REDIS = ""
    cache.clear()
    sign_ins.counts.forget()
    yield
    sign_ins.counts.forget()


def told() -> dict[str, float]:
    [family] = sign_ins.read()
    return {sample.labels["by"]: sample.value for sample in family.samples}


def test_each_is_counted_by_what_was_not_taken(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told() == {"password": 0, "factor": 0, "provider": 0, "too-many": 0}
    ada = make_user("ada", password="difference engine")
    body = {"username": "ada", "password": "guess"}
    for _ in range(2):
        assert Client().post("/api/v1/login/", body, "application/json").status_code == 401
    assert Client().post("/sign-in/", {"login": "nobody", "password": "guess"}).status_code == 422
    sign_in_trail.factor_refused(ada, Via.PAGE)
    sign_in_trail.provider_refused("acme", Via.PAGE)
    monkeypatch.setattr(authentication, "TRIES_PER_NAME", 2)
    assert Client().post("/api/v1/login/", body, "application/json").status_code == 429
    assert told() == {"password": 3, "factor": 1, "provider": 1, "too-many": 1}


def test_who_gets_in_is_not_counted(db: None) -> None:
    make_user("ada", password="difference engine")
    assert Client().post("/sign-in/", {"login": "ada", "password": "difference engine"}).status_code == 302
    assert set(told().values()) == {0}
