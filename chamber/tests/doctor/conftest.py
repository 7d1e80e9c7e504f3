"""Servers to make faults on, for real."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from pytest_django import DjangoDbBlocker

from chamber import stores
from rig import servers


@pytest.fixture(scope="session")
def server() -> Iterator[servers.PostgreSQL]:
    """A PostgreSQL with an empty database."""
    with servers.postgresql() as running:
        yield running


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, django_db_blocker: DjangoDbBlocker) -> "Iterator[Named]":
    """Have the doctor look at another database than the tests' own."""
    with django_db_blocker.unblock():
        yield Named(monkeypatch)


class Named:
    """Says in the settings which database there is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, url: str, password: str = "") -> None:
        """Name the database at `url`."""
        chosen = stores.database(url, Path("/nowhere"), pool=2, password=password)
        chosen.setdefault("TIME_ZONE", None)
        chosen.setdefault("AUTOCOMMIT", True)
        self._monkeypatch.setitem(django_settings.DATABASES, "default", chosen)
