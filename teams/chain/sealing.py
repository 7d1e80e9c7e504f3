"""Sealing: rows that were committed are put into the chain, in one order, by whoever holds the chain's one row.

No act waits for it: an act writes its row of the trail in its own transaction, and a duty seals it seconds later.
"""

import logging
import time
from collections.abc import Iterable
from datetime import datetime
from itertools import takewhile

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from teams.chain.events import ANCHOR, MARK, SEAL, content_of, keyring
from teams.chain.faults import known_breaks, stranger
from teams.chain.rows import BEGIN, ChainHead, anchor_content, digest
from teams.models import AuditChain, AuditEvent, AuditSeal, AuditUnsealed

logger = logging.getLogger(__name__)

BATCH = 500
SEALS_FOR_SECONDS = 1.0
"""Other duties of the same worker wait meanwhile."""


class HeadLost(Exception):  # noqa: N818 - what happened to the chain
    """There are seals, and no row that says where they end."""


def seal(for_seconds: float = SEALS_FOR_SECONDS) -> int:
    """Seal what waits, in batches of a transaction each, for some seconds at most; return how many rows."""
    until, total = time.monotonic() + for_seconds, 0
    while (sealed := seal_batch()) is not None:
        total += sealed
        if time.monotonic() >= until:
            break
    return total


def seal_batch() -> int | None:
    """Seal the next rows, those from before the chain first; return how many, None where nothing waits."""
    if not AuditUnsealed.objects.filter(refused=False).exists() and not _has_older():
        return None
    with transaction.atomic():
        now = timezone.now()
        chain = locked()
        if chain.has_older:
            return _seal_older(chain, now)
        waiting = AuditUnsealed.objects.filter(refused=False).select_related("event")
        rows = list(waiting.order_by("event_id")[:BATCH])
        good = [row.event for row in rows if _is_ours(row.event, chain, now)]
        refused = {row.pk for row in rows} - {event.pk for event in good}
        if refused:
            logger.error(
                "Rows of the audit trail were not written by Chamber, or changed before they were sealed: %s.",
                ", ".join(sorted(map(str, refused))[:5]),
            )
            AuditUnsealed.objects.filter(pk__in=refused).update(refused=True)
        _append(chain, good, now)
        AuditUnsealed.objects.filter(pk__in=[event.pk for event in good]).delete()
    return len(rows) or None


def locked() -> AuditChain:
    """Return the chain's row, locked; make it where no row was ever sealed."""
    chain, made = AuditChain.objects.select_for_update().get_or_create(pk=1)
    if made and AuditSeal.objects.exists():
        raise HeadLost("The row of the audit trail's chain that says where it ends is gone.")
    return chain


def try_refused_again() -> None:
    """Have rows that were refused looked at again: the key that they were written with may be known now."""
    AuditUnsealed.objects.filter(refused=True).update(refused=False)


def head_of(chain: AuditChain) -> ChainHead:
    """Return where the chain ends."""
    return ChainHead(chain.number, chain.digest) if chain.number else BEGIN


def anchor_of(chain: AuditChain) -> ChainHead:
    """Return the place after which the chain begins: of the last row that was deleted because of its age."""
    return ChainHead(chain.anchor_number, chain.anchor_digest) if chain.anchor_number else BEGIN


def _has_older() -> bool:
    return AuditChain.objects.filter(pk=1, has_older=True).exists()


def _is_ours(event: AuditEvent, chain: AuditChain, now: datetime) -> bool:
    """Return whether a process with our key wrote this row as it is, or one of the version before could have.

    One that an operator accepted as it is counts as ours: in the chain it cannot be changed again.
    """
    if event.mark is None and chain.unmarked_until is not None and now < chain.unmarked_until:
        return True
    if event.mark is not None and keyring().proves(event.mark, MARK, content_of(event)):
        return True
    return known_breaks().has(stranger(event))


def _seal_older(chain: AuditChain, now: datetime) -> int:
    """Seal rows that were there before the chain, by their time; what they hold at the upgrade is what is proved."""
    rows = AuditEvent.objects.all()
    if chain.older_at is not None and chain.older_id is not None:
        # The first condition alone lets the index begin there; a join would have the whole table read each time.
        later = Q(at__gt=chain.older_at) | Q(pk__gt=chain.older_id)
        rows = rows.filter(Q(at__gte=chain.older_at) & later)
    found = list(rows.order_by("at", "id")[:BATCH])
    if found:
        chain.older_at, chain.older_id = found[-1].at, found[-1].pk
    chain.has_older = len(found) == BATCH
    # What was written since the upgrade waits behind them.
    new = set(AuditUnsealed.objects.filter(pk__in=[each.pk for each in found]).values_list("pk", flat=True))
    older = [each for each in found if each.pk not in new]
    _append(chain, older, now)
    return len(older)


def _append(chain: AuditChain, events: Iterable[AuditEvent], now: datetime) -> None:
    head, seals, keys = head_of(chain), [], keyring()
    for event in events:
        number = head.number + 1
        head = ChainHead(number, digest(head.digest, number, content_of(event)))
        mac = keys.sign(SEAL, head.digest.encode())
        seals.append(AuditSeal(number=number, event=event, digest=head.digest, mac=mac, at=now))
    AuditSeal.objects.bulk_create(seals)
    chain.number, chain.digest = head.number, head.digest if seals else chain.digest
    chain.save(update_fields=["number", "digest", "has_older", "older_at", "older_id"])


def forget(before: datetime, batch: int) -> int:
    """Delete the oldest rows of the chain while all of them lie before; return how many of at most `batch`.

    The digest of the last one stays as the anchor, signed: what follows can still be checked.
    """
    with transaction.atomic():
        chain = locked()
        seals = AuditSeal.objects.filter(number__gt=chain.anchor_number).order_by("number")[:batch]
        times = dict(
            AuditEvent.objects.filter(pk__in=[each.event_id for each in seals]).values_list("pk", "at")
        )
        # The time of sealing where the row itself was deleted by other hands.
        old = list(takewhile(lambda each: times.get(each.event_id, each.at) < before, seals))
        if not old:
            return 0
        anchor = ChainHead(old[-1].number, old[-1].digest)
        AuditEvent.objects.filter(pk__in=[each.event_id for each in old]).delete()
        AuditSeal.objects.filter(number__gt=chain.anchor_number, number__lte=anchor.number).delete()
        chain.anchor_number, chain.anchor_digest = anchor.number, anchor.digest
        chain.anchor_mac = keyring().sign(ANCHOR, anchor_content(anchor))
        chain.save(update_fields=["anchor_number", "anchor_digest", "anchor_mac"])
    return len(old)
