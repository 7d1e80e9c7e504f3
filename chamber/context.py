"""What the frame around every page shows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from chamber import __version__
from chamber.people.reading import may_see_people
from chamber.requirement import due, holds_back
from teams.models import Team
from teams.permissions import Permission, may_anywhere, roles_by_path
from teams.sign_in import may_see_policy, required_from


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Return version, the organisation's name, and what the menu may offer to the person signed in."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"chamber_version": __version__, "keeps_mails": settings.KEEPS_MAILS}
    roles = {role for given in roles_by_path(user).values() for role in given}
    return {
        "chamber_version": __version__,
        "viewing": getattr(request, "viewing", None),
        "demo": settings.DEMO,
        "keeps_mails": settings.KEEPS_MAILS,
        # Asked for by whole pages only.
        "organisation": SimpleLazyObject(Team.objects.filter(depth=0).only("name").first),
        "role_names": ", ".join(sorted(role.label for role in roles)) or "No role yet",
        "may_submit": may_anywhere(user, Permission.SUBMIT),
        "may_give_roles": may_anywhere(user, Permission.MANAGE_MEMBERS),
        "may_see_people": may_see_people(user),
        "may_manage_people": may_anywhere(user, Permission.MANAGE_PEOPLE),
        "may_see_sign_in": may_see_policy(user),
        # Asked for by whole pages only, and where a second factor is required.
        "factor_due": SimpleLazyObject(lambda: due(user)) if required_from() else None,
        "held_back": SimpleLazyObject(lambda: holds_back(user)) if required_from() else False,
        "may_see_classes": may_anywhere(user, Permission.VIEW_TEAM),
        "may_audit": may_anywhere(user, Permission.VIEW_AUDIT),
    }
