"""Reading what the organisation asks of whoever signs in."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.core.cache import caches

from chamber.errors import NotAllowed
from teams.models import SignInPolicy
from teams.permissions import Permission, paths_where

if TYPE_CHECKING:
    from chamber.models import User

SEES_POLICY = (Permission.MANAGE_PEOPLE, Permission.VIEW_AUDIT)
KEPT_SECONDS = 2.0
"""How late a process may learn of a change that another one made."""
ASKED = "sign-in:required-from"
"""Under which a process keeps what it asked last."""


def policy() -> SignInPolicy:
    """Return the policy: as stored, or that of an organisation which never set one (version 0)."""
    return SignInPolicy.objects.first() or SignInPolicy(version=0)


def required_from() -> datetime | None:
    """Return from when on everybody needs a second factor; None where none is required. Asks at most every 2 s."""
    cache = caches["process"]
    kept: tuple[datetime | None] | None = cache.get(ASKED)
    if kept is None:
        kept = (policy().required_from,)
        cache.set(ASKED, kept, KEPT_SECONDS)
    return kept[0]


def forget() -> None:
    """Have the next look see what was changed just now."""
    caches["process"].delete(ASKED)


def may_see_policy(reader: "User") -> bool:
    """Return whether somebody sees how people sign in: who manages accounts, or reads all of the trail."""
    paths = (path for each in SEES_POLICY for path in paths_where(reader, each))
    return any(path.count("/") == 2 for path in paths)  # that of the root


def policy_for(reader: "User") -> SignInPolicy:
    """Return the policy; refuse who neither manages accounts nor reads the whole organisation's trail."""
    if not may_see_policy(reader):
        raise NotAllowed("How people sign in is organisation admins' and auditors' to see.")
    return policy()
