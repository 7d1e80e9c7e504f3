"""The one function that changes a status, on rows that are locked and were looked at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any
from uuid import UUID

from django.db.models import F

from chamber.errors import Conflict
from chamber.words import count
from teams.models.job_class import RESERVED_FROM
from workloads.models import Attempt, Status, Workload
from workloads.models.workload import ADMITTED, OPEN
from workloads.transitions import TRANSITIONS

LOOKED_AT = (
    "slug", "team", "owner", "priority", "job_class", "pods", "min_pods", "pool_choice", "on_preemption",
    "max_requeues", "max_retries", "status", "status_since", "held", "requeues", "failures", "pool", "attempt",
    "version", "last_event",
)  # fmt: skip
"""What changes of a life look at. How a workload runs, which may be large, is none of it."""


@dataclass(slots=True)
class AdmissionRow:
    """What an admission looks at of a locked row, and what it changes: a plan's starts are many, and a whole `Workload`
    costs as much as all that is done with it.
    """

    pk: UUID
    slug: str
    owner_id: UUID
    pool_id: UUID | None
    pool_choice: list[str]
    priority: int
    job_class: str
    status: str
    status_since: datetime
    start_after: datetime | None
    held: bool
    version: int
    last_event: int
    attempt_id: UUID | None
    attempt: Attempt | None = None
    finished_at: datetime | None = None

    @property
    def is_reserved(self) -> bool:
        """Return whether it is of the reserved class."""
        return self.priority >= RESERVED_FROM

    @property
    def waits_since(self) -> datetime:
        """Return when it came to the queue: when it became Pending, or could first start if that was later."""
        return max(self.status_since, self.start_after or self.status_since)


WAITING = (
    "pk", "slug", "owner_id", "pool_id", "pool_choice", "priority", "job_class", "status", "status_since",
    "start_after", "held", "version", "last_event", "attempt_id",
)  # fmt: skip
Row = Workload | AdmissionRow
"""A locked row."""


class IllegalChange(Conflict):
    """A status may not become what was asked."""

    code = "illegal-status-change"


def lock(ids: Iterable[UUID], *, skip_locked: bool = False) -> dict[UUID, Workload]:
    """Return the rows with their open attempts, locked in the order of their ids until the transaction ends.

    Attempts are read once the locks are held: a join would show them as they were before whoever we waited for
    changed them. They need no locks of their own: but for what it is charged to, nobody changes an open attempt
    without its workload's lock.
    `skip_locked` leaves out what somebody else has locked instead of waiting for it. SQLite has no row locks and
    needs none: its transactions begin as the only writer. Two queries, one where nothing is admitted.
    """
    wanted = Workload.objects.select_for_update(skip_locked=skip_locked).filter(pk__in=list(ids))
    rows = {row.pk: row for row in wanted.only(*LOOKED_AT).order_by("pk")}
    attempts = Attempt.objects.in_bulk([row.attempt_id for row in rows.values() if row.attempt_id])
    for row in rows.values():
        row.attempt = attempts[row.attempt_id] if row.attempt_id else None
    return rows


def lock_waiting(ids: Iterable[UUID]) -> dict[UUID, AdmissionRow]:
    """Lock the rows as `lock` does, and return what an admission looks at of them (1 query).

    Who was admitted is returned without his attempt: what is to be done with him takes his row from `lock`.
    """
    wanted = Workload.objects.select_for_update().filter(pk__in=list(ids)).order_by("pk")
    return {columns[0]: AdmissionRow(*columns) for columns in wanted.values_list(*WAITING)}


def change_status(
    rows: Sequence[Row],
    to: Status,
    *,
    at: datetime,
    through: Sequence[Status] = (),
    further_events: int = 0,
    **columns: Any,
) -> None:
    """Make locked rows `to`, one query for each status that they have now, and raise their versions.

    Whoever is told of several steps at once names those before the last: `through` them the rows go in the same query,
    each a change that raises the version. It counts the event that tells of each change, and `further_events` that are
    told with them: whoever calls adds them to a journal (`add_change`, `add_counted`) before anything else. `columns`
    are stored with it. Raises `IllegalChange` where the table of transitions does not allow it, and
    `Conflict` where a row is not what was looked at; then nothing may be kept of the transaction.
    """
    columns.setdefault("finished_at", None if to in OPEN else at)
    if to not in ADMITTED:
        columns["attempt"] = None
    steps = (*through, to)
    for old, same in groupby(sorted(rows, key=lambda row: row.status), key=lambda row: row.status):
        group = list(same)
        for before, after in pairwise((Status(old), *steps)):
            if after not in TRANSITIONS[before]:
                raise IllegalChange(f"{group[0].slug} is {before.label} and cannot become {after.label}.")
        looked_at = Workload.objects.filter(
            pk__in=[row.pk for row in group], status=old, version__in={row.version for row in group}
        )
        raised = {
            "version": F("version") + len(steps),
            "last_event": F("last_event") + len(steps) + further_events,
        }
        changed = looked_at.update(status=to, status_since=at, **raised, **columns)
        if changed != len(group):
            raise Conflict(
                f"{len(group) - changed} of {count(len(group), 'workload')} changed meanwhile; nothing was done."
            )
    for row in rows:
        row.status, row.status_since, row.finished_at = to, at, columns["finished_at"]
        row.version += len(steps)
        if to not in ADMITTED:
            row.attempt = None
