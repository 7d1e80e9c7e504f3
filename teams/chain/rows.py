"""The canonical form of a row, and the digests and keyed sums over it. Imports no Django.

A value that is null is left out, so that a column that comes later changes no digest of rows that are without it.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

FORM = "chamber-audit-1"
GENESIS = "0" * 64
"""What stands in the place of the digest before the first row."""


def canonical(row: Mapping[str, Any]) -> bytes:
    """Return a row as bytes: JSON in ASCII, keys in order, no spaces, numbers of one value written alike."""
    present = {key: _plain(value) for key, value in row.items() if value is not None}
    return json.dumps(present, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _plain(value: Any) -> Any:
    """Return a value as it comes back from any database: keys are strings, lists lists, 2.0 is 2."""
    if isinstance(value, Mapping):
        return {_key(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))
    return value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(json.loads(json.dumps({key: 0}).partition(":")[0][1:]))


def digest(previous: str, number: int, row: bytes) -> str:
    """Return the digest of a row in canonical form at its place in the chain."""
    return hashlib.sha256(f"{FORM}\n{previous}\n{number}\n".encode() + row).hexdigest()


@dataclass(frozen=True, slots=True)
class Keyring:
    """Keys by their ids. The first one makes sums, each of them proves those that it made."""

    keys: Mapping[str, bytes]

    @classmethod
    def of(cls, secrets: Iterable[str]) -> "Keyring":
        """Return the keys that belong to these secrets."""
        keys = [
            hmac.digest(secret.encode("utf-8", "surrogatepass"), b"chamber audit trail", "sha256")
            for secret in secrets
        ]
        return cls({hashlib.sha256(key).hexdigest()[:8]: key for key in keys})

    def sign(self, what: str, content: bytes) -> str:
        """Return the sum over `content` by the first key, with the key's id; `what` tells uses of a key apart."""
        name, key = next(iter(self.keys.items()))
        return f"{name}:{_sum(key, what, content)}"

    def knows(self, signed: str) -> bool:
        """Return whether the key that made a sum is among these."""
        return signed.partition(":")[0] in self.keys

    def proves(self, signed: str, what: str, content: bytes) -> bool:
        """Return whether one of these keys made this sum over `content`."""
        name, _, given = signed.partition(":")
        key = self.keys.get(name)
        return key is not None and hmac.compare_digest(given.encode(), _sum(key, what, content).encode())


def _sum(key: bytes, what: str, content: bytes) -> str:
    return hmac.new(key, f"{FORM} {what}\n".encode() + content, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ChainHead:
    """A place in the chain: the number of a row, and its digest."""

    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


BEGIN = ChainHead(0, GENESIS)


def anchor_content(anchor: ChainHead) -> bytes:
    """Return what is signed of the last row that was deleted because of its age."""
    return str(anchor).encode()
