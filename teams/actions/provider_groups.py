"""Roles of groups that an identity provider names, and who is in them: what the provider says, and nobody by hand."""

import logging
from collections.abc import Collection
from hashlib import sha256
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction

from chamber import invalid, live
from chamber.errors import Refusal
from teams import audit
from teams.actions.groups import require_groups
from teams.actions.members import GROUP, add_member, change_role, end_links, remove_member
from teams.actors import Actor
from teams.members import org_admins
from teams.models import Binding, ProviderGroup, Role, Team
from teams.picture import lock_tree

if TYPE_CHECKING:
    from chamber.models import User

logger = logging.getLogger(__name__)

LONGEST_NAME = 255
LONGEST_GROUP = 150
"""Of a group's own name, which has the provider's in front."""


def set_provider_role(
    *, by: Actor, provider: str, name: str, team: Team, role: Role | None
) -> Binding | None:
    """Give the people whom a provider puts into a group a role on a team, in place of the one that it gave; None: take
    it away. An organisation admin does. It holds for each of them from their next sign-in or sync on.
    """
    with transaction.atomic():
        lock_tree()
        require_groups(by)
        if role is None:
            _take_role(by, provider, name, team)
            return None
        group = _group(by, provider, name)
        now = Binding.objects.filter(group=group, team=team).first()
        if now is None:
            return add_member(by=by, team=team, who=f"{GROUP}{group.name}", role=role)
        return change_role(by=by, binding=now, role=role)


def set_provider_groups(*, provider: str, user: "User", names: Collection[str]) -> None:
    """Have somebody be in those groups of a provider that it names and that have roles, and in none of its others.

    The organisation's last admin who can sign in stays where that role comes from: nobody could give it again.
    """
    if _wanted(provider, names) == _now(provider, user):
        return
    by = Actor.system(f"provider {provider}")
    with transaction.atomic():
        lock_tree()
        wanted, now = _wanted(provider, names), _now(provider, user)
        for group in Group.objects.filter(pk__in=wanted - now).order_by("pk"):
            group.user_set.add(user)
            for binding in Binding.objects.filter(group=group).select_related("team"):
                end_links([user], binding.team, Role(binding.role))
            audit.record(by=by, action="group.person-added", target=group, after={"who": user.username})
        for group in Group.objects.filter(pk__in=now - wanted).order_by("pk"):
            _take_out(by, group, user)
        live.announce("teams", f"user:{user.pk}")


def _take_out(by: Actor, group: Group, user: "User") -> None:
    group.user_set.remove(user)
    gives = Binding.objects.filter(group=group, role=Role.ORG_ADMIN).exists()
    if gives and not org_admins().exists():
        group.user_set.add(user)
        logger.error(
            "%s stays in the group %s though the provider says otherwise: no other organisation admin can sign in.",
            user.username,
            group.name,
        )
        audit.record(by=by, action="group.person-kept", target=group, after={"who": user.username})
        return
    audit.record(by=by, action="group.person-removed", target=group, before={"who": user.username})


def _take_role(by: Actor, provider: str, name: str, team: Team) -> None:
    group = Group.objects.filter(provider_group__provider=provider, provider_group__name=name).first()
    bindings = Binding.objects.filter(group=group, team=team) if group is not None else Binding.objects.none()
    for binding in bindings:
        remove_member(by=by, binding=binding)
    if group is not None and not Binding.objects.filter(group=group).exists():
        audit.record(by=by, action="group.deleted", target=group, before={"name": group.name})
        group.delete()


def _group(by: Actor, provider: str, name: str) -> Group:
    """Return the group that stands for one of a provider; made where there is none yet."""
    ids = [each.id for each in settings.IDENTITY_PROVIDERS]
    if provider not in ids:
        raise Refusal(invalid.not_among("provider", provider, ids), field="provider")
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise Refusal(
            f"The group is {name[:80]!r}; 1 to {LONGEST_NAME} characters that can be seen are allowed.",
            field="group",
        )
    found = ProviderGroup.objects.select_related("group").filter(provider=provider, name=name).first()
    if found is not None:
        return found.group
    group = Group.objects.create(name=_own_name(provider, name))
    ProviderGroup.objects.create(group=group, provider=provider, name=name)
    audit.record(by=by, action="group.created", target=group, after={"name": group.name})
    return group


def _own_name(provider: str, name: str) -> str:
    """Return what the group is called here: no group that is made by hand has a colon in its name."""
    whole = f"{provider}:{name}"
    if len(whole) <= LONGEST_GROUP:
        return whole
    return f"{whole[: LONGEST_GROUP - 17]}~{sha256(whole.encode()).hexdigest()[:16]}"


def _wanted(provider: str, names: Collection[str]) -> set[int]:
    rows = ProviderGroup.objects.filter(provider=provider)
    return {row.pk for row in rows if row.name in names}


def _now(provider: str, user: "User") -> set[int]:
    rows = user.groups.filter(provider_group__provider=provider)
    return set(rows.values_list("pk", flat=True))
