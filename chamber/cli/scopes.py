"""What a token may be used for, as options name it and tables show it."""

from typing import Any

SCOPES = ["read", "submit", "manage", "admin"]


def reach(token: dict[str, Any]) -> str:
    """Return a token's scope, and the team to which it is limited: `scope submit, team nlp`."""
    team = token.get("team")
    return f"scope {token['scope']}" + (f", team {team}" if team else "")
