"""Taking in what an agent observed: each report may come twice, late, or out of order, and then changes nothing."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agentlink import assignments
from agentlink.models import Assignment, Cluster, Hold, Placement
from agentlink.protocol import LIVING, Error, ErrorCode, Observed, Phase, Report, Taken
from chamber import live
from teams.actors import Actor
from workloads import lifecycle
from workloads.lifecycle.status import lock
from workloads.models import Phase as AttemptPhase

QUEUED = AttemptPhase.QUEUED

logger = logging.getLogger(__name__)

CHUNK = 100
"""Reports taken in one transaction: a batch of hundreds must not keep other writers waiting."""


OVER = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.GONE})


class Superseded(Exception):  # noqa: N818 - an outcome that the session expects
    """A newer conversation of the cluster has begun: nothing of this transaction was taken."""


@dataclass(slots=True)
class Outcome:
    """What to answer: the reports that are settled, and those that are none of this cluster's business."""

    taken: list[Taken] = field(default_factory=list)
    errors: list[Error] = field(default_factory=list)


def take(cluster: Cluster, message: Observed) -> Outcome:
    """Take in reports, in short transactions; then let go whoever waited for devices that came free.

    Raises `Superseded` where the cluster's conversation is not any more the one that `cluster` was read with.
    """
    outcome = Outcome()
    freed = False
    for start in range(0, len(message.reports), CHUNK):
        freed |= _take_chunk(cluster, message.reports[start : start + CHUNK], message.generation, outcome)
    if freed:
        assignments.let_go_waiting(cluster.pk, at=timezone.now())
    return outcome


@transaction.atomic
def _take_chunk(cluster: Cluster, reports: Sequence[Report], generation: int, outcome: Outcome) -> bool:
    """Take in a few reports; return whether they freed devices."""
    wanted = [report.attempt for report in reports]
    ours = Assignment.objects.filter(cluster=cluster, attempt__in=wanted).select_related("attempt")
    found = {row.attempt_id: row for row in ours}
    # In the one order in which everybody locks: workloads first, their cluster after them.
    lock(row.attempt.workload_id for row in found.values())
    # A newer agent may have been told how far the reports were: what an older one still says would be taken for its.
    current = Cluster.objects.select_for_update().values_list("connection", flat=True).get(pk=cluster.pk)
    if current != cluster.connection:
        raise Superseded
    taking = _Taking(cluster, generation)
    for report in reports:
        row = found.get(report.attempt)
        if row is None or (row.attempt.workload_id, row.attempt.number) != (report.workload, report.number):
            outcome.errors.append(_not_ours(cluster, report))
            continue
        if report.sequence > row.report_sequence:
            taking.report(row, report)
        outcome.taken.append(Taken(attempt=report.attempt, sequence=report.sequence))
    return taking.finish()


def _not_ours(cluster: Cluster, report: Report) -> Error:
    logger.warning(
        "The agent of %s reported attempt %s, which is not assigned to it.", cluster, report.attempt
    )
    return Error(
        code=ErrorCode.UNKNOWN_ATTEMPT,
        message=f"Attempt {report.attempt}, number {report.number} of {report.workload}, is not assigned here.",
        about="observed",
        attempt=report.attempt,
    )


class _Taking:
    """Reports of one transaction: what they say is gathered, then written for all of them together."""

    def __init__(self, cluster: Cluster, generation: int) -> None:
        self._by = Actor.agent(cluster.name)
        self._generation = generation
        self._now = timezone.now()
        self._rows: dict[UUID, Assignment] = {}
        self._progress: dict[UUID, lifecycle.Progress] = {}
        self._ends: dict[UUID, Report] = {}
        self._gone: list[UUID] = []
        self._freed = False

    def report(self, row: Assignment, report: Report) -> None:
        """Take in one report that is newer than the last of its attempt."""
        row.report_sequence = report.sequence
        row.pods = [pod.model_dump(mode="json", exclude_defaults=True) for pod in report.pods]
        self._rows[row.attempt_id] = row
        if row.attempt.ended_at is None:
            self._gather(row, report)
        if report.frees_devices:
            self._gone.append(row.attempt_id)
        else:
            self._release_shrunk(row, report)

    def finish(self) -> bool:
        """Write what was reported, free what is free; return whether anything was."""
        Assignment.objects.bulk_update(self._rows.values(), ["report_sequence", "pods"])
        lifecycle.progress_many(list(self._progress.values()), by=self._by, at=self._now)
        for attempt_id, report in self._ends.items():
            self._end(attempt_id, report)
        live.announce(*{f"workload:{row.attempt.workload_id}" for row in self._rows.values()})
        if self._gone:
            assignments.release(self._gone, at=self._now, by=self._by)
        return self._freed or bool(self._gone)

    def _gather(self, row: Assignment, report: Report) -> None:
        """Note how far the report says that the attempt has come, and how it ended where it did not go well."""
        succeeded = report.phase is Phase.SUCCEEDED or (report.phase is Phase.GONE and report.exit_code == 0)
        created = report.created_at or report.running_at or (self._now if succeeded else None)
        if created is not None and (
            report.running_at is not None or succeeded or row.attempt.phase == QUEUED
        ):
            self._progress[row.attempt_id] = lifecycle.Progress(
                row.attempt_id,
                created_at=self._at(row, created),
                running_at=self._at(row, report.running_at) if report.running_at is not None else None,
                completed_at=self._at(row, report.ended_at or self._now) if succeeded else None,
            )
        if report.phase in OVER and not succeeded:
            self._ends[row.attempt_id] = report

    def _end(self, attempt_id: UUID, report: Report) -> None:
        """End an attempt that did not go well by what the cluster tells of it."""
        code, message = report.reason, report.message
        if report.phase is Phase.FAILED and report.created_at is None:
            told = message or "The cluster could not start it."
            if lifecycle.refused(attempt_id, at=self._now, message=told, by=self._by):
                return
        if report.phase is Phase.GONE and report.exit_code is None and not code:
            code, message = "pods-vanished", "Its pods were deleted in the cluster, not by Chamber."
        lifecycle.finished(
            attempt_id,
            at=self._now,
            exit_code=report.exit_code or None,  # a failure whose code is 0 is told by its reason
            ended_at=self._at(self._rows[attempt_id], report.ended_at or self._now),
            reason_code=code,
            message=message,
            by=self._by,
        )

    def _release_shrunk(self, row: Assignment, report: Report) -> None:
        """Free the devices of pods that were taken away and that the agent, knowing of it, sees no more."""
        if report.phase in OVER or not row.wanted or self._generation < row.generation:
            return
        living = [pod.index for pod in report.pods if pod.state in LIVING]
        leaving = Placement.objects.filter(attempt=row.attempt_id, hold=Hold.LEAVING)
        self._freed |= bool(leaving.exclude(pod_index__in=living).update(hold=Hold.RELEASED))

    def _at(self, row: Assignment, told: datetime) -> datetime:
        """Return the agent's time, kept between the allocation and now: its clock may be wrong."""
        return min(max(told, row.attempt.queued_at), self._now)
