"""A check of the whole chain in the database, for whoever asks for one: nothing is stored by it."""

from collections.abc import Callable
from typing import Any

from chamber.words import count
from teams.chain.checking import check, present, strangers
from teams.chain.duty import standing
from teams.chain.faults import Kind, known_breaks
from teams.chain.rows import ChainHead
from teams.chain.sealing import anchor_of
from teams.models import AuditSeal


def verified(known: ChainHead | None = None, *, tell: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Return what a check of every row finds, as `chamber audit verify` tells it; `known` is a head from elsewhere."""
    begin = anchor_of(present())
    found = check(tell=(lambda head: tell(head.number)) if tell else None)
    elsewhere = _known_fault(known, begin) if known else ""
    first = found.fault or (None if elsewhere else strangers())
    fault = first.text if first else elsewhere
    return {
        "holds": not fault,
        "fault": fault,
        "fault_name": first.name if first and first.kind != Kind.LOST else "",
        "rows": found.rows,
        "first": begin.number + 1,
        "head": str(found.head),
        "known_breaks": known_breaks().sentences,
        "notes": _notes(begin),
    }


def _known_fault(known: ChainHead, begin: ChainHead) -> str:
    """Return what is wrong where a head that was known before is not in the chain any more."""
    if known.number < begin.number:
        return ""  # deleted because of its age
    held = begin if begin.number == known.number else _sealed(known.number)
    if held is None:
        return f"Row {known.number} is missing: the chain was longer when its head was {known}."
    if held.digest != known.digest:
        return (
            f"Row {known.number} has another digest than the one that was known: the chain was written anew."
        )
    return ""


def _sealed(number: int) -> ChainHead | None:
    seal = AuditSeal.objects.filter(number=number).first()
    return ChainHead(seal.number, seal.digest) if seal else None


def _notes(begin: ChainHead) -> list[str]:
    found, notes = standing(), []
    if begin.number:
        notes.append(f"The rows 1 to {begin.number:,} were deleted because of their age.")
    if found.waiting:
        notes.append(f"Not sealed yet, and not checked: {count(found.waiting, 'row')}.")
    if found.chain.has_older:
        notes.append("Rows from before the chain are still being sealed.")
    return notes
