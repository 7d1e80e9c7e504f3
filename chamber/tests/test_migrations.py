"""Migrations run while processes of the release before still work: so they only add.

What takes away comes a release after the code that no longer needs it, and its migration is then named in `LATE`.
"""

import pytest
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

OURS = ("agentlink", "chamber", "scheduling", "teams", "workloads")
UNRELEASED_UP_TO = {"agentlink": 4, "chamber": 2, "scheduling": 3, "teams": 3, "workloads": 3}
"""By app: the last migration that no deployment has run with an older release beside it."""
LATE: frozenset[tuple[str, str]] = frozenset()
"""Migrations that take away what already the release before did without."""

TAKES_AWAY = (
    migrations.RemoveField,
    migrations.DeleteModel,
    migrations.RenameField,
    migrations.RenameModel,
    migrations.AlterModelTable,
)


def problem(operation: Operation, app: str, before: ProjectState) -> str:
    """Return why code that knows nothing of the operation fails after it; empty where it does not."""
    if isinstance(operation, TAKES_AWAY):
        return f"{operation.describe()}: older code still asks for it."
    if isinstance(operation, migrations.AddField):
        field = operation.field
        if not (field.null or field.has_db_default() or field.many_to_many):
            return f"{operation.describe()}: older code adds rows without it; give it null or a db_default."
    if isinstance(operation, migrations.AlterField):
        old = before.models[app, operation.model_name.lower()].fields[operation.name]
        if old.null and not operation.field.null:
            return f"{operation.describe()}: older code still stores nothing there."
        if _type(old) != _type(operation.field):
            return f"{operation.describe()}: older code stores {_type(old)}."
    return ""


def _type(field: "models.Field[object, object]") -> str | None:
    # A reference is of its target's type, which only a state with its apps could tell.
    return "a reference" if field.is_relation else field.db_type(connection)


def problems(migration: Migration, before: ProjectState) -> list[str]:
    """Return what is wrong with a migration's operations on the database."""
    found = []
    for operation in migration.operations:
        steps = (
            operation.database_operations
            if isinstance(operation, migrations.SeparateDatabaseAndState)
            else [operation]
        )
        found += [problem(step, migration.app_label, before) for step in steps]
        operation.state_forwards(migration.app_label, before)
    return [each for each in found if each]


def test_migrations_only_add() -> None:
    loader = MigrationLoader(None)
    found = {
        f"{app}.{name}": wrong
        for (app, name), migration in loader.disk_migrations.items()
        if app in OURS and int(name[:4]) > UNRELEASED_UP_TO[app] and (app, name) not in LATE
        if (wrong := problems(migration, loader.project_state((app, name), at_end=False)))
    }
    assert found == {}


class Thing(migrations.CreateModel):
    """A table for the migrations below."""

    def __init__(self) -> None:
        key, size = models.AutoField(primary_key=True), models.IntegerField(null=True)
        super().__init__("Thing", [("id", key), ("size", size)])


BAD: dict[str, Operation] = {
    "a column goes": migrations.RemoveField("thing", "size"),
    "a column gets another name": migrations.RenameField("thing", "size", "width"),
    "a table goes": migrations.DeleteModel("Thing"),
    "a column that must be filled": migrations.AddField("thing", "name", models.TextField(default="")),
    "nothing is no longer taken": migrations.AlterField("thing", "size", models.IntegerField()),
    "another type": migrations.AlterField("thing", "size", models.TextField(null=True)),
    "behind another's back": migrations.SeparateDatabaseAndState([migrations.DeleteModel("Thing")], []),
}
GOOD: dict[str, Operation] = {
    "a column that may be empty": migrations.AddField("thing", "name", models.TextField(null=True)),
    "a column that fills itself": migrations.AddField("thing", "name", models.TextField(db_default="")),
    "an index": migrations.AddIndex("thing", models.Index(fields=["size"], name="by_size")),
    "words": migrations.AlterField("thing", "size", models.IntegerField(null=True, help_text="In metres.")),
    "of the models alone": migrations.SeparateDatabaseAndState([], [migrations.DeleteModel("Thing")]),
}


@pytest.mark.parametrize("name", [*BAD, *GOOD])
def test_what_older_code_cannot_live_with_is_told_from_what_it_can(name: str) -> None:
    before = ProjectState()
    Thing().state_forwards("app", before)
    next_one = type("Migration", (Migration,), {"operations": [(BAD | GOOD)[name]]})
    assert bool(problems(next_one("0005_next", "app"), before)) == (name in BAD)
