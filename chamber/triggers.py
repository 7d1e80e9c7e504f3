"""Migration operations written once per database that Chamber runs on: for triggers, and for what only one has."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import migrations
from django.db.migrations.operations.base import Operation


class PerDatabase(migrations.RunPython):
    """Run the statements of `create` for the database in use (`sqlite` or `postgresql`), those of `drop` on the way
    back.
    """

    def __init__(self, *, create: Mapping[str, list[str]], drop: Mapping[str, list[str]]) -> None:
        self.create, self.drop = create, drop
        super().__init__(self._runner(create), self._runner(drop))

    @staticmethod
    def _runner(statements: Mapping[str, list[str]]) -> Any:
        def run(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - the signature is Django's
            for statement in statements[schema_editor.connection.vendor]:
                schema_editor.execute(statement, params=None)

        return run

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return how a migration file writes this operation."""
        return self.__class__.__name__, [], {"create": self.create, "drop": self.drop}


class Trigger(PerDatabase):
    """Create triggers, and drop them on the way back."""


def refuse_changes(table: str, sentence: str) -> Trigger:
    """Return triggers by which `table` takes new rows only: update and delete fail with `sentence`."""
    sqlite = [
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{sentence}'); END"
        for verb in ("update", "delete")
    ]
    postgresql = [
        f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{sentence}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_append_only()",
    ]
    return Trigger(
        create={"sqlite": sqlite, "postgresql": postgresql},
        drop={
            "sqlite": [f"DROP TRIGGER {table}_no_{verb}" for verb in ("update", "delete")],
            "postgresql": [
                f"DROP TRIGGER {table}_append_only ON {table}",
                f"DROP FUNCTION {table}_append_only()",
            ],
        },
    )


def keeping_triggers(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations between taking all triggers away and making them again, on SQLite, forwards and back.

    There a table whose columns or constraints change is often made anew, which loses its triggers and fails where those
    of others name it.
    """
    take, make = _take_triggers, _make_triggers_again
    return [migrations.RunPython(take, make), *operations, migrations.RunPython(make, take)]


def _take_triggers(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - the signature is Django's
    if schema_editor.connection.vendor != "sqlite":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        taken = cursor.fetchall()
    for name, _ in taken:
        schema_editor.execute(f"DROP TRIGGER {name}", params=None)
    schema_editor.taken_triggers = [sql for _, sql in taken]


def _make_triggers_again(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - the signature is Django's
    for sql in getattr(schema_editor, "taken_triggers", ()):
        schema_editor.execute(sql, params=None)
