"""Checking the chain in the database: row after row, from where it begins, or from where the last check ended."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from teams.chain.events import ANCHOR, SEAL, content_of, keyring
from teams.chain.rows import Head, anchor_content, digest
from teams.chain.sealing import anchor_of, head_of
from teams.models import AuditChain, AuditEvent, AuditSeal, AuditUnsealed

ROWS = 1000
NOT_OURS = "Chamber did not write it, or it was changed before it was sealed"


@dataclass(frozen=True, slots=True)
class Checked:
    """How far the chain was checked; `fault` is the first thing that does not fit, "" where all does."""

    head: Head
    rows: int = 0
    fault: str = ""


def present() -> AuditChain:
    """Return the chain's row as it is; one without rows where nothing was sealed yet (1 query)."""
    return AuditChain.objects.filter(pk=1).first() or AuditChain(pk=1)


def check(
    start: Head | None = None, *, for_seconds: float | None = None, tell: Callable[[Head], None] | None = None
) -> Checked:
    """Check every seal after `start` (else from the beginning) and its row, up to where the chain ended when it began.

    Ends at the first that does not fit, and after some seconds where given. Rows are read 1,000 at a time.
    """
    chain, until = present(), None if for_seconds is None else time.monotonic() + for_seconds
    if start is None or start.number < chain.anchor_number:
        start = anchor_of(chain)
        if fault := _anchor_fault(chain):
            return Checked(start, fault=fault)
    end, checked = head_of(chain), Checked(start)
    if fault := _ends_fault(start, end):
        return Checked(start, fault=fault)
    while checked.head.number < end.number:
        step = _step(checked, end.number)
        if step.fault and (moved := present()).anchor_number > step.head.number:
            # What is old was deleted meanwhile.
            step = replace(step, head=anchor_of(moved), fault=_anchor_fault(moved))
        checked = step
        if checked.fault:
            return checked
        if tell is not None:
            tell(checked.head)
        if until is not None and time.monotonic() >= until:
            return checked
    return checked


def _anchor_fault(chain: AuditChain) -> str:
    anchor = anchor_of(chain)
    if not anchor.number:
        return ""
    if not keyring().knows(chain.anchor_mac):
        return _unknown_key(f"The deletion of the rows up to {anchor.number}", chain.anchor_mac)
    if keyring().proves(chain.anchor_mac, ANCHOR, anchor_content(anchor)):
        return ""
    return (
        f"The rows 1 to {anchor.number} are missing: they were not deleted by Chamber because of their age."
    )


def _ends_fault(start: Head, end: Head) -> str:
    """Return what is wrong with the ends of what is to be checked, before a row was looked at."""
    if end.number < start.number:
        return f"{_rows(end.number + 1, start.number)} missing: the chain ends at row {end.number}, and was longer."
    if not end.number and AuditSeal.objects.exists():
        return "The row that says where the chain ends is missing."
    last = AuditSeal.objects.order_by("-number").first()
    if last is not None and last.number > end.number:
        # Unless it grew since.
        grown = head_of(present())
        if last.number > grown.number:
            return f"Row {grown.number + 1} was inserted: the chain ends at row {grown.number}."
    if start.number and end.number == start.number and end.digest != start.digest:
        return f"Row {end.number} was changed together with its seal: its digest is not what it was."
    return ""


def _rows(first: int, last: int) -> str:
    return f"Row {first} is" if first == last else f"Rows {first} to {last} are"


def _step(checked: Checked, until: int) -> Checked:
    """Check the next seals and their rows (2 queries)."""
    head, rows = checked.head, checked.rows
    seals = list(
        AuditSeal.objects.filter(number__gt=head.number, number__lte=until).order_by("number")[:ROWS]
    )
    events = AuditEvent.objects.in_bulk([each.event_id for each in seals])
    for seal in seals:
        event = events.get(seal.event_id)
        if seal.number != head.number + 1:
            return Checked(head, rows, f"{_rows(head.number + 1, seal.number - 1)} missing, seal included.")
        if event is None:
            return Checked(
                head, rows, f"Row {seal.number} is missing: it was sealed {seal.at:%Y-%m-%d %H:%M} UTC."
            )
        if fault := _fault(head, seal, event):
            return Checked(head, rows, fault)
        head, rows = Head(seal.number, seal.digest), rows + 1
    if not seals:
        return Checked(head, rows, f"{_rows(head.number + 1, until)} missing at the end, seal included.")
    return Checked(head, rows)


def _fault(head: Head, seal: AuditSeal, event: AuditEvent) -> str:
    keys = keyring()
    if not keys.knows(seal.mac):
        return _unknown_key(f"Row {seal.number}", seal.mac)
    if digest(head.digest, seal.number, content_of(event)) != seal.digest:
        return _wrong(head, seal, event)
    if not keys.proves(seal.mac, SEAL, seal.digest.encode()):
        name = f"Row {seal.number} ({event.pk})"
        return f"{name} was inserted, or changed together with its seal: Chamber did not make that."
    return ""


def _wrong(head: Head, seal: AuditSeal, event: AuditEvent) -> str:
    """Return whether another row belongs here, which is then out of order, or the row was changed."""
    near = AuditSeal.objects.filter(number__gt=seal.number, number__lte=seal.number + ROWS)
    for other in near.select_related("event").order_by("number"):
        if digest(head.digest, seal.number, content_of(other.event)) == seal.digest:
            return f"Row {seal.number} ({event.pk}) is out of order: its place is that of row {other.number}."
    return f"Row {seal.number} ({event.pk}) was changed after it was sealed {seal.at:%Y-%m-%d %H:%M} UTC."


def _unknown_key(what: str, signed: str) -> str:
    return (
        f"{what} was signed with the key {signed.partition(':')[0]!r}, which this server does not have: name it in "
        "CHAMBER_AUDIT_KEYS_BEFORE, or Chamber did not sign it."
    )


def strangers() -> str:
    """Return what is wrong with the first row that is in the trail and not in the chain; "" where all are (2 queries).

    Rows that wait for their seal are no strangers, nor are those from before the chain while they are sealed.
    """
    refused = AuditUnsealed.objects.filter(refused=True).select_related("event").order_by("event_id").first()
    if refused is not None:
        return f"The row {refused.event_id} was inserted or changed: {NOT_OURS}."
    if present().has_older:
        return ""
    found = (
        AuditEvent.objects.filter(seal=None, unsealed=None)
        .order_by("at")
        .values_list("pk", flat=True)
        .first()
    )
    return f"The row {found} was inserted: it is in the trail and not in its chain." if found else ""
