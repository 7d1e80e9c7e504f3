"""Who is let in by an identity provider: whose account it is, made, linked where that is allowed, or invited; and its
groups.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.db import transaction
from django.utils import timezone

from chamber import live, sessions
from chamber.errors import NotAllowed, no_such
from chamber.models import AccountLink, LinkPurpose, User
from chamber.names import forget_pending
from chamber.oidc.claims import Claims
from chamber.oidc.protocol import kept_of
from chamber.oidc.providers import ANY, Provider
from chamber.people.actions import find_link, gone, require_people
from chamber.people.reading import is_invited, people
from chamber.people.values import NAME, RESERVED
from chamber.scim.reading import groups_told, provisioned
from chamber.tokens import revoke_all
from teams import actions, audit
from teams.actors import Actor, Via
from teams.picture import lock_tree
from teams.provider_groups import is_mapped

MOST_NAMES_TRIED = 50
_OTHER = re.compile(r"[^a-z0-9._-]+")


class NotLetIn(NotAllowed):
    """The provider knows who somebody is, and they are not let in; a sentence for them."""

    code = "not-let-in"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Whose account it is, or why nobody is let in."""

    user: User | None
    refusal: str = ""


def admit(provider: Provider, claims: Claims, *, invitation: str = "") -> User:
    """Return whose account it is that a provider vouches for; made on the first sign-in, or linked where the operator
    says so, or by the secret of an invitation. Their groups are those that the provider names. Raises `NotLetIn` where
    they are not allowed, which takes away what the provider gave them before, and `Refusal` for a link of no use.
    """
    with transaction.atomic():
        verdict = _invited(provider, claims, invitation) if invitation else _judge(provider, claims)
    if verdict.user is None:
        raise NotLetIn(verdict.refusal)
    told = groups_told(provider, verdict.user)
    names = claims.groups if told is None else told
    actions.set_provider_groups(provider=provider.id, user=verdict.user, names=names)
    return verdict.user


def is_allowed(provider: Provider, claims: Claims) -> bool:
    """Return whether a provider's person may come in: by the domain of a verified address, or by a group.

    Where the operator names neither, by a group that gives a role; not where the provider keeps people here over SCIM.
    """
    if not provider.allowed_domains and not provider.allowed_groups:
        return not provider.provisions and is_mapped(provider.id, claims.groups)
    domain = claims.email.rpartition("@")[2]
    by_group = ANY in provider.allowed_groups or not claims.groups.isdisjoint(provider.allowed_groups)
    return by_group or (bool(domain) and domain in provider.allowed_domains)


def unlink(*, by: Actor, user: User, provider_id: str) -> None:
    """Have a provider vouch for somebody no more, and take away what they have by it; an organisation admin does.

    At their next sign-in there they are somebody new, or linked again where the operator says so.
    """
    require_people(by)
    account = SocialAccount.objects.filter(user=user, provider=provider_id).first()
    if account is None:
        raise no_such("account at an identity provider", provider_id)
    actions.set_provider_groups(provider=provider_id, user=user, names=())
    with transaction.atomic():
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        account.delete()
        ended = _end_sessions(user, provider_id)
        after = {"provider": provider_id, **ended}
        audit.record(by=by, action="person.unlinked", target=user, after=after)


def put_out(provider: Provider, user: User, why: str) -> None:
    """Take away what somebody has by a provider: roles by its groups, and the sessions that began by it.

    Who has no password had all by it: all their sessions and tokens end.
    """
    actions.set_provider_groups(provider=provider.id, user=user, names=())
    with transaction.atomic():
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        after = {"provider": provider.id, "why": why, **_end_sessions(user, provider.id)}
        audit.record(by=_actor(provider), action="person.not-let-in", target=user, after=after)


def _end_sessions(user: User, provider_id: str) -> dict[str, int]:
    """End the sessions that began by a provider; of who has no password all, and the tokens too. The row is locked."""
    rows = UserSession.objects.filter(user=user)
    if user.has_usable_password():
        return {"sessions": sessions.end(rows.filter(data__provider=provider_id))}
    ended = {"sessions": sessions.end(rows), "tokens": revoke_all(user)}
    user.session_generation += 1
    user.save(update_fields=["session_generation"])
    return ended


def _judge(provider: Provider, claims: Claims) -> _Verdict:
    account = _account(provider, claims)
    known = provisioned(provider, claims, account.user if account else None)
    invited = account is not None and INVITED in account.extra_data
    if known is None and not invited and not is_allowed(provider, claims):
        return _not_allowed(provider, account)
    if account is None:
        lock_tree()  # with which names and addresses are given; of two first sign-ins the second finds the account
        account = _account(provider, claims)
    if account is None and known is not None:
        account = _link(provider, claims, known.user)
        audit.record(
            by=_actor(provider), action="person.linked", target=known.user, after={"provider": provider.id}
        )
    if account is None:
        return _first(provider, claims)
    if account.extra_data.get("issuer") != provider.issuer:
        return _refused(provider, account.user, "issuer changed", ISSUER)
    if not account.user.is_active:
        return _refused(provider, account.user, "disabled", DISABLED)
    account.extra_data = kept_of(provider, claims) | ({INVITED: True} if invited else {})
    account.save(update_fields=["extra_data", "last_login"])
    return _Verdict(account.user)


def _invited(provider: Provider, claims: Claims, secret: str) -> _Verdict:
    """Link the account of an invitation to whom a provider vouches for with the invited address; else it stays good.

    An organisation admin or lead let them in: the provider's domains and groups are not asked, now or later.
    """
    lock_tree()
    link = find_link(secret)
    user = User.objects.select_for_update(no_key=True).get(pk=link.user_id)
    if link.purpose != LinkPurpose.INVITATION or not is_invited(user):
        raise gone()
    if sentence := _not_of(provider, claims, user):
        return _refused(provider, user, "not of this invitation", sentence)
    if AccountLink.objects.filter(pk=link.pk, used_at=None).update(used_at=timezone.now()) != 1:
        raise gone()
    forget_pending(user)
    EmailAddress.objects.update_or_create(
        user=user, email=user.email, defaults={"verified": True, "primary": True}
    )
    _link(provider, claims, user, invited=True)
    by, after = Actor.person(user, Via.PAGE), {"provider": provider.id}
    audit.record(by=by, action="person.joined", target=user, after=after)
    live.announce("teams")
    return _Verdict(user)


def _not_of(provider: Provider, claims: Claims, user: User) -> str:
    """Return why an invitation is not of whom a provider vouches for, as a sentence; "" where it is."""
    if not user.email:
        return f"This invitation names no e-mail address by which {provider.name} could tell you: set a password."
    if claims.email != user.email:
        own = f"your verified address is {claims.email}" if claims.email else "you have no verified address"
        return (
            f"This invitation is for {user.email}; at {provider.name} {own}. Sign in there with the invited address, "
            "or set a password."
        )
    account, known = _account(provider, claims), provisioned(provider, claims, None)
    other = account.user if account else known.user if known and known.user != user else None
    if other is not None:
        return f"At {provider.name} you are {other.username} here already; this invitation is for {user.username}."
    return ""


INVITED = "invited"
"""In what is kept with an account at a provider: an invitation let it in."""
NOT_IN = (
    "You are in no group that is let in here, and have no verified e-mail address of a domain that is: ask an "
    "organisation admin."
)
DISABLED = "Your account here is disabled: ask an organisation admin."
ISSUER = "This identity provider is another one than that by which you signed in before: ask the operator."
TAKEN = (
    "There is an account with your e-mail address already, and this provider may not take it over: sign in by the "
    "password, or ask an organisation admin."
)
BY_INVITATION = (
    "You are invited here and did not join yet: open the link of your invitation, and sign in from there. Without it, "
    "ask whoever invited you for another one."
)
ANOTHER = (
    "The account with your e-mail address is another person's at this provider: ask an organisation admin."
)


def _account(provider: Provider, claims: Claims) -> SocialAccount | None:
    rows = SocialAccount.objects.select_related("user").filter(provider=provider.id, uid=claims.key)
    found: SocialAccount | None = rows.first()
    return found


def _not_allowed(provider: Provider, account: SocialAccount | None) -> _Verdict:
    if account is None:
        return _refused(provider, None, "not allowed", NOT_IN)
    put_out(provider, account.user, "not allowed")
    return _Verdict(None, NOT_IN)


def _first(provider: Provider, claims: Claims) -> _Verdict:
    """Make an account for somebody, or link the one that has their address."""
    holder = people().filter(email=claims.email).first() if claims.email else None
    if holder is None:
        return _Verdict(_made(provider, claims))
    if not holder.is_active:
        return _refused(provider, holder, "disabled", DISABLED)
    if not provider.link_by_email:
        return _refused(provider, holder, "address taken", BY_INVITATION if is_invited(holder) else TAKEN)
    if SocialAccount.objects.filter(provider=provider.id, user=holder).exists():
        return _refused(provider, holder, "linked to another", ANOTHER)
    holder.end_links()
    forget_pending(holder)
    _link(provider, claims, holder)
    audit.record(by=_actor(provider), action="person.linked", target=holder, after={"provider": provider.id})
    return _Verdict(holder)


def _made(provider: Provider, claims: Claims) -> User:
    user = User(
        username=free_name(claims.username or claims.email),
        first_name=claims.first_name,
        last_name=claims.last_name,
        email=claims.email,
    )
    user.set_unusable_password()
    user.save()
    _link(provider, claims, user)
    after = {"username": user.username, "email": user.email, "provider": provider.id}
    audit.record(by=_actor(provider), action="person.made", target=user, after=after)
    return user


def _link(provider: Provider, claims: Claims, user: User, *, invited: bool = False) -> SocialAccount:
    kept = kept_of(provider, claims) | ({INVITED: True} if invited else {})
    made: SocialAccount = SocialAccount.objects.create(
        user=user, provider=provider.id, uid=claims.key, extra_data=kept
    )
    return made


def free_name(told: str) -> str:
    """Return a user name that nobody has, as near as may be to that of the provider, or to the e-mail address."""
    name = _OTHER.sub("-", told.lower().partition("@")[0]).strip("._-")[:56].strip("._-") or "person"
    tried = [name, *(f"{name}-{number}" for number in range(2, MOST_NAMES_TRIED))]
    taken = {
        each.lower() for each in User.objects.filter(username__in=tried).values_list("username", flat=True)
    }
    free = next((each for each in tried if each not in taken and _is_free(each)), f"{name}-{uuid4().hex[:3]}")
    return free if NAME.fullmatch(free) else f"person-{uuid4().hex[:12]}"


def _is_free(name: str) -> bool:
    return name not in RESERVED and not User.objects.filter(username__iexact=name).exists()


def _refused(provider: Provider, user: User | None, why: str, sentence: str) -> _Verdict:
    target = user or User(id=None, username="(no such account)")
    after = {"provider": provider.id, "why": why}
    audit.record(by=_actor(provider), action="person.not-let-in", target=target, after=after)
    return _Verdict(None, sentence)


def _actor(provider: Provider) -> Actor:
    return Actor.system(f"provider {provider.id}")
