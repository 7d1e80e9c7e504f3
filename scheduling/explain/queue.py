"""The queue of a pool as somebody may read it: order, reasons, ETAs, and what is kept for the first in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone

from chamber.errors import one_of
from scheduling import engine
from scheduling.explain import last_cycle, newcomers, silence
from scheduling.explain.explanation import Explanation, label
from scheduling.explain.last_cycle import LastCycle
from scheduling.explain.reader import called, eta_in_words
from scheduling.explain.workload import explain_many
from scheduling.reading.translate import moment
from teams.models import Pool
from teams.permissions import Permission, may
from workloads.models import Status, Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

PAGE = 50


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One that waits. `workload` is None where the reader may not know which one it is."""

    key: str
    workload: Workload | None
    team: str
    reserved: bool
    priority: int
    gpus_milli: int | None
    position: int | None
    code: str
    explanation: Explanation
    submitted_at: datetime

    @property
    def label(self) -> str:
        """The reason's code in words."""
        return label(self.code)


@dataclass(frozen=True, slots=True)
class ToldReservation:
    """Nodes kept for the first blocked workload of the queue, from `at` on if that is known; `starts` is that in the
    words of its row."""

    called: str
    nodes: list[str]
    at: datetime | None
    starts: str = ""


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A part of a pool's queue. `waiting` counts those that are pending and not on hold, `outside` those of them that
    stand in no queue, `held` those on hold, which are listed too.
    """

    pool: Pool
    rows: list[QueueRow]
    kept: list[ToldReservation]
    waiting: int
    outside: int
    held: int
    first: int
    before: str | None
    after: str | None

    @property
    def summary(self) -> str:
        """Which part of the queue this is."""
        if not self.rows:
            return ""
        shown = f"{self.first + 1:,} to {self.first + len(self.rows):,} of {self.waiting + self.held:,}"
        aside = f", {self.outside:,} of them not in the queue" if self.outside else ""
        if self.held:
            return f"{shown}: {self.waiting:,} waiting{aside}; {self.held:,} on hold"
        return f"{shown} waiting{aside}"


def pool_for(user: "User | AnonymousUser", slug: str | None) -> Pool | None:
    """Return the named pool, or the first in the organisation's order (None if there is none); 1 query.

    Raises `NotVisible` where there is no such pool for this user, and for who belongs to no team at all.
    """
    pools = Pool.objects.visible_to(user)
    return pools.first() if slug is None else one_of(pools, "pool", field="pool", slug=slug)


def queues_of(workload: Workload) -> list[str]:
    """Return the slugs of the pools whose queues a waiting workload's position depends on (1 query)."""
    if not workload.is_open:
        return []
    accepted = (
        Pool.objects.filter(pk__in=workload.pool_choice) if workload.pool_choice else Pool.objects.all()
    )
    return list(accepted.values_list("slug", flat=True))


def read_queue(user: "User | AnonymousUser", pool: Pool, *, cursor: str = "") -> QueuePage:
    """Return a page of the queue, at most 50 rows, for this reader (6 queries, however long it is).

    Those whom no cycle has looked at stand last, in the order in which they came.
    """
    last = last_cycle.last()
    since, key = newcomers.since(last), str(pool.pk)
    came = since.of_pool(key)
    waits = [row for row in _waits(last, pool) if row not in since.gone] if last else []
    waits += [str(row.id) for row in came]
    first = int(cursor) if is_cursor(cursor) else 0
    shown = [UUID(key) for key in waits[first : first + PAGE]]
    found = Workload.objects.filter(pk__in=shown, status=Status.PENDING).select_related("team", "owner")
    by_id = {row.pk: row for row in found}
    rows = _rows([by_id[key] for key in shown if key in by_id], user, last)
    queued = sum(map(since.waits, last.queue(key))) if last else 0
    aside = last.outside(key) if last else []
    outside = sum(since.waits(row.workload, held=row.held) for row in aside)
    waiting = queued + outside + sum(not row.held for row in came)
    return QueuePage(
        pool=pool,
        rows=rows,
        kept=_kept(last, pool, user) if last else [],
        waiting=waiting,
        outside=outside,
        held=len(waits) - waiting,
        first=first,
        before=str(max(0, first - PAGE)) if first else None,
        after=str(first + PAGE) if first + PAGE < len(waits) else None,
    )


def is_cursor(text: str) -> bool:
    """Return whether this may be the cursor of a queue."""
    return text.isascii() and text.isdecimal() and len(text) < 10


def _waits(last: LastCycle, pool: Pool) -> list[str]:
    """Return who waits here: the queue in its order, then those whom something keeps out of it."""
    key = str(pool.pk)
    return last.queue(key) + [row.workload for row in last.outside(key)]


def _rows(
    workloads: Sequence[Workload], user: "User | AnonymousUser", last: LastCycle | None
) -> list[QueueRow]:
    explained = explain_many(workloads, user, last=last)
    return [_row(workload, explained[workload.pk], user) for workload in workloads]


def _row(workload: Workload, explanation: Explanation, user: "User | AnonymousUser") -> QueueRow:
    visible = may(user, Permission.VIEW_WORKLOADS, workload.team)
    return QueueRow(
        key=str(workload.pk),
        workload=workload if visible else None,
        team=workload.team.name,
        reserved=workload.is_reserved,
        priority=workload.priority,
        gpus_milli=explanation.asked_milli if workload.size_milli is None else workload.size_milli,
        position=explanation.position,
        code=explanation.code,
        explanation=explanation,
        submitted_at=workload.submitted_at,
    )


def _kept(last: LastCycle, pool: Pool, user: "User | AnonymousUser") -> list[ToldReservation]:
    """Return the pool's start reservation, for this reader (1 query where there is one)."""
    reservations = [kept for kept in last.reservations if kept.pool == str(pool.pk)]
    if not reservations:
        return []
    holders = Workload.objects.select_related("team").in_bulk([UUID(kept.workload) for kept in reservations])
    nodes, undecided, now = last.names.nodes, silence.look().undecided, timezone.now()
    return [
        ToldReservation(
            called=called(holders[UUID(kept.workload)], user),
            nodes=sorted(nodes.get(node, node) for node in kept.nodes),
            at=None if undecided else moment(kept.at),
            starts=eta_in_words(engine.Eta(kept.at, kept.at), now),
        )
        for kept in reservations
        if UUID(kept.workload) in holders
    ]
