"""The room above is played by a list: which attempts it was told to stop."""

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member

STOPPED: list[UUID] = []


def stop(attempt_ids: Iterable[UUID], *, at: datetime, gone: Collection[UUID] = ()) -> None:
    STOPPED.extend(attempt_ids)


@pytest.fixture(autouse=True)
def stopped(settings: Settings) -> list[UUID]:
    """Return the ids of attempts whose pods were asked to be stopped."""
    settings.CHAMBER_STOP_ATTEMPTS = "workloads.tests.conftest.stop"
    STOPPED.clear()
    return STOPPED


@pytest.fixture
def org(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def team(org: Team) -> Team:
    return make_team(org, "NLP")


@pytest.fixture
def other_team(org: Team) -> Team:
    return make_team(org, "Vision")


@pytest.fixture
def pool(db: None) -> Pool:
    return make_pool("Main")


@pytest.fixture
def owner(team: Team) -> User:
    return member(team, Role.RESEARCHER, "ada")


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the topics announced after commit, and "ring" for each time the scheduler was rung."""
    heard: list[str] = []
    monkeypatch.setattr("chamber.live._send", heard.extend)
    monkeypatch.setattr("chamber.live._ring", lambda: heard.append("ring"))
    return heard
