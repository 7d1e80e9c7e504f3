"""What a submission of an array stores: the array, its members, their events, and what each has besides.

Members are rows of one statement each table, made from the first member's: ten thousand cost some seconds so.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.db.models.base import ModelState
from django.utils.text import slugify

from chamber.bulk import insert_each
from chamber.ids import new_ids, unique_slug
from teams.actors import Actor
from workloads.arrays.asked import ARRAY, INDEX, SIZE, ArrayMember, ArrayRequest
from workloads.models import (
    Credential,
    DataSource,
    Event,
    EventKind,
    MountedSource,
    NamedCredential,
    Workload,
    WorkloadArray,
)

LONGEST_STEM = 40
"""Of an array's slug: a member's has its index besides."""
EVENT = ("workload", "sequence", "at", "kind", "user", "actor", "via", "message", "data")
OWN = ("id", "slug", "environment", "array_index", "folded")
"""Columns in which members differ."""


@dataclass(frozen=True, slots=True)
class NewArray:
    """An array as it is stored: its first member, and the ids of all members in the order of their indexes."""

    array: WorkloadArray
    asked: ArrayRequest
    first: Workload
    ids: Sequence[UUID]

    @property
    def by_index(self) -> dict[int, UUID]:
        """Return the ids of the members by their indexes."""
        return dict(zip(self.asked.indexes, self.ids, strict=True))


def slug_of(name: str) -> str:
    """Return a slug for an array of this name."""
    return unique_slug(slugify(name)[:LONGEST_STEM] or "array")


def variables_of(array: WorkloadArray, member: ArrayMember) -> dict[str, str]:
    """Return the variables that a member has of its array."""
    return {ARRAY: array.slug, INDEX: str(member.index), SIZE: str(array.size), **member.parameters}


def create(
    template: Workload,
    asked: ArrayRequest,
    max_parallel: int | None,
    *,
    by: Actor,
    at: datetime,
    message: str,
) -> NewArray:
    """Store an array with its members and their first events; `template` is what all have in common, unsaved.

    Three statements, or as many as the database takes the rows in.
    """
    array = WorkloadArray.objects.create(
        slug=slug_of(template.name),
        name=template.name,
        owner=template.owner,
        team=template.team,
        size=asked.size,
        max_parallel=max_parallel,
        parameters=list(asked.parameters),
        asked=asked.as_json(),
        submitted_at=template.submitted_at,
    )
    ids = new_ids(asked.size)
    insert_each(Workload, [field.name for field in _fields()], _rows(array, template, asked, ids, at))
    insert_each(Event, EVENT, _events(array, template, asked, ids, by=by, at=at, message=message))
    return NewArray(array, asked, _first(array, template, asked, ids), ids)


def name_credentials(new: NewArray, credentials: Sequence[Credential]) -> None:
    """Store that each member names these credentials, in this order."""
    _each_has(new, NamedCredential, "credential", [credential.pk for credential in credentials])


def mount(new: NewArray, sources: Sequence[DataSource]) -> None:
    """Store that each member mounts these data sources, in this order."""
    _each_has(new, MountedSource, "source", [source.pk for source in sources])


def _each_has(new: NewArray, rows: type[Model], column: str, named: Sequence[UUID]) -> None:
    pairs = [(key, position, each) for position, each in enumerate(named) for key in new.ids]
    keys = new_ids(len(pairs)) if pairs else []
    columns = ("id", "workload", "position", column)
    insert_each(rows, columns, [(pk, *pair) for pk, pair in zip(keys, pairs, strict=True)])


def _fields() -> list[Any]:
    return list(Workload._meta.concrete_fields)


def _first(array: WorkloadArray, template: Workload, asked: ArrayRequest, ids: Sequence[UUID]) -> Workload:
    """Return the first member as it is stored."""
    first = copy.copy(template)
    first._state = ModelState()
    first._state.adding, first._state.db = False, "default"
    first._state.fields_cache = dict(template._state.fields_cache)
    member = next(asked.members())
    first.pk, first.slug, first.array, first.array_index = (
        ids[0],
        f"{array.slug}-{member.index}",
        array,
        member.index,
    )
    first.environment = {**template.environment, **variables_of(array, member)}
    return first


def _rows(
    array: WorkloadArray, template: Workload, asked: ArrayRequest, ids: Sequence[UUID], at: datetime
) -> list[list[Any]]:
    """Return the members' rows, each with the values of all columns."""
    common = {field.name: getattr(template, field.attname) for field in _fields()}
    common |= {"array": array.pk, "created_at": at}
    names, slug, environment = list(common), array.slug, template.environment
    places = [names.index(name) for name in OWN]
    shared = list(common.values())
    rows: list[list[Any]] = []
    for key, member in zip(ids, asked.members(), strict=True):
        own = (
            key,
            f"{slug}-{member.index}",
            {**environment, **variables_of(array, member)},
            member.index,
            True if rows else None,
        )
        row = shared.copy()
        for place, value in zip(places, own, strict=True):
            row[place] = value
        rows.append(row)
    return rows


def _events(
    array: WorkloadArray,
    template: Workload,
    asked: ArrayRequest,
    ids: Sequence[UUID],
    *,
    by: Actor,
    at: datetime,
    message: str,
) -> Iterator[tuple[Any, ...]]:
    """Yield the first event of each member."""
    user = None if by.user is None else by.user.pk
    data = {"status": str(template.status)}
    for key, index in zip(ids, asked.indexes, strict=True):
        text = f"{message} Member {index} of the array {array.slug}."
        yield key, 1, at, EventKind.SUBMITTED, user, by.name, by.via, text, data
