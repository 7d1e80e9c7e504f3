"""What the doctor says of databases that are away, refuse, lag behind, hang or fill up."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from chamber.doctor import database
from chamber.doctor.finding import DoctorFinding
from chamber.serving import surroundings
from chamber.tests.doctor.conftest import Named
from rig import servers

pytestmark = pytest.mark.postgres


def only(check: Callable[[], Iterator[DoctorFinding]]) -> DoctorFinding:
    [found] = check()
    return found


def test_a_database_that_answers_is_well(server: servers.PostgreSQL, named: Named) -> None:
    named(server.url)
    assert list(database.answers()) == []
    assert list(database.transactions()) == []
    assert list(database.connections()) == []
    assert list(database.clock()) == []


def test_nobody_listens_there(named: Named) -> None:
    named(f"postgresql://chamber@127.0.0.1:{servers.free_port()}/chamber")
    found = only(database.answers)
    assert "Connection refused" in found.problem
    assert found.advice == "Start the server, or correct its address in CHAMBER_DATABASE."


def test_a_host_that_nobody_knows(named: Named) -> None:
    named("postgresql://chamber@no-such-host.invalid/chamber")
    assert only(database.answers).advice == "Correct the host's name in CHAMBER_DATABASE."


def test_a_database_that_is_not_there(server: servers.PostgreSQL, named: Named) -> None:
    named(server.url_of("elsewhere"))
    found = only(database.answers)
    assert 'database "elsewhere" does not exist' in found.problem
    assert found.advice == "Make the database and its user, or correct their names in CHAMBER_DATABASE."


def lets_in(url: str) -> bool:
    """Return whether the server takes a connection without a password."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def passwords_wanted(server: servers.PostgreSQL) -> Iterator[None]:
    """Have the server want passwords of the user `guarded`, inside the block."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 60
    while lets_in(server.url.replace("chamber@", "guarded@")):
        assert time.monotonic() < deadline, "the rules were not read again"
        time.sleep(0.02)
    try:
        yield
    finally:
        rules.write_text(before)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE guarded")


def test_a_wrong_password_is_said_and_not_shown(server: servers.PostgreSQL, named: Named) -> None:
    with passwords_wanted(server):
        named(server.url.replace("chamber@", "guarded@"), password="not-this-one")
        found = only(database.answers)
    assert "password authentication failed" in found.problem
    assert "not-this-one" not in found.problem
    assert found.advice == "Correct the password in CHAMBER_DATABASE_PASSWORD."


def test_no_password_where_one_is_wanted(server: servers.PostgreSQL, named: Named) -> None:
    with passwords_wanted(server):
        named(server.url.replace("chamber@", "guarded@"))
        assert only(database.answers).advice == "Correct the password in CHAMBER_DATABASE_PASSWORD."


@pytest.mark.parametrize(
    ("made", "told", "advice"),
    [
        (
            "LOGIN CONNECTION LIMIT 0",
            "accepts no more connections: ",
            "Raise max_connections, or CONNECTION LIMIT",
        ),
        ("NOLOGIN", "refuses the sign-in: ", "Let that user connect (ALTER ROLE"),
    ],
)
def test_a_user_who_cannot_connect(
    server: servers.PostgreSQL, named: Named, made: str, told: str, advice: str
) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE narrow {made}")
        named(server.url.replace("chamber@", "narrow@"))
        found = only(database.answers)
        assert surroundings.complaints()[0] == found.problem
        connection.execute("DROP ROLE narrow")
    assert found.problem.startswith(f"The database {told}")
    assert found.advice.startswith(advice)


def test_a_server_without_tls_where_it_is_wanted(server: servers.PostgreSQL, named: Named) -> None:
    named(f"{server.url}?sslmode=require")
    found = only(database.answers)
    assert "server does not support SSL" in found.problem
    assert found.advice.startswith("Correct sslmode and sslrootcert in CHAMBER_DATABASE")


def test_a_database_behind_this_version(server: servers.PostgreSQL, named: Named) -> None:
    named(server.url)
    found = only(database.migrations)
    assert "migrations are not applied, the first of them account.0001_initial" in found.problem
    assert found.advice == "Run `chamber migrate`."


@pytest.mark.django_db
def test_a_database_ahead_of_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    known, apps = surroundings._of_this_code()
    older = known - {("chamber", "0002_marks_and_totals")}
    monkeypatch.setattr("chamber.serving.surroundings._of_this_code", lambda: (older, apps))
    monkeypatch.setattr("chamber.serving.surroundings.connection_without_pool", _tests_own)
    found = only(database.migrations)
    assert found.problem == (
        "The database has the migration chamber.0002_marks_and_totals, which this version does not know."
    )


@pytest.mark.django_db
def test_tables_that_are_not_as_the_list_of_migrations_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import connection

    monkeypatch.setattr("chamber.serving.surroundings.connection_without_pool", _tests_own)
    assert list(database.tables()) == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE chamber_mark RENAME COLUMN said_by TO elsewhere")
    found = only(database.tables)
    assert found.problem == (
        "The table chamber_mark lacks the column said_by, though every migration counts as applied."
    )
    assert "compare the database with a backup" in found.advice
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE chamber_mark RENAME TO elsewhere")
    assert only(database.tables).problem == (
        "The table chamber_mark is missing, though every migration counts as applied."
    )


def _tests_own() -> Any:
    from django.db import connection

    return _Unclosed(connection)


class _Unclosed:
    """The tests' connection, which goes on after the check."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def close(self) -> None:
        """Leave it open."""


@pytest.mark.parametrize(("hours", "words"), [(1, "is 60 minutes behind"), (-1, "is 60 minutes ahead of")])
def test_a_clock_that_differs(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch, hours: int, words: str
) -> None:
    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(hours=hours)

    named(server.url)
    monkeypatch.setattr(database, "datetime", Wrong)
    assert (
        f"The clock of this machine {words} that of the database's machine." == only(database.clock).problem
    )


def test_a_transaction_that_stays_open(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(server.url)
    monkeypatch.setattr(database, "LONG_TRANSACTION_SECONDS", 0)
    with psycopg.connect(server.url, application_name="forgotten") as connection:
        connection.execute("SELECT 1")
        pid = connection.info.backend_pid
        found = only(database.transactions)
    assert found.problem.startswith(
        f"A transaction of forgotten (process {pid} of the database, idle in transaction) is open for "
    )
    assert f"pg_terminate_backend({pid})" in found.advice


def test_connections_that_run_out(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(server.url)
    monkeypatch.setattr(database, "MOST_CONNECTIONS_PART", 0.01)
    with closing(psycopg.connect(server.url)), closing(psycopg.connect(server.url)):
        found = only(database.connections)
    assert found.problem.endswith("of the database's 200 connections are taken.")


def test_a_server_that_is_starting_is_waited_for() -> None:
    advice = [advice for signs, advice in database.REFUSALS if "starting up" in signs]
    assert advice == ["Wait until the server has started"]


def test_a_server_that_does_not_answer_in_time(server: servers.PostgreSQL, named: Named) -> None:
    named(f"{server.url}?connect_timeout=2")
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    began = datetime.now(UTC)
    try:
        found = only(database.answers)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert "timeout" in found.problem
    assert datetime.now(UTC) - began < timedelta(seconds=60)
