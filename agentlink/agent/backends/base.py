"""What the agent needs of a cluster, whatever it is made of."""

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from agentlink.protocol import (
    AssignedPod,
    DesiredAttempt,
    DiscoveredJob,
    NamespaceReport,
    Namespaces,
    NodeReport,
    PodReport,
    ReportedPhase,
    StopNotice,
    UsageFigure,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a cluster has of one attempt: its pods now, and how it ended.

    `phase` is `gone` once no pod is left of an attempt that did not end by itself. The record stays in the cluster
    until it is forgotten.
    """

    workload: UUID
    attempt: UUID
    number: int
    phase: ReportedPhase
    pods: tuple[PodReport, ...] = ()
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    created_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    images: tuple[str, ...] = ()
    """What its pods' nodes pulled, by digest."""
    notes: tuple[str, ...] = ()
    """What is written on its objects of checkpoints and progress, as lines."""


class Found(NamedTuple):
    """What a cluster has in its bound namespaces, by the bindings of a version: all of it."""

    version: int
    namespaces: Sequence[NamespaceReport]
    jobs: Sequence[DiscoveredJob]


class LogPiece(NamedTuple):
    """What a pod wrote, cut anywhere; after a whole line, `cursor` is the place behind it. `at` is when it was written,
    where that is known; told only of lines that may be notes.
    """

    data: bytes
    cursor: str = ""
    at: datetime | None = None


class NoLogs(Exception):  # noqa: N818 - an answer
    """A pod's log cannot be read: as a sentence, and whether it only has not begun."""

    def __init__(self, message: str, *, not_started: bool = False) -> None:
        super().__init__(message)
        self.not_started = not_started


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

    async def create(self, assignment: DesiredAttempt, pods: Sequence[AssignedPod]) -> None:
        """Create these pods of an attempt, all of them or, where it had none yet, none and say why by a failure."""
        ...

    async def stop(
        self, attempt: UUID, pods: Collection[int] | None, notice: StopNotice | None = None
    ) -> None:
        """Begin to stop some pods of an attempt, or all (None), with the grace period they were created with.

        With a `notice` they are told so first, and have what is left of it.
        """
        ...

    async def forget(self, attempt: UUID) -> None:
        """Drop the record of an attempt of which no pod is left."""
        ...

    def logs(
        self, attempt: UUID, pod: int, *, follow: bool, tail_bytes: int, after: str = ""
    ) -> AsyncGenerator[LogPiece]:
        """Yield about the last `tail_bytes` of a pod's log, or all after a cursor; with `follow`, until it ends.

        Cursors of one pod are greater for later lines. Raises `NoLogs`. To be wrapped in `contextlib.aclosing`.
        """
        ...

    async def usage(self) -> Sequence[UsageFigure]:
        """Return what workloads make of their GPUs now, as far as it can be measured."""
        ...

    async def expect(self, assignments: Collection[DesiredAttempt]) -> None:
        """Take in all attempts that may have pods now: of no others do Jobs run and quotas speak."""
        ...

    async def bind(self, namespaces: Namespaces) -> None:
        """Keep these namespaces from now on, and no others."""
        ...

    async def discovered(self, since: int) -> tuple[int, Found | None]:
        """Return the present version, and what is in the bound namespaces where that changed after `since`, else None.

        Nothing while not all of them have been looked at.
        """
        ...

    async def answer(self, verdicts: Sequence[Verdict]) -> None:
        """Tell people in the cluster what became of their Jobs."""
        ...
