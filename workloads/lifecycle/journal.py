"""Writes the events of one act in two queries or three, and announces the workloads that they are about."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from chamber import live
from teams.actors import Actor
from teams.models import Pool
from workloads.models import Event, EventKind, Workload


class Journal:
    """Gathers events of workloads whose rows are locked; `write` stores them with sequences without gaps."""

    def __init__(self, *, by: Actor, at: datetime) -> None:
        self.at = at
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
        self._rows[row.pk] = row
        self._added[row.pk] = self._added.get(row.pk, 0) + 1
        row.last_event += 1
        self._events.append(
            Event(
                workload=row,
                sequence=row.last_event,
                at=self.at,
                kind=kind,
                user=self._by.user,
                actor=self._by.name,
                via=self._by.via,
                attempt_number=attempt_number,
                message=message,
                data=dict(data or {}),
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


def announce(rows: Iterable[Workload]) -> None:
    """After commit, tell the pages that show these workloads (one query, for the pools' slugs)."""
    rows = list(rows)
    slugs = dict(Pool.objects.values_list("id", "slug"))
    named = {str(pool_id): slug for pool_id, slug in slugs.items()}
    queues: set[str] = set()
    for row in rows:
        chosen = {str(choice) for choice in row.pool_choice}
        if row.pool_id and chosen:
            chosen.add(str(row.pool_id))
        queues.update(named[pool_id] for pool_id in chosen & named.keys()) if chosen else queues.update(
            slugs.values()
        )
    live.announce(
        "workloads",
        "overview",
        *(f"workload:{row.pk}" for row in rows),
        *(f"queue:{slug}" for slug in sorted(queues)),
    )
