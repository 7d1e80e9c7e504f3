"""Databases and ports that cannot be had: one sentence, and the status or the answer that goes with it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rig import deployment, processes
from rig.deployment import Deployment
from tests.deployment_fixtures import KEY, chamber, refused, says, started, told
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]


def test_a_port_that_is_taken_is_one_sentence_and_status_1(team: Deployment) -> None:
    port = team.services["web"].environment["CHAMBER_LISTEN_PORT"]
    sentence = refused(1, "serve", "--part", "live", "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in sentence


def url(team: Deployment, **parts: Any) -> str:
    found = {"user": "chamber", "port": team.database.port, "name": "chamber", **parts}
    return "postgresql://{user}@127.0.0.1:{port}/{name}".format(**found)


CANNOT_BE_HAD: list[tuple[dict[str, Any], str]] = [
    ({"port": 1}, "refused"),
    ({"user": "nobody"}, 'role "nobody" does not exist'),
    ({"name": "nothing"}, 'database "nothing" does not exist'),
]


MOST_AT_ONCE = 5 * len(CANNOT_BE_HAD)
"""A web part, its three requests, and a migration for each."""


def test_a_database_that_cannot_be_had_is_said_and_503(team: Deployment) -> None:
    # At once: each of them mostly waits for its database.
    with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
        looks = []
        for parts, said in CANNOT_BE_HAD:
            database = url(team, **parts)
            looks.append(threads.submit(look, team, database, said, threads))
            looks.append(threads.submit(migration_is_refused, database, said))
        for looked in looks:
            looked.result()


def look(team: Deployment, database: str, said: str, threads: ThreadPoolExecutor) -> None:
    """Look what a web part says of a database that cannot be had."""
    with started(team, "web", CHAMBER_DATABASE=database) as web:
        assert httpx.get(f"{web.url}/livez", timeout=60).status_code == 200

        def asked(path: str, **headers: str) -> "Future[httpx.Response]":
            return threads.submit(httpx.get, web.url + path, headers=headers, timeout=60)

        asked_at_once = (
            asked("/readyz"),
            asked("/api/v1/me/", Authorization="Bearer chb_x"),
            asked("/", Cookie="sessionid=" + "x" * 32),
        )
        ready, answer, page = (one.result() for one in asked_at_once)
        assert ready.status_code == 503
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert int(answer.headers["retry-after"]) > 0
        assert (page.status_code, "text/html" in page.headers["content-type"]) == (503, True)
        refuses = "refuses the sign-in" if "does not exist" in said else "does not answer"
        assert says(web, f"The database {refuses}: ")
        assert any(said in line for line in told(web))


def migration_is_refused(database: str, said: str) -> None:
    """Look what `chamber migrate` says of it."""
    assert said in refused(1, "migrate", CHAMBER_DATABASE=database)


def test_a_wrong_password_is_said_without_showing_it(team: Deployment, tmp_path: Path) -> None:
    with psycopg.connect(team.database.url, autocommit=True) as connection:
        connection.execute("ALTER ROLE chamber PASSWORD 'right'")
    rules = team.database.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    try:
        reread_rules(team, lets_in=False)
        secret = tmp_path / "password"
        secret.write_text("wrong-one\n")
        sentence = refused(
            1, "migrate", CHAMBER_DATABASE=url(team), CHAMBER_DATABASE_PASSWORD_FILE=str(secret)
        )
        assert "password authentication failed" in sentence
        assert "wrong-one" not in sentence
        secret.write_text("right\n")
        done = chamber("migrate", CHAMBER_DATABASE=url(team), CHAMBER_DATABASE_PASSWORD_FILE=str(secret))
        assert done.stdout == "The database is up to date.\n"
    finally:
        rules.write_text(before)
        reread_rules(team, lets_in=True)


def reread_rules(team: Deployment, *, lets_in: bool) -> None:
    """Have PostgreSQL read its rules again; return when they let Chamber's user in without a password, or do not."""

    def let_in() -> bool:
        try:
            psycopg.connect(team.database.url).close()
        except psycopg.OperationalError:
            return False
        return True

    assert team.database.process is not None
    team.database.process.send_signal(signal.SIGHUP)
    until(lambda: let_in() is lets_in)


@contextmanager
def another_database(team: Deployment, name: str) -> Iterator[str]:
    """Make a database beside the deployment's, and return its URL."""
    with psycopg.connect(team.database.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield team.database.url_of(name)
    with psycopg.connect(team.database.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_migrations_that_are_missing_are_503_until_they_are_applied(team: Deployment) -> None:
    with another_database(team, "empty") as empty, started(team, "web", CHAMBER_DATABASE=empty) as web:
        ready = httpx.get(f"{web.url}/readyz", timeout=60)
        assert ready.status_code == 503
        assert "migrat" in ready.text
        answer = httpx.get(f"{web.url}/api/v1/me/", headers={"Authorization": "Bearer chb_x"}, timeout=60)
        assert answer.status_code == 503
        assert says(web, "migrations are not applied")
        assert chamber("migrate", CHAMBER_DATABASE=empty).returncode == 0
        web.wait_for("/readyz")
        assert (
            httpx.get(
                f"{web.url}/api/v1/me/", headers={"Authorization": "Bearer chb_x"}, timeout=60
            ).status_code
            == 401
        )


def test_a_database_that_a_newer_version_migrated_is_said_by_whoever_starts_on_it(team: Deployment) -> None:
    newer = "INSERT INTO django_migrations (app, name, applied) VALUES ('teams', '0999_newer', now())"
    execute(team.database.url, newer)
    try:
        with started(team, "web") as web:
            web.wait_for("/readyz", status=503)
            assert httpx.get(f"{web.url}/api/v1/me/", timeout=60).status_code == 401
            team.services["web"].wait_for("/readyz")
            assert says(web, "the migration teams.0999_newer, which this Chamber does not know")
        done = chamber("migrate", CHAMBER_DATABASE=team.database.url)
        assert (done.returncode, "migrated by a newer Chamber" in done.stderr) == (0, True)
        execute(team.database.url, "DELETE FROM django_migrations WHERE app = 'scheduling'")
        assert "belongs to another version" in refused(1, "migrate", CHAMBER_DATABASE=team.database.url)
    finally:
        execute(team.database.url, "DELETE FROM django_migrations WHERE name = '0999_newer'")
        assert chamber_fakes(team, "scheduling").returncode == 0


def chamber_fakes(team: Deployment, app: str) -> "subprocess.CompletedProcess[str]":
    """Write an app's migrations into the list again, without running them."""
    return team.run("manage.py", "migrate", app, "--fake")


def test_a_migration_that_is_half_there_is_one_sentence_and_leaves_the_rest_alone(team: Deployment) -> None:
    with another_database(team, "half") as half:
        assert chamber("migrate", CHAMBER_DATABASE=half).returncode == 0
        execute(half, "DELETE FROM django_migrations WHERE app = 'scheduling'")
        sentence = refused(1, "migrate", CHAMBER_DATABASE=half)
        assert "A migration failed and was undone" in sentence
        assert "already exists" in sentence


def test_several_that_migrate_at_once_do_it_once(team: Deployment) -> None:
    with another_database(team, "fresh") as fresh:
        command = [sys.executable, "-m", "chamber.cli", "migrate"]
        environment = {"PATH": "/usr/bin:/bin", "CHAMBER_SECRET_KEY": KEY, "CHAMBER_DATABASE": fresh}
        both = [processes.Popen[bytes](command, env=environment, cwd=deployment.ROOT) for _ in range(2)]
        assert [one.wait(300) for one in both] == [0, 0]
