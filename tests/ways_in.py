"""The ways into Chamber that the walk tries, and the rule by which each follows from a row of `role_walk.txt`.

A row says what each role gets by its browser session, and what the address needs at the least. From these two the
statuses of all other ways are derived.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from chamber.models import Scope
from chamber.tokens import includes

TABLE = Path(__file__).with_name("role_walk.txt")
HEADER, *LINES = TABLE.read_text().splitlines()
ACTORS = HEADER.split()[3:]
ROLES = ACTORS[1:]
HAS_FACTOR = "mate"
"""The one role whose person has a second factor: where one is required, it gets what it gets otherwise."""


class Needs(StrEnum):
    """What an address needs at the least. The scopes are those of `chamber.models.Scope`, and mean the API."""

    NOTHING = "nothing"
    SESSION = "session"
    FACTOR = "factor"
    AGENT = "agent"
    PROVIDER = "provider"
    READ = "read"
    SUBMIT = "submit"
    MANAGE = "manage"
    ADMIN = "admin"


class Way(StrEnum):
    """How a request says who asks."""

    SESSION = "session"
    TOKEN = "token"
    SERVICE = "service account's token"
    LACKING_SESSION = "session of whoever lacks the required factor"
    LACKING_TOKEN = "token of whoever lacks the required factor"
    DISABLED_SESSION = "session of a disabled person"
    DISABLED_TOKEN = "token of a disabled person"
    AGENT_TOKEN = "an agent's token"
    UNKNOWN_TOKEN = "a token that there is not"
    OTHER_KIND = "a token of another kind"


LACKING = frozenset({Way.LACKING_SESSION, Way.LACKING_TOKEN})
DISABLED = frozenset({Way.DISABLED_SESSION, Way.DISABLED_TOKEN})
WRONG = frozenset({Way.AGENT_TOKEN, Way.UNKNOWN_TOKEN, Way.OTHER_KIND})

EXCEPTIONS: Mapping[tuple[str, str], Mapping[Way, int]] = {
    # By these the walk lets in the owner, who lacks a factor or is disabled then, too.
    ("POST", "account_login"): dict.fromkeys(DISABLED, 422),
    ("POST", "api-login"): dict.fromkeys(LACKING, 403) | dict.fromkeys(DISABLED | WRONG, 401),
    # The link is that of an account which is disabled then, too.
    ("GET", "chamber:link"): dict.fromkeys(DISABLED, 410),
    ("POST", "chamber:link"): dict.fromkeys(DISABLED, 410),
    # A part of a page is told where its page has to go.
    ("GET", "teams:row"): {Way.LACKING_SESSION: 403},
    # Open to everybody, but a token that lets nobody in is told.
    ("GET", "api-schema"): dict.fromkeys(WRONG | {Way.DISABLED_TOKEN}, 401),
}
"""What differs from the rule, for every role but the one that has a second factor."""
MADE_BY_PEOPLE = re.compile("api-service-account|api-tokens$")
"""What service accounts never change, whatever their roles: keys for themselves or for others."""


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

    def expected(self, role: str, way: Way, scope: str = "") -> int:
        """Return the status that a role gets by this way."""
        own = self.statuses[role]
        has_factor = role == HAS_FACTOR and way is Way.LACKING_SESSION and self.name != "api-login"
        told = None if has_factor else EXCEPTIONS.get((self.method, self.name), {}).get(way)
        if told is not None:
            return told
        if way is Way.SESSION:
            return own
        if not self.is_api:
            return self._of_page(role, way, own, self.statuses["anonymous"])
        if way in {Way.TOKEN, Way.SERVICE}:
            return self._by_token(role, way, scope) if includes(scope, self.needs) else 403
        if way in LACKING:
            return own if role == HAS_FACTOR else 403
        return 401

    def _by_token(self, role: str, way: Way, scope: str) -> int:
        """A service account owns nothing of a person's; a token of a smaller scope than admin revokes only itself."""
        if way is Way.SERVICE:
            own = self.statuses[{"owner": "mate"}.get(role, role)]
            by_people = self.method != "GET" and MADE_BY_PEOPLE.match(self.name)
            return 403 if by_people and own != 404 else own
        own = self.statuses[role]
        return 403 if self.name == "api-token" and own == 204 and scope != Scope.ADMIN else own

    def _of_page(self, role: str, way: Way, own: int, anonymous: int) -> int:
        """Pages look at sessions alone: whoever comes with a token, or is disabled, is nobody."""
        if way is not Way.LACKING_SESSION:
            return anonymous
        return 302 if self.needs is Needs.SESSION and role != HAS_FACTOR else own


def read() -> dict[tuple[str, str], Row]:
    """Return the rows of URLs by method and name."""
    found: dict[tuple[str, str], Row] = {}
    for line in LINES:
        if not line or line.startswith(("#", "SOCKET")):
            continue
        method, name, needs, *statuses = line.split()
        assert (method, name) not in found, f"{method} {name} comes twice"
        assert len(statuses) == len(ACTORS), line
        numbers = map(int, statuses)
        found[method, name] = Row(method, name, Needs(needs), dict(zip(ACTORS, numbers, strict=True)))
    return found


ROWS = read()


NONE = "no way in"


def sockets() -> dict[str, dict[str, int]]:
    """Return the codes of each socket, by way in."""
    lines = [line.split() for line in LINES if line.startswith("SOCKET")]
    return {path: dict(zip([*Way, NONE], map(int, codes), strict=True)) for _, path, *codes in lines}
