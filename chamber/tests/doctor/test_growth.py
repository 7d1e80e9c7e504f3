"""What the doctor says of how much the database holds, and how fast that grows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from django.apps import apps
from django.test import override_settings

from chamber.doctor import growth
from chamber.doctor.growth import Growth
from chamber.tests.doctor.conftest import Named
from rig import servers

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def tables(server: servers.PostgreSQL, named: Named) -> Iterator[str]:
    """The URL of a database with empty tables of the kinds' names, each with the column that tells its age."""
    url = server.url_of("growth")
    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE growth")
    with psycopg.connect(url, autocommit=True) as connection:
        for held in growth.KINDS:
            for model in held.tables:
                column = held.since[1] if model is held.since[0] else "at_all"
                connection.execute(f'CREATE TABLE {model._meta.db_table} ("{column}" timestamptz, data text)')
    named(url)
    yield url
    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE growth WITH (FORCE)")


def fill(url: str, table: str, column: str, *, oldest: datetime, rows: int = 20_000) -> None:
    """Put rows of about 100 bytes there, the oldest of that time."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {table} ({column}, data) SELECT %s, repeat('x', 100) FROM generate_series(1, %s)",
            [oldest, rows],
        )


@pytest.mark.postgres
def test_each_kind_has_its_size_its_growth_and_its_days(tables: str) -> None:
    fill(tables, "agentlink_podlog", "created_at", oldest=NOW - timedelta(days=4))
    with override_settings(CHAMBER_KEEP_LOG_DAYS=14):
        found = {row.kind: row for row in growth.measure(NOW)}
    logs = found["logs of pods"]
    assert 2 * growth.MIB < logs.size_bytes < 8 * growth.MIB
    assert logs.bytes_a_day == pytest.approx(logs.size_bytes / 4, rel=0.01)
    assert logs.kept_days == 14
    assert found["workloads and events"].bytes_a_day is None, "there is none yet"
    assert found["cycles"].kept_days == 7
    assert found["everything else"].size_bytes > 0


@pytest.mark.postgres
def test_what_is_younger_than_an_hour_says_nothing_of_a_day(tables: str) -> None:
    fill(tables, "scheduling_cycle", "began_at", oldest=NOW - timedelta(minutes=50))
    found = {row.kind: row.bytes_a_day for row in growth.measure(NOW)}
    assert found["cycles"] is None


@pytest.mark.postgres
def test_a_database_that_is_away_has_no_table(named: Named) -> None:
    named(f"postgresql://chamber@127.0.0.1:{servers.free_port()}/chamber")
    assert growth.measure(NOW) == []


def test_a_file_has_no_table(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "on_postgresql", lambda: False)
    assert growth.measure(NOW) == []


def test_the_table_is_aligned_with_units_and_plurals() -> None:
    rows = [
        Growth("cycles", 12 * growth.MIB, growth.MIB, 1),
        Growth("logs of pods", 20 << 30, 300 * growth.MIB, 365),
        Growth("everything else", 9 * growth.MIB, None, None),
    ]
    assert list(growth.lines(rows)) == [
        "kind                 size    a day      kept",
        "cycles             12 MiB  1.0 MiB     1 day",
        "logs of pods     20.0 GiB  300 MiB  365 days",
        "everything else   9.0 MiB",
    ]


def test_every_table_that_grows_with_workloads_is_of_a_kind() -> None:
    counted = {model for held in growth.KINDS for model in held.tables}
    references = {
        model
        for model in apps.get_models()
        for field in model._meta.fields
        if field.related_model
        in {apps.get_model("workloads", "Workload"), apps.get_model("workloads", "Attempt")}
        and model._meta.app_label in {"workloads", "agentlink", "scheduling"}
    }
    adopted = {apps.get_model("agentlink", "AdoptedJob")}  # those that a cluster has now
    assert references - counted <= adopted
    assert Path(growth.__file__).exists()
