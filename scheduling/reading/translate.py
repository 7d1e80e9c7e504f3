"""From rows of the tables to what the engine takes. Pure: no queries, no clock.

Engine ids are the rows' UUIDs as text. Workloads carry their id as their name too, so that no sentence of the
engine names one to a user who may not see it: `scheduling.explain.workload` puts in names that a reader may know.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from scheduling import engine
from scheduling.reading.typical_requests import TypicalRequests
from teams.models import Pool, PoolPolicy
from workloads.models import Phase

SECOND_MS = 1000

Row = Mapping[str, Any]
"""One row of `QuerySet.values()`."""


def milliseconds(at: datetime | None) -> int | None:
    """Return a time as the engine counts it, whole milliseconds since the epoch."""
    return None if at is None else round(at.timestamp() * SECOND_MS)


def moment(at: int | None) -> datetime | None:
    """Return a time that the engine counts."""
    return None if at is None else datetime.fromtimestamp(at / SECOND_MS, UTC)


def policy(rules: PoolPolicy) -> engine.Policy:
    """Return a pool's rules."""
    limit = rules.default_time_limit_seconds
    return engine.Policy(
        queueing=engine.Queueing(rules.queueing),
        elastic_preemption=engine.ElasticPreemption(rules.elastic_preemption),
        placement=engine.NodeOrder(rules.placement),
        fairness=engine.Fairness(rules.fairness),
        usage_half_life_ms=rules.usage_half_life_seconds * SECOND_MS,
        min_runtime_ms=rules.min_runtime_seconds * SECOND_MS,
        max_preemptions=rules.max_preemptions,
        default_time_limit_ms=None if limit is None else limit * SECOND_MS,
        sharing=engine.Sharing(rules.sharing),
        peak=_peak(rules),
    )


def _peak(rules: PoolPolicy) -> engine.PeakHours | None:
    """Return the peak hours of a pool's rules, which have checked them."""
    hours = [each for text in rules.peak_hours for each in engine.weekly_hours(text) or ()]
    if not hours:
        return None
    return engine.PeakHours(tuple(hours), rules.peak_zone, rules.peak_max_milli, tuple(rules.peak_classes))


def pools(
    rows: Iterable[Pool], rules: Mapping[UUID, PoolPolicy | None], typical: TypicalRequests
) -> tuple[engine.PoolInfo, ...]:
    """Return the pools in the organisation's order, with what they are often asked for.

    A pool whose rules cannot be read is paused: it starts nothing by rules that were not set.
    """
    return tuple(_pool(row, rules[row.pk], typical) for row in rows)


def _pool(row: Pool, rules: PoolPolicy | None, typical: TypicalRequests) -> engine.PoolInfo:
    return engine.PoolInfo(
        id=str(row.pk),
        name=row.name,
        policy=engine.Policy() if rules is None else policy(rules),
        topology=tuple(row.topology),
        recent=typical.of(str(row.pk)),
        paused=row.paused or rules is None,
    )


def teams(
    rows: Iterable[Any], shares: Iterable[Any], usage: Mapping[tuple[str, str], int]
) -> tuple[engine.TeamInfo, ...]:
    """Return the tree, from rows of `Team` and `Share`. `usage` is decayed GPU-milliseconds by team and pool."""
    kept: dict[str, dict[str, engine.TeamShare]] = defaultdict(dict)
    for share in shares:
        pool = str(share.pool_id)
        kept[str(share.team_id)][pool] = engine.TeamShare(pool, share.reservation_milli, share.maximum_milli)
    for (team, pool), used in usage.items():
        before = kept[team].get(pool, engine.TeamShare(pool))
        kept[team][pool] = engine.TeamShare(pool, before.reservation_milli, before.maximum_milli, used)
    return tuple(
        engine.TeamInfo(
            id=str(row.id),
            name=row.name,
            parent=None if row.parent_id is None else str(row.parent_id),
            weight=row.bursting_priority,
            burst_limit_percent=row.burst_limit_percent,
            maximum_milli=row.maximum_milli,
            shares=tuple(share for _, share in sorted(kept[str(row.id)].items())),
        )
        for row in rows
    )


def taint(text: str) -> engine.Taint:
    """Return a taint written as `key=value:Effect`, `key:Effect` or `key`."""
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    return engine.Taint(key, value, effect or "NoSchedule")


def toleration(text: str) -> engine.Toleration:
    """Return a toleration written as `key` or `key=value`."""
    key, equals, value = text.partition(":")[0].partition("=")
    return engine.Toleration(key, value if equals else None)


def node(row: Row, devices: Sequence[Row]) -> engine.NodeInfo:
    """Return a node with its devices."""
    return engine.NodeInfo(
        id=str(row["id"]),
        name=row["name"],
        pool=str(row["pool_id"]),
        devices=tuple(
            engine.DeviceInfo(
                index=device["index"],
                gpu_type=device["gpu_type"],
                memory_mib=device["memory_mib"],
                foreign=device["foreign"],
                slicing=engine.Slicing(device["slicing"]),
                share_milli=device["share_milli"],
            )
            for device in sorted(devices, key=lambda device: int(device["index"]))
        ),
        cluster=str(row["cluster_id"]),
        cluster_online=row["cluster__connected"],
        cpu_milli=row["cpu_milli"],
        memory_mib=row["memory_mib"],
        labels=engine.labels_of(row["labels"]),
        taints=tuple(taint(text) for text in row["taints"]),
        partition=row["partition"] or None,
        ready=row["ready"],
        cordoned=row["cordoned"],
        drained=row["drained"],
        sharing=row["sharing"],
    )


def placements(rows: Iterable[tuple[int, str, int, int]]) -> tuple[engine.PodPlacement, ...]:
    """Return where an attempt's pods lie, from pod index, node, device index and share. A pod lies on one node."""
    pods: dict[int, tuple[str, list[engine.DeviceShare]]] = {}
    for pod, node, device, share in rows:
        pods.setdefault(pod, (node, []))[1].append(engine.DeviceShare(device, share))
    return tuple(
        engine.PodPlacement(index, at, tuple(sorted(shares, key=lambda share: share.index)))
        for index, (at, shares) in sorted(pods.items())
    )


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What other tables say of a workload at the moment of the snapshot."""

    dependency: engine.DependencyState = engine.DependencyState.NONE
    preemptions_24h: int = 0
    data: tuple[engine.DataSet, ...] = ()


def workload(row: Row, circumstances: Circumstances) -> engine.WorkloadInfo:
    """Return a workload that waits, as it stands in its own row."""
    share, limit = row["gpu_milli"], row["time_limit_seconds"]
    parallel = row.get("array__max_parallel")
    return engine.WorkloadInfo(
        id=str(row["id"]),
        name=str(row["id"]),
        team=str(row["team_id"]),
        request=engine.Memory(row["gpu_memory_mib"]) if share is None else engine.GpuShare(share),
        priority=row["priority"],
        pods=row["pods"],
        min_pods=row["min_pods"],
        pools=tuple(str(choice) for choice in row["pool_choice"]) or None,
        cpu_milli=row["cpu_milli"],
        memory_mib=row["memory_mib"],
        gpu_types=tuple(row["gpu_types"]),
        node_selector=engine.labels_of(row["node_selector"]),
        partition=row["partition"] or None,
        tolerations=tuple(toleration(text) for text in row["tolerations"]),
        topology=engine.Topology(row["topology_required"] or None, row["topology_preferred"] or None),
        submitted_at=milliseconds(row["submitted_at"]) or 0,
        time_limit_ms=None if limit is None else limit * SECOND_MS,
        preemptions_24h=circumstances.preemptions_24h,
        held=row["held"],
        dependency=circumstances.dependency,
        backing_off_until=milliseconds(row["backoff_until"]),
        on_preemption=engine.AfterPreemption(row["on_preemption"]),
        start_after=milliseconds(row["start_after"]),
        deadline=milliseconds(row["deadline"]),
        on_deadline=engine.AfterDeadline(row["on_deadline"] or "fail"),
        job_class=row["job_class"],
        data=circumstances.data,
        array=str(row["array_id"]) if parallel else None,
        max_parallel=parallel,
    )


PHASES = {
    Phase.QUEUED: engine.OpenStatus.QUEUED,
    Phase.STARTING: engine.OpenStatus.STARTING,
    Phase.RUNNING: engine.OpenStatus.RUNNING,
    Phase.OVER: engine.OpenStatus.STOPPING,
}


def stopping_id(workload_id: object, number: int) -> str:
    """Return the engine id of an attempt that is over while its pods still hold devices."""
    return f"{workload_id}/{number}"
