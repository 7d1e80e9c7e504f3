"""Writes the events of one act in two queries or three, and announces the workloads that they are about."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from chamber import live
from chamber.bulk import insert_each
from teams.actors import Actor
from workloads import known
from workloads.lifecycle import lines
from workloads.lifecycle.status import Row
from workloads.models import Event, EventKind, Status, Workload

WRITTEN = (
    "workload", "sequence", "at", "kind", "user", "actor", "via", "attempt_number", "message", "data",
)  # fmt: skip


class Journal:
    """Gathers events of workloads whose rows are locked; `write` stores them with sequences without gaps."""

    def __init__(self, *, by: Actor, at: datetime, rows: Iterable[Row] = ()) -> None:
        """Begin at `at`, or where that is later, when the status of one of `rows` changed last: whoever waited for
        a lock, or whose clock is behind, writes no history that goes backwards.
        """
        self.at = max([at, *(row.status_since for row in rows)])
        self._by = by
        self._events: list[tuple[Any, ...]] = []
        self._lines: list[lines.JournalLine] = []
        self._rows: dict[UUID, Row] = {}
        self._added: dict[UUID, int] = {}

    def add(
        self,
        row: Row,
        kind: EventKind,
        message: str,
        *,
        attempt_number: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Note what happened to `row`, whose `last_event` must be what the locked row holds."""
        self._added[row.pk] = self._added.get(row.pk, 0) + 1
        self.add_counted(row, kind, message, number=attempt_number, data=data)

    def add_change(
        self,
        row: Row,
        message: str,
        *,
        number: int | None = None,
        data: Mapping[str, Any] | None = None,
        status: Status | None = None,
    ) -> None:
        """Note the status that `row` has just been given by `status.change_status`, which counts this event; `status`
        where it is one that the row went through.
        """
        told = {**(data or {}), "status": status or row.status}
        self.add_counted(row, EventKind.STATUS, message, number=number, data=told)

    def add_counted(
        self,
        row: Row,
        kind: EventKind,
        message: str,
        *,
        number: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Note an event that the stored row counts already."""
        row.last_event += 1
        self._note(row, kind, message, number, data or {})

    def _note(
        self, row: Row, kind: EventKind, message: str, number: int | None, data: Mapping[str, Any]
    ) -> None:
        self._rows[row.pk] = row
        by = self._by
        user = None if by.user is None else by.user.pk
        self._events.append(
            (row.pk, row.last_event, self.at, kind, user, by.name, by.via, number, message, dict(data))
        )

        self._lines.append(lines.JournalLine(row.slug, number, message))

    def write(self, *, ring: bool = False) -> None:
        """Store the events, announce after commit, and ring the scheduler where GPUs were freed or asked
        for.
        """
        if not self._rows:
            return
        insert_each(Event, WRITTEN, self._events)
        for count in sorted(set(self._added.values())):
            ids = [workload_id for workload_id, added in self._added.items() if added == count]
            Workload.objects.filter(pk__in=ids).update(last_event=F("last_event") + count)
        announce(self._rows.values())
        lines.tell(self._lines)
        if ring:
            live.ring()
        self._events, self._lines, self._rows, self._added = [], [], {}, {}


class ShownOn(NamedTuple):
    """What says on which pages a workload is shown. `pool_choice` holds ids of pools as text."""

    pk: UUID
    owner_id: UUID
    pool_id: UUID | None
    pool_choice: list[str]


def announce(rows: Iterable[Row | ShownOn]) -> None:
    """After commit, tell the pages that show these workloads."""
    rows = list(rows)
    if not rows:
        return
    named = known.slugs()
    chosen: set[str] = set()
    for row in rows:
        chosen.update(row.pool_choice)
        if row.pool_id and row.pool_choice:
            chosen.add(str(row.pool_id))
    # Who chose no pool may wait in any.
    waits_anywhere = any(not row.pool_choice for row in rows)
    queues = {slug for pool_id, slug in named.items() if waits_anywhere or pool_id in chosen}
    live.announce(
        "workloads",
        "overview",
        *(f"workload:{row.pk}" for row in rows),
        *(f"owner:{owner_id}" for owner_id in {row.owner_id for row in rows}),
        *(f"queue:{slug}" for slug in sorted(queues)),
    )
