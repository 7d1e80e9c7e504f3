"""How large the database is and what its disk has: measured where it can be, else as a setting says, else not told."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.metrics import storage
from chamber.metrics.storage import GIB, Storage
from chamber.tests.metrics.test_metrics import scrape
from rig import servers


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the database be of this size, in this folder, on a disk of 100 GiB with 60 free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=100 * GIB, free=60 * GIB))

    def be(size: int, folder: Path | None) -> None:
        for look in ("_on_postgresql", "_in_a_file"):
            monkeypatch.setattr(storage, look, lambda: (size, folder))

    return be


@pytest.mark.parametrize(
    ("folder", "set_gib", "expected"),
    [
        (Path("/here"), 0, Storage(5, 100 * GIB, 60 * GIB)),
        (Path("/here"), 7, Storage(5, 100 * GIB, 60 * GIB)),
        (None, 7, Storage(5, 7 * GIB)),
        (None, 0, Storage(5)),
    ],
)
def test_what_is_measured_goes_before_what_is_set(
    found: Any, settings: Settings, folder: Path | None, set_gib: int, expected: Storage
) -> None:
    settings.DATABASE_DISK_GIB = set_gib
    found(5, folder)
    assert storage.read() == expected


@pytest.mark.django_db
def test_what_is_not_known_is_not_on_the_page(client: Client, found: Any, settings: Settings) -> None:
    settings.DATABASE_DISK_GIB = 0
    found(5, None)
    page = scrape(client)
    assert page["chamber_database_size_bytes", ()] == 5
    assert ("chamber_database_disk_bytes", ()) not in page
    assert ("chamber_database_disk_free_bytes", ()) not in page


def test_a_folder_of_that_name_without_a_database_is_another_machines(tmp_path: Path) -> None:
    assert storage.servers_folder(str(tmp_path)) is None
    (tmp_path / "PG_VERSION").write_text("15")
    assert storage.servers_folder(str(tmp_path)) == tmp_path


def test_a_folder_that_is_closed_counts_and_one_that_lies_in_such_a_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> Any:
        raise PermissionError

    monkeypatch.setattr(Path, "exists", closed)
    assert storage.servers_folder(str(tmp_path)) == tmp_path
    monkeypatch.setattr(Path, "stat", closed)
    assert storage.servers_folder(str(tmp_path)) is None


@pytest.mark.postgres
def test_only_a_role_that_may_read_settings_is_told_the_folder() -> None:
    with servers.postgresql() as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain")

        def told() -> str | None:
            connection.execute("SET ROLE plain")
            row = connection.execute(storage.QUERY.encode()).fetchone()
            connection.execute("RESET ROLE")
            assert row is not None
            assert row[0] > 1_000_000
            return None if row[1] is None else str(row[1])

        assert told() is None
        connection.execute("GRANT pg_read_all_settings TO plain")
        assert told() == str(server.folder / "data")
