"""Who waits that the last cycle did not tell of, read from the tables: a plan says nothing of what came after it.

While cycles end that is what came within a second. While none do, it may be everything, and some of whom the last plan
tells have gone since.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from scheduling.explain import silence
from scheduling.explain.last_cycle import LastCycle
from workloads import known
from workloads.models import Status, Workload


class Newcomer(NamedTuple):
    """A Pending workload that no plan tells of; `pools` are the ids of those it accepts, empty for any."""

    id: UUID
    team_id: UUID
    pools: list[str]
    held: bool
    pods: int
    gpu_milli: int | None
    gpu_types: list[str]

    @property
    def milli(self) -> int:
        """Milli-GPUs of all its pods, slices by their share; 0 where memory of GPUs is asked for."""
        return size_milli(self.pods, self.gpu_milli, self.gpu_types)


def size_milli(pods: int, gpu_milli: int | None, gpu_types: Sequence[str]) -> int:
    """Return what so many pods ask for, slices by their share; 0 where memory of GPUs is asked for (queries of
    `known` where types are named)."""
    if gpu_milli is None:
        return 0
    slices = known.asked_slices(gpu_types, pods) if gpu_types else None
    return pods * gpu_milli if slices is None else slices.milli


@dataclass(frozen=True, slots=True)
class SincePlan:
    """What the tables say otherwise than the last plan: who came, the first first, and who of its waits has gone.

    `gone`, and who is on hold now, are read only while no cycle ends.
    """

    came: Sequence[Newcomer] = ()
    gone: Set[str] = frozenset()
    held: Set[str] | None = None

    def waits(self, workload: str, *, held: bool = False) -> bool:
        """Return whether one that the plan tells of is pending still, and not on hold; `held` as the plan says."""
        on_hold = held if self.held is None else workload in self.held
        return not on_hold and workload not in self.gone

    def of_pool(self, pool: str) -> list[Newcomer]:
        """Return those who came and accept the pool."""
        return [row for row in self.came if not row.pools or pool in row.pools]


def since(last: LastCycle | None) -> SincePlan:
    """Return how who waits differs from what the last cycle told (1 query; 1 more where it was not looked lately)."""
    undecided = silence.look().undecided
    began_at: datetime | None = None if last is None or undecided else last.began_at
    pending = Workload.objects.filter(status=Status.PENDING)
    if began_at is not None:
        pending = pending.filter(status_since__gte=began_at)
    columns = ("id", "team_id", "pool_choice", "held", "pods", "gpu_milli", "gpu_types")
    rows = [Newcomer(*row) for row in pending.order_by("submitted_at", "id").values_list(*columns)]
    there = {str(row.id) for row in rows}
    told = last.told(there) if last is not None else set()
    gone = last.everyone - there if last is not None and undecided else frozenset[str]()
    held = frozenset(str(row.id) for row in rows if row.held) if undecided else None
    return SincePlan([row for row in rows if str(row.id) not in told], gone, held)
