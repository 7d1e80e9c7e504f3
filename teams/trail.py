"""Reading the audit trail: what is asked for, a page of it, and all of it as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q

from chamber.errors import MOST_COMPARED, NotVisible, Refusal, no_such, one_of
from chamber.rest import decode_cursor, encode_cursor
from chamber.words import as_cell, nearest
from teams.actors import Via
from teams.audit import ACTIONS
from teams.members import people_of_teams_seen_by
from teams.models import AuditEvent, Team
from teams.querysets import AuditEventQuerySet

if TYPE_CHECKING:
    from chamber.models import User

PAGE_ROWS = 50
EXPORTED_AT_ONCE = 2000
LONGEST = 200
HEADINGS = (
    "at",
    "actor",
    "on_behalf_of",
    "via",
    "action",
    "target_kind",
    "target",
    "before",
    "after",
    "address",
    "agent",
    "id",
)


@dataclass(frozen=True, slots=True)
class TrailFilters:
    """What of the trail is asked for, as the address says it; empty is everything."""

    team: str = ""
    actor: str = ""
    action: str = ""
    via: str = ""
    target: str = ""
    address: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Self:
        """Return the filters of an address."""
        given = {name: query.get(name, "").strip().replace("\x00", "")[:LONGEST] for name in cls.__slots__}
        return cls(**given)

    @property
    def given(self) -> dict[str, str]:
        """Return the filters that are set, by their names."""
        values = {name: str(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in values.items() if value}

    @property
    def query(self) -> str:
        """Return the filters that are set, as an address has them."""
        return urlencode(self.given)

    def apply(self, rows: AuditEventQuerySet, user: "User") -> AuditEventQuerySet:
        """Keep what matches; one `Refusal` of all values that are none, `NotVisible` where all that is wrong is a team
        or person that this user does not know.
        """
        seen, refused = rows, []
        of = (self._of_team, self._of_actor, self._of_action, self._of_via, self._of_target, self._of_address)
        steps = (*of, self._since, self._until)
        for step in steps:
            try:
                rows = step(rows, seen, user)
            except Refusal as refusal:
                refused.append(refusal)
        if not refused:
            return rows
        kind = NotVisible if all(isinstance(each, NotVisible) for each in refused) else Refusal
        fields = {field: text for each in refused for field, text in each.fields.items()}
        raise kind(" ".join(each.message for each in refused), fields=fields)

    def _of_team(
        self, rows: AuditEventQuerySet, _seen: AuditEventQuerySet, user: "User"
    ) -> AuditEventQuerySet:
        if not self.team:
            return rows
        return rows.about(one_of(Team.objects.visible_to(user), "team", field="team", slug=self.team))

    def _of_actor(
        self, rows: AuditEventQuerySet, seen: AuditEventQuerySet, user: "User"
    ) -> AuditEventQuerySet:
        if not self.actor:
            return rows
        people = people_of_teams_seen_by(user)
        if not seen.filter(actor=self.actor).exists() and not people.filter(username=self.actor).exists():
            done = seen.order_by().values_list("actor", flat=True).distinct()[:MOST_COMPARED]
            known = [*done, *people.values_list("username", flat=True)[:MOST_COMPARED]]
            raise no_such("user", self.actor, field="actor", known=known)
        return rows.filter(actor=self.actor)

    def _of_action(
        self, rows: AuditEventQuerySet, seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        if not self.action:
            return rows
        # A kind of thing, such as team, or one act, such as team.moved.
        wanted = Q(action=self.action) | Q(action__startswith=f"{self.action}.")
        kinds = sorted({action.partition(".")[0] for action in ACTIONS})
        if self.action not in {*ACTIONS, *kinds} and not seen.filter(wanted).exists():
            of_kind = sorted(name for name in ACTIONS if name.startswith(f"{self.action.partition('.')[0]}."))
            text = f"action is {self.action!r}; allowed are {', '.join(of_kind or kinds)}"
            raise Refusal(f"{text}.{nearest(self.action, [*kinds, *ACTIONS])}", field="action")
        return rows.filter(wanted)

    def _of_via(
        self, rows: AuditEventQuerySet, _seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        if self.via and self.via not in set(Via):
            raise Refusal(f"via is {self.via!r}; allowed are {', '.join(Via)}.", field="via")
        return rows.filter(via=self.via) if self.via else rows

    def _of_target(
        self, rows: AuditEventQuerySet, seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        if not self.target:
            return rows
        # Its name at the time, or its id, which stays.
        wanted = Q(target_name=self.target) | Q(target_id=self.target)
        if not seen.filter(wanted).exists():
            text = f"Nothing that is called {self.target!r} stands in the audit trail, as far as your role reaches."
            raise NotVisible(text, field="target")
        return rows.filter(wanted)

    def _of_address(
        self, rows: AuditEventQuerySet, _seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        if not self.address:
            return rows
        try:
            return rows.filter(address=str(ip_address(self.address)))
        except ValueError as error:
            text = f"address is {self.address!r}; give one such as 192.0.2.7 or 2001:db8::7."
            raise Refusal(text, field="address") from error

    def _since(
        self, rows: AuditEventQuerySet, _seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        return rows.filter(at__gte=_moment(self.since, "since")) if self.since else rows

    def _until(
        self, rows: AuditEventQuerySet, _seen: AuditEventQuerySet, _user: "User"
    ) -> AuditEventQuerySet:
        return rows.filter(at__lt=_moment(self.until, "until", ends=True)) if self.until else rows


def _moment(text: str, field: str, *, ends: bool = False) -> datetime:
    """Return a time (UTC, where it says nothing else), or where a day begins, or where it `ends`."""
    try:
        if len(text) <= len("2030-01-31"):
            day = datetime.combine(date.fromisoformat(text), time(), UTC)
            return day + timedelta(days=1) if ends else day
        return _universal(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        sentence = (
            f"{field} is {text!r}; give a day such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z."
        )
        raise Refusal(sentence, field=field) from error


def _universal(moment: datetime) -> datetime:
    """Return a time as UTC, in which the database keeps it; an `OverflowError` where its year is none there."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def page_of(rows: AuditEventQuerySet, cursor: str) -> tuple[list[AuditEvent], str]:
    """Return a page, newest first, and the cursor of the next; "" after the last, and the first for what is none."""
    place = _place(cursor)
    if place is not None:
        rows = older(rows, *place)
    found = list(rows.order_by("-at", "-id")[: PAGE_ROWS + 1])
    shown = found[:PAGE_ROWS]
    more = len(found) > PAGE_ROWS
    return shown, encode_cursor(shown[-1].at.isoformat(), shown[-1].pk.hex) if more else ""


def older(rows: AuditEventQuerySet, at: datetime, pk: UUID) -> AuditEventQuerySet:
    """Keep what stands after this row. The first condition alone lets the index begin there."""
    return rows.filter(Q(at__lte=at) & (Q(at__lt=at) | Q(pk__lt=pk)))


def _place(cursor: str) -> tuple[datetime, UUID] | None:
    parts = decode_cursor(cursor) if cursor else None
    if parts is None or len(parts) != 2:
        return None
    try:
        return _universal(datetime.fromisoformat(parts[0])), UUID(parts[1])
    except (ValueError, OverflowError):
        return None


class Export:
    """Matching rows as CSV, newest first, a few thousand at a time: `begin`, then `go_on` until there are no more."""

    def __init__(self, rows: AuditEventQuerySet) -> None:
        self._rows = rows
        self._last: AuditEvent | None = None

    @staticmethod
    def begin() -> str:
        """Return the line of headings."""
        return _lines([HEADINGS])

    def go_on(self) -> str:
        """Return the next lines; "" where there are no more (one query)."""
        rows = self._rows if self._last is None else older(self._rows, self._last.at, self._last.pk)
        found = list(rows.order_by("-at", "-id")[:EXPORTED_AT_ONCE])
        if not found:
            return ""
        self._last = found[-1]
        return _lines(map(_cells, found))


def _cells(event: AuditEvent) -> tuple[str, ...]:
    before, after = (
        json.dumps(values, ensure_ascii=False) if values else "" for values in (event.before, event.after)
    )
    told = (event.actor, event.on_behalf_of, event.via, event.action, event.target_kind, event.target_name)
    client = (event.address or "", as_cell(event.agent or ""))
    return (event.at.isoformat(), *map(as_cell, told), before, after, *client, str(event.pk))


def _lines(rows: Iterable[tuple[str, ...]]) -> str:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue()
