"""Reading who has which role on a team."""

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q, QuerySet

from teams.models import Binding, Role, Team

if TYPE_CHECKING:
    from chamber.models import User


def org_admins() -> "QuerySet[User]":
    """Return the organisation admins who can sign in: not disabled, and not only invited."""
    given = Binding.objects.filter(role=Role.ORG_ADMIN)
    invited = Q(password__startswith=UNUSABLE_PASSWORD_PREFIX, last_login=None)
    holders = Q(pk__in=given.values("user")) | Q(groups__in=given.exclude(group=None).values("group"))
    return get_user_model().objects.filter(holders, is_active=True).exclude(invited).distinct()


def people_of_teams_seen_by(reader: "User") -> "QuerySet[User]":
    """Return whose user names somebody may know by the teams that they see: their own, and those of members."""
    seen = Binding.objects.filter(team__in=Team.objects.visible_to(reader).order_by().values("pk"))
    members = Q(pk__in=seen.values("user")) | Q(groups__in=seen.values("group"))
    people: QuerySet[User] = get_user_model()._default_manager.filter(Q(pk=reader.pk) | members)
    return people.distinct()


def roles_of(user: "User") -> QuerySet[Binding]:
    """Return somebody's own roles and those of their groups, with team and group, from the root down."""
    rows = Binding.objects.filter(Q(user=user) | Q(group__user=user)).select_related("team", "group")
    return rows.order_by("team__path", "role", "pk").distinct()


def members_of(team: Team, reader: "User") -> QuerySet[Binding]:
    """Return the bindings that reach the team, its own first, then upwards as far as the reader may see."""
    above = Team.objects.visible_to(reader).filter(pk__in=team.ancestor_ids())
    found = Binding.objects.filter(team__in=above.order_by().values("pk"))
    return found.select_related("team", "user", "group").order_by(
        "-team__depth", "role", "user__username", "pk"
    )
