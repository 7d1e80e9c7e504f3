"""Ids: UUIDv7, so that rows sort by when they came to be, and short random words for names in URLs."""

import secrets
import struct
import uuid
from datetime import datetime

import uuid6
from django.utils.text import slugify

# No vowels (no accidental words), nothing that reads as something else.
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"


def new_id() -> uuid.UUID:
    """Return a new UUIDv7 (RFC 9562)."""
    return uuid.UUID(int=uuid6.uuid7().int)


def first_of(moment: datetime) -> uuid.UUID:
    """Return the lowest UUIDv7 of this moment's millisecond: what came to be before sorts before it."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)


def new_ids(count: int) -> list[uuid.UUID]:
    """Return so many new UUIDv7 of one moment, in ascending order: drawn at once, as for the rows of one statement."""
    moment = new_id().int >> 62 << 62
    drawn = struct.unpack(f">{count}Q", secrets.token_bytes(8 * count))
    return [uuid.UUID(int=moment | number >> 2) for number in sorted(drawn)]


def unique_slug(name: str, *, length: int = 6) -> str:
    """Return `name` as a slug of at most 56 characters with a random ending, e.g. `bert-large-x7k2qd`."""
    ending = "".join(secrets.choice(_LETTERS) for _ in range(length))
    stem = slugify(name)[: 55 - length].strip("-_") or "workload"
    return f"{stem}-{ending}"
