"""What is done with service accounts and their tokens: each an act of who may, in one transaction, with its row.

Nobody gains a right by one. Who makes a token reads it, so they must be able to give each role that it carries; a role
is given only while nobody has read a token who could not have given it (`teams.actions.members`).
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, refusal_of
from chamber.models import BearerToken, ServiceAccount, ServiceToken, User
from chamber.people.leaving import SETTLED, Leaving, settle
from chamber.services.reading import may_manage, valid_tokens
from chamber.tokens import TokenRequest, refuse_too_many
from teams import actions, audit
from teams.actions.members import SERVICE
from teams.actors import Actor
from teams.models import Binding, Role, Team
from teams.permissions import Permission, acting_now, grantable, may, may_anywhere, require
from teams.picture import lock_tree
from workloads.models import Workload
from workloads.models.workload import OPEN

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
MOST_OF_TEAM = 100
MOST_OF_LIMIT = 10_000_000
MOST_TOKENS = 20
"""Valid ones of one service account."""
OVERLAP_MINUTES = 60
LONGEST_OVERLAP_MINUTES = 7 * 24 * 60
"""How long a token goes on at most once it was rotated."""


def create_service(
    *, by: Actor, name: str, team: Team, description: str = "", role: Role | None = None
) -> ServiceAccount:
    """Make a service account that the team owns, with a role on it where one is given."""
    with transaction.atomic():
        lock_tree()
        by = _acting(by)
        require(by, Permission.MANAGE_MEMBERS, team)
        if team.is_archived:
            raise Conflict(f"{team.name} was archived and gets no service account.", field="team")
        name = _name(name)
        if team.service_accounts.count() >= MOST_OF_TEAM:
            raise Conflict(
                f"{team.name} has {MOST_OF_TEAM} service accounts, the most that one team may have."
            )
        user = User(username=f"{SERVICE}{name}")
        user.set_unusable_password()
        user.save()
        account = ServiceAccount.objects.create(
            user=user, name=name, team=team, description=_description(description), made_by=by.user
        )
        after = {"name": name, "team": team.slug, "description": account.description}
        audit.record(by=by, action="service-account.created", target=account, team=team, after=after)
        if role is not None:
            actions.add_member(by=by, team=team, who=user.username, role=role)
        live.announce("teams")
    return account


def change_service(
    *, by: Actor, account: ServiceAccount, description: str | None = None, team: Team | None = None
) -> ServiceAccount:
    """Give it another description, or to another team, whose leads and admins manage it from then on."""
    with transaction.atomic():
        lock_tree()
        account, by = _locked(account), _acting(by)
        require_manage(by, account)
        before = _described(account)
        before_team = account.team
        if description is not None:
            account.description = _description(description)
        if team is not None and team != account.team:
            require(by, Permission.MANAGE_MEMBERS, team)
            if team.is_archived:
                raise Conflict(f"{team.name} was archived and gets no service account.", field="team")
            account.team = team
        account.save(update_fields=["description", "team"])
        after = _described(account)
        if after != before:
            audit.record(
                by=by,
                action="service-account.changed",
                target=account,
                team=before_team,
                before=before,
                after=after,
            )
        live.announce("teams", f"user:{account.user_id}")
    return account


def set_limits(*, by: Actor, account: ServiceAccount, limits: Mapping[str, int | None]) -> ServiceAccount:
    """Let it ask for more, or less, than everybody; None takes a limit of its own away. Organisation admins do."""
    with transaction.atomic():
        lock_tree()
        account, by = _locked(account), _acting(by)
        if by.user is not None and not may_anywhere(by.user, Permission.MANAGE_PEOPLE):
            raise NotAllowed("The limits of service accounts are set by organisation admins.")
        wrong = {
            name: f"{name} is {value:,}; 1 to {MOST_OF_LIMIT:,} are allowed."
            for name, value in limits.items()
            if value is not None and not 1 <= value <= MOST_OF_LIMIT
        }
        if wrong:
            raise refusal_of(wrong)
        before = dict(account.limits or {})
        after = {name: value for name, value in {**before, **limits}.items() if value is not None}
        if after != before:
            account.limits = after or None
            account.save(update_fields=["limits"])
            audit.record(
                by=by,
                action="service-account.limits-changed",
                target=account,
                team=account.team,
                before=before,
                after=after,
            )
        live.announce("teams")
    return account


def disable_service(
    *,
    by: Actor,
    account: ServiceAccount,
    workloads: Leaving = Leaving.LEAVE,
    heir: User | None = None,
) -> dict[str, int]:
    """Have its tokens let nobody in any more, for good; return how many, and how many open workloads that concerned.

    These are left as they are, cancelled, or handed over to `heir`, as of a person who is put out.
    """
    if (workloads is Leaving.HAND_OVER) != (heir is not None):
        raise Refusal(
            "Name whom the workloads are handed over to, where they are, and only there.", field="to"
        )
    with transaction.atomic():
        lock_tree()
        account, by = _locked(account), _acting(by)
        require_manage(by, account)
        user = account.user
        if not user.is_active:
            raise Conflict(f"{account.name} is disabled already.")
        if workloads is not Leaving.LEAVE:
            _require_workloads(by, account)
        user.is_active = False
        user.save(update_fields=["is_active"])
        revoked = valid_tokens([account]).update(revoked_at=timezone.now())
        done = settle(by, user, workloads, heir)
        after: dict[str, object] = {"tokens": revoked, "workloads": f"{done} {SETTLED[workloads]}"}
        if heir is not None:
            after["to"] = heir.username
        audit.record(by=by, action="service-account.disabled", target=account, team=account.team, after=after)
        live.announce("teams")
    return {"tokens": revoked, "workloads": done}


def enable_service(*, by: Actor, account: ServiceAccount) -> ServiceAccount:
    """Have it be used again, with the roles that it had; it needs new tokens."""
    with transaction.atomic():
        lock_tree()
        account, by = _locked(account), _acting(by)
        require_manage(by, account)
        if account.user.is_active:
            raise Conflict(f"{account.name} is not disabled.")
        account.user.is_active = True
        account.user.save(update_fields=["is_active"])
        audit.record(
            by=by,
            action="service-account.enabled",
            target=account,
            team=account.team,
            before={"active": False},
            after={"active": True},
        )
        live.announce("teams")
    return account


def make_token(
    *, by: Actor, account: ServiceAccount, wanted: TokenRequest, made_with: BearerToken | None = None
) -> tuple[ServiceToken, str]:
    """Store a new token of it and return it with its secret, which nobody can read again."""
    wanted.refuse_wrong()
    wanted.refuse_more_than(made_with)
    token = ServiceToken()
    secret = wanted.fill(token, made_with=made_with)
    with transaction.atomic():
        lock_tree()
        account, by = _locked(account), _acting(by)
        _require_tokens(by, account, wanted.team)
        refuse_too_many(valid_tokens([account]), MOST_TOKENS, f"{account.name} has")
        token.account, token.made_by = account, by.user
        token.save(force_insert=True)
        _note(by, "service-account.token-created", token, after=_told(token))
    return token, secret


def rotate_token(
    *,
    by: Actor,
    token: ServiceToken,
    overlap_minutes: int = OVERLAP_MINUTES,
    made_with: BearerToken | None = None,
) -> tuple[ServiceToken, str]:
    """Make a token that may do the same for as long, and have the old one end after so many minutes."""
    if not 0 <= overlap_minutes <= LONGEST_OVERLAP_MINUTES:
        raise Refusal(
            f"The old token may go on for 0 to {LONGEST_OVERLAP_MINUTES:,} minutes, not {overlap_minutes:,}.",
            field="overlap_minutes",
        )
    with transaction.atomic():
        lock_tree()
        account = _locked(token.account)
        rows = ServiceToken.read().filter(pk=token.pk, account=account)
        old = rows.select_for_update(of=("self",), no_key=True).first()
        now = timezone.now()
        if old is None or not old.is_valid(now) or old.expires_at is None:
            raise Conflict(f"{token.name} was revoked, or has expired: make a new token.")
        days = max(1, round((old.expires_at - old.created_at) / timedelta(days=1)))
        made, secret = make_token(
            by=by,
            account=account,
            wanted=TokenRequest(old.name, old.scope, days, old.team),
            made_with=made_with,
        )
        ends = min(old.expires_at, now + timedelta(minutes=overlap_minutes))
        ServiceToken.objects.filter(pk=old.pk).update(expires_at=ends)
        _note(
            by,
            "service-account.token-rotated",
            old,
            after={"expires_at": str(ends), "replaced_by": made.prefix},
        )
    return made, secret


def revoke_token(*, by: Actor, token: ServiceToken) -> ServiceToken:
    """Make it of no use; revoking it again changes nothing."""
    with transaction.atomic():
        lock_tree()
        account, by = _locked(token.account), _acting(by)
        require_manage(by, account)
        revoked = ServiceToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
        if revoked:
            _note(by, "service-account.token-revoked", token, before=_told(token))
    return token


def require_manage(by: Actor, account: ServiceAccount) -> None:
    """Refuse who may not manage it: a lead or admin of its team, or of one above it, may."""
    if by.user is not None and not may_manage(by.user, account):
        raise NotAllowed(
            f"The service account {account.name} is managed by leads and admins of {account.team.name}."
        )


def _acting(by: Actor) -> Actor:
    """Return the actor with the roles of now; refuse programs, which make no keys for themselves or for others."""
    if by.user is not None and by.user.username.startswith(SERVICE):
        raise NotAllowed("Service accounts and their tokens are made, changed and revoked by people.")
    return acting_now(by)


def _require_tokens(by: Actor, account: ServiceAccount, team: Team | None) -> None:
    """Refuse who may not read a token of it, for this team alone or not: it carries its roles there."""
    require_manage(by, account)
    if not account.user.is_active:
        raise Conflict(f"{account.name} is disabled. Enable it first.")
    if account.team.is_archived:
        raise Conflict(f"{account.team.name} was archived: the tokens of {account.name} let nobody in.")
    if by.user is None:
        return
    for binding in Binding.objects.filter(user=account.user_id).select_related("team"):
        carried = team is None or binding.team.is_within(team) or team.is_within(binding.team)
        if carried and Role(binding.role) not in grantable(by.user, binding.team):
            raise NotAllowed(
                f"{account.name} is {binding.get_role_display().lower()} of {binding.team.name}. Who makes a token "
                "of it could act as that, so they have to be able to give that role there. A token of a team where "
                "you can give its roles is allowed."
            )


def _require_workloads(by: Actor, account: ServiceAccount) -> None:
    """Refuse who may not cancel its open workloads, or hand them over."""
    if by.user is None or may_anywhere(by.user, Permission.MANAGE_PEOPLE):
        return
    owned = Workload.objects.filter(owner=account.user_id, status__in=OPEN).order_by()
    teams = Team.objects.filter(pk__in=owned.values("team")).order_by("path")
    others = [team.name for team in teams if not may(by.user, Permission.MANAGE_WORKLOADS, team)]
    if others:
        raise NotAllowed(
            f"{account.name} has open workloads in {', '.join(others)}, where your role does not let you manage "
            "workloads. Leave them as they are, or ask an admin there."
        )


def _locked(account: ServiceAccount) -> ServiceAccount:
    """Return it as it is stored, its user kept from others until the transaction ends."""
    User.objects.select_for_update(no_key=True).get(pk=account.user_id)
    return ServiceAccount.objects.select_related("user", "team").get(pk=account.pk)


def _name(text: str) -> str:
    name = text.strip()
    if not NAME.fullmatch(name):
        raise Refusal(
            f"{name[:80]!r} is no name for a service account: use up to 40 small letters, digits and hyphens, none at "
            "either end.",
            field="name",
        )
    if User.objects.filter(username__iexact=f"{SERVICE}{name}").exists():
        raise Conflict(f"There is a service account named {name!r} already.", field="name")
    return name


def _description(text: str) -> str:
    description = " ".join(text.split())
    if len(description) > 200:
        raise Refusal(
            f"The description has {len(description)} characters; at most 200 are allowed.",
            field="description",
        )
    if unseen := next((each for each in description if not each.isprintable()), None):
        raise Refusal(
            f"The description contains the character U+{ord(unseen):04X}, which cannot be seen.",
            field="description",
        )
    return description


def _described(account: ServiceAccount) -> dict[str, str]:
    return {"description": account.description, "team": account.team.slug}


def _told(token: ServiceToken) -> dict[str, str]:
    told = {"token": token.prefix, "name": token.name, "scope": str(token.scope)}
    return {**told, "team": token.team.slug if token.team else "", "expires_at": str(token.expires_at)}


def _note(
    by: Actor,
    action: str,
    token: ServiceToken,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    """Note an act about a token, under its account: whoever reads the trail of the owning team reads it."""
    audit.record(
        by=by, action=action, target=token.account, team=token.account.team, before=before, after=after
    )
