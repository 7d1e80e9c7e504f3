"""Where a request came from, known to whatever it does: the audit trail notes it with each act.

Imports nothing of the project.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from django.http import HttpRequest

LONGEST_AGENT = 200


@dataclass(frozen=True, slots=True)
class Origin:
    """A client's address, and what it says that it is; None where there is none."""

    address: str | None = None
    agent: str | None = None

    @classmethod
    def of(cls, request: "HttpRequest") -> Self:
        """Return whence a request came, once trusted proxies have been asked."""
        agent = "".join(each for each in request.headers.get("User-Agent", "") if each.isprintable())
        return cls(_address(str(request.META.get("REMOTE_ADDR", ""))), agent[:LONGEST_AGENT] or None)


_now: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039 - it is frozen


def now() -> Origin:
    """Return whence the request came that is being answered; an empty one outside of any."""
    return _now.get()


@contextmanager
def bound(request: "HttpRequest") -> Iterator[None]:
    """Have all that is done here come from this request's client."""
    token = _now.set(Origin.of(request))
    try:
        yield
    finally:
        _now.reset(token)


def _address(text: str) -> str | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None  # a socket of the machine has none
    return str(getattr(found, "ipv4_mapped", None) or found)
