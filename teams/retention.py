"""How long each kind of history is kept; the horizon moves, and what lies before it goes."""

from datetime import datetime, timedelta
from enum import StrEnum

from django.conf import settings
from django.db import transaction

from teams.chain import sealing
from teams.models import Horizon

BATCH = 1000


class RetentionKind(StrEnum):
    """What is kept for a time of its own, by the word in its setting."""

    WORKLOADS = "WORKLOAD"
    AUDIT = "AUDIT"
    LOGS = "LOG"
    SAMPLES = "SAMPLE"
    CYCLES = "CYCLE"


def kept(kind: RetentionKind) -> timedelta:
    """Return how long this kind is kept: `CHAMBER_KEEP_<kind>_DAYS`, else `CHAMBER_KEEP_DAYS`.

    Logs go with their workload at the latest.
    """
    given: int | None = getattr(settings, f"CHAMBER_KEEP_{kind}_DAYS")
    days = settings.CHAMBER_KEEP_DAYS if given is None else given
    if kind is RetentionKind.LOGS:
        return min(timedelta(days=days), kept(RetentionKind.WORKLOADS))
    return timedelta(days=days)


def move_horizon(now: datetime) -> datetime:
    """Move the horizon to where the first of workloads and audit trail may go, and return it; it never moves back."""
    wanted = now - min(kept(RetentionKind.WORKLOADS), kept(RetentionKind.AUDIT))
    with transaction.atomic():
        horizon, made = Horizon.objects.select_for_update().get_or_create(
            pk=1, defaults={"kept_from": wanted}
        )
        if not made and horizon.kept_from < wanted:
            Horizon.objects.filter(pk=1).update(kept_from=wanted)
            horizon.kept_from = wanted
    return horizon.kept_from


def before(kind: RetentionKind, horizon: datetime, now: datetime) -> datetime:
    """Return before when this kind goes: never later than the horizon, which the database holds it to."""
    return min(horizon, now - kept(kind))


def forget_audit(before: datetime) -> int:
    """Delete the audit events that lie before, some of them: call it again while it returns a whole `BATCH`.

    Only those that are in the chain, from its beginning on: what is left can be checked.
    """
    return sealing.forget(before, BATCH)
