"""`id__in=[...]` with the ids as one array where the database has arrays: nothing to parse for each of them."""

from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db.models import ForeignKey, UUIDField
from django.db.models.fields.related_lookups import RelatedIn
from django.db.models.lookups import In

from chamber import arrays

COLLECTIONS = (list, tuple, set, frozenset, dict)
"""What ids may come in; a dict stands for its keys."""


class _AsArray:
    """What both kinds of `in` do with UUIDs on PostgreSQL; other values, and queries, go as Django has it."""

    rhs: Any
    process_lhs: Any
    as_sql: Any

    def get_prep_lookup(self) -> Any:
        """Return the ids as they are, instead of asking the column of each what it is."""
        if isinstance(self.rhs, COLLECTIONS) and all(isinstance(key, UUID) for key in self.rhs):
            return list(self.rhs)
        return super().get_prep_lookup()  # type: ignore[misc]  # of the lookup that this is mixed into

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return `column = ANY(array)`."""
        if not isinstance(self.rhs, list) or not all(isinstance(key, UUID) for key in self.rhs):
            sql: tuple[str, list[Any]] = self.as_sql(compiler, connection)
            return sql
        if not self.rhs:
            raise EmptyResultSet
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} = ANY(%s::uuid[])", [*parameters, arrays.of_ids(self.rhs)]


class InIds(_AsArray, In):
    """`in` of a UUID column."""


class InRelated(_AsArray, RelatedIn):
    """`in` of a reference to a UUID."""


def register() -> None:
    """Have `in` of ids and of references written this way."""
    UUIDField.register_lookup(InIds)
    ForeignKey.register_lookup(InRelated)
