"""How much of what one person, token or address may ask for: requests a minute, submissions an hour, what is open.

Windows of a fixed length, counted in the cache (`chamber.counts`), so that a request costs one round trip for each of
its counters. Django REST framework's own throttles keep a list of times for each key, which grows with the limit and
loses entries where processes write at once; they see API requests only, and not those that were refused before.

Who is over a limit is answered 429 with `Retry-After`, and every answer of the API says what is left, in the fields
`RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10. A limit of 0 is none.
"""

import hashlib
import math
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

from django.conf import settings

from chamber import counts
from chamber.errors import Refusal
from chamber.words import count as counted

MINUTE, HOUR = 60, 3600
OWN_BITS = 64
"""Of an IPv6 address: the network that whoever has one address has."""
OPEN_AGAIN_SECONDS = 60
"""After how long to ask again where something of one's own has to end first."""
OF_SERVICES = "service:"
"""With this the user names of service accounts begin."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One kind of count: its name, also in `settings.LIMITS`, the window, and what is counted, in words.

    `own` is the key under which a service account may have a limit of its own.
    """

    name: str
    seconds: int
    noun: str
    whose: str
    own: str = ""

    def most(self, user: Any = None) -> int:
        """Return how many are allowed in a window, to this user; 0: any number."""
        return _own(user).get(self.own) or int(settings.LIMITS[self.name])


PERSON = Limit("person", MINUTE, "request", "You have", own="requests_per_minute")
TOKEN = Limit("token", MINUTE, "request", "This token has", own="requests_per_minute")
PARTS = Limit("parts", MINUTE, "request", "Your open pages have")
ADDRESS = Limit("address", MINUTE, "request", "Your address has")
ANONYMOUS = Limit("anonymous", MINUTE, "request", "Your address has, without being signed in,")
NOTES = Limit("notes", MINUTE, "call", "This attempt has")
SUBMISSIONS = Limit("submissions", HOUR, "workload", "You have", own="submissions_per_hour")


@dataclass(frozen=True, slots=True)
class LimitState:
    """What is left of a limit, and after how many seconds it is whole again. `seconds` is None without a window."""

    name: str
    most: int
    seconds: int | None
    left: int
    again: int


class Exceeded(Refusal):
    """More was asked for than is allowed in so long; `use` says of what."""

    status = 429
    code = "too-many-requests"

    def __init__(self, message: str, use: LimitState) -> None:
        super().__init__(message)
        self.use, self.retry_seconds = use, max(1, use.again)


_uses: ContextVar[list[LimitState] | None] = ContextVar("uses", default=None)


@contextmanager
def noting() -> Iterator[list[LimitState]]:
    """Give the uses that are counted meanwhile: of one request."""
    noted: list[LimitState] = []
    token = _uses.set(noted)
    try:
        yield noted
    finally:
        _uses.reset(token)


def count(limit: Limit, whose: object, *, user: Any = None, by: int = 1, shared: bool = True) -> None:
    """Count for somebody; raise `Exceeded` where that is more than they may in this window; it counts all the same."""
    most = limit.most(user)
    if not most:
        return
    number, elapsed = counts.window(limit.seconds)
    so_far = counts.count(_key(limit, whose, number), limit.seconds, by, shared=shared)
    use = _note(
        LimitState(limit.name, most, limit.seconds, max(0, most - so_far), math.ceil(limit.seconds - elapsed))
    )
    if so_far > most:
        raise Exceeded(_sentence(limit, use), use)


@dataclass(slots=True)
class Spent:
    """What was counted for something that is done meanwhile; `for_nothing` has it given back."""

    for_nothing: bool = False


@contextmanager
def spent(limit: Limit, user: Any, *, by: int) -> Iterator[Spent]:
    """Count for a person while something is done; what is refused, or done for nothing, is given back.

    Without a person nothing is counted.
    """
    found = Spent()
    most = limit.most(user) if user is not None else 0
    if most and by > most:
        raise Refusal(
            f"{counted(by, limit.noun)} at once are more than the {most:,} that are allowed within an hour."
        )
    try:
        if most:
            count(limit, user.pk, user=user, by=by)
        yield found
    except BaseException:
        found.for_nothing = True
        raise
    finally:
        if most and found.for_nothing:
            number, _ = counts.window(limit.seconds)
            counts.count(_key(limit, user.pk, number), limit.seconds, -by)


def _sentence(limit: Limit, use: LimitState) -> str:
    span = "a minute" if limit.seconds == MINUTE else "an hour"
    most = counted(use.most, limit.noun)
    done = "submitted" if limit is SUBMISSIONS else "sent"
    wait = (
        counted(use.again, "second") if use.again < 2 * MINUTE else counted(-(-use.again // MINUTE), "minute")
    )
    return f"{limit.whose} {done} more than {most} within {span}, the most that are allowed. Try again in {wait}."


# What is open


def most_open(name: str, own: str, user: Any) -> int:
    """Return how many of something may be open or valid at once; 0: any number."""
    return _own(user).get(own) or int(settings.LIMITS[name])


def exceeded(name: str, most: int, sentence: str, *, again: int = OPEN_AGAIN_SECONDS) -> Exceeded:
    """Return that there are as many of something as there may be at once."""
    return Exceeded(sentence, _note(LimitState(name, most, None, 0, again)))


_streams: Counter[object] = Counter()
"""Open ones of this process, by whose they are."""


def require_stream(user: Any) -> None:
    """Refuse somebody who has as many streams open in this process as they may."""
    most = most_open("streams", "streams", user)
    if most and _streams[user.pk] >= most:
        raise exceeded(
            "streams",
            most,
            f"You have {counted(most, 'stream')} open already, the most here: close some of them.",
        )


@contextmanager
def streaming(user_id: object) -> Iterator[None]:
    """Count a stream of somebody for as long as it is open."""
    _streams[user_id] += 1
    try:
        yield
    finally:
        _streams[user_id] -= 1
        if not _streams[user_id]:
            del _streams[user_id]


async def streamed(user_id: object, told: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """Yield what a stream of somebody yields, counted for as long as it is open."""
    with streaming(user_id):
        async with aclosing(told):
            async for each in told:
                yield each


# What is told


def headers(uses: list[LimitState], *, all_of_them: bool) -> dict[str, str]:
    """Return the fields that say what is left; only of what is used up, unless `all_of_them` are told."""
    told = [use for use in uses if all_of_them or not use.left]
    if not told:
        return {}
    policies = (f'"{use.name}";q={use.most}' + (f";w={use.seconds}" if use.seconds else "") for use in told)
    left = (f'"{use.name}";r={use.left};t={use.again}' for use in told)
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)}


def whereabouts(address: str) -> str:
    """Return that of an address which a client cannot choose: of IPv6, each has a whole /64 to himself."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or ip_network((found, OWN_BITS), strict=False))


def _own(user: Any) -> dict[str, int]:
    """Return the limits that a service account has of its own; none of a person.

    Reached by the name of the relation: the room that owns it lies above this one.
    """
    if user is None or not user.username.startswith(OF_SERVICES):
        return {}
    found: dict[str, int] | None = user.service_account.limits
    return found or {}


def _note(use: LimitState) -> LimitState:
    noted = _uses.get()
    if noted is not None:
        noted.append(use)
    return use


def _key(limit: Limit, whose: object, number: int) -> str:
    return f"limit:{limit.name}:{hashlib.sha256(str(whose).encode()).hexdigest()[:32]}:{number}"
