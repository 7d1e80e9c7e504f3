"""The database: whether it answers, fits this version, keeps the time, and is not about to stop."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError

from chamber.doctor.finding import DoctorFinding, seconds_text
from chamber.serving import surroundings
from chamber.serving.absence import FULL, cannot_be_used, trouble_of
from chamber.serving.outages import first_line
from chamber.serving.surroundings import not_applied, not_known

SKEW_SECONDS = 2.0
LONG_TRANSACTION_SECONDS = 60
MOST_CONNECTIONS_PART = 0.9

REFUSALS = (
    (
        ("password authentication failed", "no password supplied"),
        "Correct the password in CHAMBER_DATABASE_PASSWORD",
    ),
    (
        ("SSL", "certificate"),
        "Correct sslmode and sslrootcert in CHAMBER_DATABASE, or the server's certificate",
    ),
    (("does not exist",), "Make the database and its user, or correct their names in CHAMBER_DATABASE"),
    (("no pg_hba.conf entry",), "Allow this machine to connect in the server's pg_hba.conf"),
    (
        ("is not permitted to log in", "permission denied for database"),
        "Let that user connect (ALTER ROLE ... LOGIN, GRANT CONNECT ON DATABASE ...)",
    ),
    (
        ("could not translate host name", "failed to resolve host", "Name or service not known"),
        "Correct the host's name in CHAMBER_DATABASE",
    ),
    (("starting up", "shutting down", "recovery mode"), "Wait until the server has started"),
    (("unable to open database file",), "Let this user write to the folder that CHAMBER_DATA names"),
)
"""What a server's refusal contains, and what to do about it."""


MAKE_ROOM = (
    "Raise max_connections, or CONNECTION LIMIT where that of the user or the database is reached; or run fewer "
    "processes, or lower CHAMBER_DATABASE_CONNECTIONS"
)


def on_postgresql() -> bool:
    """Return whether the database is a server, and not a file."""
    return bool(settings.DATABASES["default"]["ENGINE"].endswith("postgresql"))


def answers() -> Iterator[DoctorFinding]:
    """Look whether a connection can be made, and to a server that is new enough."""
    try:
        with closing(surroundings.connection_without_pool()) as found:
            found.ensure_connection()
            for sentence in surroundings.too_old(found):
                yield DoctorFinding(sentence, "Upgrade the server.")
    except DatabaseError as error:
        text = str(error)
        advice = next((advice for signs, advice in REFUSALS if any(sign in text for sign in signs)), None)
        start = "Start the server, or correct its address in CHAMBER_DATABASE"
        if trouble_of(text) is FULL:
            advice = MAKE_ROOM
        yield DoctorFinding(cannot_be_used("The database", first_line(error)), f"{advice or start}.")


def migrations() -> Iterator[DoctorFinding]:
    """Look whether the tables are those of this version."""
    with closing(surroundings.connection_without_pool()) as found:
        missing, unknown = surroundings.compare_migrations(found)
    if missing:
        yield DoctorFinding(
            f"{not_applied(missing)}.",
            "Run `chamber migrate`.",
        )
    if unknown:
        yield DoctorFinding(
            f"{not_known(unknown, 'version')}.",
            "Start the newer version that applied them, or restore a backup from before.",
        )


def tables() -> Iterator[DoctorFinding]:
    """Look whether what the migrations made is there: a list that says more than is true hides one that is half there.

    The first table that differs is named; where there is one, there are more.
    """
    advice = "A migration is half there: compare the database with a backup, or restore one."
    with closing(surroundings.connection_without_pool()) as found, found.cursor() as cursor:
        there = set(found.introspection.table_names(cursor))
        for model in apps.get_models(include_auto_created=True):
            table = model._meta.db_table
            said = "though every migration counts as applied."
            if table not in there:
                yield DoctorFinding(f"The table {table} is missing, {said}", advice)
                return
            cursor.execute(f"SELECT * FROM {found.ops.quote_name(table)} LIMIT 0")  # noqa: S608 - a name of ours
            columns = {column[0] for column in cursor.description}
            for field in model._meta.local_concrete_fields:
                if field.column not in columns:
                    yield DoctorFinding(f"The table {table} lacks the column {field.column}, {said}", advice)
                    return


def clock() -> Iterator[DoctorFinding]:
    """Look whether this machine and the database's agree on the time."""
    if not on_postgresql():
        return
    before = datetime.now(UTC)
    [(theirs,)] = rows("SELECT clock_timestamp()")
    after = datetime.now(UTC)
    if theirs < before:
        ahead_seconds = (before - theirs).total_seconds()
    else:
        ahead_seconds = -max(0.0, (theirs - after).total_seconds())
    yield from skew("the database's machine", ahead_seconds)


def skew(whose: str, ahead_seconds: float) -> Iterator[DoctorFinding]:
    """Return a finding where this machine's clock is ahead of another's, or behind, by more than two seconds."""
    if abs(ahead_seconds) > SKEW_SECONDS:
        word = "ahead of" if ahead_seconds > 0 else "behind"
        yield DoctorFinding(
            f"The clock of this machine is {seconds_text(abs(ahead_seconds))} {word} that of {whose}.",
            "Have all machines keep the time by NTP.",
        )


def transactions() -> Iterator[DoctorFinding]:
    """Look for transactions that stay open, and with them their locks."""
    if not on_postgresql():
        return
    found = rows(
        "SELECT pid, coalesce(nullif(application_name, ''), usename::text, 'unknown'), state, "
        "extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
        "AND xact_start < clock_timestamp() - make_interval(secs => %s) ORDER BY xact_start",
        [LONG_TRANSACTION_SECONDS],
    )
    for pid, name, state, seconds in found:
        yield DoctorFinding(
            f"A transaction of {name} (process {pid} of the database, {state}) is open for "
            f"{seconds_text(float(seconds))}.",
            f"If it is not a backup, end it: SELECT pg_terminate_backend({pid}).",
        )


def connections() -> Iterator[DoctorFinding]:
    """Look whether there is room for further processes."""
    if not on_postgresql():
        return
    [(used, most)] = rows(
        "SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity "
        "WHERE backend_type = 'client backend'"
    )
    if used > MOST_CONNECTIONS_PART * most:
        yield DoctorFinding(
            f"{used} of the database's {most} connections are taken.",
            "Raise max_connections, or lower CHAMBER_DATABASE_CONNECTIONS.",
        )


def rows(sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return what the database answers, over a connection of its own."""
    with closing(surroundings.connection_without_pool()) as found, found.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
