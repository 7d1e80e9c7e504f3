"""What workloads ask for: read as text, and turned into what the engine takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling import engine
from scheduling.reading import translate
from scheduling.reading.picture import UNREADABLE, LeftAside, unread
from scheduling.reading.rows import ids, json_of, moment_of, texts
from scheduling.reading.translate import Circumstances
from workloads.models import Workload
from workloads.models.workload import OPEN

REFERENCES = ("id", "team_id")
FREE_FORM: dict[str, Any] = {"gpu_types": [], "node_selector": {}, "tolerations": [], "pool_choice": []}
"""Columns whose content no constraint vouches for, with what stands in for a content that cannot be read."""
MOMENTS = ("submitted_at", "backoff_until", "start_after", "deadline")
PLAIN = (
    "priority", "pods", "min_pods", "gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib", "partition",
    "topology_required", "topology_preferred", "time_limit_seconds", "on_preemption", "held",
    "on_deadline", "job_class",
)  # fmt: skip
ASKED = (*REFERENCES, *FREE_FORM, *MOMENTS, *PLAIN)
OF_ARRAY = ("array_id", "array__max_parallel")
"""All that the engine takes of a workload's row, whether it waits or is placed."""

BY_ID_UP_TO = 10_000
BY_ID_PART = 0.5
"""If more of the rows are new, or so large a part of them, all open ones are read rather than those named by their
ids."""

NOTHING = Circumstances()


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What a workload asks for, as the engine takes it while nothing else is known of it."""

    id: UUID
    workload: engine.WorkloadInfo
    fail_if_impossible: bool
    problem: LeftAside | None

    @property
    def stays_when_admitted(self) -> bool:
        """Return whether an admission changes nothing of it: that ends a pause before the next try."""
        return self.workload.backing_off_until is None


def read(keys: Sequence[str], *, of: int | None = None) -> dict[str, RequestRow]:
    """Return what these workloads ask for (1 query, none for no workload). Where they are many `of` so many open ones,
    they are picked out of all of those.
    """
    if not keys:
        return {}
    few = of is None or len(keys) <= min(BY_ID_UP_TO, of * BY_ID_PART)
    some = {"pk__in": [UUID(key) for key in keys]} if few else {"status__in": OPEN}
    columns: tuple[Any, ...] = (*ids(*REFERENCES), *texts(*FREE_FORM, *MOMENTS), *PLAIN, *OF_ARRAY)
    rows = Workload.objects.filter(**some).order_by().values_list(*columns, "fail_if_impossible")
    wanted = set(keys)
    return {row[0]: _asked(row) for row in rows if row[0] in wanted}


def _asked(read: tuple[Any, ...]) -> RequestRow:
    """Return what a row asks for. What its workload holds counts even where some of that cannot be read."""
    *columns, fails = read
    row, problem = dict(zip((*ASKED, *OF_ARRAY), columns, strict=True)), None
    for name in MOMENTS:
        row[name] = moment_of(row[name])
    try:
        workload = translate.workload(row | {name: json_of(row[name]) for name in FREE_FORM}, NOTHING)
    except UNREADABLE as error:
        problem = unread("workload", row["id"], error)
        workload = translate.workload(row | FREE_FORM, NOTHING)
    return RequestRow(UUID(row["id"]), workload, fails, problem)
