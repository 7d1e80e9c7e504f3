"""Writing many rows, each its own values, in one statement."""

from collections.abc import Collection, Sequence
from typing import Any, cast

from django.db import connection
from django.db.models import Field, Model

MOST_PARAMETERS = 20_000


def update_each(rows: Collection[Model], fields: Sequence[str]) -> int:
    """Store these fields of the rows, which have primary keys; return how many were there.

    What Django's `bulk_update` does, at a tenth of its cost: a join with the values instead of a tree of expressions
    for each of them. One statement for some thousands of rows; triggers see each row.
    """
    if not rows:
        return 0
    model = type(next(iter(rows)))
    meta, quote = model._meta, connection.ops.quote_name
    columns: list[Field[Any, Any]] = [
        meta.pk,
        *(cast("Field[Any, Any]", meta.get_field(name)) for name in fields),
    ]
    # In a list of values PostgreSQL takes each type from the first row.
    typed = connection.vendor == "postgresql"
    places = [f"%s::{column.cast_db_type(connection)}" if typed else "%s" for column in columns]
    row_sql = f"({', '.join(places)})"
    assigned = ", ".join(
        f"{quote(str(column.column))} = v.column{n}" for n, column in enumerate(columns[1:], start=2)
    )
    table, per_statement = quote(meta.db_table), MOST_PARAMETERS // len(columns)
    listed, changed = list(rows), 0
    with connection.cursor() as cursor:
        for start in range(0, len(listed), per_statement):
            part = listed[start : start + per_statement]
            values = [
                column.get_db_prep_save(getattr(row, column.attname), connection)
                for row in part
                for column in columns
            ]
            cursor.execute(
                f"UPDATE {table} SET {assigned} FROM (VALUES {', '.join([row_sql] * len(part))}) AS v "  # noqa: S608
                f"WHERE {table}.{quote(str(meta.pk.column))} = v.column1",
                values,
            )
            changed += cursor.rowcount
    return changed
