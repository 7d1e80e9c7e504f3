"""What does not fit the chain, named so exactly that it can be accepted, and those that an operator has accepted.

An acceptance is a row of the trail like any other: it is in the chain itself, and counts only with this server's mark.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from chamber.words import count
from teams.chain.events import MARK, content_of, keyring
from teams.chain.rows import ChainHead
from teams.models import AuditChain, AuditEvent, AuditSeal

ACTION = "audit.break-accepted"
CHAIN = ("auditchain", "1")
"""Kind and id of what an acceptance is about."""


class Kind(StrEnum):
    """What a fault is, by which a check knows how to go on behind it."""

    ROW = "row"
    GAP = "gap"
    END = "end"
    KEY = "key"
    BEGINNING = "beginning"
    SHORTER = "shorter"
    BEYOND = "beyond"
    STRANGER = "stranger"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Fault:
    """What does not fit: the rows from `number` to `last`, 0 where it is in no chain, and what was `found` there.

    `found` is a SHA-256 over all of that: after another change it is another one. `behind` is the place behind it,
    where a check goes on; `key` the id of a key that is not known.
    """

    kind: Kind
    number: int
    last: int
    found: str
    text: str
    behind: ChainHead | None = None
    key: str = ""

    @property
    def name(self) -> str:
        """By which it is accepted."""
        return f"{self.number}:{self.found}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A fault that was accepted, by whom, when and why; `digest` is that of the place behind it."""

    kind: str
    number: int
    last: int
    found: str
    digest: str
    key: str
    text: str
    reason: str
    by: str
    at: datetime

    @property
    def sentence(self) -> str:
        """Return it as people are told."""
        return f"{self.text} Accepted by {self.by} on {self.at:%Y-%m-%d}, because: {self.reason}"


@dataclass(frozen=True, slots=True)
class Known:
    """The faults that were accepted, the oldest first."""

    breaks: tuple[Accepted, ...] = ()

    def __iter__(self) -> Iterator[Accepted]:
        return iter(self.breaks)

    def __len__(self) -> int:
        return len(self.breaks)

    @property
    def sentences(self) -> list[str]:
        """Each as people are told."""
        return [each.sentence for each in self.breaks]

    @property
    def words(self) -> str:
        """How many there are, as the end of a sentence; "" for none."""
        return f", but for {count(len(self), 'known break')}" if self.breaks else ""

    def has(self, fault: Fault) -> bool:
        """Return whether just this fault was accepted, with what was found there."""
        named = (fault.kind, fault.number, fault.found)
        return any((each.kind, each.number, each.found) == named for each in self.breaks)

    def covers_key(self, seal: AuditSeal) -> bool:
        """Return whether a seal lies in a stretch that is known to be signed with a key that is lost."""
        key = key_of(seal.mac)
        return any(
            each.kind == Kind.KEY
            and each.key == key
            and each.number <= seal.number <= each.last
            and (seal.number < each.last or seal.digest == each.digest)
            for each in self.breaks
        )

    def behind_end(self, head: ChainHead, last: int) -> ChainHead | None:
        """Return the place behind rows that were known to be missing when they were the last of the chain."""
        for each in self.breaks:
            end = ChainHead(last, each.digest)
            if each.kind == Kind.END and each.found == found_at_end(head, end):
                return end
        return None


def known_breaks() -> Known:
    """Return all that were accepted, as far as this server's keys prove that Chamber wrote it (1 query)."""
    kind, pk = CHAIN
    rows = AuditEvent.objects.filter(target_kind=kind, target_id=pk, action=ACTION).order_by("at", "id")
    return Known(tuple(_accepted(row) for row in rows if _is_proved(row)))


def after_of(fault: Fault, reason: str) -> dict[str, Any]:
    """Return what the row of an acceptance holds."""
    return {
        "kind": str(fault.kind),
        "number": fault.number,
        "last": fault.last,
        "found": fault.found,
        "digest": fault.behind.digest if fault.behind else "",
        "key": fault.key,
        "fault": fault.text,
        "reason": reason,
    }


def fingerprint(*parts: object) -> str:
    """Return a SHA-256 over all that was found somewhere."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def found_at_end(head: ChainHead, end: ChainHead) -> str:
    """Return what is found where the last rows of a chain are missing."""
    return fingerprint(Kind.END, head, end)


def found_at(kind: Kind, head: ChainHead, seal: AuditSeal, event: AuditEvent | None) -> str:
    """Return what is found at a seal that comes after `head`: the seal, and its row as it is."""
    row = hashlib.sha256(content_of(event)).hexdigest() if event is not None else ""
    return fingerprint(kind, head, seal.number, seal.event_id, seal.digest, seal.mac, row)


def stranger(event: AuditEvent, text: str = "") -> Fault:
    """Return a row that is in the trail and not in its chain as a fault."""
    row = hashlib.sha256(content_of(event)).hexdigest()
    return Fault(Kind.STRANGER, 0, 0, fingerprint(Kind.STRANGER, event.pk, event.mark, row), text)


def lost_end() -> Fault:
    """Return that nothing tells where the chain ends."""
    return Fault(
        Kind.LOST, 0, 0, fingerprint(Kind.LOST), "The row that says where the chain ends is missing."
    )


def beyond(end: ChainHead, last: AuditSeal) -> Fault:
    """Return that there are seals behind the chain's end."""
    found = fingerprint(Kind.BEYOND, end, last.number, last.digest, last.mac)
    text = f"Row {end.number + 1} was inserted: the chain ends at row {end.number}."
    return Fault(Kind.BEYOND, end.number + 1, last.number, found, text)


def unknown_key(what: str, signed: str) -> str:
    """Return that a key is not known, as a sentence."""
    return (
        f"{what} signed with the key {key_of(signed)!r}, which this server does not have: name it in "
        "CHAMBER_AUDIT_KEYS_BEFORE, or Chamber did not sign it."
    )


def key_of(signed: str) -> str:
    """Return the id of the key that made a sum."""
    return signed.partition(":")[0]


def beginning(chain: AuditChain, anchor: ChainHead, text: str) -> Fault:
    """Return that what tells of deleted rows is not proved."""
    found = fingerprint(Kind.BEGINNING, anchor, chain.anchor_mac)
    return Fault(Kind.BEGINNING, 1, anchor.number, found, text, anchor)


def _is_proved(event: AuditEvent) -> bool:
    return event.mark is not None and keyring().proves(event.mark, MARK, content_of(event))


def _accepted(event: AuditEvent) -> Accepted:
    told = event.after
    return Accepted(
        kind=told["kind"],
        number=told["number"],
        last=told["last"],
        found=told["found"],
        digest=told["digest"],
        key=told["key"],
        text=told["fault"],
        reason=told["reason"],
        by=event.on_behalf_of or event.actor,
        at=event.at,
    )
