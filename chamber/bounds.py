"""What a token leaves of the roles of whoever comes with it; `teams.permissions` decides with it.

Imports nothing of the project.
"""

from dataclasses import dataclass
from typing import Any

EVERYTHING = "admin"


@dataclass(frozen=True, slots=True)
class TokenBounds:
    """Only the team of this path and all below it, and of what may be changed only what a token of this scope may."""

    path: str = ""
    scope: str = EVERYTHING


UNBOUND = TokenBounds()


def bind(user: Any, bounds: TokenBounds) -> None:
    """Have this object of a person, and so this request, be allowed no more than the bounds leave."""
    user._chamber_bounds = bounds
    user.__dict__.pop("_chamber_roles", None)


def bounds_of(user: Any) -> TokenBounds:
    """Return what the token leaves with which a person asks; everything without one."""
    bounds: TokenBounds = getattr(user, "_chamber_bounds", UNBOUND)
    return bounds
