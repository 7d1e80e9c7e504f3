"""Triggers outlive migrations that make their tables anew, forwards and back."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE = ("workloads", "0011_job_classes_are_rows")
"""What comes after it adds columns to tables with triggers."""


def triggers() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        return dict(cursor.fetchall())


@pytest.mark.sqlite_only
@pytest.mark.django_db(transaction=True)
def test_on_sqlite_the_same_triggers_are_there_after_a_way_back_and_forth() -> None:
    now = triggers()
    leaves = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        MigrationExecutor(connection).migrate([BEFORE])
        before = triggers()
    finally:
        MigrationExecutor(connection).migrate(leaves)
    assert "workloads_event_no_delete" in before
    assert before.items() <= now.items()
    assert triggers() == now
