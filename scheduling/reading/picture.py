"""What a cycle looked at: the engine's snapshot, and what stands beside it in the tables."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling import engine
from scheduling.reading import translate
from workloads.models import Status

logger = logging.getLogger(__name__)

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)
"""What turning a row into what the engine takes may fail with."""


@dataclass(frozen=True, slots=True)
class KnownWorkload:
    """An open workload's row when the picture was taken; applying checks that `version` still holds."""

    id: UUID
    version: int
    status: Status
    reason_code: str
    fail_if_impossible: bool
    attempt_id: UUID | None
    allocation: list[Any]


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """A device's row, and the cluster it is in."""

    device_id: UUID
    cluster_id: UUID


@dataclass(frozen=True, slots=True)
class LeftAside:
    """A row that could not be read; the rest is decided without it."""

    kind: str
    id: str
    problem: str


def unread(kind: str, key: str, error: Exception) -> LeftAside:
    """Return a note on what cannot be read, and log it."""
    logger.error("The %s %s cannot be read and is left aside: %r", kind, key, error)
    return LeftAside(kind, key, repr(error))


@dataclass(frozen=True, slots=True)
class SnapshotPicture:
    """The engine's snapshot, and what stands beside it in the tables.

    `rows` is keyed by the id of open workloads, `devices` by node id and device index.
    """

    cycle: int
    taken_at: datetime
    snapshot: engine.Snapshot
    rows: Mapping[str, KnownWorkload]
    devices: Mapping[tuple[str, int], DevicePlace]
    left_aside: tuple[LeftAside, ...] = ()

    @property
    def now(self) -> int:
        """The moment of the picture as the engine counts it."""
        return translate.milliseconds(self.taken_at) or 0
