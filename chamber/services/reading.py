"""Reading service accounts: which somebody may see or manage, and what is shown of each."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from chamber.errors import NotAllowed, no_such
from chamber.models import ServiceAccount, ServiceToken, User
from teams.models import Binding, Team
from teams.permissions import Permission, may, may_anywhere, paths_where


class AccountState(StrEnum):
    """Whether its tokens let anybody in, and why not."""

    ACTIVE = "active"
    DISABLED = "disabled"
    TEAM_ARCHIVED = "team-archived"


LIMIT_NAMES = {
    "requests_per_minute": "Requests a minute",
    "submissions_per_hour": "Workloads submitted an hour",
    "open_workloads": "Open workloads",
    "streams": "Open streams",
}
STATE_NAMES = {
    AccountState.ACTIVE: "Active",
    AccountState.DISABLED: "Disabled",
    AccountState.TEAM_ARCHIVED: "Team archived",
}


@dataclass(frozen=True, slots=True)
class ShownAccount:
    """A service account with its roles on teams that the reader may see, and its tokens that are not revoked."""

    account: ServiceAccount
    roles: tuple[Binding, ...]
    tokens: tuple[ServiceToken, ...]

    @property
    def state(self) -> AccountState:
        """Whether its tokens let anybody in."""
        if not self.account.user.is_active:
            return AccountState.DISABLED
        return AccountState.TEAM_ARCHIVED if self.account.team.is_archived else AccountState.ACTIVE

    @property
    def state_name(self) -> str:
        """The state in words."""
        return STATE_NAMES[self.state]

    @property
    def limits(self) -> list[tuple[str, str]]:
        """Limits of its own, in words."""
        own = self.account.limits or {}
        return [(label, f"{own[name]:,}") for name, label in LIMIT_NAMES.items() if name in own]

    @property
    def last_used(self) -> ServiceToken | None:
        """Its token that was used last; None where none was."""
        used = [token for token in self.tokens if token.last_used_at]
        return max(used, key=_when, default=None)


def _when(token: ServiceToken) -> datetime:
    return token.last_used_at or token.created_at


def may_see_services(reader: User) -> bool:
    """Return whether somebody sees any service accounts."""
    return any(may_anywhere(reader, each) for each in (Permission.MANAGE_MEMBERS, Permission.VIEW_AUDIT))


def may_manage(reader: User, account: ServiceAccount) -> bool:
    """Return whether somebody makes and revokes its tokens: a lead or an admin of its team, or above it."""
    return may(reader, Permission.MANAGE_MEMBERS, account.team)


def services_for(reader: User) -> QuerySet[ServiceAccount]:
    """Return those of teams where the reader gives roles or reads the trail; refuse who does neither."""
    if not may_see_services(reader):
        raise NotAllowed("Your role does not let you see service accounts: only who gives roles may.")
    paths = {*paths_where(reader, Permission.MANAGE_MEMBERS), *paths_where(reader, Permission.VIEW_AUDIT)}
    below = Q()
    for path in paths:
        below |= Q(team__path__startswith=path)
    return ServiceAccount.objects.filter(below).select_related("user", "team", "made_by").order_by("name")


def service_for(reader: User, name: str) -> ShownAccount:
    """Return one; raise `NotVisible` where there is none of this name for the reader."""
    found = shown(services_for(reader).filter(name=name.replace("\x00", "")), reader)
    if not found:
        raise no_such("service account", name)
    return found[0]


def token_for(account: ServiceAccount, token_id: UUID) -> ServiceToken:
    """Return one of its tokens, revoked ones too; raise `NotVisible` where it has none of this id."""
    found = ServiceToken.read().filter(account=account, pk=token_id).first()
    if found is None:
        raise no_such(f"token of {account.name}", token_id)
    return found


def shown(rows: Iterable[ServiceAccount], reader: User) -> list[ShownAccount]:
    """Return service accounts with what is told of them (three queries, however many)."""
    found = list(rows)
    seen = Team.objects.visible_to(reader).order_by().values("pk")
    roles: dict[UUID | None, list[Binding]] = defaultdict(list)
    given = Binding.objects.filter(user__in=[each.user_id for each in found], team__in=seen)
    for binding in given.select_related("team").order_by("team__path", "role"):
        roles[binding.user_id].append(binding)
    tokens: dict[UUID, list[ServiceToken]] = defaultdict(list)
    for token in valid_tokens(found).select_related("team", "made_by").order_by("-created_at"):
        tokens[token.account_id].append(token)
    return [ShownAccount(each, tuple(roles[each.user_id]), tuple(tokens[each.pk])) for each in found]


def valid_tokens(accounts: Iterable[ServiceAccount]) -> QuerySet[ServiceToken]:
    """Return the tokens of these that were not revoked and have not expired."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ServiceToken.objects.filter(unexpired, account__in=list(accounts), revoked_at=None)
