"""The command line against the whole application, without a network: requests go straight to its WSGI handler."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections

from chamber.cli import main
from chamber.cli.client import Doors
from chamber.models import Scope, User
from chamber.tokens import create_token
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, make_user, member

SERVER = "http://testserver"
PASSWORD = "difference engine"

Run = Callable[..., Result]


@pytest.fixture
def _connection_kept() -> Iterator[None]:
    """Keep the test's database connection, which a finished request would close."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def run(db: None, _connection_kept: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return `chamber` as a function of its arguments."""
    cache.clear()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("CHAMBER_URL", SERVER)
    monkeypatch.delenv("CHAMBER_TOKEN", raising=False)
    doors = Doors(httpx.WSGITransport(app=get_wsgi_application()))

    def chamber(
        *arguments: str, stdin: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> Result:
        obj = Doors(transport) if transport else doors
        result = CliRunner().invoke(main, arguments, input=stdin, obj=obj)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return chamber


@pytest.fixture
def org(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(org: Team) -> Team:
    return make_team(org, "NLP")


@pytest.fixture
def vision(org: Team) -> Team:
    return make_team(org, "Vision")


@pytest.fixture
def pool(db: None) -> Pool:
    return make_pool("Main")


@pytest.fixture
def ada(nlp: Team) -> User:
    """A researcher of NLP."""
    return member(nlp, Role.RESEARCHER, "ada", password=PASSWORD)


@pytest.fixture
def grace(nlp: Team) -> User:
    """Another researcher of NLP."""
    return member(nlp, Role.RESEARCHER, "grace", password=PASSWORD)


@pytest.fixture
def stranger(org: Team) -> User:
    """Somebody without a role."""
    return make_user("eve", password=PASSWORD)


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what makes the next commands somebody's, by a token in the environment."""

    def as_user(user: User, scope: Scope = Scope.ADMIN) -> str:
        _, secret = create_token(user=user, name="test", scope=scope, days=1)
        monkeypatch.setenv("CHAMBER_TOKEN", secret)
        return secret

    return as_user
