"""What a simulated cluster keeps of an attempt: its pods, its timers, and how it ended."""

import logging
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from pydantic import BaseModel

from agentlink.agent.backends.base import Observation
from agentlink.agent.figures import FIGURES
from agentlink.protocol import ENDED, LIVING, AssignedPod, DesiredAttempt, PodReport, PodState, ReportedPhase
from chamber import logs

logger = logging.getLogger(__name__)


class Due(StrEnum):
    """What happens when a timer is over."""

    RUN = "run"
    END = "end"
    LIMIT = "limit"
    GONE = "gone"


class JobTimer(BaseModel):
    """Something that happens to some pods of a job (None: all) at a time."""

    at: float
    what: Due
    pods: list[int] | None = None


class Job(BaseModel):
    """One attempt's pods; times in seconds by the cluster's own clock.

    `calendar_ahead_seconds` is what the calendar showed more when the attempt came: told times are that much later.
    `is_past`: its end was acknowledged, and is told again only to a server that has forgotten it.
    """

    assignment: DesiredAttempt
    pods: dict[int, AssignedPod] = {}
    states: dict[int, PodState] = {}
    timers: list[JobTimer] = []
    phase: ReportedPhase = ReportedPhase.STARTING
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    created_at: float | None = None
    running_at: float | None = None
    stopping_at: float | None = None
    ended_at: float | None = None
    calendar_ahead_seconds: float = 0.0
    is_past: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether it runs no more, whatever pods are left."""
        return self.phase in ENDED or self.phase is ReportedPhase.GONE

    def last_at(self) -> float:
        """Return the latest time at which something happened to it."""
        return max(at or 0.0 for at in (self.created_at, self.running_at, self.stopping_at, self.ended_at))

    def living(self) -> list[int]:
        """Return the pods that have their devices."""
        return [index for index, state in self.states.items() if state in LIVING]


def observation(attempt: UUID, job: Job) -> Observation:
    """Return the job as agents see it."""
    pods = tuple(
        PodReport(index=index, node=job.pods[index].node, state=state)
        for index, state in sorted(job.states.items())
    )
    return Observation(
        workload=job.assignment.workload,
        attempt=attempt,
        number=job.assignment.number,
        phase=job.phase,
        pods=pods,
        reason=job.reason,
        message=job.message,
        exit_code=job.exit_code,
        created_at=calendar_time(job, job.created_at),
        running_at=calendar_time(job, job.running_at),
        ended_at=calendar_time(job, job.ended_at),
    )


def tell_created(assignment: DesiredAttempt, pods: int, problem: str) -> None:
    """Log and count that so many pods were created, or refused for a `problem`."""
    with logs.bind(workload=assignment.slug, attempt=assignment.number):
        if problem:
            FIGURES.failed["Pod", "create"] += pods
            logger.warning("Pods were refused (%d): %s", pods, problem)
        else:
            FIGURES.created["Pod"] += pods
            logger.info("Created pods (%d).", pods)


def tell_deleted(assignment: DesiredAttempt, pods: int) -> None:
    """Log and count that so many pods are being deleted."""
    FIGURES.deleted["Pod"] += pods
    with logs.bind(workload=assignment.slug, attempt=assignment.number):
        logger.info("Deleted pods (%d).", pods)


def calendar_time(job: Job, at: float | None) -> datetime | None:
    """Return a time of the cluster's own clock as it is told to the server."""
    return None if at is None else datetime.fromtimestamp(round(at + job.calendar_ahead_seconds, 3), UTC)
