"""Duties of the audit trail's chain."""

from celery import shared_task
from django.utils import timezone

from teams.chain import duty, sealing


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def seal_audit() -> int:
    """Put new rows of the trail into its chain; return how many."""
    return sealing.seal()


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def check_audit() -> bool:
    """Check the chain, for some seconds; return whether it holds."""
    return not duty.look(timezone.now()).fault
