"""Checking the chain in the database: row after row, from where it begins, or from where the last check ended.

What was accepted (`faults`) is passed over, and nothing else.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from teams.chain import faults
from teams.chain.events import ANCHOR, SEAL, content_of, keyring
from teams.chain.faults import Fault, Kind, Known, known_breaks
from teams.chain.rows import ChainHead, anchor_content, digest
from teams.chain.sealing import anchor_of, head_of
from teams.models import AuditChain, AuditEvent, AuditSeal, AuditUnsealed

ROWS = 1000
NOT_OURS = "Chamber did not write it, or it was changed before it was sealed"


@dataclass(frozen=True, slots=True)
class Checked:
    """How far the chain was checked; `fault` is the first thing that does not fit and was not accepted."""

    head: ChainHead
    rows: int = 0
    fault: Fault | None = None


def present() -> AuditChain:
    """Return the chain's row as it is; one without rows where nothing was sealed yet (1 query)."""
    return AuditChain.objects.filter(pk=1).first() or AuditChain(pk=1)


def check(
    start: ChainHead | None = None,
    *,
    for_seconds: float | None = None,
    tell: Callable[[ChainHead], None] | None = None,
) -> Checked:
    """Check every seal after `start` (else from the beginning) and its row, up to where the chain ended when it began.

    Ends at the first that does not fit, and after some seconds where given. Rows are read 1,000 at a time.
    """
    chain, until = present(), None if for_seconds is None else time.monotonic() + for_seconds
    known, end = known_breaks(), head_of(chain)
    if start is None or start.number < chain.anchor_number:
        start = anchor_of(chain)
        if fault := _anchor_fault(chain, known):
            return Checked(start, fault=fault)
    if fault := ends_fault(start, end):
        if not known.has(fault) or fault.behind is None:
            return Checked(start, fault=fault)
        start = fault.behind
    checked = Checked(start)
    while checked.head.number < end.number:
        step = _step(checked, end, known)
        if step.fault and (moved := present()).anchor_number > step.head.number:
            # What is old was deleted meanwhile.
            step = replace(step, head=anchor_of(moved), fault=_anchor_fault(moved, known))
        checked = step
        if checked.fault:
            return checked
        if tell is not None:
            tell(checked.head)
        if until is not None and time.monotonic() >= until:
            return checked
    return checked


def _anchor_fault(chain: AuditChain, known: Known) -> Fault | None:
    anchor = anchor_of(chain)
    if not anchor.number or keyring().proves(chain.anchor_mac, ANCHOR, anchor_content(anchor)):
        return None
    text = (
        f"The rows 1 to {anchor.number} are missing: they were not deleted by Chamber because of their age."
    )
    if not keyring().knows(chain.anchor_mac):
        text = faults.unknown_key(f"The deletion of the rows up to {anchor.number} was", chain.anchor_mac)
    fault = faults.beginning(chain, anchor, text)
    return None if known.has(fault) else fault


def ends_fault(start: ChainHead, end: ChainHead) -> Fault | None:
    """Return what is wrong with the ends of what is to be checked, before a row was looked at."""
    if end.number < start.number:
        text = f"{_rows(end.number + 1, start.number)} missing: the chain ends at row {end.number}, and was longer."
        return _shorter(start, end, end.number + 1, text)
    if not end.number and AuditSeal.objects.exists():
        return faults.lost_end()
    last = AuditSeal.objects.order_by("-number").first()
    if last is not None and last.number > end.number:
        # Unless it grew since.
        grown = head_of(present())
        if last.number > grown.number:
            return faults.beyond(grown, last)
    if start.number and end.number == start.number and end.digest != start.digest:
        text = f"Row {end.number} was changed together with its seal: its digest is not what it was."
        return _shorter(start, end, end.number, text)
    return None


def _shorter(start: ChainHead, end: ChainHead, number: int, text: str) -> Fault:
    """Return that the place up to which the chain held is in it no more: the same whatever is sealed meanwhile."""
    return Fault(Kind.SHORTER, number, start.number, faults.fingerprint(Kind.SHORTER, start), text, end)


def _rows(first: int, last: int) -> str:
    return f"Row {first} is" if first == last else f"Rows {first} to {last} are"


def _step(checked: Checked, end: ChainHead, known: Known) -> Checked:
    """Check the next seals and their rows (2 queries)."""
    head, rows = checked.head, checked.rows
    seals = list(
        AuditSeal.objects.filter(number__gt=head.number, number__lte=end.number).order_by("number")[:ROWS]
    )
    events = AuditEvent.objects.in_bulk([each.event_id for each in seals])
    for seal in seals:
        event = events.get(seal.event_id)
        place = known.behind_end(head, seal.number - 1) if seal.number != head.number + 1 else head
        fault = _gap(head, seal, event) if place is None else _fault(place, seal, event, known)
        if fault is not None and not known.has(fault):
            return Checked(place or head, rows, fault)
        head, rows = ChainHead(seal.number, seal.digest), rows + 1
    if not seals:
        text = f"{_rows(head.number + 1, end.number)} missing at the end, seal included."
        found = faults.found_at_end(head, end)
        fault = Fault(Kind.END, head.number + 1, end.number, found, text, end)
        return Checked(end, rows) if known.has(fault) else Checked(head, rows, fault)
    return Checked(head, rows)


def _gap(head: ChainHead, seal: AuditSeal, event: AuditEvent | None) -> Fault:
    """Return that seals are missing before this one, to whose row their digest belonged: it is part of the fault."""
    text = f"{_rows(head.number + 1, seal.number - 1)} missing, seal included."
    if event is None or not keyring().proves(seal.mac, SEAL, seal.digest.encode()):
        text += f" Row {seal.number}, the next one, is missing or was not sealed by Chamber."
    found = faults.found_at(Kind.GAP, head, seal, event)
    return Fault(Kind.GAP, head.number + 1, seal.number - 1, found, text, ChainHead(seal.number, seal.digest))


def _fault(head: ChainHead, seal: AuditSeal, event: AuditEvent | None, known: Known) -> Fault | None:
    keys = keyring()
    if not keys.knows(seal.mac) and event is not None and not known.covers_key(seal):
        return _key_fault(head, seal)
    if event is None:
        text = f"Row {seal.number} is missing: it was sealed {seal.at:%Y-%m-%d %H:%M} UTC."
    elif digest(head.digest, seal.number, content_of(event)) != seal.digest:
        text = _wrong(head, seal, event)
    elif keys.knows(seal.mac) and not keys.proves(seal.mac, SEAL, seal.digest.encode()):
        name = f"Row {seal.number} ({event.pk})"
        text = f"{name} was inserted, or changed together with its seal: Chamber did not make that."
    else:
        return None
    found = faults.found_at(Kind.ROW, head, seal, event)
    return Fault(Kind.ROW, seal.number, seal.number, found, text, ChainHead(seal.number, seal.digest))


def _key_fault(head: ChainHead, seal: AuditSeal) -> Fault:
    """Return that this seal, and those behind it by the same key, cannot be proved (2 queries)."""
    key = faults.key_of(seal.mac)
    later = AuditSeal.objects.filter(number__gte=seal.number).order_by("number")
    other = later.exclude(mac__startswith=f"{key}:").first()
    last = (later.filter(number__lt=other.number) if other else later).last() or seal
    rows = f"Row {seal.number} was" if last == seal else f"Rows {seal.number} to {last.number} were"
    found = faults.fingerprint(Kind.KEY, key, head, seal.number, last.number, last.digest)
    text = faults.unknown_key(rows, seal.mac)
    return Fault(Kind.KEY, seal.number, last.number, found, text, ChainHead(last.number, last.digest), key)


def _wrong(head: ChainHead, seal: AuditSeal, event: AuditEvent) -> str:
    """Return whether another row belongs here, which is then out of order, or the row was changed."""
    near = AuditSeal.objects.filter(number__gt=seal.number, number__lte=seal.number + ROWS)
    for other in near.select_related("event").order_by("number"):
        if digest(head.digest, seal.number, content_of(other.event)) == seal.digest:
            return f"Row {seal.number} ({event.pk}) is out of order: its place is that of row {other.number}."
    return f"Row {seal.number} ({event.pk}) was changed after it was sealed {seal.at:%Y-%m-%d %H:%M} UTC."


def strangers() -> Fault | None:
    """Return what is wrong with the first row that is in the trail and not in the chain (2 queries).

    Rows that wait for their seal are no strangers, nor are those from before the chain while they are sealed.
    """
    refused = AuditUnsealed.objects.filter(refused=True).select_related("event").order_by("event_id").first()
    if refused is not None:
        return faults.stranger(
            refused.event, f"The row {refused.event_id} was inserted or changed: {NOT_OURS}."
        )
    if present().has_older:
        return None
    found = AuditEvent.objects.filter(seal=None, unsealed=None).order_by("at").first()
    if found is None:
        return None
    return faults.stranger(
        found, f"The row {found.pk} was inserted: it is in the trail and not in its chain."
    )
