"""Bells for Celery and the embedded timer; each calls one function."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from scheduling import cycle, usage

CYCLES_KEPT = timedelta(days=7)


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def run_cycle() -> None:
    """Run a scheduling cycle."""
    cycle.run_cycle()


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def sample_usage() -> None:
    """Record what teams hold in this minute."""
    usage.sample(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def prune_cycles() -> None:
    """Delete cycles that nobody will replay any more."""
    cycle.prune(older_than=CYCLES_KEPT, now=timezone.now())
