"""Columns read as text: what the database sends is compared as it is, and turned into objects only where it is new."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db.models import F, Func, TextField
from django.db.models.functions import Cast


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


def moment_of(text: str | None) -> datetime | None:
    """Return a moment read as text."""
    if text is None:
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
