"""Reading groups: who may, and what of them is shown."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db.models import Count

from chamber.errors import MOST_SHOWN, NotAllowed, NotVisible, no_such
from teams.models import Binding, Team
from teams.permissions import Permission, may_anywhere

if TYPE_CHECKING:
    from chamber.models import User


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group with its size, and its roles on teams that the reader may see."""

    group: Group
    size: int
    roles: tuple[Binding, ...]


def groups_for(reader: "User") -> list[ShownGroup]:
    """Return all groups in the order of their names (three queries); refuse who gives nobody a role."""
    _require(reader)
    rows = Group.objects.annotate(size=Count("user")).order_by("name")
    return _shown(rows, reader)


def group_for(reader: "User", group_id: int) -> ShownGroup:
    """Return one group; raise `NotVisible` where there is none."""
    _require(reader)
    found = _shown(Group.objects.filter(pk=group_id).annotate(size=Count("user")), reader)
    if not found:
        raise no_such("group", group_id)
    return found[0]


def person_in(group: Group, username: str) -> "User":
    """Return who has this user name and is in the group; raise `NotVisible` where nobody is."""
    found: User | None = group.user_set.filter(username=username.replace("\x00", "")).first()
    if found is None:
        raise NotVisible(f"{username[:MOST_SHOWN]!r} is not in the group {group.name}.")
    return found


def _require(reader: "User") -> None:
    if not may_anywhere(reader, Permission.MANAGE_MEMBERS):
        raise NotAllowed("Your role does not let you see groups: only who gives roles may.")


def _shown(rows: Iterable[Group], reader: "User") -> list[ShownGroup]:
    found = list(rows)
    roles: dict[int, list[Binding]] = defaultdict(list)
    seen = Team.objects.visible_to(reader).order_by().values("pk")
    given = Binding.objects.filter(group__in=[group.pk for group in found], team__in=seen).select_related(
        "team"
    )
    for binding in given.order_by("team__path", "role"):
        roles[binding.group_id or 0].append(binding)
    return [ShownGroup(group, getattr(group, "size", 0), tuple(roles[group.pk])) for group in found]
