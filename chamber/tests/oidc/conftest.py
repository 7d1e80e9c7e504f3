"""A provider on loopback, and an organisation that lets people in by it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.oidc.providers import Provider
from chamber.tests.oidc.idp import Idp, running
from teams.models import Role, Team
from teams.tests.factories import make_org, make_team, member

PHRASE = "rotor glade mosaic 41"
Configure = Callable[..., Provider]


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def idp() -> Iterator[Idp]:
    with running() as found:
        found.person("ada", email="ada@acme.example", email_verified=True, preferred_username="Ada.L")
        yield found


@pytest.fixture
def configure(idp: Idp, settings: Settings) -> Configure:
    """Return what has the server know the provider, with these values."""

    def configured(**values: Any) -> Provider:
        provider = idp.provider(**values)
        settings.IDENTITY_PROVIDERS = (provider,)
        return provider

    return configured


@pytest.fixture
def provider(configure: Configure) -> Provider:
    """The provider, which lets in whoever has a verified address of acme.example."""
    return configure(allowed_domains=["acme.example"])


@pytest.fixture
def acme(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)
