"""What keeps new workloads from ever starting as things are: told with the answer to a submission.

The engine's rule by which cycles fail those that asked for it (`settle`), on the pools, teams and nodes of a moment
ago, all nodes in service and nobody else there. Each process keeps them, and what it has found.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from scheduling import engine
from scheduling.cycle.still_valid import GIVEN_UP
from scheduling.explain.admissibility import Admissibility
from scheduling.explain.explanation import Explanation
from scheduling.explain.workload import without_released
from scheduling.reading import cluster_nodes, translate
from scheduling.reading.cluster_nodes import Fleet
from scheduling.reading.picture import UNREADABLE
from scheduling.reading.read import SHARES, TREE
from scheduling.reading.requests import ASKED
from scheduling.reading.rows import lines_of
from scheduling.reading.typical_requests import TypicalRequests
from teams.models import Pool, PoolPolicy, Share, Team
from workloads import dependencies
from workloads.models import Status, Workload

KEPT_SECONDS = 30.0
SURE_SECONDS = 1.0
"""What is found by older knowledge than this is looked at again, before it is told."""
MOST_ASKED = 32
"""Different requests of one submission that are looked at."""
HELD = "Pending, on hold"
CANNOT_START = "Pending, cannot start as things are"
"""How those stand that others start after, in vain."""
TOLD = GIVEN_UP | {engine.ReasonCode.POOL_PAUSED}
"""Reasons that last until somebody does something."""
NOT_LOOKED_AT = (
    f"The first {MOST_ASKED} different requests of a submission are checked for whether they can ever start; this one "
    "and {more:,} more were not. `chamber why` tells it of each."
)


@dataclass
class _Setting:
    """Pools, teams and nodes as they were read, and what was found of requests by them."""

    read_at: float
    pools: tuple[engine.PoolInfo, ...]
    teams: tuple[engine.TeamInfo, ...]
    fleet: Fleet
    rule: Admissibility | None = None
    found: dict[engine.WorkloadInfo, engine.Reason | None] = field(default_factory=dict)
    pool_of: dict[engine.WorkloadInfo, str | None] = field(default_factory=dict)

    def look(self, asked: Sequence[engine.WorkloadInfo]) -> None:
        """Find what keeps each of these requests from starting."""
        new = [each for each in asked if each not in self.found]
        if not new:
            return
        if self.rule is None or not all(map(self.rule.knows, new)):
            nodes = [
                replace(node, ready=True, cordoned=False, cluster_online=True) for node in self.fleet.nodes
            ]
            self.rule = Admissibility(self.pools, self.teams, nodes, like=[*self.found, *new])
        numbered = {str(number): each for number, each in enumerate(new)}
        out = self.rule.obstacles([replace(each, id=key) for key, each in numbered.items()], 0)
        for key, each in numbered.items():
            pool, reason = out.get(key, (None, None))
            self.found[each] = reason if reason is not None and reason.code in TOLD else None
            self.pool_of[each] = pool


_lock = threading.Lock()
_kept: _Setting | None = None


def sentences(workloads: Sequence[Workload]) -> Mapping[UUID, list[str]]:
    """Return for each new workload what keeps it from ever starting, mostly nothing (6 queries at most, none within 30
    seconds of the last unless there is something to tell; 1 more where some start after others).
    """
    # What was submitted a moment ago knows it; what was read again, by a repeated key, is looked up.
    after = [workload.pk for workload in workloads if getattr(workload, "waits_for_others", True)]
    unmet = dependencies.unmet(after)
    needed = {row.pk: row for rows in unmet.values() for row in rows}
    found = _of_themselves([*workloads, *(row for row in needed.values() if row.status == Status.PENDING)])
    told = {workload.pk: found.get(workload.pk, []) for workload in workloads}
    others = [key for key in told if key not in found]
    if others:
        told[others[0]] = [NOT_LOOKED_AT.format(more=len(others) - 1)]
    for key, rows in unmet.items():
        told[key] += filter(None, (_stuck(row, found.get(row.pk, [])) for row in rows))
    return told


def _stuck(needed: Workload, never: Sequence[str]) -> str:
    """Return what keeps a workload from ever completing that another starts after; empty where nothing does."""
    if not needed.is_open:
        step = dependencies.requeue([needed.slug], others=0)
        return f"{dependencies.sentence([needed], [needed.slug])} {step}, or ask its owner to."
    if needed.held and needed.status == Status.PENDING:
        named = dependencies.sentence([needed], [needed.slug], [HELD])
        return f"{named} {dependencies.release([needed.slug], others=0)}, or ask its owner to."
    if not never:
        return ""
    return f"{dependencies.sentence([needed], [needed.slug], [CANNOT_START])} {' '.join(never)}"


def _of_themselves(workloads: Sequence[Workload]) -> dict[UUID, list[str]]:
    """Return what keeps each from ever starting, whatever it starts after; of those only that are looked at."""
    asked = {workload.pk: _request(workload) for workload in workloads}
    different = list(dict.fromkeys(asked.values()))
    looked_at = different[:MOST_ASKED]
    with _lock:
        setting = _setting(KEPT_SECONDS)
        setting.look(looked_at)
        if any(setting.found[each] for each in looked_at):
            setting = _setting(SURE_SECONDS)
            setting.look(looked_at)
        why = {each: _told(setting, each) for each in looked_at}
    return {key: list(why[each]) for key, each in asked.items() if each in why}


def forget() -> None:
    """Drop what this process keeps."""
    global _kept  # noqa: PLW0603 - one per process
    with _lock:
        _kept = None


def _request(workload: Workload) -> engine.WorkloadInfo:
    """Return what of a workload decides whether it can start; equal for all that ask for the same."""
    row: dict[str, Any] = {name: getattr(workload, name) for name in ASKED}
    neutral = {
        "id": "",
        "submitted_at": None,
        "backoff_until": None,
        "held": False,
        "time_limit_seconds": None,
        "start_after": None,
        "deadline": None,
        "on_deadline": "",
        "job_class": "",
    }
    return translate.workload(row | neutral, translate.Circumstances())


def _told(setting: _Setting, asked: engine.WorkloadInfo) -> list[str]:
    reason = setting.found[asked]
    if reason is None:
        return []
    plain = Explanation(reason.code.value, reason.message, reason.kind.value, next_step=reason.next_step)
    told = without_released(plain, setting.pool_of[asked])
    return [f"{told.sentence} {told.next_step}"]


def _setting(at_most: float) -> _Setting:
    """Return what was read at most so many seconds ago."""
    global _kept  # noqa: PLW0603 - one per process
    if _kept is None or time.monotonic() - _kept.read_at > at_most:
        _kept = _read(_kept.fleet if _kept else Fleet())
    return _kept


def _read(before: Fleet) -> _Setting:
    """Read pools, teams and nodes (5 queries)."""
    read_at, rows = time.monotonic(), list(Pool.objects.all())
    pools = translate.pools(rows, {pool.pk: _rules(pool) for pool in rows}, TypicalRequests())
    shares = Share.objects.filter(team__archived_at__isnull=True).order_by("pk")
    teams = translate.teams(
        Team.objects.values_list(*TREE, named=True), shares.values_list(*SHARES, named=True), {}
    )
    (devices,) = lines_of(cluster_nodes.device_lines())
    # Peak hours end: they keep nothing out for good.
    always = tuple(replace(pool, policy=replace(pool.policy, peak=None)) for pool in pools)
    return _Setting(read_at, always, teams, cluster_nodes.read(before, devices))


def _rules(pool: Pool) -> PoolPolicy | None:
    try:
        return pool.rules
    except UNREADABLE:
        return None
