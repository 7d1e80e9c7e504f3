"""Inviting many people from a CSV: each line is judged before anybody is added, and each is an act of its own."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest

from chamber.errors import Refusal, no_such
from chamber.invalid import not_among
from chamber.models import User
from chamber.people import actions
from chamber.people.csv_rows import CsvPerson, UnreadableList, people_of
from chamber.people.mail import Delivered, bound, deliver
from chamber.people.values import ADDRESS_TAKEN, NAME_TAKEN, refuse_wrong
from chamber.transactions import tried_again
from teams.actors import Actor
from teams.models import Role, Team
from teams.permissions import acting_now

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 200
"""On the page and over the API: each mail is waited for."""
LONGEST = 200_000
"""Characters of what is sent."""
INVITES_FOR_SECONDS = 40.0
"""Proxies wait for an answer for a minute: without it the links would be lost."""
TOO_LATE = f"The lines before took {INVITES_FOR_SECONDS:.0f} seconds, the most at once: send this line again."
NO_DATABASE = (
    "The database could not be had at this moment. Look whether the person is there; else send this line."
)
GIVE_UP_AFTER = 2
"""Mails in a row that the server did not take: the links of the rest are not mailed either."""


@dataclass(frozen=True, slots=True)
class Invited:
    """Somebody of a line: to be invited, with a fault, or with the link that was made."""

    person: CsvPerson
    fault: str = ""
    made: actions.Made | None = None
    delivered: Delivered = field(default_factory=Delivered)


def judged(text: str, *, by: Actor, place: str) -> list[Invited]:
    """Return who would be invited, and of each other line why not; refuse what is no such list, or too long a one.

    Makes a few queries, however many lines there are. `place` is where the text was sent.
    """
    if len(text) > LONGEST:
        raise Refusal(
            f"The list has {len(text):,} characters; at most {LONGEST:,} are taken at once. Split it.",
            field=place,
        )
    try:
        people = people_of(text, most=MOST_AT_ONCE)
    except UnreadableList as error:
        raise Refusal(str(error), field=place) from error
    by = acting_now(by)
    known = _Taken.of(people, by)
    return [Invited(each, each.fault or known.fault(each)) for each in people]


def invite_all(rows: Sequence[Invited], *, by: Actor, request: HttpRequest) -> list[Invited]:
    """Invite everybody who has no fault, each in a transaction of its own; return the lines with their links.

    Whoever is refused meanwhile gets the reason as fault, as does whose line came late or the database did not take.
    Links are mailed where that can be done.
    """
    done, failures, until = [], 0, monotonic() + INVITES_FOR_SECONDS
    for row in rows:
        if row.fault or monotonic() > until:
            done.append(row if row.fault else replace(row, fault=TOO_LATE))
            continue
        try:
            made = tried_again("An invitation", partial(_invited, row.person, by, request))
            delivered = deliver(made, request, by=by, tries=failures < GIVE_UP_AFTER)
        except Refusal as refusal:
            done.append(replace(row, fault=refusal.message))
            continue
        except (OperationalError, InterfaceError) as error:
            # The links of the lines before are told once, by this answer.
            logger.warning("The invitation of line %d failed: %s", row.person.line, str(error).strip())
            done.append(replace(row, fault=NO_DATABASE))
            continue
        failed = bool(made.link.mailed_to) and not delivered.mailed_to
        failures = failures + 1 if failed else 0
        done.append(replace(row, made=made, delivered=delivered))
    return done


def _invited(person: CsvPerson, by: Actor, request: HttpRequest) -> actions.Made:
    values = person.values
    team = _team(by, values["team"]) if "team" in values else None
    role = _role(values["role"]) if "role" in values else None
    actions.require_invite(by, team, role)
    email = values.get("email", "")
    mailed = settings.MAIL and bool(email)
    if mailed and by.user is not None:
        bound(request, "links", by=by.user, to=email)
    return actions.invite(
        by=by,
        username=person.username,
        name=values.get("name", ""),
        email=email,
        team=team,
        role=role,
        mailed=mailed,
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """What lines are judged against."""

    by: Actor
    names: frozenset[str]
    addresses: frozenset[str]
    teams: dict[str, Team]

    @classmethod
    def of(cls, people: Sequence[CsvPerson], by: Actor) -> "_Taken":
        """Read it (three queries)."""
        names = {each.username for each in people}
        addresses = {each.values.get("email", "").lower() for each in people} - {""}
        teams = Team.objects.visible_to(by.user) if by.user else Team.objects.all()
        wanted = {each.values.get("team", "") for each in people}
        return cls(
            by,
            frozenset(User.objects.filter(username__in=names).values_list("username", flat=True)),
            frozenset(User.objects.filter(email__in=addresses).values_list("email", flat=True)),
            {team.slug: team for team in teams.filter(slug__in=wanted).select_related("parent")},
        )

    def fault(self, person: CsvPerson) -> str:
        """Return why somebody would not be invited; "" where they would."""
        values = person.values
        try:
            slug = values.get("team", "")
            if slug and slug not in self.teams:
                raise no_such("team", slug)
            team, role = self.teams.get(slug), _role(values["role"]) if "role" in values else None
            actions.require_both(team, role)
            actions.require_invite(self.by, team, role)
            refuse_wrong(person.username, values.get("name", ""), values.get("email", ""), free=False)
        except Refusal as refusal:
            return " ".join(refusal.fields.values()) or refusal.message
        if person.username in self.names:
            return NAME_TAKEN.format(name=person.username)
        if (email := values.get("email", "").lower()) in self.addresses:
            return ADDRESS_TAKEN.format(email=email)
        return ""


def _team(by: Actor, slug: str) -> Team:
    rows = Team.objects.visible_to(by.user) if by.user else Team.objects.all()
    found = rows.filter(slug=slug).first()
    if found is None:
        raise no_such("team", slug)
    return found


def _role(value: str) -> Role:
    if value not in Role.values:
        raise Refusal(not_among("role", value, Role.values), field="role")
    return Role(value)
