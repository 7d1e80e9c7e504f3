"""The table of what pods have written, after their end."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import F

from agentlink.models import Assignment, Cluster, PodLog
from agentlink.protocol.logs import KEPT_BYTES, KeptPart
from chamber.ids import first_of

BATCH = 200


@dataclass(frozen=True, slots=True)
class Whole:
    """The last lines of one pod."""

    attempt: UUID
    pod: int
    text: str
    cut: bool


class Parts:
    """Puts pods together from their parts, which follow each other; keeps one unfinished pod at most."""

    def __init__(self) -> None:
        self._parts: list[KeptPart] = []
        self._size = 0

    def take(self, items: Iterable[KeptPart]) -> Iterator[Whole]:
        """Yield the pods that are whole by now; what has a gap, or is too large, is left out."""
        for item in items:
            if item.part == 0:
                self._parts, self._size = [], 0
            first = self._parts[0] if self._parts else item
            fits = item.part == len(self._parts) and (item.attempt, item.pod) == (first.attempt, first.pod)
            self._size += len(item.text.encode())
            if not fits or self._size > KEPT_BYTES:
                self._parts, self._size = [], 0
                continue
            self._parts.append(item)
            if item.last:
                text = "".join(part.text for part in self._parts)
                yield Whole(item.attempt, item.pod, text, any(part.cut for part in self._parts))
                self._parts, self._size = [], 0


class LeftOut(NamedTuple):
    """How many pods were not stored: of attempts that are not known here, and of what is not this cluster's."""

    unknown: int = 0
    foreign: int = 0


def keep(cluster_id: UUID, pods: Sequence[Whole]) -> LeftOut:
    """Store the logs of pods of this cluster's attempts; return how many were left out (at most four queries).

    What is stored already is replaced: the agent may have read further meanwhile. An attempt may be unknown because it
    was deleted, or because the database was restored from a backup that is older than it.
    """
    attempts = {pod.attempt for pod in pods}
    ours = Assignment.objects.filter(cluster=cluster_id, attempt__in=attempts)
    pods_of = dict(ours.values_list("attempt", "attempt__workload__pods"))
    rows = {
        (pod.attempt, pod.pod): PodLog(
            attempt_id=pod.attempt,
            pod_index=pod.pod,
            content=zlib.compress(pod.text.encode()),
            size_bytes=len(pod.text.encode()),
            cut=pod.cut,
        )
        for pod in pods
        if pod.pod < pods_of.get(pod.attempt, 0)
    }
    left_out = _left_out({(pod.attempt, pod.pod) for pod in pods} - rows.keys())
    if left_out.foreign:
        Cluster.objects.filter(pk=cluster_id).update(rejected_messages=F("rejected_messages") + 1)
    if rows:
        PodLog.objects.bulk_create(
            rows.values(),
            update_conflicts=True,
            unique_fields=["attempt", "pod_index"],
            update_fields=["content", "size_bytes", "cut"],
        )
    return left_out


def _left_out(pods: Collection[tuple[UUID, int]]) -> LeftOut:
    if not pods:
        return LeftOut()
    there = Assignment.objects.filter(attempt__in={attempt for attempt, _ in pods})
    known = set(there.values_list("attempt", flat=True))
    unknown = sum(attempt not in known for attempt, _ in pods)
    return LeftOut(unknown, len(pods) - unknown)


def forget(before: datetime) -> int:
    """Delete logs of pods that were kept before, some of them: call it again while it returns more than 0.

    Their ids are in the order of time, so that nothing is read but what goes.
    """
    old = PodLog.objects.filter(pk__lt=first_of(before)).order_by("pk").values_list("pk", flat=True)
    deleted, _ = PodLog.objects.filter(pk__in=list(old[:BATCH])).delete()
    return deleted


def find(attempt_id: UUID, pod: int) -> PodLog | None:
    """Return what is kept of a pod."""
    return PodLog.objects.filter(attempt=attempt_id, pod_index=pod).first()
