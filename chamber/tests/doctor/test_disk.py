"""What the doctor says of the database's disk: measured where it can be, and where it cannot, that it cannot."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from chamber.doctor import disk
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.metrics.storage import GIB
from chamber.tests.doctor.conftest import Named
from rig import servers


def only() -> DoctorFinding | Fact:
    [found] = disk.disk()
    return found


def of_gib(total: float, free: float, asked: list[Path]) -> Any:
    def usage(path: Path) -> Any:
        asked.append(path)
        return SimpleNamespace(total=total * GIB, free=free * GIB)

    return usage


@pytest.mark.postgres
def test_a_full_disk_under_the_servers_files(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    named(server.url)
    monkeypatch.setattr("shutil.disk_usage", of_gib(100, 5, asked))
    found = only()
    assert isinstance(found, DoctorFinding)
    assert found.problem == "The disk of the database has 5.0 GiB of 100.0 GiB free."
    assert asked == [server.folder / "data"]


@pytest.mark.postgres
def test_who_may_not_read_the_servers_settings_finds_its_folder_by_its_process(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    named(server.url)
    monkeypatch.setattr(disk, "_named_folder", lambda: None)
    monkeypatch.setattr("shutil.disk_usage", of_gib(100, 50, asked))
    found = only()
    assert isinstance(found, Fact)
    assert found.sentence.startswith("The database takes ")
    assert found.sentence.endswith("; its disk has 50.0 GiB of 100.0 GiB free.")
    assert asked == [server.folder / "data"]


@pytest.mark.postgres
def test_of_a_disk_that_cannot_be_measured_the_set_size_counts(
    server: servers.PostgreSQL, named: Named, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    named(server.url)
    monkeypatch.setattr(disk, "data_folder", lambda: None)
    settings.DATABASE_DISK_GIB = 0
    unknown = only()
    assert isinstance(unknown, Fact)
    assert "cannot be measured from here" in unknown.sentence
    settings.DATABASE_DISK_GIB = 10
    assert isinstance(only(), Fact)
    monkeypatch.setattr(disk, "size_bytes", lambda: int(9.5 * GIB))
    full = only()
    assert isinstance(full, DoctorFinding)
    assert full.problem == "The database takes 9.5 GiB of its disk's 10.0 GiB (CHAMBER_DATABASE_DISK_GIB)."
    assert full.advice.startswith("Make room, or give it a larger disk: 1.0 GiB of it should be free.")


def test_the_disk_of_a_server_elsewhere_is_not_this_machines(named: Named) -> None:
    named("postgresql://chamber@db.example.org/chamber")
    assert disk.data_folder() is None
