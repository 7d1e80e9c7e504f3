"""Who would be next if GPUs were freed: the engine's answer with so many more of them idle in the pool."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from chamber.errors import Refusal
from scheduling import memory, recent
from scheduling.engine import schedule
from scheduling.engine import types as engine
from scheduling.picture import Picture
from scheduling.whatif.asking import PICTURE_KEPT
from scheduling.whatif.desk import Desk, Work
from scheduling.whatif.draft import Draft
from teams.models import Pool
from teams.permissions import Permission, may
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

MOST_GPUS = 1024
SHOWN = 20
MORE = "+"
"""Stands in the ids of nodes that are not there; ids of those that are have none."""

_desk: Desk[tuple[engine.Start, ...]] = Desk()


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
    """Who would start if so many GPUs were freed, in the order of the queue; `more` are not among the rows."""

    gpus: int
    rows: list[Next]
    more: int
    left_milli: int


def gpus_asked(typed: str) -> int:
    """Return the number of GPUs that somebody typed; raise a `Refusal` where it is none, or out of bounds."""
    text = typed.strip()
    gpus = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= gpus <= MOST_GPUS:
        raise Refusal(
            f"Say how many GPUs: a whole number from 1 to {MOST_GPUS:,}, not {text!r}.", field="gpus"
        )
    return gpus


def who_is_next(user: "User | AnonymousUser", pool: Pool, gpus: int, *, wait_seconds: float) -> Freed | None:
    """Return who would start with so many more idle GPUs; None where that takes longer: ask again.

    For who may see the pool's queue. Raises `TooMany` where others ask already.
    """
    key = str(pool.pk)
    starts = _desk.ask((key, gpus), lambda: _work(key, gpus), wait_seconds=wait_seconds)
    if starts is None:
        return None
    last = memory.last()
    places = {id_: at for at, id_ in enumerate(last.queue(key), start=1)} if last else {}
    ordered = sorted(starts, key=lambda start: (places.get(start.workload, len(places) + 1), start.workload))
    rows = _rows(ordered[:SHOWN], places, user)
    taken = sum(pod.milli for start in starts for pod in start.placements if MORE in pod.node)
    left = max(0, gpus * engine.GPU_MILLI - taken)
    return Freed(gpus, rows, len(starts) - len(ordered[:SHOWN]), left)


def forget() -> None:
    """Forget what was asked."""
    _desk.forget()


def _work(pool: str, gpus: int) -> Work[tuple[engine.Start, ...]]:
    picture = recent.picture(at_most=PICTURE_KEPT)
    return lambda: starts_with(picture, pool, gpus)


def starts_with(picture: Picture, pool: str, gpus: int) -> tuple[engine.Start, ...]:
    """Return who would start in the pool at the next cycle with so many more idle GPUs."""
    more = more_nodes(picture.snapshot, pool, gpus)
    plan = schedule(Draft(more_nodes=more).on(picture.snapshot), picture.now)
    return tuple(start for start in plan.starts if start.pool == pool)


def more_nodes(snapshot: engine.Snapshot, pool: str, gpus: int) -> tuple[engine.Node, ...]:
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


def _takes_more(node: engine.Node) -> bool:
    """Whether what is freed on the node could be given to anybody in the pool."""
    return (
        node.ready
        and node.cluster_online
        and not node.cordoned
        and node.partition is None
        and bool(node.devices)
    )


def _shape(node: engine.Node) -> tuple[int, str]:
    return len(node.devices), node.devices[0].gpu_type


def _rows(starts: list[engine.Start], places: dict[str, int], user: "User | AnonymousUser") -> list[Next]:
    found = Workload.objects.select_related("team", "owner").in_bulk(
        [UUID(start.workload) for start in starts]
    )
    rows = []
    for start in starts:
        workload = found.get(UUID(start.workload))
        if workload is None:
            continue
        visible = may(user, Permission.VIEW_WORKLOADS, workload.team)
        rows.append(
            Next(
                key=start.workload,
                workload=workload if visible else None,
                team=workload.team.name,
                reserved=workload.is_reserved,
                priority=workload.priority,
                gpus_milli=sum(pod.milli for pod in start.placements),
                position=places.get(start.workload),
            )
        )
    return rows
