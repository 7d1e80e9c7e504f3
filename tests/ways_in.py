"""The ways into Chamber that the walk tries, and the rule by which each follows from a row of `role_walk.txt`.

A row says what each role gets by its browser session, and what the address needs at the least. From these two follows
what all other ways are answered, and where a page sends whoever it does not let in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from chamber.models import Scope
from chamber.tokens import includes

TABLE = Path(__file__).with_name("role_walk.txt")
HEADER, *LINES = TABLE.read_text().splitlines()
ACTORS = HEADER.split()[3:]
ROLES = ACTORS[1:]
FULL = "org-admin"
"""The role that stands for all where no role is looked at: nobody may do more."""
HAS_FACTOR = "mate"
"""The one role whose person has a second factor: where one is required, it gets what it gets otherwise."""
SIGN_IN, SET_UP = "/sign-in/?next=", "/settings/factors/"
"""Where a page sends whoever is nobody, and whoever lacks a required factor."""


class Needs(StrEnum):
    """What an address needs at the least. The scopes are those of `chamber.models.Scope`, and mean the API."""

    NOTHING = "nothing"
    SESSION = "session"
    FACTOR = "factor"
    AGENT = "agent"
    PROVIDER = "provider"
    ATTEMPT = "attempt"
    READ = "read"
    SUBMIT = "submit"
    MANAGE = "manage"
    ADMIN = "admin"


class Way(StrEnum):
    """How a request says who asks."""

    SESSION = "session"
    VIEWING = "session of an admin who sees the pages as somebody"
    LACKING_SESSION = "session of whoever lacks the required factor"
    DISABLED_SESSION = "session of a disabled person"
    ENDED_SESSION = "session that was ended"
    TOKEN = "token"
    LACKING_TOKEN = "token of whoever lacks the required factor"
    DISABLED_TOKEN = "token of a disabled person"
    EXPIRED_TOKEN = "token that has expired"
    REVOKED_TOKEN = "token that was revoked"
    SERVICE = "service account's token"
    LACKING_SERVICE = "service account's token where a factor is required"
    DISABLED_SERVICE = "token of a disabled service account"
    EXPIRED_SERVICE = "service account's token that has expired"
    REVOKED_SERVICE = "service account's token that was revoked"
    AGENT = "agent's token"
    EXPIRED_AGENT = "agent's token that has expired"
    REVOKED_AGENT = "agent's token that was revoked"
    UNKNOWN_TOKEN = "token that there is not"
    OTHER_KIND = "token of another kind"
    NONE = "nothing"

    @property
    def by_session(self) -> bool:
        """Whether a browser's cookie says who asks."""
        return self.value.startswith("session")


CHANGED = ("LACKING", "DISABLED", "EXPIRED", "REVOKED", "ENDED")
STATES: Mapping[str, frozenset[Way]] = {
    "": frozenset(way for way in Way if not way.name.startswith(CHANGED)),
    **{state: frozenset(way for way in Way if way.name.startswith(state)) for state in CHANGED},
}
"""What sessions, tokens and people are brought to before these ways are tried. Ended sessions do not come back."""
LET_IN = frozenset({Way.TOKEN, Way.LACKING_TOKEN, Way.SERVICE, Way.LACKING_SERVICE})
"""Ways in with a token that lets its holder in."""
REFUSED = frozenset(way for way in Way if not way.by_session) - LET_IN - {Way.NONE}

THEIRS_ALONE = (
    "chamber:settings",
    "chamber:tokens",
    "chamber:factor",
    "chamber:export-own",
    "account_",
    "mfa_",
)
"""So begin the names of pages that nobody sees as somebody else."""
ENDS_VIEWING = frozenset({"chamber:view-as-end", "account_logout"})
LOOKS_AT_NO_SESSION = frozenset({"api-login", "api-schema"})
VIEWED = "You see the pages as {role}: ", " are shown to nobody else."

EXCEPTIONS: Mapping[tuple[str, str], Mapping[Way, int]] = {
    # By these the walk lets in the owner, who lacks a factor or is disabled then, too.
    ("POST", "account_login"): dict.fromkeys(STATES["DISABLED"], 422),
    ("POST", "api-login"): dict.fromkeys(STATES["LACKING"], 403)
    | dict.fromkeys(REFUSED | STATES["DISABLED"], 401),
    # The link is that of an account which is disabled then, too.
    ("GET", "chamber:link"): dict.fromkeys(STATES["DISABLED"], 410),
    ("POST", "chamber:link"): dict.fromkeys(STATES["DISABLED"], 410),
    # A part of a page is told where its page has to go.
    ("GET", "teams:row"): {Way.LACKING_SESSION: 403},
    # Open to everybody, but a token that lets nobody in is told.
    ("GET", "api-schema"): dict.fromkeys(REFUSED, 401),
}
"""What differs from the rule, for every role but the one that has a second factor."""
MADE_BY_PEOPLE = re.compile("api-service-account|api-tokens$")
"""What service accounts never change, whatever their roles: keys for themselves or for others."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Who asks, by which way, with which scope where it is a token's."""

    role: str
    way: Way
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    method: str
    name: str
    needs: Needs
    statuses: Mapping[str, int]

    @property
    def is_api(self) -> bool:
        """Whether tokens of people and programs are looked at."""
        return self.needs.value in Scope.values

    def expected(self, cell: Cell) -> int:
        """Return the status that is answered."""
        role, way = cell.role, cell.way
        own = self.statuses[role]
        has_factor = role == HAS_FACTOR and way is Way.LACKING_SESSION and self.name != "api-login"
        told = None if has_factor else EXCEPTIONS.get((self.method, self.name), {}).get(way)
        if told is not None:
            return told
        if way is Way.SESSION:
            return own
        if way is Way.VIEWING:
            return self._as_seen(own)
        return self._of_api(cell) if self.is_api else self._of_page(cell)

    def leads_to(self, cell: Cell) -> str:
        """Return with what the address begins to which a page sends whoever is not let in; "" of all others."""
        if self.is_api or self.needs not in {Needs.SESSION, Needs.FACTOR} or self.name == "account_logout":
            return ""
        if cell.way is Way.LACKING_SESSION and self.needs is Needs.SESSION and cell.role != HAS_FACTOR:
            return SET_UP
        let_in = {Way.SESSION, Way.VIEWING, Way.LACKING_SESSION}
        return "" if cell.way in let_in and cell.role != "anonymous" else SIGN_IN

    def problem(self, cell: Cell, answer: Any) -> str:
        """Return in what an answer is wrong; "" where it is as the table and the rule say."""
        status, expected = answer.status_code, self.expected(cell)
        if status != expected:
            return f"{status}, not {expected}"
        place, wanted = answer.headers.get("Location", ""), self.leads_to(cell)
        if status == 302 and not (
            place.startswith(wanted) if wanted else not place.startswith((SIGN_IN, "/sign-in/again/"))
        ):
            return f"leads to {place}, not to {wanted or 'what comes next'}"
        if cell.way is Way.VIEWING and self._as_seen(200) == 403:
            text = answer.content.decode()
            if not any(words.format(role=cell.role) in text for words in VIEWED):
                return "does not say that its reader sees the pages as somebody else"
        lacks = self.is_api and cell.way in STATES["LACKING"] - {Way.LACKING_SERVICE}
        if lacks and status == 403 and cell.role != HAS_FACTOR:
            code = answer.json()["code"]
            return "" if code == "second-factor-required" else f"has the code {code}"
        return ""

    def _of_page(self, cell: Cell) -> int:
        """Pages look at sessions alone: whoever comes with a token, or is disabled, is nobody."""
        if cell.way is not Way.LACKING_SESSION:
            return self.statuses["anonymous"]
        return 302 if self.needs is Needs.SESSION and cell.role != HAS_FACTOR else self.statuses[cell.role]

    def _of_api(self, cell: Cell) -> int:
        if cell.way in LET_IN - {Way.LACKING_TOKEN}:
            return self._by_token(cell) if includes(cell.scope, self.needs) else 403
        if cell.way in STATES["LACKING"]:
            return self.statuses[cell.role] if cell.role == HAS_FACTOR else 403
        return 401

    def _by_token(self, cell: Cell) -> int:
        """A service account owns nothing of a person's; a token of a smaller scope than admin revokes only itself."""
        if cell.way in {Way.SERVICE, Way.LACKING_SERVICE}:
            own = self.statuses[{"owner": "mate"}.get(cell.role, cell.role)]
            by_people = self.method != "GET" and MADE_BY_PEOPLE.match(self.name)
            return 403 if by_people and own != 404 else own
        own = self.statuses[cell.role]
        return 403 if self.name == "api-token" and own == 204 and cell.scope != Scope.ADMIN else own

    def _as_seen(self, own: int) -> int:
        """Whoever sees the pages as somebody else looks at what that one may, and changes nothing."""
        if self.name in ENDS_VIEWING | LOOKS_AT_NO_SESSION:
            return self.statuses[FULL]
        is_look = self.method == "GET" and not self.is_api and not self.name.startswith(THEIRS_ALONE)
        return own if is_look else 403


def read() -> dict[tuple[str, str], Row]:
    """Return the rows of URLs by method and name."""
    found: dict[tuple[str, str], Row] = {}
    for line in LINES:
        if not line or line.startswith(("#", "SOCKET", "STREAM")):
            continue
        method, name, needs, *statuses = line.split()
        assert (method, name) not in found, f"{method} {name} comes twice"
        assert len(statuses) == len(ACTORS), line
        numbers = map(int, statuses)
        found[method, name] = Row(method, name, Needs(needs), dict(zip(ACTORS, numbers, strict=True)))
    return found


ROWS = read()
STREAMS = {line.split()[1] for line in LINES if line.startswith("STREAM")}
"""The names of URLs that answer with a stream."""
SOCKETS = {
    path: Needs(needs) for _, path, needs in (line.split() for line in LINES if line.startswith("SOCKET"))
}
"""What opens each socket: a session, or an agent's token."""
