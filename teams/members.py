"""Reading who has which role on a team."""

from typing import TYPE_CHECKING

from django.db.models import QuerySet

from teams.models import Binding, Team

if TYPE_CHECKING:
    from chamber.models import User


def members_of(team: Team, reader: "User") -> QuerySet[Binding]:
    """Return the bindings that reach the team, its own first, then upwards as far as the reader may see."""
    above = Team.objects.visible_to(reader).filter(pk__in=team.ancestor_ids())
    found = Binding.objects.filter(team__in=above.order_by().values("pk"))
    return found.select_related("team", "user", "group").order_by(
        "-team__depth", "role", "user__username", "pk"
    )
