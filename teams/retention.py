"""How far back history is kept; the horizon moves, and what lies before it goes."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from teams.models import AuditEvent, Horizon

BATCH = 1000


def move_horizon(now: datetime) -> datetime:
    """Move the horizon to `CHAMBER_KEEP_DAYS` ago, and return it; it never moves back."""
    wanted = now - timedelta(days=settings.CHAMBER_KEEP_DAYS)
    with transaction.atomic():
        horizon, made = Horizon.objects.select_for_update().get_or_create(
            pk=1, defaults={"kept_from": wanted}
        )
        if not made and horizon.kept_from < wanted:
            Horizon.objects.filter(pk=1).update(kept_from=wanted)
            horizon.kept_from = wanted
    return horizon.kept_from


def forget_audit(before: datetime) -> int:
    """Delete the audit events that lie before, some of them: call it again while it returns a whole `BATCH`."""
    old = AuditEvent.objects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)[:BATCH]
    deleted, _ = AuditEvent.objects.filter(pk__in=list(old)).delete()
    return deleted
