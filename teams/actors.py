"""Who does something: a person through a door, or Chamber itself. Every action takes one as `by`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chamber.models import User


class Via(StrEnum):
    """The door through which an act came."""

    PAGE = "page"
    API = "api"
    CLI = "cli"
    AGENT = "agent"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts. `user` is None for Chamber's own parts and for agents."""

    name: str
    via: Via
    user: "User | None" = None
    on_behalf_of: str = ""

    @classmethod
    def person(cls, user: "User", via: Via) -> "Actor":
        """Return a signed-in person acting through `via`."""
        return cls(name=user.get_username(), via=via, user=user)

    @classmethod
    def nobody(cls, via: Via) -> "Actor":
        """Return whoever is not signed in; only the trail of what they tried takes it, no action."""
        return cls(name="anonymous", via=via)

    @classmethod
    def system(cls, part: str) -> "Actor":
        """Return a part of Chamber, e.g. `scheduler`; it may do everything."""
        return cls(name=part, via=Via.SYSTEM)

    @classmethod
    def agent(cls, cluster: str) -> "Actor":
        """Return the agent of a cluster."""
        return cls(name=f"agent of {cluster}", via=Via.AGENT)
