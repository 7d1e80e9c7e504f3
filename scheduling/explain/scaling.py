"""Why a workload that runs with fewer pods than it asks for has no more: by the figures of the last cycle.

A plan has no reason for pods above the minimum. What stops the next one is looked up here in the order in which a
cycle looks: the pool, the team's limits, what is free.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from chamber.words import count, plural
from scheduling import engine
from scheduling.engine.model.quantities import gpus
from scheduling.explain.last_cycle import LastCycle
from scheduling.explain.silence import Silence
from workloads.models import Status, Workload

CODE = "waiting-for-more-pods"
NEXT_STEP = "Nothing to do: its pods are added one by one when GPUs are free that no waiting workload starts on first."
COLUMNS = (
    "pk", "pods", "placed_pods", "priority", "team", "attempt__gpus_milli", "pool", "pool__name", "pool__paused",
)  # fmt: skip


class Partly(NamedTuple):
    """A running workload that has fewer pods than it asks for."""

    pk: UUID
    pods: int
    placed_pods: int
    priority: int
    team: UUID
    gpus_milli: int
    pool: UUID
    pool_name: str
    pool_paused: bool

    @property
    def pod_milli(self) -> int:
        """Return what one more pod takes, as those that it has do."""
        return -(-self.gpus_milli // self.placed_pods)


def sentences(workloads: Collection[Workload], last: LastCycle | None, unknown: Silence) -> dict[UUID, str]:
    """Return what is told of those that run with fewer pods than they ask for (1 query, none where none may)."""
    ids = [row.pk for row in workloads if row.status == Status.RUNNING and not row.is_gang]
    if not ids:
        return {}
    rows = Workload.objects.filter(pk__in=ids, status=Status.RUNNING).order_by().with_placed_pods()
    partly = [Partly(*row) for row in rows.values_list(*COLUMNS)]
    return {row.pk: _sentence(row, last, unknown) for row in partly if 0 < (row.placed_pods or 0) < row.pods}


def _sentence(row: Partly, last: LastCycle | None, unknown: Silence) -> str:
    others = row.pods - row.placed_pods
    why = unknown.scheduler if unknown.undecided else _why(row, last)
    return (
        f"It runs with {row.placed_pods:,} of its {count(row.pods, 'pod')}, on {gpus(row.gpus_milli)}; the other "
        f"{others:,} {plural(others, 'waits', 'wait')}. {why}"
    )


def _why(row: Partly, last: LastCycle | None) -> str:
    """Return what stops its next pod."""
    figures = last.pools.get(str(row.pool)) if last is not None else None
    if last is None or figures is None:
        return "The scheduler has not looked at it yet."
    if row.pool_paused:
        return f"The pool {row.pool_name} is paused: nothing is added there."
    one = gpus(row.pod_milli)
    for name, team in _teams(row, last):
        left = None if team.ceiling_milli is None else team.ceiling_milli - team.in_use_milli
        if left is not None and left < row.pod_milli:
            return (
                f"{name} may use {gpus(team.ceiling_milli or 0)} of {row.pool_name} at most and uses "
                f"{gpus(team.in_use_milli)}; each pod needs {one}."
            )
    if row.priority >= engine.RESERVED_PRIORITY:
        most = max((t.guarantee_milli - t.reserved_in_use_milli for _, t in _teams(row, last)), default=0)
        if most < row.pod_milli:
            return f"No guarantee that it counts against has {one} left."
    free = gpus(figures.free_milli)
    if figures.free_milli < row.pod_milli:
        return f"{row.pool_name} has {free} free; each pod needs {one}."
    return (
        f"{row.pool_name} has {free} free, but no place there takes one more pod of {one} beside its others: they "
        "are on other nodes, of other types, or kept for a workload that waits."
    )


def _teams(row: Partly, last: LastCycle) -> Iterator[tuple[str, engine.TeamFigures]]:
    """Yield its team and those above, each with its name, as far as they have figures in its pool."""
    names = last.content["names"]["teams"]
    team: str | None = str(row.team)
    while team is not None and team in names:
        name, parent = names[team]
        figures = last.teams.get((team, str(row.pool)))
        if figures is not None:
            yield name, figures
        team = parent
