"""What a process finds when it starts: do database and Redis answer, and do the migrations fit the code."""

from collections.abc import Set
from contextlib import closing
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.utils import ConnectionHandler

from chamber import sentinels
from chamber.demo.people import PASSWORD, PEOPLE
from chamber.serving.absence import cannot_be_used
from chamber.serving.outages import first_line

LEAST_POSTGRESQL = 14
"""The oldest PostgreSQL that Django's release works with."""


def complaints() -> list[str]:
    """Return a sentence for each thing that is not as it should be, at most five seconds' waiting each."""
    return [*_of_database(), *_of_redis()]


def connection_without_pool() -> BaseDatabaseWrapper:
    """Return a new connection that no pool and no other thread knows; the caller closes it.

    A process that will fork must not have opened its pool before.
    """
    alone: dict[str, Any] = dict(settings.DATABASES["default"])
    alone["OPTIONS"] = {key: value for key, value in alone.get("OPTIONS", {}).items() if key != "pool"}
    return ConnectionHandler({"default": alone})["default"]


def with_known_passwords() -> list[str]:
    """Return the names of active accounts that have the demo's password; none where the database cannot be asked."""
    marks = ", ".join(["%s"] * len(PEOPLE))
    try:
        with closing(connection_without_pool()) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"SELECT username, password FROM chamber_user WHERE is_active AND username IN ({marks})",  # noqa: S608 - no text of others
                [username for username, *_ in PEOPLE],
            )
            rows = cursor.fetchall()
    except DatabaseError:
        return []
    # The demo gives all of them one hash: it is looked at once.
    known = {encoded for encoded in {encoded for _, encoded in rows} if check_password(PASSWORD, encoded)}
    return sorted(username for username, encoded in rows if encoded in known)


def has_credentials() -> bool:
    """Return whether credentials are stored; not where the database cannot be asked, or has no table of them yet."""
    try:
        with closing(connection_without_pool()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM workloads_credential LIMIT 1")
            return cursor.fetchone() is not None
    except DatabaseError:
        return False


def _of_database() -> list[str]:
    try:
        with closing(connection_without_pool()) as connection:
            return [*too_old(connection), *_of_migrations(connection)]
    except DatabaseError as error:
        return [cannot_be_used("The database", first_line(error))]


def too_old(connection: BaseDatabaseWrapper) -> list[str]:
    """Return a sentence where the server is a PostgreSQL that is older than what is supported."""
    if connection.vendor != "postgresql":
        return []
    connection.ensure_connection()
    major = connection.connection.info.server_version // 10_000
    if major >= LEAST_POSTGRESQL:
        return []
    return [f"The database is PostgreSQL {major}; Chamber needs {LEAST_POSTGRESQL} or newer."]


def _of_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    missing, unknown = compare_migrations(connection)
    found = []
    if missing:
        found.append(f"{not_applied(missing)}; run `chamber migrate`.")
    if unknown:
        found.append(f"{not_known(unknown, 'Chamber')}: a newer one has migrated it.")
    return found


def not_applied(missing: list[str]) -> str:
    """Return how many migrations the database lacks, and which, as the beginning of a sentence."""
    if len(missing) == 1:
        return f"The migration {missing[0]} is not applied"
    return f"{len(missing)} migrations are not applied, the first of them {missing[0]}"


def not_known(unknown: list[str], whose: str) -> str:
    """Return how many migrations the database has beyond the code's, and which, as the beginning of a sentence."""
    if len(unknown) == 1:
        return f"The database has the migration {unknown[0]}, which this {whose} does not know"
    return f"The database has {len(unknown)} migrations that this {whose} does not know, the first of them {unknown[0]}"


def compare_migrations(connection: BaseDatabaseWrapper) -> tuple[list[str], list[str]]:
    """Return the migrations that the database lacks, and those of our apps that it has beyond the code's."""
    known, apps = _of_this_code()
    applied = _applied(connection)
    unknown = {key for key in applied - known if key[0] in apps}
    return _names(known - applied), _names(unknown)


@cache
def _of_this_code() -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """Return the migrations on disk and the apps that have any: read once, for probes ask every few seconds."""
    loader = MigrationLoader(None)
    return frozenset(loader.disk_migrations), frozenset(loader.migrated_apps)


def _applied(connection: BaseDatabaseWrapper) -> set[tuple[str, str]]:
    # Django's own recorder asks by the connection's alias, and so opens the pool.
    with connection.cursor() as cursor:
        if "django_migrations" not in connection.introspection.table_names(cursor):
            return set()
        cursor.execute("SELECT app, name FROM django_migrations")
        return set(cursor.fetchall())


def _names(keys: Set[tuple[str, str]]) -> list[str]:
    return [f"{app}.{name}" for app, name in sorted(keys)]


def _of_redis() -> list[str]:
    if not settings.REDIS:
        return []
    try:
        with closing(sentinels.client(settings.REDIS, socket_timeout=5, socket_connect_timeout=5)) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return [cannot_be_used("Redis", first_line(error))]
    return []
