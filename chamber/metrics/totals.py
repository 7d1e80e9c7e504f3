"""Running totals of what cycles did: they only grow, whatever of the history is pruned.

A duty folds each cycle in once, by its number. Nothing hot is written: cycles store their own sums in the transaction
that they make anyway, and only this duty writes totals.
"""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from chamber.models import Mark, Total
from scheduling.cycle.totals import CycleTally, Sum
from scheduling.models import Cycle
from workloads.models import Attempt, EndReason

CYCLE = "cycle"
CYCLE_FAILURE = "cycle-failure"
DECISION = "decision"
LEFT_OUT = "left-out"

CYCLE_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
AT_ONCE = 500
"""Cycles of one transaction."""

DISPLACED = "displaced"
"""Attempts that ended through no doing of their workload, by cause."""

MARK = "totals"
MARK_OF_DISPLACED = "displaced"
SETTLED_AFTER = timedelta(seconds=30)
"""Transactions that recorded an end are over by then."""
FIELDS = ("number", "took_ms", "decisions", "left_out", "figures__tally", "figures__error")


def add_up() -> int:
    """Add the cycles that are new to the totals; return how many those were (5 queries for each 500). Attempts that
    were displaced are added besides (5 queries).
    """
    _add_displaced(timezone.now() - SETTLED_AFTER)
    total = 0
    while True:
        added = _add_some()
        total += added
        if added < AT_ONCE:
            return total


@transaction.atomic
def _add_some() -> int:
    """Add the next few cycles. The mark's row is locked, so that two processes never add the same ones."""
    Mark.objects.get_or_create(
        pk=MARK, defaults={"at": timezone.now(), "said_by": "", "details": {"cycle": 0}}
    )
    mark = Mark.objects.select_for_update().get(pk=MARK)
    new = Cycle.objects.filter(number__gt=mark.details["cycle"]).order_by("number")
    cycles = list(new.values_list(*FIELDS)[:AT_ONCE])
    if not cycles:
        return 0
    found = CycleTally()
    stored: list[dict[str, Any]] = []
    for _, took_ms, decisions, left_out, tally, error in cycles:
        if error is not None:
            found.add(CYCLE_FAILURE, 1)
            continue
        found.observe(CYCLE, took_ms / 1000, CYCLE_BOUNDS)
        found.add(DECISION, decisions)
        found.add(LEFT_OUT, left_out)
        stored += tally or []
    _store([Sum(**entry) for entry in (*found.as_json(), *stored)])
    mark.at, mark.details = timezone.now(), {"cycle": cycles[-1][0]}
    mark.save(update_fields=["at", "details"])
    return len(cycles)


@transaction.atomic
def _add_displaced(until: datetime) -> None:
    """Add the attempts that were displaced since the last time; the mark's row keeps two processes apart."""
    defaults = {"at": timezone.now(), "said_by": "", "details": {"until": until.isoformat()}}
    Mark.objects.get_or_create(pk=MARK_OF_DISPLACED, defaults=defaults)
    mark = Mark.objects.select_for_update().get(pk=MARK_OF_DISPLACED)
    since = datetime.fromisoformat(mark.details["until"])
    if until <= since:
        return
    ended = Attempt.objects.filter(
        end_reason__in=(EndReason.DISPLACED, EndReason.LOST), ended_at__gt=since, ended_at__lte=until
    )
    counts = ended.order_by().values("end_detail__code").annotate(n=Count("pk"))
    _store(
        Sum(DISPLACED, {"cause": cause or ""}, count=count)
        for cause, count in counts.values_list("end_detail__code", "n")
    )
    mark.at, mark.details = timezone.now(), {"until": until.isoformat()}
    mark.save(update_fields=["at", "details"])


def _store(sums: Iterable[Sum]) -> None:
    """Add the sums to their totals."""
    totals = {(row.name, row.labels): row for row in Total.objects.all()}
    for found in sums:
        key = found.name, canonical(found.labels)
        total = totals.setdefault(key, Total(name=key[0], labels=key[1], buckets={}))
        total.count += found.count
        total.amount += found.amount
        for bound, count in found.buckets.items():
            total.buckets[bound] = total.buckets.get(bound, 0) + count
    Total.objects.bulk_create(
        totals.values(),
        update_conflicts=True,
        unique_fields=["name", "labels"],
        update_fields=["count", "amount", "buckets"],
    )


def canonical(labels: dict[str, str]) -> str:
    """Return labels as the text that totals are found by."""
    return json.dumps(labels, sort_keys=True, separators=(",", ":"))
