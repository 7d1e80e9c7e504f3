"""Where attempts lie, and when their pods may exist.

A placement is *promised* while other pods still have the device, *held* once its own pods may exist,
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
from django.utils import timezone

from agentlink.models import Assignment, Cluster, Device, Hold, Placement
from chamber import live
from chamber.bulk import insert_each
from chamber.ids import new_ids
from teams.actors import Actor
from workloads import lifecycle
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import lock
from workloads.models import Attempt, EventKind

LINK = Actor.system("agent link")

PlacedShare = tuple[int, UUID, int]
"""A pod's index, a device, and the share of it in milli-GPUs."""

ASSIGNED = (
    "attempt", "cluster", "generation", "let_go", "wanted", "report_sequence", "pods", "gone", "given_up", "created_at",
)  # fmt: skip
PLACED = ("id", "attempt", "pod_index", "device", "share_milli", "hold", "created_at")


class ClusterReleased(Exception):  # noqa: N818 - an outcome that the scheduler expects
    """An operator let go of a cluster since the picture was taken: nothing is placed there."""


@dataclass(frozen=True, slots=True)
class NewAssignment:
    """An attempt that was just admitted, and where its pods lie; all devices are in the one cluster."""

    attempt_id: UUID
    cluster_id: UUID
    placements: Sequence[PlacedShare]


def assign_many(items: Sequence[NewAssignment]) -> set[UUID]:
    """Place new attempts and tell their clusters; return those that were let go at once.

    The others wait until the pods on their devices, and those of an earlier attempt, are gone. Raises `IntegrityError`
    where a device would be allocated beyond itself, and `ClusterReleased`: the picture they were planned on no longer
    holds. Six queries.
    """
    if not items:
        return set()
    generations = _raise_generations((item.cluster_id for item in items), for_new=True)
    # Of a workload's first attempt there is nothing to ask: most are.
    again = Attempt.objects.filter(pk__in=[item.attempt_id for item in items], number__gt=1).order_by()
    followed = set(again.filter(Exists(_earlier())).values_list("pk", flat=True))
    room = _DevicesLeft(share[1] for item in items for share in item.placements)
    free = {
        item.attempt_id for item in items if item.attempt_id not in followed and room.take(item.placements)
    }
    now = timezone.now()
    assigned = (
        _assigned(item, generations[item.cluster_id], let_go=item.attempt_id in free, at=now)
        for item in items
    )
    insert_each(Assignment, ASSIGNED, assigned)
    _place(
        [
            (item.attempt_id, share, Hold.HELD if item.attempt_id in free else Hold.PROMISED)
            for item in items
            for share in item.placements
        ]
    )
    _announce(generations)
    return free


def stop(attempt_ids: Iterable[UUID], *, at: datetime, gone: Collection[UUID] = ()) -> None:
    """Take the pods of ended attempts, whose workloads are locked, away; what was never let go is released at once.

    Of those in `gone` the cluster told that no pod is left, and their workloads' events tell it already.
    """
    found = Assignment.objects.filter(attempt__in=list(attempt_ids), wanted=True)
    rows = list(found.values_list("attempt", "cluster", "let_go"))
    generations = _raise_generations(cluster_id for _, cluster_id, _ in rows)
    stopping = [attempt_id for attempt_id, _, let_go in rows if let_go and attempt_id not in gone]
    waiting = [attempt_id for attempt_id, _, let_go in rows if not let_go and attempt_id not in gone]
    over = [*waiting, *(attempt_id for attempt_id, _, _ in rows if attempt_id in gone)]
    _move(stopping, Hold.HELD, to=Hold.LEAVING)
    _move(over, Hold.PROMISED, Hold.HELD, Hold.LEAVING, to=Hold.RELEASED)
    for cluster_id, generation in generations.items():
        ours = Assignment.objects.filter(cluster=cluster_id)
        if stopping:
            ours.filter(attempt__in=stopping).update(wanted=False, generation=generation)
        if over:
            ours.filter(attempt__in=over).update(wanted=False, gone=True, pods=[], generation=generation)
    if waiting:
        lifecycle.released(waiting, at, by=LINK)
    _announce(generations)


def _move(attempt_ids: Collection[UUID], *holds: Hold, to: Hold) -> None:
    if attempt_ids:
        Placement.objects.filter(attempt__in=attempt_ids, hold__in=holds).update(hold=to)


def release(attempt_ids: Collection[UUID], *, at: datetime, by: Actor) -> set[UUID]:
    """Note that no pod of these attempts, which are over, is left: their devices are free.

    Returns the clusters where attempts may be let go by that: theirs, and where a later attempt of theirs waits.
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
    that died in between costs delay only. One query where nothing waits.
    """
    # By a question of their own: those that wait are few, and a join with all that ever ran is easily planned wrong.
    kept = Assignment.objects.filter(cluster=cluster_id, wanted=True, let_go=False)
    ids = list(kept.values_list("attempt", flat=True))
    if not ids:
        return set()
    kept_back = {"assignment__wanted": True, "assignment__let_go": False}
    open_ones = Attempt.objects.filter(pk__in=ids, ended_at__isnull=True, **kept_back)
    waiting = open_ones.filter(~Exists(_earlier()))
    workloads = lock(waiting.values_list("workload", flat=True))
    if not workloads:
        return set()
    lock_clusters([cluster_id])
    # Not those that nothing is in the way of since a moment ago only: their workloads are not locked.
    locked = waiting.filter(workload__in=list(workloads)).order_by("queued_at", "pk")
    attempts = {attempt.pk: attempt for attempt in locked}
    promised: dict[UUID, list[PlacedShare]] = {attempt_id: [] for attempt_id in attempts}
    rows = Placement.objects.filter(attempt__in=attempts, hold=Hold.PROMISED)
    for attempt_id, pod_index, device_id, share in rows.values_list(
        "attempt", "pod_index", "device", "share_milli"
    ):
        promised[attempt_id].append((pod_index, device_id, share))
    room = _DevicesLeft(share[1] for shares in promised.values() for share in shares)
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
    """Give a running attempt more pods, on idle devices; False where it is over, was displaced, was not let go yet,
    one of these pods is still leaving from an earlier shrinking, or other pods are still leaving a device.

    Raises `IntegrityError` where a device is not free.
    """
    row = _open(attempt_id)
    if row is None or row.attempt.end_reason or not row.let_go or _are_left(placements):
        return False
    _touch(row)
    same = Placement.objects.filter(attempt=attempt_id, pod_index__in={index for index, _, _ in placements})
    if same.exclude(hold=Hold.RELEASED).exists():
        return False
    same.delete()  # a placement is unique by pod and device, and this pod may come back to where it was
    _place([(attempt_id, share, Hold.HELD) for share in placements])
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
    found = Assignment.objects.filter(attempt=attempt_id, wanted=True, attempt__ended_at__isnull=True)
    return found.select_related("attempt").first()


def _touch(row: Assignment) -> None:
    generation = _raise_generations([row.cluster_id])[row.cluster_id]
    Assignment.objects.filter(pk=row.pk).update(generation=generation)
    _announce([row.cluster_id])


def _are_left(placements: Sequence[PlacedShare]) -> bool:
    """Return whether these shares have no place beside pods that are leaving (1 query): of a victim that was let go,
    pods may exist though none was reported yet.
    """
    asked: dict[UUID, int] = defaultdict(int)
    for _, device_id, share_milli in placements:
        asked[device_id] += share_milli
    left = Device.objects.filter(pk__in=asked, placements__hold=Hold.LEAVING).order_by()
    return any(
        occupied_milli + asked[pk] > share_milli
        for pk, occupied_milli, share_milli in left.values_list("pk", "occupied_milli", "share_milli")
    )


def _assigned(item: NewAssignment, generation: int, *, let_go: bool, at: datetime) -> tuple[object, ...]:
    """Return the values of `ASSIGNED`: wanted, and not reported on yet."""
    return (item.attempt_id, item.cluster_id, generation, let_go, True, 0, [], False, False, at)


def _place(shares: Sequence[tuple[UUID, PlacedShare, Hold]]) -> None:
    now, keys = timezone.now(), new_ids(len(shares))
    rows = (
        (key, attempt_id, *share, hold, now)
        for key, (attempt_id, share, hold) in zip(keys, shares, strict=True)
    )
    insert_each(Placement, PLACED, rows)


def lock_clusters(cluster_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return the clusters' desired generations, their rows locked in the order of their ids (one query)."""
    return {pk: generation for pk, generation, _, _ in _locked(cluster_ids)}


def _locked(cluster_ids: Iterable[UUID]) -> list[tuple[UUID, int, str, datetime | None]]:
    """Return each cluster's id, desired generation, name, and when it was released."""
    rows = Cluster.objects.select_for_update(no_key=True).filter(pk__in=set(cluster_ids)).order_by("pk")
    return list(rows.values_list("pk", "desired_generation", "name", "released_at"))


def _raise_generations(cluster_ids: Iterable[UUID], *, for_new: bool = False) -> dict[UUID, int]:
    """Return the clusters' next desired generations; their rows stay locked, so generations commit in order.

    `for_new`: raise `ClusterReleased` where one of them was let go of.
    """
    rows = _locked(cluster_ids)
    released = [name for _, _, name, released_at in rows if released_at is not None]
    if for_new and released:
        raise ClusterReleased(f"An operator let go of {', '.join(released)}: nothing is placed there.")
    generations = {pk: generation for pk, generation, _, _ in rows}
    if generations:
        Cluster.objects.filter(pk__in=generations).update(desired_generation=F("desired_generation") + 1)
    return {cluster_id: generation + 1 for cluster_id, generation in generations.items()}


def _earlier() -> QuerySet[Attempt]:
    """Return the earlier attempts of the same workload that have pods, but in a cluster that was declared lost; the
    subquery of a question about attempts.
    """
    return Attempt.objects.filter(
        workload=OuterRef("workload"),
        number__lt=OuterRef("number"),
        released_at__isnull=True,
        assignment__given_up=False,
    )


def _announce(cluster_ids: Iterable[UUID]) -> None:
    live.announce("pools", *(f"link:{cluster_id}" for cluster_id in cluster_ids))


class _DevicesLeft:
    """What is left of devices, as the counters say, less what was taken from here."""

    def __init__(self, device_ids: Iterable[UUID]) -> None:
        counters = Device.objects.filter(pk__in=set(device_ids)).order_by()
        self._free = {
            pk: share - occupied
            for pk, share, occupied in counters.values_list("pk", "share_milli", "occupied_milli")
        }

    def take(self, shares: Sequence[PlacedShare]) -> bool:
        """Take all shares where all of them are free; else take nothing and return False."""
        free = self._free
        for taken, (_, device, share) in enumerate(shares, start=1):
            left = free[device] = free.get(device, 0) - share
            if left < 0:
                for _, given_back, milli in shares[:taken]:
                    free[given_back] += milli
                return False
        return True
