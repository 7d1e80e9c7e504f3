"""Probes answer without a sign-in, and readiness says what is missing."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from psycopg_pool import PoolTimeout
from pytest_django.fixtures import Settings

from chamber import health
from chamber.doctor import address
from rig import servers

pytestmark = pytest.mark.stores

Migration = MigrationRecorder.Migration


@pytest.fixture(autouse=True)
def _just_started() -> Iterator[None]:
    """Each test is a process of its own."""
    health._fitted = False
    yield
    health._fitted = False


def test_alive_needs_neither_a_sign_in_nor_the_database(client: Client) -> None:
    assert client.get("/livez").status_code == 200


@pytest.mark.django_db
def test_ready_when_every_migration_is_applied(client: Client) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_not_ready_with_migrations_missing(client: Client) -> None:
    Migration.objects.filter(app="scheduling").delete()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.content.endswith(b" migrations are not applied; run `chamber migrate`.\n")


@pytest.mark.django_db
def test_not_ready_when_it_starts_on_the_database_of_a_newer_version(client: Client) -> None:
    Migration.objects.create(app="teams", name="9999_of_next_year")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (
        503,
        b"The database has 1 migration that this version does not know; start the newer version.\n",
    )


@pytest.mark.django_db
def test_it_stays_ready_while_it_is_being_replaced_by_a_newer_version(client: Client) -> None:
    assert client.get("/readyz").status_code == 200
    Migration.objects.create(app="teams", name="9999_of_next_year")
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_not_ready_without_a_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError

    with monkeypatch.context() as broken_database:
        broken_database.setattr(connection, "cursor", broken)
        answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"The database does not answer.\n")


def test_where_no_connection_can_be_had_it_says_so_before_who_asks_gives_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    class Full:
        def open(self) -> None: ...

        def putconn(self, _: object) -> None: ...

        def getconn(self, timeout: float | None = None) -> None:
            waited.append(timeout or 5.0)
            raise PoolTimeout("couldn't get a connection")

    monkeypatch.setattr(health, "connection", SimpleNamespace(pool=Full(), connection=None))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"The database does not answer.\n")
    assert sum(waited) + health.REDIS_PATIENCE_SECONDS < address.PATIENCE_SECONDS


@pytest.mark.django_db
def test_a_probe_costs_two_queries_and_reads_no_files(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get("/readyz")
    monkeypatch.delattr("chamber.serving.surroundings.MigrationLoader")
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/readyz").status_code == 200
    assert len(queries) == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.redis
async def test_the_live_part_is_ready_only_with_redis(async_client: AsyncClient, settings: Settings) -> None:
    with servers.redis() as server:
        settings.REDIS = server.url
        assert (await async_client.get("/readyz")).status_code == 200
        server.stop()
        answer = await async_client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"Redis does not answer.\n")


@pytest.mark.django_db
def test_the_web_part_is_ready_without_redis(client: Client, settings: Settings) -> None:
    settings.REDIS = f"redis://127.0.0.1:{servers.free_port()}/0"
    assert client.get("/readyz").status_code == 200
