"""The one function that changes a status, on rows that are locked and were looked at."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import F

from chamber.errors import Conflict
from workloads.models import Status, Workload
from workloads.models.workload import ADMITTED, OPEN
from workloads.transitions import TRANSITIONS


class IllegalChange(Conflict):
    """A status may not become what was asked."""

    code = "illegal-status-change"


def lock(ids: Iterable[UUID]) -> dict[UUID, Workload]:
    """Return the rows with their team and open attempt, locked until the transaction ends.

    Locked in the order of their ids, so that two transactions never wait for each other in a circle. SQLite
    has no
    row locks and needs none: its transactions begin as the only writer.
    """
    wanted = Workload.objects.select_for_update(of=("self",)).select_related("team", "attempt")
    return {row.pk: row for row in wanted.filter(pk__in=list(ids)).order_by("pk")}


def change_status(rows: Sequence[Workload], to: Status, *, at: datetime, **columns: Any) -> None:
    """Make locked rows `to`, one query for each status that they have now, and raise their versions.

    `columns` are stored with it. Raises `IllegalChange` where the table of transitions does not allow it, and
    `Conflict` where a row is not what was looked at; then nothing may be kept of the transaction.
    """
    columns.setdefault("finished_at", None if to in OPEN else at)
    if to not in ADMITTED:
        columns["attempt"] = None
    for old, same in groupby(sorted(rows, key=lambda row: row.status), key=lambda row: row.status):
        group = list(same)
        if to not in TRANSITIONS[Status(old)]:
            raise IllegalChange(f"{group[0].slug} is {Status(old).label} and cannot become {to.label}.")
        looked_at = Workload.objects.filter(
            pk__in=[row.pk for row in group], status=old, version__in={row.version for row in group}
        )
        changed = looked_at.update(status=to, status_since=at, version=F("version") + 1, **columns)
        if changed != len(group):
            raise Conflict(
                f"{len(group) - changed} of {len(group)} workloads changed meanwhile; nothing was done."
            )
    for row in rows:
        row.status, row.status_since, row.finished_at = to, at, columns["finished_at"]
        row.version += 1
        if to not in ADMITTED:
            row.attempt = None
