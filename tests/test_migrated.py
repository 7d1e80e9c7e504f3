"""The migrated database that tests copy: made once, complete, and no other than what the migrations make."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from rig import migrated


def schema(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_a_copy_has_all_migrations_and_triggers_and_is_not_migrated_again(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated.copy_of(run_folder / "migrated", tmp_path / "first.sqlite3")
    monkeypatch.setattr(migrated, "_migrate", pytest.fail)
    migrated.copy_of(run_folder / "migrated", tmp_path / "second.sqlite3")
    with closing(sqlite3.connect(tmp_path / "second.sqlite3")) as database:
        applied = set(database.execute("SELECT app, name FROM django_migrations"))
    assert applied == set(MigrationLoader(None).disk_migrations)
    assert schema(tmp_path / "first.sqlite3") == schema(tmp_path / "second.sqlite3")
    assert any(sql.startswith("CREATE TRIGGER") for sql in schema(tmp_path / "first.sqlite3").values())
    assert {model._meta.db_table for model in apps.get_models()} <= schema(tmp_path / "first.sqlite3").keys()


@pytest.mark.sqlite_only
@pytest.mark.django_db
def test_the_tests_own_database_is_such_a_copy(run_folder: Path, tmp_path: Path) -> None:
    migrated.copy_of(run_folder / "migrated", tmp_path / "copy.sqlite3")
    assert schema(tmp_path / "copy.sqlite3") == schema(Path(connection.settings_dict["NAME"]))
