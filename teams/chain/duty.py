"""The recurring check: what is new each time, every row once a day, for some seconds a time; and what it found."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min
from django.utils import timezone

from teams.chain import sealing
from teams.chain.checking import check, present, strangers
from teams.chain.faults import Known, known_breaks
from teams.chain.rows import ChainHead
from teams.models import AuditChain, AuditCheck, AuditUnsealed

logger = logging.getLogger(__name__)

CHECKS_FOR_SECONDS = 2.0
"""Of each of both checks; other duties of the same worker wait meanwhile."""
WHOLE_EVERY = timedelta(days=1)
SEALED_WITHIN = timedelta(minutes=10)
CHECKED_WITHIN = timedelta(minutes=10)
WHOLE_WITHIN = 2 * WHOLE_EVERY


def look(now: datetime) -> AuditCheck:
    """Check what is new, and go on with the check of every row where one is due; store and return what was found.

    One that found a fault begins there again each time, until what is there fits.
    """
    sealing.try_refused_again()
    with suppress(sealing.HeadLost):  # the check tells it
        sealing.seal()
    last = AuditCheck.objects.filter(pk=1).first() or AuditCheck(pk=1, at=now)
    before, seen_at = last.fault, last.at
    new = check(_place(last.number, last.digest), for_seconds=CHECKS_FOR_SECONDS)
    last.at, last.number, last.digest = now, new.head.number, new.head.digest
    last.fault = new.fault.text if new.fault else _whole(last, now)
    if not _store(last, seen_at):
        return AuditCheck.objects.get(pk=1)  # a fault was accepted meanwhile, and all checked for that
    if last.fault and last.fault != before:
        logger.error("The audit trail's chain does not hold. %s", last.fault)
    elif before and not last.fault:
        logger.warning("The audit trail's chain holds again%s.", known_breaks().words)
    if new.rows and not new.fault:
        # Outside of the database: what it says later can be compared with this.
        logger.info("The audit trail's chain holds up to %s.", new.head)
    return last


def _store(last: AuditCheck, seen_at: datetime) -> bool:
    """Store what was found, unless somebody else did since this check began."""
    rows = AuditCheck.objects.filter(pk=1)
    values = {
        field.name: getattr(last, field.name) for field in AuditCheck._meta.fields if field.name != "id"
    }
    if rows.filter(at=seen_at).update(**values):
        return True
    if rows.exists():
        return False
    AuditCheck.objects.bulk_create([last], ignore_conflicts=True)
    return True


def _whole(last: AuditCheck, now: datetime) -> str:
    """Go on with the check of every row, or begin it where it is due; return what does not fit."""
    if last.whole_began_at is None:
        if last.whole_at is not None and now - last.whole_at < WHOLE_EVERY:
            return ""
        last.whole_began_at, last.whole_number, last.whole_digest = now, 0, ""
    found = check(_place(last.whole_number, last.whole_digest), for_seconds=CHECKS_FOR_SECONDS)
    last.whole_number, last.whole_digest = found.head.number, found.head.digest
    if found.fault:
        return found.fault.text
    if found.head.number < last.number:
        return ""
    if fault := strangers():
        return fault.text
    last.whole_at, last.whole_began_at = now, None
    return ""


def _place(number: int, digest: str) -> ChainHead | None:
    return ChainHead(number, digest) if number else None


@dataclass(frozen=True, slots=True)
class ChainState:
    """What is known of the chain. `waiting` rows are not sealed, the oldest `since`; `check` is None before the first
    check; `known` breaks were accepted.
    """

    chain: AuditChain
    check: AuditCheck | None
    waiting: int
    since: datetime | None
    known: Known = Known()  # noqa: RUF009 - it is frozen

    @property
    def holds(self) -> bool:
        """Whether the last check found that all fits; not while there was none."""
        return self.check is not None and not self.check.fault


def standing() -> ChainState:
    """Return what is known of the chain, nothing looked at anew (4 queries)."""
    rows = AuditUnsealed.objects.filter(refused=False).aggregate(waiting=Count("*"), since=Min("event__at"))
    return ChainState(present(), AuditCheck.objects.filter(pk=1).first(), **rows, known=known_breaks())


def is_late(moment: datetime | None, within: timedelta) -> bool:
    """Return whether a moment is further back than it should be; False for none."""
    return moment is not None and timezone.now() - moment > within
