"""Rows that cannot be true, which a database could hold all the same: the engine reads them as the nearest that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from scheduling.engine import DeviceShare, OpenStatus, PodPlacement, Snapshot, TeamInfo, WorkloadInfo
from scheduling.tests.engine.build import MINUTE, NOW

ANY: tuple[dict[str, Any], ...] = (
    {"min_pods": 0},
    {"pods": 0, "min_pods": 0},
    {"pods": 2, "min_pods": 5},
    {"cpu_milli": -1000},
    {"memory_mib": -5},
    {"preemptions_24h": -1},
    {"time_limit_ms": -MINUTE},
    {"team": "nobody"},
)
"""What can be odd about any workload."""


def with_odd_rows(chance: Random, world: Snapshot) -> Snapshot:
    """The same, where some workloads and nodes are odd."""
    rows = list(world.workloads)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(rows))
        change = _on_placed(chance) if rows[at].placements else chance.choice(ANY)
        rows[at] = replace(rows[at], **(change(rows[at]) if callable(change) else change))
    nodes = list(world.nodes)
    if chance.random() < 0.3:
        at = chance.randrange(len(nodes))
        nodes[at] = replace(nodes[at], pool=chance.choice(("gone", *[pool.id for pool in world.pools])))
    return replace(world, workloads=tuple(rows), nodes=tuple(nodes))


def _on_placed(chance: Random) -> dict[str, Any] | Callable[[WorkloadInfo], dict[str, Any]]:
    """What can be odd about a workload that is placed."""
    odd: tuple[dict[str, Any] | Callable[[WorkloadInfo], dict[str, Any]], ...]
    odd = (*ANY, {"pool": "gone"}, {"pool": None}, _from_tomorrow, _elsewhere, _on_no_device, _twice)
    return chance.choice(odd)


def _from_tomorrow(row: WorkloadInfo) -> dict[str, Any]:
    """It began later than now."""
    return {"status": OpenStatus.RUNNING, "started_at": NOW + 7 * MINUTE}


def _elsewhere(row: WorkloadInfo) -> dict[str, Any]:
    """Its last pod lies on a node that is not there."""
    return {"placements": (*row.placements[:-1], replace(row.placements[-1], node="away"))}


def _on_no_device(row: WorkloadInfo) -> dict[str, Any]:
    """Its last pod holds a device that its node does not have."""
    last = row.placements[-1]
    return {"placements": (*row.placements[:-1], replace(last, devices=(DeviceShare(99, last.milli),)))}


def _twice(row: WorkloadInfo) -> dict[str, Any]:
    """A pod more lies where its first one does, on the same devices."""
    first = row.placements[0]
    more = PodPlacement(max(pod.pod_index for pod in row.placements) + 1, first.node, first.devices)
    return {"placements": (*row.placements, more), "pods": row.pods + 1}


def with_odd_teams(chance: Random, teams: Sequence[TeamInfo]) -> tuple[TeamInfo, ...]:
    """The same teams, of which one is odd."""
    rows = list(teams)
    at = chance.randrange(len(rows))
    shares = tuple(
        replace(share, reservation_milli=-3000, usage_gpu_ms=chance.choice((-5, 0)))
        for share in rows[at].shares
    )
    changes: tuple[dict[str, Any], ...] = (
        {"parent": "nobody"},
        {"parent": rows[at].id},
        {"parent": chance.choice(rows).id},
        {"weight": -2},
        {"burst_limit_percent": -10},
        {"shares": shares},
    )
    rows[at] = replace(rows[at], **chance.choice(changes))
    return tuple(rows)
