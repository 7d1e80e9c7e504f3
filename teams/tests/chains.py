"""A chain of some rows for tests, and hands that change the tables past everything that guards them."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from teams import audit
from teams.actors import Actor
from teams.chain import sealing
from teams.models import AuditEvent, Team

GUARDED = ("teams_auditevent", "teams_auditseal")


def acts(team: Team, count: int, *, sealed: bool = True) -> list[AuditEvent]:
    """Return the rows of so many acts on a team, in their order."""
    rows = [
        audit.record(by=Actor.system("test"), action="team.edited", target=team, after={"number": number})
        for number in range(count)
    ]
    if sealed:
        sealing.seal()
    return rows


@contextmanager
def unguarded() -> Iterator[None]:
    """Have no trigger run meanwhile, as whoever owns the database can."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in GUARDED:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            yield
            for table in GUARDED:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            return
        cursor.execute(
            f"SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN {GUARDED}"
        )
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        yield
        for _, sql in triggers:
            cursor.execute(sql)
