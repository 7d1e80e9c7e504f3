"""Reading people: whom somebody may see, and what is shown of each."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from agentlink.spaces import OWNERS_BEGIN
from chamber.errors import NotAllowed, Refusal, no_such
from chamber.factors.reading import lack_factor, own_factor, with_factor
from chamber.invalid import not_among
from chamber.models import AccountLink, User
from teams.actions.members import SERVICE
from teams.models import Binding, Team
from teams.permissions import Permission, may_anywhere, paths_where

UNUSABLE = "!"
"""With this a password begins that nobody can type."""


class PersonState(StrEnum):
    """Where somebody stands; in the order of `choose`."""

    ACTIVE = "active"
    INVITED = "invited"
    DISABLED = "disabled"


NEVER_IN = Q(password__startswith=UNUSABLE, last_login=None)
STATES = {
    PersonState.ACTIVE: Q(is_active=True) & ~NEVER_IN,
    PersonState.INVITED: Q(is_active=True) & NEVER_IN,
    PersonState.DISABLED: Q(is_active=False),
}


@dataclass(frozen=True, slots=True)
class ShownPerson:
    """A person with their roles on teams that the reader may see, the link that is open for them, and whether they have
    a second factor, which who manages accounts sees.
    """

    user: User
    roles: tuple[Binding, ...]
    link: AccountLink | None
    has_factor: bool | None

    @property
    def state(self) -> PersonState:
        """Whether they can sign in: disabled; invited, who never did; active."""
        if not self.user.is_active:
            return PersonState.DISABLED
        return PersonState.INVITED if is_invited(self.user) else PersonState.ACTIVE

    @property
    def expired_at(self) -> datetime | None:
        """When the link that was made for them ended; None while it is good, or there is none."""
        link = self.link
        return link.expires_at if link and link.expires_at <= timezone.now() else None


def is_invited(user: User) -> bool:
    """Return whether somebody never set a password and never signed in by other means."""
    return not user.has_usable_password() and user.last_login is None


def people() -> QuerySet[User]:
    """Return everybody who has, or had, an account to sign in with."""
    return User.objects.exclude(username__startswith=OWNERS_BEGIN).exclude(username__startswith=SERVICE)


def may_see_people(reader: User) -> bool:
    """Return whether somebody sees any people on the page and over the API."""
    return any(may_anywhere(reader, each) for each in (Permission.MANAGE_MEMBERS, Permission.VIEW_AUDIT))


def people_for(reader: User) -> QuerySet[User]:
    """Return whom the reader may see: all where their role reaches the whole organisation, else those who have a
    role where the reader gives roles or reads the trail. Refuse who does neither.
    """
    if not may_see_people(reader):
        raise NotAllowed("Your role does not let you see people: only who gives roles may.")
    paths = {*paths_where(reader, Permission.MANAGE_MEMBERS), *paths_where(reader, Permission.VIEW_AUDIT)}
    if Team.objects.filter(depth=0, path__in=paths).exists():
        return people()
    below = Q()
    for path in paths:
        below |= Q(team__path__startswith=path)
    bound = Binding.objects.filter(below)
    return (
        people()
        .filter(Q(pk__in=bound.values("user")) | Q(groups__in=bound.exclude(group=None).values("group")))
        .distinct()
    )


def person_for(reader: User, username: str) -> ShownPerson:
    """Return one person; raise `NotVisible` where there is none of this name for the reader."""
    found = shown(people_for(reader).filter(username=username.replace("\x00", "")), reader)
    if not found:
        raise no_such("person", username)
    return found[0]


def matching(
    rows: QuerySet[User], *, text: str = "", state: str = "", factor: bool | None = None
) -> QuerySet[User]:
    """Keep those in whose names or address `text` stands, who are in a state, and who have a second factor or lack one.

    Refuses a state that there is not.
    """
    if state and state not in set(PersonState):
        raise Refusal(not_among("state", state, [each.value for each in PersonState]), field="state")
    for word in text.replace("\x00", "").split()[:5]:
        rows = rows.filter(
            Q(username__icontains=word)
            | Q(first_name__icontains=word)
            | Q(last_name__icontains=word)
            | Q(email__icontains=word)
        )
    if factor is not None:
        rows = rows.filter(own_factor()) if factor else lack_factor(rows)
    return rows.filter(STATES[PersonState(state)]) if state else rows


def shown(rows: Iterable[User], reader: User) -> list[ShownPerson]:
    """Return people with what is told of them (at most five queries, however many)."""
    found = list(rows)
    ids = [user.pk for user in found]
    seen = Team.objects.visible_to(reader).order_by().values("pk")
    roles: dict[UUID | None, list[Binding]] = defaultdict(list)
    given = Binding.objects.filter(user__in=ids, team__in=seen).select_related("team")
    for binding in given.order_by("team__path", "role"):
        roles[binding.user_id].append(binding)
    by_group = User.groups.through.objects.filter(user__in=ids).values_list("user", "group")
    groups: dict[int, list[UUID]] = defaultdict(list)
    for user_id, group_id in by_group:
        groups[group_id].append(user_id)
    if groups:
        given = Binding.objects.filter(group__in=list(groups), team__in=seen).select_related("team", "group")
        for binding in given.order_by("team__path", "role"):
            for user_id in groups[binding.group_id or 0]:
                roles[user_id].append(binding)
    links = {link.user_id: link for link in AccountLink.objects.filter(user__in=ids, used_at=None)}
    factors = with_factor(ids) if may_anywhere(reader, Permission.MANAGE_PEOPLE) else None
    return [
        ShownPerson(
            user, tuple(roles[user.pk]), links.get(user.pk), None if factors is None else user.pk in factors
        )
        for user in found
    ]
