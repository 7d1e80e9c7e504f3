"""Rows of the trail as the chain sees them, and the keys of this server."""

from datetime import UTC
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from django.conf import settings

from teams.chain.rows import Keyring, canonical
from teams.models import AuditEvent

TEXTS = ("actor", "on_behalf_of", "via", "action", "target_kind", "target_id", "target_name", "team_path")
MARK, SEAL, ANCHOR = "row", "seal", "anchor"
"""What keys are used for."""


def row_of(event: AuditEvent) -> dict[str, Any]:
    """Return all that is told by a row of the trail."""
    return {
        "id": str(event.pk),
        "at": event.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "user": str(event.user_id) if event.user_id else None,
        **{name: str(getattr(event, name)) for name in TEXTS},
        # As one database writes it and another does not.
        "address": str(ip_address(event.address)) if event.address else None,
        "agent": event.agent,
        "before": event.before,
        "after": event.after,
    }


def content_of(event: AuditEvent) -> bytes:
    """Return the canonical form of a row of the trail."""
    return canonical(row_of(event))


def mark_of(event: AuditEvent) -> str:
    """Return what shows that a process with this server's key wrote the row."""
    return keyring().sign(MARK, content_of(event))


def keyring() -> Keyring:
    """Return this server's keys: the present one first, then those that were used before."""
    return _ring((settings.AUDIT_KEY or settings.SECRET_KEY, *settings.AUDIT_KEYS_BEFORE))


@lru_cache(maxsize=8)
def _ring(secrets: tuple[str, ...]) -> Keyring:
    return Keyring.of(secrets)
