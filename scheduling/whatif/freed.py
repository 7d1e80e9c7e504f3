"""Who would be next if GPUs were freed: the engine's answer with so many more of them idle in the pool.

More GPUs may start fewer workloads: what the first blocked one needs is kept for it. Then that one is named. Or one
that comes first takes what another one would have got of fewer.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from chamber.errors import Refusal
from chamber.invalid import shown
from scheduling import engine
from scheduling.engine import schedule
from scheduling.explain import last_cycle
from scheduling.explain.admissibility import Admissibility
from scheduling.reading import recent
from scheduling.reading.picture import SnapshotPicture
from scheduling.whatif.asking import PICTURE_KEPT
from scheduling.whatif.desk import Desk, Work
from scheduling.whatif.draft import DraftEdits
from teams.models import Pool
from teams.permissions import Permission, may
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

MOST_GPUS = 1024
SHOWN = 20
FOR_A_PLACE = frozenset(
    {
        engine.ReasonCode.WAITING_FOR_GPUS,
        engine.ReasonCode.FRAGMENTED,
        engine.ReasonCode.WAITING_FOR_TOPOLOGY,
    }
)
MORE = "+"
"""Stands in the ids of nodes that are not there; ids of those that are have none."""


@dataclass(frozen=True, slots=True)
class FreedPlan:
    """Who would start, and the first blocked workload for which some of the rest is kept, or behind which all wait."""

    starts: tuple[engine.Start, ...]
    ahead: engine.Wait | None = None


_desk: Desk[FreedPlan] = Desk()


@dataclass(frozen=True, slots=True)
class Next:
    """One that would start; `workload` is None where the reader may not know which one it is."""

    key: str
    workload: Workload | None
    team: str
    reserved: bool
    priority: int
    gpus_milli: int
    position: int | None


@dataclass(frozen=True, slots=True)
class Freed:
    """Who would start if so many GPUs were freed, in the order of the queue; `more` are not among the rows.

    `kept_for` is the first workload that would still wait for a place, where others may not take what is idle because
    of it.
    """

    gpus: int
    rows: list[Next]
    more: int
    left_milli: int
    kept_for: Next | None = None


def gpus_asked(typed: str) -> int:
    """Return the number of GPUs that somebody typed; raise a `Refusal` where it is none, or out of bounds."""
    text = typed.strip()
    gpus = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= gpus <= MOST_GPUS:
        raise Refusal(
            f"Say how many GPUs: a whole number from 1 to {MOST_GPUS:,}, not {shown(text)}.", field="gpus"
        )
    return gpus


def who_is_next(user: "User | AnonymousUser", pool: Pool, gpus: int, *, wait_seconds: float) -> Freed | None:
    """Return who would start with so many more idle GPUs; None where that takes longer: ask again.

    For who may see the pool's queue. Raises `TooMany` where others ask already.
    """
    key = str(pool.pk)
    found = _desk.ask((key, gpus), lambda: _work(key, gpus), wait_seconds=wait_seconds)
    if found is None:
        return None
    starts = found.starts
    last = last_cycle.last()
    places = {id_: at for at, id_ in enumerate(last.queue(key), start=1)} if last else {}
    ordered = sorted(starts, key=lambda start: (places.get(start.workload, len(places) + 1), start.workload))
    ahead = [found.ahead] if found.ahead is not None else []
    asked = [_Gets.of(start) for start in ordered[:SHOWN]]
    asked += [_Gets(wait.workload, wait.reason.asked_milli or 0) for wait in ahead]
    told = _rows(asked, places, user)
    rows = [row for row in told if row.key in {start.workload for start in starts}]
    taken = sum(pod.milli for start in starts for pod in start.placements if MORE in pod.node)
    left = max(0, gpus * engine.GPU_MILLI - taken)
    kept_for = next((row for row in told if row not in rows), None) if left else None
    return Freed(gpus, rows, len(starts) - len(ordered[:SHOWN]), left, kept_for)


def forget() -> None:
    """Forget what was asked."""
    _desk.forget()


def _work(pool: str, gpus: int) -> Work[FreedPlan]:
    picture = recent.picture(at_most=PICTURE_KEPT)
    return lambda: with_more(picture, pool, gpus)


def with_more(picture: SnapshotPicture, pool: str, gpus: int) -> FreedPlan:
    """Return who would start in the pool at the next cycle with so many more idle GPUs, and behind whom others wait."""
    more = more_nodes(picture.snapshot, pool, gpus)
    snapshot = only_possible(picture.snapshot, pool, picture.now)
    plan = schedule(DraftEdits(more_nodes=more).on(snapshot), picture.now)
    behind = engine.ReasonCode.BEHIND_RESERVATION
    held_back = any(wait.pool == pool and wait.reason.code is behind for wait in plan.waits)
    kept = {row.workload for row in plan.reservations if row.pool == pool}
    here = [wait for wait in plan.waits if wait.pool == pool]
    blocked = [wait for wait in here if wait.workload in kept] or [
        wait for wait in here if wait.reason.code in FOR_A_PLACE
    ]
    ahead = next(iter(blocked), None) if held_back else None
    return FreedPlan(tuple(start for start in plan.starts if start.pool == pool), ahead)


def only_possible(snapshot: engine.Snapshot, pool: str, now: int) -> engine.Snapshot:
    """Return the snapshot where what can join no queue of the pool does not accept it.

    Freed GPUs make the pool no larger, but the nodes that stand for them would.
    """
    waiting = [each for each in snapshot.workloads if each.status is engine.OpenStatus.PENDING]
    here = [each for each in snapshot.pools if each.id == pool]
    rule = Admissibility(here, snapshot.teams, snapshot.nodes, like=waiting)
    out = rule.obstacles(waiting, now)
    every = tuple(each.id for each in snapshot.pools)

    def without(each: engine.WorkloadInfo) -> engine.WorkloadInfo:
        accepted = every if each.pools is None else each.pools
        return replace(each, pools=tuple(other for other in accepted if other != pool))

    workloads = tuple(without(each) if each.id in out else each for each in snapshot.workloads)
    return replace(snapshot, workloads=workloads)


def more_nodes(snapshot: engine.Snapshot, pool: str, gpus: int) -> tuple[engine.NodeInfo, ...]:
    """Return nodes with so many GPUs, alike the commonest of the pool's, in the place of the first of these.

    They stand for GPUs that are freed there: nobody's use falls, and no team is favoured by whose they were.
    """
    usable = [node for node in snapshot.nodes if node.pool == pool and _takes_more(node)]
    shapes = Counter(_shape(node) for node in usable)
    if not shapes:
        return ()
    commonest = max(shapes, key=lambda shape: (shapes[shape], shape))
    model = min((node for node in usable if _shape(node) == commonest), key=lambda node: node.id)
    devices = tuple(replace(device, foreign=False) for device in model.devices)
    sizes = [len(devices)] * (gpus // len(devices)) + [gpus % len(devices)]
    return tuple(
        replace(
            model, id=f"{model.id}{MORE}{number}", name=f"{model.name}{MORE}{number}", devices=devices[:size]
        )
        for number, size in enumerate(sizes, start=1)
        if size
    )


def _takes_more(node: engine.NodeInfo) -> bool:
    """Whether what is freed on the node could be given to anybody in the pool."""
    return (
        node.ready
        and node.cluster_online
        and not node.cordoned
        and node.partition is None
        and bool(node.devices)
        and all(device.slicing is engine.Slicing.WHOLE for device in node.devices)
    )


def _shape(node: engine.NodeInfo) -> tuple[int, str]:
    return len(node.devices), node.devices[0].gpu_type


@dataclass(frozen=True, slots=True)
class _Gets:
    """A workload, and what it would get, or needs to start."""

    key: str
    gpus_milli: int

    @classmethod
    def of(cls, start: engine.Start) -> "_Gets":
        return cls(start.workload, sum(pod.milli for pod in start.placements))


def _rows(asked: list[_Gets], places: dict[str, int], user: "User | AnonymousUser") -> list[Next]:
    found = Workload.objects.select_related("team", "owner").in_bulk([UUID(each.key) for each in asked])
    rows = []
    for each in asked:
        workload = found.get(UUID(each.key))
        if workload is None:
            continue
        visible = may(user, Permission.VIEW_WORKLOADS, workload.team)
        rows.append(
            Next(
                key=each.key,
                workload=workload if visible else None,
                team=workload.team.name,
                reserved=workload.is_reserved,
                priority=workload.priority,
                gpus_milli=each.gpus_milli,
                position=places.get(each.key),
            )
        )
    return rows
