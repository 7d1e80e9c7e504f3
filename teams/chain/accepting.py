"""Accepting a fault that an operator has looked into, so that the chain is checked behind it again."""

from collections.abc import Callable
from dataclasses import replace

from django.db import transaction
from django.db.models import Count, Max
from django.utils import timezone

from chamber.errors import Conflict, Refusal
from teams import audit
from teams.actors import Actor
from teams.chain import sealing
from teams.chain.checking import check, ends_fault, present, strangers
from teams.chain.faults import ACTION, Fault, Kind, after_of
from teams.chain.rows import ChainHead
from teams.models import AuditCheck, AuditEvent, AuditSeal, AuditUnsealed

LONGEST_REASON, LONGEST_NAME = 500, 150


def accept(
    *, by: Actor, name: str, reason: str, tell: Callable[[ChainHead], None] | None = None
) -> tuple[Fault, Fault | None]:
    """Accept the first fault, whose name (`Fault.name`) was told; return it, and the next one behind it.

    Raises `Conflict` where it is another one, or none: what is accepted is what somebody has looked at.
    """
    reason = _line(reason, "reason", LONGEST_REASON)
    by = replace(by, on_behalf_of=_line(by.on_behalf_of, "name of who has looked into it", LONGEST_NAME))
    fault = first_fault(tell)
    if fault is None:
        raise Conflict("The chain holds: there is nothing to accept.")
    if fault.name != name:
        raise Conflict(f"The first fault is {fault.name}, not {name[:90]}. {fault.text}")
    if fault.kind == Kind.LOST:
        raise Conflict(f"{fault.text} It is not accepted: restore it from a backup (table teams_auditchain).")
    with transaction.atomic():
        chain = sealing.locked()
        if fault.kind == Kind.BEYOND and _has_gaps(fault):  # with the lock: others seal meanwhile
            raise Conflict(
                f"{fault.text} The seals behind it, up to number {fault.last:,}, do not follow each other: no row "
                f"could be sealed after them. Delete them from number {fault.number} on, as docs/people.md says under "
                "The chain."
            )
        _go_on(fault)
        audit.record(by=by, action=ACTION, target=chain, after=after_of(fault, reason))
    return fault, _checked_again(fault, tell)


def _has_gaps(fault: Fault) -> bool:
    """Return whether the seals behind the chain's end are other than one for each number."""
    behind = AuditSeal.objects.filter(number__gte=fault.number).aggregate(
        count=Count("pk"), last=Max("number")
    )
    return (behind["count"], behind["last"]) != (fault.last - fault.number + 1, fault.last)


def _line(text: str, what: str, longest: int) -> str:
    """Return a text as one line; refuse one that cannot be stored or read."""
    line = " ".join(text.split())
    if not 1 <= len(line) <= longest or not line.isprintable():
        raise Refusal(f"The {what} has {len(line)} characters; 1 to {longest} that can be seen are allowed.")
    return line


def first_fault(tell: Callable[[ChainHead], None] | None = None) -> Fault | None:
    """Return the first thing that does not fit: by the last check's place, by every row, by rows in no chain."""
    last = AuditCheck.objects.filter(pk=1).first()
    if last is not None and last.number:
        place = ChainHead(last.number, last.digest)
        fault = ends_fault(place, sealing.head_of(present()))
        if fault is not None:
            return fault
    return check(tell=tell).fault or strangers()


def _go_on(fault: Fault) -> None:
    """Change what keeps the chain from going on behind a fault; called with the chain's row locked."""
    if fault.kind == Kind.BEYOND:
        seal = AuditSeal.objects.get(number=fault.last)
        chain = present()
        chain.number, chain.digest = seal.number, seal.digest
        chain.save(update_fields=["number", "digest"])
    if fault.kind == Kind.STRANGER:
        waits = AuditUnsealed.objects.filter(refused=True).update(refused=False)
        if not waits:
            row = AuditEvent.objects.filter(seal=None, unsealed=None).order_by("at")[:1]
            AuditUnsealed.objects.bulk_create([AuditUnsealed(event=each) for each in row])


def _checked_again(fault: Fault, tell: Callable[[ChainHead], None] | None) -> Fault | None:
    """Seal what waits, check what lies behind the fault, and store what was found in place of what was known."""
    sealing.seal()
    whole = fault.kind in {Kind.KEY, Kind.SHORTER}
    found = check(None if whole else fault.behind, tell=tell)
    following = found.fault or strangers()
    now, text = timezone.now(), following.text if following else ""
    values = {
        "at": now,
        "number": found.head.number,
        "digest": found.head.digest if found.head.number else "",
        "fault": text,
        "whole_began_at": None,
    }
    AuditCheck.objects.update_or_create(pk=1, defaults=values if following else {**values, "whole_at": now})
    return following
