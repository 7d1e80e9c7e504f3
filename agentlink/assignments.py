"""Where attempts lie, and when their pods may exist.

A placement is *promised* while somebody else's pods still have the device, *held* once its own pods may exist,
*leaving* while they are being stopped, *released* when the cluster reports them gone. An attempt is let go as a whole,
when all its devices are free and no pod of an earlier attempt of its workload is left, in whatever cluster. Two
counters per device, kept by triggers and bounded by the database, referee each write: occupied (held, leaving) and
allocated (promised, held).

Callers hold the transaction; but for `let_go_waiting`, which has one of its own. Locks are taken in one order (ADR 5):
workloads, then clusters (`lock_clusters`), then what lies in them: a cluster's row guards its devices, assignments and
placements, which need no locks of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from agentlink.models import Assignment, Cluster, Device, Hold, Placement
from agentlink.models.node import WHOLE_DEVICE_MILLI
from chamber import live
from teams.actors import Actor
from workloads import lifecycle
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import lock
from workloads.models import Attempt, EventKind

LINK = Actor.system("agent link")

PlacedShare = tuple[int, UUID, int]
"""A pod's index, a device, and the share of it in milli-GPUs."""


@dataclass(frozen=True, slots=True)
class NewAssignment:
    """An attempt that was just admitted, and where its pods lie; all devices are in the one cluster."""

    attempt_id: UUID
    cluster_id: UUID
    placements: Sequence[PlacedShare]


def assign_many(items: Sequence[NewAssignment]) -> set[UUID]:
    """Place new attempts and tell their clusters; return those that were let go at once.

    The others wait until whoever is on their devices, or ran their workload before, is gone. Raises `IntegrityError`
    where a device would be allocated beyond itself: the picture they were planned on no longer holds. Six queries.
    """
    if not items:
        return set()
    generations = _raise_generations(item.cluster_id for item in items)
    alone = _alone(Attempt.objects.filter(pk__in=[item.attempt_id for item in items]))
    may = set(alone.values_list("pk", flat=True))
    room = _Room(share[1] for item in items for share in item.placements)
    free = {item.attempt_id for item in items if item.attempt_id in may and room.take(item.placements)}
    Assignment.objects.bulk_create(
        Assignment(
            attempt_id=item.attempt_id,
            cluster_id=item.cluster_id,
            generation=generations[item.cluster_id],
            let_go=item.attempt_id in free,
        )
        for item in items
    )
    Placement.objects.bulk_create(
        row
        for item in items
        for row in _rows(
            item.attempt_id, item.placements, Hold.HELD if item.attempt_id in free else Hold.PROMISED
        )
    )
    _announce(generations)
    return free


def stop(attempt_ids: Iterable[UUID], *, at: datetime) -> None:
    """Take the pods of ended attempts, whose workloads are locked, away; what was never let go is released at once."""
    rows = list(Assignment.objects.filter(attempt__in=list(attempt_ids), wanted=True).order_by("attempt"))
    generations = _raise_generations(row.cluster_id for row in rows)
    let_go = [row.attempt_id for row in rows if row.let_go]
    waiting = [row.attempt_id for row in rows if not row.let_go]
    Placement.objects.filter(attempt__in=waiting, hold=Hold.PROMISED).update(hold=Hold.RELEASED)
    Placement.objects.filter(attempt__in=let_go, hold=Hold.HELD).update(hold=Hold.LEAVING)
    for cluster_id, generation in generations.items():
        ours = Assignment.objects.filter(cluster=cluster_id)
        ours.filter(attempt__in=let_go).update(wanted=False, generation=generation)
        ours.filter(attempt__in=waiting).update(wanted=False, gone=True, generation=generation)
    if waiting:
        lifecycle.released(waiting, at, by=LINK)
    _announce(generations)


def release(attempt_ids: Collection[UUID], *, at: datetime, by: Actor) -> set[UUID]:
    """Note that no pod of these attempts, which are over, is left: their devices are free.

    Returns the clusters where somebody may be let go by that: theirs, and where a later attempt of theirs waits.
    """
    gone = Assignment.objects.filter(attempt__in=attempt_ids, wanted=False, gone=False)
    clusters = dict(gone.values_list("attempt", "cluster"))
    if not clusters:
        return set()
    ids = list(clusters)
    gone.filter(attempt__in=ids).update(gone=True, pods=[])
    Placement.objects.filter(attempt__in=ids).exclude(hold=Hold.RELEASED).update(hold=Hold.RELEASED)
    lifecycle.released(ids, at, by=by)
    live.announce("pools")
    later = Assignment.objects.filter(wanted=True, let_go=False, attempt__workload__attempts__in=ids)
    return {*clusters.values(), *later.values_list("cluster", flat=True)}


@transaction.atomic
def let_go_waiting(cluster_id: UUID, *, at: datetime) -> set[UUID]:
    """Let the pods of those attempts be created that nothing is in the way of any more; return them.

    The oldest is served first. Level-triggered: asked after each release and at each heartbeat, so that a process
    that died in between costs delay only. One query where nobody waits.
    """
    waiting = _alone(
        Attempt.objects.filter(
            assignment__cluster=cluster_id,
            assignment__wanted=True,
            assignment__let_go=False,
            ended_at__isnull=True,
        )
    )
    workloads = lock(waiting.values_list("workload", flat=True))
    if not workloads:
        return set()
    lock_clusters([cluster_id])
    attempts = {attempt.pk: attempt for attempt in waiting.order_by("queued_at", "pk")}
    promised: dict[UUID, list[PlacedShare]] = {attempt_id: [] for attempt_id in attempts}
    rows = Placement.objects.filter(attempt__in=attempts, hold=Hold.PROMISED)
    for attempt_id, pod_index, device_id, share in rows.values_list(
        "attempt", "pod_index", "device", "share_milli"
    ):
        promised[attempt_id].append((pod_index, device_id, share))
    room = _Room(share[1] for shares in promised.values() for share in shares)
    free = [attempt_id for attempt_id, shares in promised.items() if room.take(shares)]
    if not free:
        return set()
    Placement.objects.filter(attempt__in=free, hold=Hold.PROMISED).update(hold=Hold.HELD)
    generation = _raise_generations([cluster_id])[cluster_id]
    Assignment.objects.filter(attempt__in=free).update(let_go=True, generation=generation)
    journal = Journal(by=LINK, at=at)
    for attempt in (attempts[attempt_id] for attempt_id in free):
        row = workloads[attempt.workload_id]
        message = "All its GPUs are free: its pods may be created."
        journal.add(row, EventKind.LET_GO, message, attempt_number=attempt.number)
    journal.write()
    _announce([cluster_id])
    return set(free)


def add_pods(attempt_id: UUID, placements: Sequence[PlacedShare]) -> bool:
    """Give a running attempt more pods, on idle devices; False where it is over, was not let go yet, or one of these
    pods is still leaving from an earlier shrinking.

    Raises `IntegrityError` where a device is not free.
    """
    row = _open(attempt_id)
    if row is None or not row.let_go:
        return False
    _touch(row)
    same = Placement.objects.filter(attempt=attempt_id, pod_index__in={index for index, _, _ in placements})
    if same.exclude(hold=Hold.RELEASED).exists():
        return False
    same.delete()  # a placement is unique by pod and device, and this pod may come back to where it was
    Placement.objects.bulk_create(_rows(attempt_id, placements, Hold.HELD))
    return True


def remove_pods(attempt_id: UUID, pod_indexes: Collection[int]) -> bool:
    """Take some of an attempt's pods away; False where it is over. Their devices are free when they are gone."""
    row = _open(attempt_id)
    if row is None:
        return False
    _touch(row)
    shrunk = Placement.objects.filter(attempt=attempt_id, pod_index__in=pod_indexes)
    shrunk.filter(hold=Hold.PROMISED).update(hold=Hold.RELEASED)
    shrunk.filter(hold=Hold.HELD).update(hold=Hold.LEAVING)
    return True


def _open(attempt_id: UUID) -> Assignment | None:
    return Assignment.objects.filter(attempt=attempt_id, wanted=True, attempt__ended_at__isnull=True).first()


def _touch(row: Assignment) -> None:
    generation = _raise_generations([row.cluster_id])[row.cluster_id]
    Assignment.objects.filter(pk=row.pk).update(generation=generation)
    _announce([row.cluster_id])


def _rows(attempt_id: UUID, shares: Sequence[PlacedShare], hold: Hold) -> list[Placement]:
    return [
        Placement(attempt_id=attempt_id, pod_index=pod_index, device_id=device, share_milli=share, hold=hold)
        for pod_index, device, share in shares
    ]


def lock_clusters(cluster_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return the clusters' desired generations, their rows locked in the order of their ids (one query)."""
    rows = Cluster.objects.select_for_update(no_key=True).filter(pk__in=set(cluster_ids)).order_by("pk")
    return dict(rows.values_list("pk", "desired_generation"))


def _raise_generations(cluster_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return the clusters' next desired generations; their rows stay locked, so generations commit in order."""
    generations = lock_clusters(cluster_ids)
    if generations:
        Cluster.objects.filter(pk__in=generations).update(desired_generation=F("desired_generation") + 1)
    return {cluster_id: generation + 1 for cluster_id, generation in generations.items()}


def _alone(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Keep the attempts of whose workload no earlier one has pods, but in a cluster that was declared lost."""
    earlier = Attempt.objects.filter(
        workload=OuterRef("workload"),
        number__lt=OuterRef("number"),
        released_at__isnull=True,
        assignment__given_up=False,
    )
    return attempts.filter(~Exists(earlier))


def _announce(cluster_ids: Iterable[UUID]) -> None:
    live.announce("pools", *(f"link:{cluster_id}" for cluster_id in cluster_ids))


class _Room:
    """What is left of devices, as the counters say, less what was taken from here."""

    def __init__(self, device_ids: Iterable[UUID]) -> None:
        counters = Device.objects.filter(pk__in=set(device_ids)).order_by()
        self._free = {
            pk: WHOLE_DEVICE_MILLI - occupied for pk, occupied in counters.values_list("pk", "occupied_milli")
        }

    def take(self, shares: Sequence[PlacedShare]) -> bool:
        """Take all shares where all of them are free; else take nothing and return False."""
        wanted: dict[UUID, int] = defaultdict(int)
        for _, device, share in shares:
            wanted[device] += share
        if any(self._free.get(device, 0) < share for device, share in wanted.items()):
            return False
        for device, share in wanted.items():
            self._free[device] -= share
        return True
