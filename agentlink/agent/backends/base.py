"""What the agent needs of a cluster, whatever it is made of."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from agentlink.protocol import AssignedPod, Assignment, NodeReport, Phase, PodReport


@dataclass(frozen=True, slots=True)
class Observation:
    """What a cluster has of one attempt: its pods now, and how it ended.

    `phase` is `gone` once no pod is left of an attempt that did not end by itself. The record stays in the cluster
    until it is forgotten.
    """

    workload: UUID
    attempt: UUID
    number: int
    phase: Phase
    pods: tuple[PodReport, ...] = ()
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    created_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None


class Backend(Protocol):
    """A cluster, read by versions like a Kubernetes watch. It outlives the agent: nothing is kept beside it."""

    uid: str

    async def nodes(self, since: int) -> tuple[int, Sequence[NodeReport] | None]:
        """Return the present version, and all machines where any changed after version `since`, else None."""
        ...

    async def observe(self, since: int) -> tuple[int, Sequence[Observation]]:
        """Return the present version, and the attempts that changed after version `since` (-1: all)."""
        ...

    async def changed(self, since: int) -> None:
        """Return when nodes or attempts have changed after version `since`."""
        ...

    async def create(self, assignment: Assignment, pods: Sequence[AssignedPod]) -> None:
        """Create these pods of an attempt, all of them or, where it had none yet, none and say why by a failure."""
        ...

    async def stop(self, attempt: UUID, pods: Collection[int] | None) -> None:
        """Begin to stop some pods of an attempt, or all (None), with the grace period they were created with."""
        ...

    async def forget(self, attempt: UUID) -> None:
        """Drop the record of an attempt of which no pod is left."""
        ...
