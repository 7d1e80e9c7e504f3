"""Letting people in and putting them out: each an act of who may, in one transaction, with its row of the trail.

Locks are those of ADR 5: the tree first, which also keeps two admins from disabling each other.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from chamber import live, sessions
from chamber.errors import Conflict, NotAllowed, Refusal
from chamber.models import AccountLink, LinkPurpose, User
from chamber.names import forget_pending
from chamber.people.leaving import SETTLED, Leaving, settle
from chamber.people.reading import is_invited, people, people_for
from chamber.people.values import email_of, name_of, refuse_wrong, username_of
from chamber.tokens import revoke_all
from chamber.words import as_name, count
from teams import actions, audit
from teams.actions.members import require_grant
from teams.actors import Actor, Via
from teams.members import org_admins
from teams.models import Binding, Role, Team
from teams.permissions import Permission, acting_now, as_of_now, grantable, may_anywhere
from teams.picture import lock_tree

LINKS_LAST = {LinkPurpose.INVITATION: timedelta(days=7), LinkPurpose.RESET: timedelta(days=1)}
GONE = "This link was used, replaced by a newer one, or is too old. Ask for another one."


@dataclass(frozen=True, slots=True)
class Made:
    """A link that was just made, with its secret, which nobody can read again."""

    link: AccountLink
    secret: str


def invite(
    *,
    by: Actor,
    username: str,
    name: str = "",
    email: str = "",
    team: Team | None = None,
    role: Role | None = None,
    mailed: bool = False,
) -> Made:
    """Make an account that nobody can sign in to before the link is used; with a role on a team, where one is given.

    Without one it takes an organisation admin. `mailed` says that the link goes to the address and nowhere else.
    """
    require_both(team, role)
    with transaction.atomic():
        lock_tree()
        by = acting_now(by)
        require_invite(by, team, role)  # before anything is told of who has an account
        refuse_wrong(username, name, email)
        if mailed and not email.strip():
            raise Refusal("Give an e-mail address to mail the link to.", field="email")
        first, last = name_of(name)
        user = User(username=username_of(username), first_name=first, last_name=last, email=email_of(email))
        user.invited_by = by.user
        user.set_unusable_password()
        user.save()
        after = {"username": user.username} | ({"email": user.email} if user.email else {}) | _told_of(mailed)
        audit.record(by=by, action="person.invited", target=user, team=team, after=after)
        if team is not None and role is not None:
            actions.add_member(by=by, team=team, who=user.username, role=role)
        _require_mail(by, user, mailed=mailed)
        made = _new_link(user, LinkPurpose.INVITATION, by=by, mailed_to=user.email if mailed else "")
        live.announce("teams")
    return made


def change(*, by: Actor, user: User, name: str | None = None, email: str | None = None) -> User:
    """Give somebody another name or e-mail address; an organisation admin does, of the name also they themselves."""
    with transaction.atomic():
        lock_tree()
        user, by = _locked(user), acting_now(by)
        if by.user != user or email is not None:
            require_people(by)
        before = {"name": user.get_full_name(), "email": user.email}
        if name is not None and as_name(name) != as_name(before["name"]):
            user.first_name, user.last_name = name_of(name)
        if email is not None and (given := email_of(email, but=user)) != user.email:
            user.email = given
            EmailAddress.objects.filter(user=user).delete()
            user.end_links()
        user.save(update_fields=["first_name", "last_name", "email"])
        after = {"name": user.get_full_name(), "email": user.email}
        if after != before:
            audit.record(by=by, action="person.changed", target=user, before=before, after=after)
        live.announce("teams", f"user:{user.pk}")
    return user


def new_link(*, by: Actor, user: User, mailed: bool = False) -> Made:
    """Make another link for somebody, in place of the one before: an invitation until they first had a password.

    An organisation admin may; an invitation's also who invited the person, and may take away every role that they have.
    """
    with transaction.atomic():
        lock_tree()
        user, by = _locked(user), acting_now(by)
        require_link(by, user)
        invited = is_invited(user)
        if not user.is_active:
            raise Conflict(f"{user.username} is disabled. Enable the account first.")
        if mailed and not user.email:
            raise Refusal(f"{user.username} has no e-mail address to mail the link to.", field="email")
        _require_mail(by, user, mailed=mailed)
        purpose = LinkPurpose.INVITATION if invited else LinkPurpose.RESET
        made = _new_link(user, purpose, by=by, mailed_to=user.email if mailed else "")
        act = "invited" if invited else "reset-begun"
        audit.record(by=by, action=f"person.{act}", target=user, after=_told_of(mailed))
    return made


def require_both(team: Team | None, role: Role | None) -> None:
    """Refuse a team without a role on it, and a role without a team."""
    if (team is None) != (role is None):
        raise Refusal("Give a team and a role on it, or neither.", field="team" if team is None else "role")


def require_invite(by: Actor, team: Team | None, role: Role | None) -> None:
    """Refuse an actor who may not invite anybody, with this role or without one."""
    if team is None or role is None:
        require_people(by)
    else:
        require_grant(by, team, role)


def require_link(by: Actor, user: User) -> None:
    """Refuse an actor who may not make a link for this person."""
    if not (is_invited(user) and _may_let_in(by, user)):
        require_people(by)


def may_be_shown(by: Actor) -> bool:
    """Return whether the actor gets a link shown that could not be mailed."""
    return by.user is None or may_anywhere(by.user, Permission.MANAGE_PEOPLE)


def note_mail(made: Made, *, by: Actor, sent: bool) -> None:
    """Note what became of a link that was to be mailed; one that is shown instead proves no address.

    Whoever uses that shows nothing of the address, and its maker has read it.
    """
    link, shown = made.link, not sent and may_be_shown(by)
    with transaction.atomic():
        if shown:
            AccountLink.objects.filter(pk=link.pk).update(mailed_to="")
        done = f"mailed to {link.mailed_to}" if sent else f"not mailed to {link.mailed_to}"
        if not sent:
            done += ", shown instead" if shown else ", shown to nobody"
        audit.record(
            by=by,
            action="person.link-mailed" if sent else "person.link-not-mailed",
            target=link.user,
            after={"link": done},
        )


def _told_of(mailed: bool) -> dict[str, str]:
    """Return what the trail says of a new link; what became of one to be mailed is a row of its own."""
    return {"link": "to be mailed" if mailed else "shown"}


def may_link(by: User, user: User) -> bool:
    """Return whether somebody may make a link for a person; the page offers it then."""
    manages = may_anywhere(by, Permission.MANAGE_PEOPLE)
    return manages or (is_invited(user) and _may_let_in(Actor.person(by, Via.PAGE), user))


def find_link(secret: str) -> AccountLink:
    """Return the link with this secret, while it is good; refuse otherwise."""
    rows = AccountLink.objects.select_related("user").filter(used_at=None, expires_at__gt=timezone.now())
    found = rows.filter(token_hash=AccountLink.hash_of(secret)).first()
    if found is None or not _is_good_for(found, found.user):
        raise gone()
    return found


def _is_good_for(link: AccountLink, user: User) -> bool:
    """Return whether an open link still sets this person's password: an invitation only that which is their first.

    One that was not mailed, its maker may have read: it is good while they could make it.
    """
    if not user.is_active or (link.purpose == LinkPurpose.INVITATION and not is_invited(user)):
        return False
    if link.mailed_to or link.made_by_id is None:
        return True
    maker = User.objects.filter(pk=link.made_by_id, is_active=True).first()
    return maker is not None and may_link(maker, user)


def gone() -> Refusal:
    """Return what whoever has a link of no use is told."""
    refusal = Refusal(GONE)
    refusal.status, refusal.code = 410, "gone"
    return refusal


def use_link(*, secret: str, password: str) -> User:
    """Set the password of whom a link is for; of two who use it at once, one does.

    It ends all their sessions, and their tokens: whoever forgot a password may have lost more.
    """
    link = find_link(secret)
    user = link.user
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refusal(" ".join(error.messages), field="password1") from error
    user.set_password(password)  # before the row is locked: it takes a while
    hashed = user.password
    with transaction.atomic():
        now = timezone.now()
        good = AccountLink.objects.filter(pk=link.pk, used_at=None, expires_at__gt=now)
        user = _locked(user)
        if not _is_good_for(link, user) or good.update(used_at=now) != 1:
            raise gone()
        user.password = hashed
        user.save(update_fields=["password"])
        forget_pending(user)
        if link.mailed_to and link.mailed_to == user.email:
            EmailAddress.objects.update_or_create(
                user=user, email=user.email, defaults={"verified": True, "primary": True}
            )
        by = Actor.person(user, Via.PAGE)
        if link.purpose == LinkPurpose.INVITATION:
            audit.record(by=by, action="person.joined", target=user)
        else:
            after = {"tokens": revoke_all(user)}
            audit.record(by=by, action="person.password-reset", target=user, after=after)
        live.announce("teams")
    return user


def disable(
    *, by: Actor, user: User, workloads: Leaving = Leaving.LEAVE, heir: User | None = None
) -> dict[str, int]:
    """Put somebody out: no sign-in, no session, no token, no link; return how many of what that ended.

    Their open workloads are left as they are, cancelled, or handed over to `heir`. Not the last organisation admin.
    """
    if (workloads is Leaving.HAND_OVER) != (heir is not None):
        raise Refusal(
            "Name whom the workloads are handed over to, where they are, and only there.", field="to"
        )
    with transaction.atomic():
        lock_tree()
        user = _locked(user)
        require_people(by)
        if not user.is_active:
            raise Conflict(f"{user.username} is disabled already.")
        if by.user == user:
            raise Conflict("Nobody disables themselves: ask another organisation admin.")
        _keep_an_org_admin(user)
        user.is_active = False
        user.session_generation += 1
        user.save(update_fields=["is_active", "session_generation"])
        ended = {"sessions": _end_sessions(user), **_end_what_lets_in(user)}
        user.links_made.filter(used_at=None, mailed_to="").delete()  # they read those
        done = settle(by, user, workloads, heir)
        after = {**ended, "workloads": f"{done} {SETTLED[workloads]}"} | (
            {"to": heir.username} if heir else {}
        )
        audit.record(by=by, action="person.disabled", target=user, after=after)
        live.announce("teams")
    return {**ended, "workloads": done}


def enable(*, by: Actor, user: User) -> User:
    """Let somebody in again, with the password and the roles that they had; without their old sessions and tokens."""
    with transaction.atomic():
        lock_tree()
        user = _locked(user)
        require_people(by)
        if user.is_active:
            raise Conflict(f"{user.username} is not disabled.")
        user.is_active = True
        user.save(update_fields=["is_active"])
        audit.record(
            by=by, action="person.enabled", target=user, before={"active": False}, after={"active": True}
        )
        live.announce("teams")
    return user


def end_sessions(
    *,
    by: Actor,
    user: User,
    only: UserSession | None = None,
    keep: HttpRequest | None = None,
    tokens: bool = False,
) -> dict[str, int]:
    """End somebody's sessions: one, or all; with `tokens`, revoke those as well.

    One's own, and as an organisation admin anybody's. Of all, the session of the request `keep` stays.
    """
    with transaction.atomic():
        if by.user == user:
            user = sessions.lock_signed_in(user)
        else:
            user = _locked(user)
            require_people(by)
        rows = UserSession.objects.filter(user=user)
        if only is not None:
            ended = {"sessions": sessions.end(rows.filter(pk=only.pk))}
        else:
            kept = keep.session.session_key if keep else None
            ended = {"sessions": sessions.end(rows.exclude(session_key=kept or ""))}
            user.session_generation += 1
            user.save(update_fields=["session_generation"])
            forget_pending(user)
            if keep:
                update_session_auth_hash(keep, user)
        if tokens:
            ended |= _end_what_lets_in(user)
        audit.record(by=by, action="person.sessions-ended", target=user, after=ended)
    return ended


def _end_sessions(user: User) -> int:
    return sessions.end(UserSession.objects.filter(user=user))


def _end_what_lets_in(user: User) -> dict[str, int]:
    """Revoke somebody's tokens, links and addresses that wait to be confirmed; return how many tokens."""
    user.end_links()
    forget_pending(user)
    return {"tokens": revoke_all(user)}


def _new_link(user: User, purpose: LinkPurpose, *, by: Actor, mailed_to: str) -> Made:
    user.end_links()
    secret = secrets.token_urlsafe(32)
    link = AccountLink.objects.create(
        user=user,
        made_by=by.user,
        purpose=purpose,
        token_hash=AccountLink.hash_of(secret),
        mailed_to=mailed_to,
        expires_at=timezone.now() + LINKS_LAST[purpose],
    )
    return Made(link, secret)


def _locked(user: User) -> User:
    """Return the person as they are stored, kept from others until the transaction ends."""
    found = people().select_for_update(no_key=True).filter(pk=user.pk).first()
    if found is None:
        raise Conflict(f"There is no account {user.username} any more.")
    return found


def require_people(by: Actor) -> None:
    """Refuse who manages no accounts, as it is now: of two admins who put each other out, the second is out."""
    if by.user is None:
        return
    now = as_of_now(by.user)
    if now is None or not may_anywhere(now, Permission.MANAGE_PEOPLE):
        raise NotAllowed(
            "Accounts are managed by organisation admins; your role lets you invite into your teams."
        )


def _may_let_in(by: Actor, user: User) -> bool:
    """Return whether the actor invited the person, and could have given each role that they have, by a group none."""
    if by.user is None:
        return True
    if user.invited_by_id != by.user.pk:
        return False
    bindings = list(Binding.objects.select_related("team").filter(user=user))
    theirs = all(Role(binding.role) in grantable(by.user, binding.team) for binding in bindings)
    return (
        bool(bindings)
        and theirs
        and not user.groups.exists()
        and people_for(by.user).filter(pk=user.pk).exists()
    )


def _require_mail(by: Actor, user: User, *, mailed: bool) -> None:
    """Refuse to show the link of somebody to whom it can be mailed, but to an organisation admin."""
    if mailed or not (settings.MAIL and user.email) or by.user is None:
        return
    if not may_be_shown(by):
        raise NotAllowed(
            f"The link goes by mail to {user.email}; only an organisation admin may have it shown instead."
        )


def _keep_an_org_admin(user: User) -> None:
    """Refuse to put out the organisation's last admin who can sign in: nobody could let another one in."""
    admins = org_admins()
    if admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists():
        message = (
            f"{user.username} is the last organisation admin who can sign in. Make somebody else one first."
        )
        raise Conflict(message, code="last-org-admin")


def lasts(purpose: LinkPurpose) -> str:
    """Return for how long a new link is good, in words."""
    return count(LINKS_LAST[purpose].days, "day")
