"""Giving and taking roles."""

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal
from teams import audit
from teams.actors import Actor
from teams.members import org_admins
from teams.models import Binding, Role, Team
from teams.permissions import Permission, acting_now, grantable, require
from teams.picture import lock_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chamber.models import User


GROUP = "group:"
"""Before the name of a group, where a person may be named as well."""
SERVICE = "service:"
"""With this the user names of service accounts begin."""


def add_member(*, by: Actor, team: Team, who: str, role: Role) -> Binding:
    """Give the person with this user name or e-mail address, `group:NAME` or `service:NAME`, a role on the team and all
    below it.
    """
    with transaction.atomic():
        lock_tree()
        by = acting_now(by)
        require_grant(by, team, role)
        holder: dict[str, User | Group] = {}
        if who.strip().startswith(GROUP):
            holder["group"] = _find_group(who.strip().removeprefix(GROUP).strip())
        elif who.strip().startswith(SERVICE):
            holder["user"] = _find_service(who.strip())
        else:
            holder["user"] = find_person(who)
        if Binding.objects.filter(team=team, role=role, **holder).exists():
            (name,) = holder.values()
            raise Conflict(f"{name} is {role.label.lower()} of {team.name} already.")
        binding = Binding.objects.create(team=team, role=role, **holder)
        _refuse_to_who_has_read_tokens(binding)
        _end_links(binding)
        audit.record(by=by, action="member.added", target=binding, team=team, after=_described(binding))
        live.announce("teams")
    return binding


def change_role(*, by: Actor, binding: Binding, role: Role) -> Binding:
    """Give a member another role in place of the one of `binding`; return the binding."""
    with transaction.atomic():
        lock_tree()
        binding, by = _stored(binding), acting_now(by)
        require_grant(by, binding.team, Role(binding.role))
        require_grant(by, binding.team, role)
        if binding.role == role:
            return binding
        same = Binding.objects.filter(team=binding.team, user=binding.user, group=binding.group, role=role)
        if same.exists():
            raise Conflict(f"{_holder(binding)} is {role.label.lower()} of {binding.team.name} already.")
        before = _described(binding)
        was = Role(binding.role)
        binding.role = role
        binding.save(update_fields=["role"])
        _keep_an_org_admin(binding, was)
        _refuse_to_who_has_read_tokens(binding)
        _end_links(binding)
        _tell(binding)
        audit.record(
            by=by,
            action="member.role-changed",
            target=binding,
            team=binding.team,
            before=before,
            after=_described(binding),
        )
        live.announce("teams")
    return binding


def remove_member(*, by: Actor, binding: Binding) -> None:
    """Take a role away. The last organisation admin keeps it."""
    with transaction.atomic():
        lock_tree()
        binding, by = _stored(binding), acting_now(by)
        require_grant(by, binding.team, Role(binding.role))
        before = _described(binding)
        audit.record(by=by, action="member.removed", target=binding, team=binding.team, before=before)
        _tell(binding)
        Binding.objects.filter(pk=binding.pk).delete()
        _keep_an_org_admin(binding, Role(binding.role))
        live.announce("teams")


def end_links(users: "Iterable[User]", team: Team, role: Role) -> None:
    """Make the open links of who was given a role of no use, where whoever made the link could not have given it.

    The maker may have read the link, and would have the role by it.
    """
    for user in users:
        for link in user.links.filter(used_at=None).exclude(made_by=None).select_related("made_by"):
            if link.made_by is not None and role not in grantable(link.made_by, team):
                link.delete()


def _end_links(binding: Binding) -> None:
    users = [binding.user] if binding.user is not None else binding.group.user_set.all()  # type: ignore[union-attr]
    end_links(users, binding.team, Role(binding.role))


def _tell(binding: Binding) -> None:
    """After commit, have what is open of those who hold a role looked at again."""
    holders = [binding.user_id] if binding.user_id else []
    if binding.group is not None:
        holders += binding.group.user_set.values_list("pk", flat=True)
    live.announce(*(f"user:{holder}" for holder in holders))


def _stored(binding: Binding) -> Binding:
    found = Binding.objects.select_related("team", "user", "group").filter(pk=binding.pk).first()
    if found is None:
        raise Conflict("Somebody took this role away meanwhile.")
    return found


def require_grant(by: Actor, team: Team, role: Role) -> None:
    """Refuse an actor whose own role on the team does not let them give and take `role`."""
    if role.only_at_root and team.depth:
        raise Refusal(f"{role.label} is a role of the whole organisation, not of {team.name}.", field="role")
    require(by, Permission.MANAGE_MEMBERS, team)
    if by.user is None:
        return
    allowed = grantable(by.user, team)
    if role not in allowed:
        names = ", ".join(other.label.lower() for other in allowed)
        raise NotAllowed(f"In {team.name} you may give and take the roles {names}; not {role.label.lower()}.")


def find_person(who: str) -> "User":
    """Return whose user name or e-mail address this is; a `Refusal` where it is nobody's who can sign in."""
    who = who.strip().replace("\x00", "")
    accounts = get_user_model().objects.filter(is_active=True).exclude(username__startswith=SERVICE)
    found = accounts.filter(username=who).first() or (
        accounts.filter(email=who.lower()).first() if "@" in who else None
    )
    if found is None:
        raise Refusal(f"There is no account with the name or e-mail address {who!r}.", field="who")
    return found


def _find_service(username: str) -> "User":
    accounts = get_user_model().objects.filter(is_active=True, username__startswith=SERVICE)
    found = accounts.filter(username=username.replace("\x00", "")).first()
    if found is None:
        raise Refusal(f"There is no service account named {username.removeprefix(SERVICE)!r}.", field="who")
    return found


def _refuse_to_who_has_read_tokens(binding: Binding) -> None:
    """Refuse to give a service account a role while somebody has read a token of it who could not have given the role.

    They would have the role by that token. Reached by the names of relations: the room of tokens lies above this one.
    """
    account = getattr(binding.user, "service_account", None)
    if account is None:
        return
    role, team = Role(binding.role), binding.team
    for token in account.tokens.filter(revoked_at=None, expires_at__gt=timezone.now()).select_related(
        "made_by", "team"
    ):
        reaches = token.team is None or team.is_within(token.team) or token.team.is_within(team)
        maker = token.made_by
        could = maker is None or (maker.is_active and role in grantable(maker, team))
        if reaches and not could:
            raise Conflict(
                f"A token of {account.name} was made by somebody who may not give the role {role.label.lower()} in "
                f"{team.name}, and knows it. Whoever manages {account.name} revokes it first, and makes another one.",
                field="who",
                code="known-token",
            )


def _find_group(name: str) -> Group:
    found = Group.objects.filter(name=name.replace("\x00", "")).first()
    if found is None:
        raise Refusal(f"There is no group named {name!r}.", field="who")
    return found


def _keep_an_org_admin(binding: Binding, was: Role) -> None:
    """Refuse to take the role from the organisation's last admin who can sign in: nobody could give it again."""
    if was == Role.ORG_ADMIN and not org_admins().exists():
        raise Conflict(
            f"{_holder(binding)} is the last organisation admin who can sign in. Make somebody else one first.",
            code="last-org-admin",
        )


def _holder(binding: Binding) -> str:
    return str(binding.user or binding.group)


def _described(binding: Binding) -> dict[str, str]:
    return {"who": binding.user.username if binding.user else f"group {binding.group}", "role": binding.role}
