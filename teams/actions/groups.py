"""Groups of people, who are given roles together; made and filled by organisation admins, for they reach anywhere."""

import re
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db import transaction

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal
from teams import audit
from teams.actions.members import end_links, find_person
from teams.actors import Actor
from teams.members import org_admins
from teams.models import Binding, ProviderGroup, Role
from teams.permissions import Permission, acting_now, may_anywhere
from teams.picture import lock_tree

if TYPE_CHECKING:
    from chamber.models import User

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?", re.ASCII)


def create_group(*, by: Actor, name: str) -> Group:
    """Make a group without people and roles."""
    with transaction.atomic():
        lock_tree()
        require_groups(by)
        if not _NAME.fullmatch(name):
            raise Refusal(
                f"{name!r} is no name for a group: use up to 60 small letters, digits and hyphens, none at either end.",
                field="name",
            )
        if Group.objects.filter(name=name).exists():
            raise Conflict(f"There is a group named {name!r} already.", field="name")
        group = Group.objects.create(name=name)
        audit.record(by=by, action="group.created", target=group, after={"name": name})
        live.announce("teams")
    return group


def delete_group(*, by: Actor, group: Group) -> None:
    """Delete a group that has no role any more; its people stay."""
    with transaction.atomic():
        lock_tree()
        require_groups(by)
        given = Binding.objects.filter(group=group).select_related("team").first()
        if given is not None:
            raise Conflict(
                f"The group {group.name} is {given.get_role_display().lower()} of {given.team.name}; "
                "take its roles away first."
            )
        audit.record(by=by, action="group.deleted", target=group, before={"name": group.name})
        group.delete()
        live.announce("teams")


def add_to_group(*, by: Actor, group: Group, who: str) -> "User":
    """Put the person with this user name or e-mail address into a group: all its roles are theirs too."""
    with transaction.atomic():
        lock_tree()
        require_groups(by)
        _require_by_hand(group)
        user = find_person(who)
        if group.user_set.filter(pk=user.pk).exists():
            raise Conflict(f"{user} is in the group {group.name} already.", field="who")
        group.user_set.add(user)
        for binding in Binding.objects.filter(group=group).select_related("team"):
            end_links([user], binding.team, Role(binding.role))
        audit.record(by=by, action="group.person-added", target=group, after={"who": user.username})
        live.announce("teams")
    return user


def remove_from_group(*, by: Actor, group: Group, user: "User") -> None:
    """Take a person out of a group; not the organisation's last admin. Whoever is not in it may be taken out twice."""
    with transaction.atomic():
        lock_tree()
        require_groups(by)
        _require_by_hand(group)
        if not group.user_set.filter(pk=user.pk).exists():
            return
        group.user_set.remove(user)
        if Binding.objects.filter(group=group, role=Role.ORG_ADMIN).exists() and not org_admins().exists():
            raise Conflict(
                f"{user} is the last organisation admin who can sign in. Make somebody else one first.",
                code="last-org-admin",
            )
        audit.record(by=by, action="group.person-removed", target=group, before={"who": user.username})
        live.announce("teams", f"user:{user.pk}")


def _require_by_hand(group: Group) -> None:
    """Refuse to change who is in a group that an identity provider fills."""
    if ProviderGroup.objects.filter(pk=group.pk).exists():
        raise Conflict(
            f"{group.name} is filled by an identity provider: change there who is in it, and its roles on the page "
            "Sign-in."
        )


def require_groups(by: Actor) -> None:
    """Refuse who does not manage groups, as it is now: their role may be gone since the request began."""
    by = acting_now(by)
    if by.user is not None and not may_anywhere(by.user, Permission.MANAGE_GROUPS):
        raise NotAllowed("Groups are made and filled by organisation admins.")
