"""Writes the events of one act in two queries or three, and announces the workloads that they are about."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from chamber import live
from teams.actors import Actor
from workloads import known
from workloads.models import Event, EventKind, Workload


class Journal:
    """Gathers events of workloads whose rows are locked; `write` stores them with sequences without gaps."""

    def __init__(self, *, by: Actor, at: datetime, rows: Iterable[Workload] = ()) -> None:
        """Begin at `at`, or where that is later, when the status of one of `rows` changed last: whoever waited for
        a lock, or whose clock is behind, writes no history that goes backwards.
        """
        self.at = max([at, *(row.status_since for row in rows)])
        self._by = by
        self._events: list[Event] = []
        self._rows: dict[UUID, Workload] = {}
        self._added: dict[UUID, int] = {}

    def add(
        self,
        row: Workload,
        kind: EventKind,
        message: str,
        *,
        attempt_number: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Note what happened to `row`, whose `last_event` must be what the locked row holds."""
        self._added[row.pk] = self._added.get(row.pk, 0) + 1
        row.last_event += 1
        self._note(row, kind, message, attempt_number, data or {})

    def add_change(
        self, row: Workload, message: str, *, number: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Note the status that `row` has just been given by `status.change_status`, which counts this event."""
        self._note(row, EventKind.STATUS, message, number, {**(data or {}), "status": row.status})

    def _note(
        self, row: Workload, kind: EventKind, message: str, number: int | None, data: Mapping[str, Any]
    ) -> None:
        self._rows[row.pk] = row
        self._events.append(
            Event(
                workload=row,
                sequence=row.last_event,
                at=self.at,
                kind=kind,
                user=self._by.user,
                actor=self._by.name,
                via=self._by.via,
                attempt_number=number,
                message=message,
                data=dict(data),
            )
        )

    def write(self, *, ring: bool = False) -> None:
        """Store the events, announce after commit, and ring the scheduler where GPUs were freed or asked
        for.
        """
        if not self._rows:
            return
        Event.objects.bulk_create(self._events)
        for count in sorted(set(self._added.values())):
            ids = [workload_id for workload_id, added in self._added.items() if added == count]
            Workload.objects.filter(pk__in=ids).update(last_event=F("last_event") + count)
        announce(self._rows.values())
        if ring:
            live.ring()
        self._events, self._rows, self._added = [], {}, {}


class Shown(NamedTuple):
    """What says on which pages a workload is shown. `pool_choice` holds ids of pools as text."""

    pk: UUID
    owner_id: UUID
    pool_id: UUID | None
    pool_choice: list[str]


def announce(rows: Iterable[Workload | Shown]) -> None:
    """After commit, tell the pages that show these workloads."""
    rows = list(rows)
    if not rows:
        return
    named = known.pools().slugs
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
