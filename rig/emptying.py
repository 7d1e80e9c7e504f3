"""Emptying the tables after a test that has committed: those that have rows, and what the tests never change stays.

Without this, each such test would have PostgreSQL make the files of all tables anew, and Django look whether there is
a row for each model and each right to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management.commands import flush

KEPT = frozenset({"django_content_type", "auth_permission"})
"""What Django writes of the models after migrations, and would write again after each test."""


def with_rows(connection: Any, tables: Sequence[str]) -> list[str]:
    """Return those of the tables that are not empty."""
    quoted = [(table, connection.ops.quote_name(table)) for table in tables if table not in KEPT]
    asked = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {name})" for table, name in quoted)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(asked))
        return sorted(table for (table,) in cursor.fetchall())


def _of_sqlite(connection: Any, tables: Sequence[str]) -> list[str]:
    """Return statements that set the triggers aside which refuse to empty the tables of events."""
    places = ", ".join(["%s"] * len(tables))
    with connection.cursor() as cursor:
        query = f"SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ({places})"  # noqa: S608
        cursor.execute(query, tables)
        triggers = cursor.fetchall()
    return [
        *(f"DROP TRIGGER {connection.ops.quote_name(name)}" for name, _ in triggers),
        *(f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables),  # noqa: S608
        *(sql for _, sql in triggers),
    ]


def _of_postgresql(connection: Any, tables: Sequence[str]) -> list[str]:
    """Return statements that delete without triggers and without an order, as only a superuser may."""
    deletes = (f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables)  # noqa: S608
    return ["SET LOCAL session_replication_role = replica", *deletes]


def _may_leave_triggers_out(connection: Any) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SHOW is_superuser")
        return bool(cursor.fetchone()[0] == "on")


@contextmanager
def quickly(connection: Any) -> Iterator[None]:
    """Inside the block, a flush of this kind of database is such an emptying."""
    operations = type(connection.ops)
    original = operations.sql_flush

    def sql_flush(self: Any, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        found = self.connection
        if found.vendor == "postgresql" and not _may_leave_triggers_out(found):
            statements: list[str] = original(self, style, [*{*tables} - KEPT], **options)
            return statements
        filled = with_rows(found, tables)
        if not filled:
            return []
        return _of_sqlite(found, filled) if found.vendor == "sqlite" else _of_postgresql(found, filled)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "sql_flush", sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_: None)
        yield
