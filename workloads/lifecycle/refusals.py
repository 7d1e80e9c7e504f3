"""Workloads that their cluster refused: how often in a row, what they wait for meanwhile, and who tries them again."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from chamber.bulk import update_each
from teams.actors import Actor
from workloads import reasons
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import lock
from workloads.models import Attempt, EndReason, Event, EventKind, Status, Workload

MOST_LASTING = 8
"""So many refusals in a row that do not pass by themselves put a workload on hold: with the pauses between them that
is after about 20 minutes.
"""


class InARow(NamedTuple):
    """How many attempts of a workload were refused since the last one that was not, how many of these lastingly, and
    how many for what does not surely pass by itself.
    """

    refused: int
    lasting: int
    staying: int


def in_a_row(workload_ids: Iterable[UUID]) -> dict[UUID, InARow]:
    """Return how often workloads were refused, those that were (1 query); an attempt that is open does not count, nor
    does one before somebody had the workload tried anew.
    """
    ended_otherwise = (
        Attempt.objects.filter(workload=OuterRef("workload"))
        .exclude(end_reason__in=("", EndReason.REFUSED))
        .order_by("-number")
    )
    since = Coalesce(Subquery(ended_otherwise.values("number")[:1]), 0)
    anew = Event.objects.filter(workload=OuterRef("workload"), kind=EventKind.RELEASED, data__anew=True)
    tried = Attempt.objects.filter(
        workload__in=list(workload_ids), end_reason=EndReason.REFUSED, number__gt=since
    ).order_by()
    tried = tried.annotate(anew_at=Subquery(anew.order_by("-sequence").values("at")[:1]))
    refused = tried.filter(Q(anew_at=None) | Q(ended_at__gt=F("anew_at")))
    lasting = Count("pk", filter=Q(end_detail__code__in=sorted(reasons.LASTING)))
    staying = Count("pk", filter=~Q(end_detail__code__in=sorted(reasons.PASSING)))
    rows = refused.values("workload").annotate(refused=Count("pk"), lasting=lasting, staying=staying)
    return {row["workload"]: InARow(row["refused"], row["lasting"], row["staying"]) for row in rows}


def hold_many(refused: Mapping[UUID, reasons.WorkloadEnd], *, by: Actor, at: datetime) -> set[UUID]:
    """Keep waiting workloads from starting before they are tried again, each with its reason; return those for which it
    was a change. What somebody else holds stays as it is.
    """
    locked = lock(refused).values()
    reasons_now = dict(Workload.objects.filter(pk__in=[row.pk for row in locked]).values_list("pk", "reason"))
    rows = [
        row
        for row in locked
        if row.status == Status.PENDING
        and (not row.held or reasons_now[row.pk].get("code") == refused[row.pk].code)
        and (not row.held or reasons_now[row.pk] != refused[row.pk].as_json())
    ]
    if not rows:
        return set()
    journal = Journal(by=by, at=at, rows=rows)
    for row in rows:
        row.held, row.reason, row.version = True, refused[row.pk].as_json(), row.version + 1
        journal.add(row, EventKind.HELD, refused[row.pk].message, data={"status": row.status})
    update_each(rows, ["held", "reason", "version"])
    journal.write(ring=True)
    return {row.pk for row in rows}


def try_again_many(
    ids: Iterable[UUID], *, by: Actor, at: datetime, why: str, anew: bool = False
) -> set[UUID]:
    """Let waiting workloads that their cluster refused start at once; return the ids of those that were.

    They keep how often they were refused: those that were put on hold for it are so again after the next refusal.
    `anew`: somebody mended them, so it is counted anew.
    """
    looked_at = lock(ids).values()
    refused = Workload.objects.filter(pk__in=[row.pk for row in looked_at], reason__kind=reasons.REFUSED)
    waiting = set(refused.filter(status=Status.PENDING).values_list("pk", flat=True))
    rows = [row for row in looked_at if row.pk in waiting]
    if not rows:
        return set()
    journal = Journal(by=by, at=at, rows=rows)
    Workload.objects.filter(pk__in=waiting).update(
        held=False, backoff_until=None, reason={}, reason_code="", version=F("version") + 1
    )
    for row in rows:
        data = {"status": row.status, **({"anew": True} if anew else {})}
        journal.add(row, EventKind.RELEASED, f"Tried again: {why}", data=data)
    journal.write(ring=True)
    return waiting
