"""Taking in what an agent observed: each report may come twice, late, or out of order, and then changes nothing.

What a message says is gathered first and written for all its attempts together: the number of queries does not depend
on how many there are.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agentlink import adoption, assignments, epochs
from agentlink.models import Assignment, Cluster, Hold, Placement
from agentlink.protocol import DISPLACING, LIVING, Error, ErrorCode, Observed, Report, ReportedPhase, Taken
from chamber import live
from chamber.bulk import update_each
from teams.actors import Actor
from workloads import lifecycle, reasons
from workloads.models import Attempt, Workload
from workloads.models import Phase as AttemptPhase

QUEUED = AttemptPhase.QUEUED

logger = logging.getLogger(__name__)

CHUNK = 250
"""Reports taken in one transaction: a batch must not keep other writers waiting for long."""
TOLD_WITHIN = timedelta(minutes=5)
"""After a restore: agents report at once what they find missing, and nothing of what goes on as before."""


OVER = frozenset({ReportedPhase.SUCCEEDED, ReportedPhase.FAILED, ReportedPhase.GONE})


class Superseded(Exception):  # noqa: N818 - an outcome that the session expects
    """A newer conversation of the cluster has begun: nothing of this transaction was taken."""


@dataclass(slots=True)
class ReportOutcome:
    """What to answer: the reports that are settled, and those that are none of this cluster's business."""

    taken: list[Taken] = field(default_factory=list)
    errors: list[Error] = field(default_factory=list)


def take(cluster: Cluster, message: Observed, *, connection: UUID | None) -> ReportOutcome:
    """Take in reports, in short transactions; then let go the attempts that waited for devices that came free.

    Raises `Superseded` where `connection` is not any more the cluster's conversation.
    """
    outcome = ReportOutcome()
    freed: set[UUID] = set()
    for start in range(0, len(message.reports), CHUNK):
        freed |= _take_chunk(cluster, message.reports[start : start + CHUNK], connection, outcome)
    for cluster_id in sorted(freed):
        assignments.let_go_waiting(cluster_id, at=timezone.now())
    return outcome


@transaction.atomic
def _take_chunk(
    cluster: Cluster, reports: Sequence[Report], connection: UUID | None, outcome: ReportOutcome
) -> set[UUID]:
    """Take in a few reports; return the clusters where attempts may be let go by them."""
    ours = Assignment.objects.filter(cluster=cluster.pk, attempt__in={report.attempt for report in reports})
    # In the one order of all locks: workloads first, their cluster after them, which others wait for and
    # is therefore locked late. An assignment's reports are guarded by its workload.
    workloads = list(ours.values_list("attempt__workload", flat=True))
    locked = Workload.objects.select_for_update(no_key=True).filter(pk__in=workloads).order_by("pk")
    list(locked.values_list("pk", flat=True))
    found = {row.attempt_id: row for row in ours.select_related("attempt", "cluster")}
    taking = _Taking(cluster, connection)
    for report in reports:
        known = found.get(report.attempt)
        if known is None or (known.attempt.workload_id, known.attempt.number) != (
            report.workload,
            report.number,
        ):
            outcome.errors.append(_not_ours(cluster, report))
            continue
        if report.sequence > known.report_sequence:
            taking.report(known, report)
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

    def __init__(self, cluster: Cluster, connection: UUID | None) -> None:
        self._by, self._cluster_id, self._connection = Actor.agent(cluster.name), cluster.pk, connection
        self._now = timezone.now()
        self._rows: dict[UUID, Assignment] = {}
        self._progress: dict[UUID, lifecycle.Progress] = {}
        self._ends: dict[UUID, Report] = {}
        self._gone: set[UUID] = set()
        self._unheard: dict[UUID, datetime | None] = {}
        """Attempts that a restored database did not know to be over, and what it was restored from."""
        self._living: dict[UUID, set[int]] = {}
        self._pulled: list[Attempt] = []
        """Attempts of whose images something new was told."""

    def report(self, row: Assignment, report: Report) -> None:
        """Take in one report that is newer than the last of its attempt."""
        row.report_sequence = report.sequence
        unheard, row.unheard_since = row.unheard_since, None
        pods = () if report.frees_devices else report.pods
        row.pods = [pod.model_dump(mode="json", exclude_defaults=True) for pod in pods]
        self._rows[row.attempt_id] = row
        if report.images and list(report.images) != row.attempt.images:
            row.attempt.images = list(report.images)
            self._pulled.append(row.attempt)
        if row.attempt.ended_at is None:
            self._gather(row, report)
        if report.phase is ReportedPhase.GONE and unheard is not None and self._now - unheard < TOLD_WITHIN:
            self._unheard[row.attempt_id] = row.cluster.restored_from
        if report.frees_devices:
            self._gone.add(row.attempt_id)
        elif row.wanted and report.phase not in OVER and report.generation >= row.generation:
            self._living[row.attempt_id] = {pod.index for pod in report.pods if pod.state in LIVING}

    def finish(self) -> set[UUID]:
        """Write what was reported, free what is free; return the clusters where attempts may be let go by that."""
        if not self._rows:
            self._hear_no_other()
            return set()
        moved = lifecycle.progress_many(list(self._progress.values()), by=self._by, at=self._now)
        self._end()
        self._hear_no_other()
        update_each(self._pulled, ["images"])
        update_each(self._rows.values(), ["report_sequence", "pods", "unheard_since"])
        live.announce(*{f"workload:{row.attempt.workload_id}" for row in self._rows.values()})
        freed = {key for key in moved if self._progress[key].gone}
        left = self._gone - freed
        clusters = {self._cluster_id} if self._release_shrunk() or freed else set()
        return clusters | assignments.release(left, at=self._now, by=self._by) if left else clusters

    def _hear_no_other(self) -> None:
        """Lock the cluster's row; raise `Superseded` where a newer agent was heard.

        It may have been told how far the reports were: what an older one still says would be taken for its.
        """
        row = Cluster.objects.select_for_update(no_key=True).filter(pk=self._cluster_id)
        if row.values_list("connection", flat=True).first() != self._connection:
            raise Superseded

    def _gather(self, row: Assignment, report: Report) -> None:
        """Note how far the report says that the attempt has come, and how it ended where it did not go well."""
        if row.attempt.end_reason:  # displaced: only that its pods are gone is news
            if report.phase in OVER:
                self._ends[row.attempt_id] = report
            return
        succeeded = report.phase is ReportedPhase.SUCCEEDED or (
            report.phase is ReportedPhase.GONE and report.exit_code == 0
        )
        created = report.created_at or report.running_at or (self._now if succeeded else None)
        if created is not None and (
            report.running_at is not None or succeeded or row.attempt.phase == QUEUED
        ):
            self._progress[row.attempt_id] = lifecycle.Progress(
                row.attempt_id,
                created_at=self._at(row, created),
                running_at=self._at(row, report.running_at) if report.running_at is not None else None,
                completed_at=self._at(row, report.ended_at or self._now) if succeeded else None,
                gone=succeeded and report.frees_devices,
            )
        if report.phase in OVER and not succeeded:
            self._ends[row.attempt_id] = report

    def _end(self) -> None:
        """End attempts that did not go well by what the cluster tells of them."""
        cancelled = adoption.cancel_over(self._cluster_id, self._ends, by=self._by)
        if cancelled:
            self._ends = {key: report for key, report in self._ends.items() if key not in cancelled}
        refusals = {
            attempt_id: report
            for attempt_id, report in self._ends.items()
            if report.phase is ReportedPhase.FAILED and report.created_at is None
        }
        namespaces = self._namespaces(refusals)
        refused = {
            attempt_id: reasons.of_refusal(
                report.reason, report.message, namespace=namespaces.get(attempt_id, "")
            )
            for attempt_id, report in refusals.items()
        }
        if refused:
            most = adoption.bounds(refused)
            refused |= {attempt_id: adoption.advised(refused[attempt_id]) for attempt_id in most}
            done = lifecycle.refuse_many(refused, by=self._by, at=self._now, most=most)
            self._ends = {key: report for key, report in self._ends.items() if key not in done}
        self._displace()
        if self._ends:
            ended = [self._ended(attempt_id, report) for attempt_id, report in self._ends.items()]
            lifecycle.finish_many(ended, by=self._by, at=self._now)

    def _namespaces(self, refusals: Mapping[UUID, Report]) -> dict[UUID, str]:
        """Return the namespaces of those that Chamber's own quota refuses (1 query, none without any): somebody has to
        look there.
        """
        ids = [attempt_id for attempt_id, report in refusals.items() if report.reason == reasons.PLAN_QUOTA]
        if not ids:
            return {}
        found = Attempt.objects.filter(pk__in=ids, workload__team__namespaces__cluster=self._cluster_id)
        return dict(found.values_list("pk", "workload__team__namespaces__namespace"))

    def _displace(self) -> None:
        """End attempts that were displaced and of which no pod is left; note what happened to the others of them."""
        told = [
            lifecycle.Displacement(
                attempt_id,
                *self._cause(attempt_id, report),
                ended_at=self._at(self._rows[attempt_id], report.ended_at or self._now),
                gone=report.frees_devices,
            )
            for attempt_id, report in self._ends.items()
            if self._rows[attempt_id].attempt.end_reason or self._cause(attempt_id, report)[0] in DISPLACING
        ]
        if told:
            lifecycle.displace_many(told, by=self._by, at=self._now)
            for one in told:
                del self._ends[one.attempt_id]

    def _cause(self, attempt_id: UUID, report: Report) -> tuple[str, str]:
        """Return the code and the sentence of a bad end."""
        if report.phase is ReportedPhase.GONE and report.exit_code is None and not report.reason:
            if attempt_id in self._unheard:
                return "ended-after-backup", _after_backup(self._unheard[attempt_id])
            return "pods-vanished", _vanished(self._rows[attempt_id].cluster.agent_version)
        if report.reason in DISPLACING:
            return report.reason, report.message or "The cluster took its pods away and does not say why."
        return report.reason, report.message

    def _ended(self, attempt_id: UUID, report: Report) -> lifecycle.Ended:
        code, message = self._cause(attempt_id, report)
        return lifecycle.Ended(
            attempt_id,
            exit_code=report.exit_code or None,  # a failure whose code is 0 is told by its reason
            ended_at=self._at(self._rows[attempt_id], report.ended_at or self._now),
            reason_code=code,
            message=message,
        )

    def _release_shrunk(self) -> bool:
        """Free the devices of pods that were taken away and that the agent, knowing of it, sees no more."""
        if not self._living:
            return False
        leaving = Placement.objects.filter(attempt__in=self._living, hold=Hold.LEAVING)
        freed = [
            pk
            for pk, attempt_id, pod_index in leaving.values_list("pk", "attempt", "pod_index")
            if pod_index not in self._living[attempt_id]
        ]
        return bool(freed) and bool(Placement.objects.filter(pk__in=freed).update(hold=Hold.RELEASED))

    def _at(self, row: Assignment, told: datetime) -> datetime:
        """Return the agent's time, kept between the allocation and now: its clock may be wrong."""
        return min(max(told, row.attempt.queued_at), self._now)


def _vanished(agent_version: str) -> str:
    """Return what is known of an attempt of which nothing is left: less, where its agent remembers no epochs."""
    told = "Its pods were deleted in the cluster, not by Chamber"
    if epochs.are_remembered_by(agent_version):
        return f"{told}."
    doubt = "or it had ended after the backup, if the database was restored"
    return f"{told}; {doubt}: its agent {agent_version} cannot tell."


def _after_backup(of: datetime | None) -> str:
    backup = f"the backup of about {of:%Y-%m-%d %H:%M} UTC" if of is not None else "the backup"
    return f"It ended after {backup} from which the database was restored; its result is not known."
