"""Columns read as text: what the database sends is compared as it is, and turned into objects only where it is new."""

import json
from collections.abc import Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import F, Func, QuerySet, TextField, Value
from django.db.models.functions import Cast, Coalesce

Lines = Set[str]
"""Rows as the database writes them: a line for each, its columns parted by tabs."""


class IdText(Func):
    """A UUID as text with its hyphens, as `str(uuid)` writes it."""

    output_field = TextField()
    template = "(%(expressions)s)::text"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps UUIDs as 32 digits."""
        parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        template = " || '-' || ".join(f"substr(%(expressions)s, {at}, {size})" for at, size in parts)
        return self.as_sql(compiler, connection, template=f"({template})", **extra)


def ids(*names: str) -> list[IdText]:
    """Return these UUID columns as text."""
    return [IdText(F(name)) for name in names]


def texts(*names: str) -> list[Cast]:
    """Return these columns (moments, JSON) as text, as the database writes it."""
    return [Cast(F(name), TextField()) for name in names]


class Quoted(Func):
    """A text as JSON: whatever it contains, in one line and without a tab."""

    output_field = TextField()
    function = "to_json"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite has another name for it."""
        return self.as_sql(compiler, connection, function="json_quote", **extra)


class _Line(Func):
    """Columns as one line. They must not be null."""

    output_field = TextField()
    template = "concat_ws(chr(9), %(expressions)s)"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite joins texts by an operator."""
        template = "%(expressions)s"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" || char(9) || ", **extra)


WRITTEN = {"postgresql": "string_agg(line, chr(10))", "sqlite": "group_concat(line, char(10))"}
"""All lines as one text."""


def or_empty(*names: str) -> list[Coalesce]:
    """Return these columns as text, nothing as the empty one."""
    return [Coalesce(text, Value("")) for text in texts(*names)]


def as_lines(rows: QuerySet[Any], *columns: Any) -> QuerySet[Any]:
    """Return a question for all rows as lines, which costs a third of fetching them column by column.

    Columns are not null (`or_empty`), and what anybody may have written is JSON, or `Quoted`. No two rows are equal.
    """
    return rows.order_by().values(line=_Line(*columns))


def lines_of(*tables: QuerySet[Any]) -> list[Lines]:
    """Read tables, each `as_lines` (1 query)."""
    texts, parameters = [], list[Any]()
    for table in tables:
        lines, values = table.query.sql_with_params()
        texts.append(f"(SELECT {WRITTEN[connection.vendor]} FROM ({lines}) AS lines)")  # noqa: S608 - of Django's compiler
        parameters += values
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(texts)}", parameters)
        written: Sequence[str | None] = cursor.fetchone()
    return [frozenset(text.split("\n")) if text else frozenset() for text in written]


def moment_of(text: str | None) -> datetime | None:
    """Return a moment read as text; None for nothing."""
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def milliseconds_of(text: str | None) -> int | None:
    """Return a moment read as text in whole milliseconds since the epoch."""
    at = moment_of(text)
    return None if at is None else round(at.timestamp() * 1000)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:
    return json.loads(text)


def json_of(text: str) -> Any:
    """Return JSON read as text. Not to be changed: equal texts share what they say."""
    return _parsed(text)
