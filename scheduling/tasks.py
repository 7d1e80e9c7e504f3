"""Bells for Celery and the embedded timer; each calls one function."""

import logging
import time

from celery import shared_task
from celery.signals import worker_shutdown
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from scheduling.cycle import cycle, lease, usage, wake_ups
from teams import retention

logger = logging.getLogger(__name__)

STANDS_BY_SECONDS = 0.5
"""How long a process whose turn it is not leaves the queue to the other one, after each message."""


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def run_cycle() -> None:
    """Run a scheduling cycle, at the pace of cycles."""
    cycle.rest()
    cycle.run_cycle()
    if settings.REDIS and not lease.is_mine():
        # Both wait at the same queue: the message goes to the other one, who takes it while this one sleeps.
        wake_ups.hand_on()
        time.sleep(STANDS_BY_SECONDS)


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def sample_usage() -> None:
    """Record what teams hold in this minute."""
    usage.sample(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def roll_up_usage() -> None:
    """Keep samples by the hour of what is older than a day."""
    usage.roll_up(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def prune_cycles() -> None:
    """Delete cycles that nobody will replay any more."""
    cycle.prune(older_than=retention.kept(retention.RetentionKind.CYCLES), now=timezone.now())


@worker_shutdown.connect  # type: ignore[untyped-decorator]  # celery has no types
def give_turn_back(**_: object) -> None:
    """Let another worker take over at once when this one stops in order."""
    try:
        lease.give_back()
    except DatabaseError:
        logger.info("The turn could not be given back; it ends by itself within seconds.")
