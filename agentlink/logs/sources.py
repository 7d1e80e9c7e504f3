"""Which pod of which attempt is meant, and where its lines are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from agentlink.models import Assignment, Placement, PodLog
from chamber.errors import Conflict, NotVisible, Refusal
from workloads.models import Attempt, Workload

ON_ITS_WAY = timedelta(minutes=1)
"""For how long after its attempt's end a pod's log may still be stored."""


@dataclass(frozen=True, slots=True)
class Source:
    """One pod's log. Without `cluster_id` the pod is gone from its cluster, and only what was kept is left; where it
    has `just_gone`, that may be on its way. Where its agent `polls`, none are carried. `silence` is what is said while
    its cluster is not heard. `pods` are all that the attempt has or had, in order.
    """

    workload_id: UUID
    attempt_id: UUID
    number: int
    pod: int
    cluster_id: UUID | None
    cluster_name: str
    silence: str = ""
    just_gone: bool = False
    polls: bool = False
    pods: Sequence[int] = ()


def source_of(
    workload: Workload, *, pod: int = 0, number: int | None = None, nearest: bool = False
) -> Source:
    """Return the source of an attempt's pod: of the newest that had pods, where no number is given (two queries, two
    more of a workload that may run with fewer pods than it asks for).

    `nearest`: where there was no such pod, that of the last one before it.

    Raises `NotVisible` where there is no such attempt, `Refusal` for no such pod, `Conflict` where no attempt had pods
    yet.
    """
    if not 0 <= pod < workload.pods and not nearest:
        raise _no_such_pod(pod, f"{workload.slug} has pods", range(workload.pods))
    attempts = with_pods(workload)
    attempt = attempts.first() if number is None else attempts.filter(number=number).first()
    if attempt is None and number is not None:
        raise NotVisible(f"{workload.slug} has no attempt {number} that had pods.")
    if attempt is None:
        raise Conflict(f"{workload.slug} is {workload.get_status_display()}: it has had no pods yet.")
    pods = _pods_of(workload, attempt.pk)
    if nearest:
        pod = max((each for each in pods if each <= pod), default=pods[0])
    elif pod not in pods:
        which = f"attempt {attempt.number} of {workload.slug}"
        raise _no_such_pod(pod, f"{which} had {len(pods)} of its {workload.pods} pods,", pods)
    row = Assignment.objects.select_related("cluster").filter(attempt=attempt.pk).first()
    there = row is not None and not row.gone
    return Source(
        workload_id=workload.pk,
        attempt_id=attempt.pk,
        number=attempt.number,
        pod=pod,
        cluster_id=row.cluster_id if row is not None and there else None,
        cluster_name=row.cluster.name if row is not None else "",
        silence=row.cluster.silence if row is not None and there else "",
        polls=row is not None and bool(row.cluster.polls),
        pods=pods,
        just_gone=attempt.ended_at is not None and timezone.now() - attempt.ended_at < ON_ITS_WAY,
    )


def with_pods(workload: Workload) -> QuerySet[Attempt]:
    """Return the attempts that may have written something, the newest first."""
    kept = PodLog.objects.filter(attempt=OuterRef("pk"))
    return workload.attempts.filter(Q(assignment__let_go=True) | Exists(kept)).order_by("-number")


def _pods_of(workload: Workload, attempt_id: UUID) -> Sequence[int]:
    """Return the pods that an attempt has or had, in order (two queries; none for a gang that starts as a whole)."""
    if workload.is_gang:
        return range(workload.pods)
    placed = Placement.objects.filter(attempt=attempt_id).order_by().values_list("pod_index", flat=True)
    kept = PodLog.objects.filter(attempt=attempt_id).order_by().values_list("pod_index", flat=True)
    return sorted({*placed.distinct(), *kept}) or range(workload.min_pods)


def _no_such_pod(pod: int, had: str, pods: Sequence[int]) -> Refusal:
    return Refusal(f"pod is {pod}; {had} {_ranges(pods)}.", field="pod")


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers in order as people write them: `0 to 2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
