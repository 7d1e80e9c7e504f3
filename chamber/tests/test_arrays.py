"""Arrays as text: PostgreSQL reads what was written."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import Field

from chamber import arrays
from workloads.models import Event, EventKind, Workload

KEY = UUID("01a20000-0000-7000-8000-00000000000f")
NOON = datetime(2026, 1, 1, 12, 30, 0, 7, tzinfo=UTC)
NASTY = 'a "b" \\ {c},NULL\n\\" é 💥 '


def column(name: str) -> "Field[Any, Any]":
    model = Event if name in {"at", "data", "workload", "kind"} else Workload
    found: Field[Any, Any] = model._meta.get_field(name)  # type: ignore[assignment]
    return found


COLUMNS: list[tuple[str, list[Any]]] = [
    ("id", [KEY, None]),
    ("workload", [KEY]),
    ("at", [NOON, None]),
    ("held", [True, False, None]),
    ("priority", [-5, 0, None]),
    ("kind", [EventKind.SUBMITTED, "status"]),
    ("name", [NASTY, "", "NULL", "null", None]),
    ("slug", ["a-1"]),
]


@pytest.mark.postgres_only
@pytest.mark.django_db
@pytest.mark.parametrize(("name", "values"), COLUMNS)
def test_postgresql_reads_what_was_written(name: str, values: list[Any]) -> None:
    field = column(name)
    with connection.cursor() as cursor:
        text = arrays.of_column(field, values)
        cursor.execute(f"SELECT %s::{field.cast_db_type(connection)}[]", [text])
        assert cursor.fetchone() == (values,)


def test_json_is_written_with_its_quotes_escaped() -> None:
    assert arrays.of_column(column("data"), [{"a": 'b"\\'}, None]) == r'{"{\"a\": \"b\\\"\\\\\"}",NULL}'


def test_ids_and_references_are_written_without_dashes() -> None:
    assert arrays.of_ids([KEY, KEY]) == arrays.of_column(column("workload"), [KEY, KEY])
    assert arrays.of_ids([]) == "{}"
    assert arrays.of_ids([KEY]) == "{01a2000000007000800000000000000f}"


def test_what_an_enumeration_holds_is_written_as_its_value() -> None:
    assert arrays.of_column(column("kind"), [EventKind.SUBMITTED]) == '{"submitted"}'


@pytest.mark.parametrize(
    ("name", "value"), [("at", NOON), ("data", {"a": 1}), ("name", NASTY), ("held", False)]
)
def test_what_all_rows_share_stands_in_each_of_them(name: str, value: Any) -> None:
    one = arrays.of_column(column(name), [value])
    assert arrays.of_column(column(name), [value, value]) == f"{{{one[1:-1]},{one[1:-1]}}}"
    assert arrays.of_column(column(name), [value, value, None]) == f"{{{one[1:-1]},{one[1:-1]},NULL}}"
