"""What somebody may see, as a number that is another one once that is not the same any more: open pages compare it."""

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from chamber import live
from teams.models import Team
from teams.permissions import Permission, paths_where, roles_by_path

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

TOPIC = "tree"
"""What is announced when teams come to lie elsewhere, or are no more: who sees which is another matter then."""
SIGHT_TOPIC = "sight"
"""Under this name an open page asks what its reader may see, and is told again when that changes."""


def sight_of(user: "User | AnonymousUser") -> int:
    """Return a number of the user's roles and of the teams that these reach (1 query at most, and one for the roles
    where these are not known yet). Browsers take it for exact: it has 48 bits.
    """
    roles = sorted((path, sorted(roles)) for path, roles in roles_by_path(user).items())
    paths = tuple(paths_where(user, Permission.VIEW_TEAM))
    version = live.version(TOPIC)
    teams = _teams(paths, version) if version != live.UNKNOWN else _teams.__wrapped__(paths, version)
    return _number(repr(roles), teams)


@lru_cache(maxsize=1024)
def _teams(paths: tuple[str, ...], version: int) -> str:  # noqa: ARG001 - of another tree it is another answer
    """Return the teams below these paths, as a digest; kept for all who see the same, until the tree changes."""
    found = Team.objects.under_any(list(paths)).order_by("pk").values_list("pk", flat=True)
    return hashlib.sha256("".join(pk.hex for pk in found).encode()).hexdigest() if paths else ""


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:6], "big")
