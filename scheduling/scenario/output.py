"""The plan as the scenario page writes it: one JSON object with sorted keys, GPUs as numbers, times in UTC.

Names stand for ids, as in the input. The same plan gives the same bytes.
"""

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from scheduling.engine import (
    GPU_MILLI,
    AfterDeadline,
    Allocation,
    Eta,
    Plan,
    PodPlacement,
    PoolFigures,
    Reason,
    Snapshot,
    TeamFigures,
    Wait,
    WorkloadInfo,
)

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]

FRAGMENTATION_DIGITS = 4


@dataclass(frozen=True, slots=True)
class PlannedOutcome:
    """What the plan does with one workload; `placements` are those it has after the plan."""

    workload: WorkloadInfo
    action: str
    status: str
    pool: str | None
    reason: Reason | None
    allocation: tuple[Allocation, ...] = ()
    placements: tuple[PodPlacement, ...] = ()
    preempts: tuple[str, ...] = ()
    preempted_by: str | None = None
    wait: Wait | None = None

    @property
    def gpus_milli(self) -> int:
        """What it holds or was promised after the plan."""
        return sum(placement.milli for placement in self.placements)


def outcomes(snapshot: Snapshot, plan: Plan) -> list[PlannedOutcome]:
    """Return what the plan does with every workload, by id."""
    by_id = {workload.id: workload for workload in snapshot.workloads}
    found = [*_placed(by_id, plan), *_changed(by_id, plan)]
    for expiry in plan.expiries:
        status = "failed" if expiry.ends_as is AfterDeadline.FAIL else "cancelled"
        found.append(PlannedOutcome(by_id[expiry.workload], "end", status, None, expiry.reason))
    for wait in plan.waits:
        workload = by_id[wait.workload]
        found.append(PlannedOutcome(workload, "wait", "pending", wait.pool, wait.reason, wait=wait))
    return sorted(found, key=lambda outcome: outcome.workload.id)


def _placed(by_id: Mapping[str, WorkloadInfo], plan: Plan) -> Iterator[PlannedOutcome]:
    """Yield who starts and who stays as he is."""
    for start in plan.starts:
        yield PlannedOutcome(
            by_id[start.workload],
            "start",
            "queued",
            start.pool,
            start.reason,
            start.allocation,
            start.placements,
            tuple(sorted(start.victims)),
        )
    for keep in plan.keeps:
        workload = by_id[keep.workload]
        yield PlannedOutcome(
            workload, "keep", workload.status, keep.pool, keep.reason, keep.allocation, workload.placements
        )


def _changed(by_id: Mapping[str, WorkloadInfo], plan: Plan) -> Iterator[PlannedOutcome]:
    """Yield who is placed and becomes larger, smaller, or goes."""
    for grow in plan.grows:
        workload = by_id[grow.workload]
        placements = workload.placements + grow.placements
        yield PlannedOutcome(workload, "grow", workload.status, grow.pool, None, grow.allocation, placements)
    for shrink in plan.shrinks:
        workload = by_id[shrink.workload]
        placements = tuple(pod for pod in workload.placements if pod.pod_index not in shrink.pods)
        yield PlannedOutcome(
            workload,
            "shrink",
            workload.status,
            shrink.pool,
            shrink.reason,
            shrink.allocation,
            placements,
            preempted_by=shrink.by,
        )
    for gone in plan.preemptions:
        workload = by_id[gone.workload]
        yield PlannedOutcome(workload, "preempt", "preempted", gone.pool, gone.reason, preempted_by=gone.by)


def as_object(snapshot: Snapshot, now: int, plan: Plan) -> Object:
    """Return the result of one cycle as the page describes it."""
    teams: dict[str, Object] = {team.id: {} for team in snapshot.teams}
    for figures in plan.teams:
        teams[figures.team][figures.pool] = _team(figures)
    return {
        "now": time_text(now),
        "pools": {figures.pool: _pool(figures) for figures in plan.pools},
        "teams": dict(teams),
        "workloads": {outcome.workload.id: _workload(outcome) for outcome in outcomes(snapshot, plan)},
    }


def as_text(result: Object) -> str:
    """Return the result as JSON text, the same bytes for the same result on every machine."""
    return json.dumps(result, indent=2, sort_keys=True) + "\n"


def time_text(at: int) -> str:
    """A time in milliseconds since the epoch as UTC, with milliseconds only where there are some."""
    moment = dt.datetime.fromtimestamp(at // 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{at % 1000:03d}Z" if at % 1000 else f"{moment}Z"


def eta_times(eta: Eta) -> tuple[str, ...]:
    """No time, one, or the earliest and the latest."""
    if eta.earliest is None:
        return ()
    if eta.latest is None or eta.latest == eta.earliest:
        return (time_text(eta.earliest),)
    return time_text(eta.earliest), time_text(eta.latest)


def gpus_by_node(placements: Iterable[PodPlacement]) -> dict[str, int]:
    """The milli-GPUs that pods take of each node."""
    found: dict[str, int] = defaultdict(int)
    for placement in placements:
        found[placement.node] += placement.milli
    return dict(found)


def _gpus(milli: int) -> float:
    return milli / GPU_MILLI


def _pool(figures: PoolFigures) -> Object:
    return {
        "capacity": _gpus(figures.capacity_milli),
        "in_use": _gpus(figures.in_use_milli),
        "free": _gpus(figures.free_milli),
        "oversubscribed": figures.oversubscribed,
        "fragmentation": round(figures.fragmentation, FRAGMENTATION_DIGITS),
    }


def _team(figures: TeamFigures) -> Object:
    return {
        "guarantee": _gpus(figures.guarantee_milli),
        "ceiling": None if figures.ceiling_milli is None else _gpus(figures.ceiling_milli),
        "in_use": _gpus(figures.in_use_milli),
        "reserved_in_use": _gpus(figures.reserved_in_use_milli),
        "demand": _gpus(figures.demand_milli),
        "entitlement": _gpus(figures.entitlement_milli),
    }


def _workload(outcome: PlannedOutcome) -> Object:
    found: Object = {
        "action": outcome.action,
        "status": outcome.status,
        "reason": None if outcome.reason is None else _reason(outcome.reason),
    }
    if outcome.preempted_by is not None:
        found["preempted_by"] = outcome.preempted_by
    if outcome.wait is not None:
        times: list[Json] = list(eta_times(outcome.wait.eta))
        found |= {
            "pool": outcome.pool,
            "position": outcome.wait.position,
            "eta": times if len(times) > 1 else times[0] if times else None,
        }
    elif outcome.action not in ("preempt", "end"):
        nodes = gpus_by_node(outcome.placements)
        found |= {
            "pool": outcome.pool,
            "allocation": [{"team": part.team, "gpus": _gpus(part.milli)} for part in outcome.allocation],
            "nodes": {node: _gpus(milli) for node, milli in nodes.items()},
            "pods": len(outcome.placements),
            "preempts": list(outcome.preempts),
        }
    return found


def _reason(reason: Reason) -> Object:
    """Code, kind and sentences, and those of the numbers and names that the reason has."""
    found: Object = {
        "code": reason.code,
        "kind": reason.kind,
        "message": reason.message,
        "next_step": reason.next_step,
    }
    numbers = {"asked": reason.asked_milli, "available": reason.available_milli, "limit": reason.limit_milli}
    found |= {key: _gpus(milli) for key, milli in numbers.items() if milli is not None}
    names = {"team": reason.team, "level": reason.level}
    return found | {key: name for key, name in names.items() if name is not None}
