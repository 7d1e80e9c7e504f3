"""The metrics that the tables tell, family by family; `read` makes a constant number of queries.

GPUs are ratios of one whole GPU, times are seconds. Teams stand for themselves with all below them, so teams of
different depths are not to be added up.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, F, Sum, When
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.samples import Sample

from agentlink.models import Cluster, Device, DeviceSlicing
from agentlink.models.node import CUT, OUT_OF_SERVICE, UNAVAILABLE_MILLI, WHOLE_DEVICE_MILLI
from chamber import marks
from chamber.metrics import storage
from chamber.models import Mark
from scheduling.explain.allocations import NOT_DECIDED
from scheduling.explain.bars import holdings
from scheduling.models import Cycle, Turn
from teams.models import Pool, Team
from workloads.models import Status, Workload
from workloads.models.workload import OPEN


@dataclass(frozen=True, slots=True)
class LabelNames:
    """What ids are called in labels, by their 32 hexadecimal digits; archived teams too, since totals keep their ids.

    `ways` holds the ids from the root down to each team, its own last.
    """

    teams: Mapping[str, str]
    ways: Mapping[str, list[str]]
    pools: Mapping[str, str]

    @classmethod
    def read(cls) -> "LabelNames":
        """Return the names as they are now (2 queries)."""
        rows = [
            (slug, path.strip("/").split("/"))
            for slug, path in Team.objects.order_by().values_list("slug", "path")
        ]
        pools = {key.hex: slug for key, slug in Pool.objects.order_by().values_list("pk", "slug")}
        return cls({way[-1]: slug for slug, way in rows}, {way[-1]: way for _, way in rows}, pools)

    def team(self, key: str) -> str:
        """Return a team's name in labels; an empty text for no team."""
        return self.teams.get(_hex(key), key)


def read(names: LabelNames, now: datetime) -> Iterator[Metric]:
    """Return every family but the totals' (9 queries)."""
    plan = _last_plan()
    yield from _teams(names, plan)
    yield from _pools(names, plan)
    yield from _workloads()
    yield from _cluster_link(now)
    yield from _parts(plan)
    yield from _database()


@dataclass(frozen=True, slots=True)
class _LastPlan:
    """What the last cycle's figures say of pools and teams; empty before the first."""

    began_at: datetime | None
    pools: list[dict[str, Any]]
    teams: list[dict[str, Any]]


def _last_plan() -> _LastPlan:
    stored = Cycle.objects.exclude(plan=b"").order_by("-number")
    row = stored.values_list("began_at", "figures__pools", "figures__teams").first()
    return _LastPlan(row[0], row[1] or [], row[2] or []) if row else _LastPlan(None, [], [])


TEAM_FAMILIES = {
    "guarantee": "GPUs guaranteed to the team.",
    "entitlement": "GPUs the team is entitled to at present demand, by the last cycle.",
    "pending": "GPUs the team's waiting workloads ask for, up to its ceiling, by the last cycle.",
    "in_use": "GPUs given to the team's workloads.",
    "burst": "GPUs given to the team's workloads beyond its guarantee.",
}


def _teams(names: LabelNames, plan: _LastPlan) -> Iterator[Metric]:
    """Return the teams' families, with those that are guaranteed, hold or want anything in a pool."""
    families = {
        key: GaugeMetricFamily(f"chamber_team_{key}_gpus", text, labels=("team", "pool"))
        for key, text in TEAM_FAMILIES.items()
    }

    def add(labels: dict[str, str], **milli: int) -> None:
        # Thousands of samples: the labels of a team are one object, which makes the page much faster to write.
        for key, value in milli.items():
            families[key].samples.append(Sample(families[key].name, labels, value / WHOLE_DEVICE_MILLI))

    uses = _uses(names)
    for row in plan.teams:
        team, pool = _hex(row["team"]), _hex(row["pool"])
        use = uses.pop((team, pool), NOTHING)
        if team not in names.teams or pool not in names.pools:
            continue
        guarantee, demand, entitlement = row["guarantee_milli"], row["demand_milli"], row["entitlement_milli"]
        if use.milli or guarantee or demand or entitlement:
            add(
                {"team": names.teams[team], "pool": names.pools[pool]},
                guarantee=guarantee,
                entitlement=entitlement,
                pending=max(0, demand - row["in_use_milli"]),
                in_use=use.milli,
                burst=use.burst_milli,
            )
    for (team, pool), use in uses.items():
        # Held, though the last cycle knew nothing of it: an archived team's, or of a team that is new.
        labels = {"team": names.team(team), "pool": names.pools.get(pool, pool)}
        add(labels, in_use=use.milli, burst=use.burst_milli)
    yield from families.values()


@dataclass(slots=True)
class _Use:
    """What a team with all below it holds of a pool."""

    milli: int = 0
    burst_milli: int = 0


NOTHING = _Use()


def _uses(names: LabelNames) -> dict[tuple[str, str], _Use]:
    """Return what teams hold, by (team, pool) (1 query)."""
    levels: dict[int, dict[tuple[str, str], _Use]] = defaultdict(lambda: defaultdict(_Use))
    for pool, team, charged, milli in holdings():
        way = names.ways.get(team, [team])
        own = levels[len(way)][team, pool]
        own.milli += milli
        # A team's guarantee covers what is charged to it or below it; what is charged above is its burst.
        if charged != team:
            own.burst_milli += milli
            if charged in way:
                levels[way.index(charged) + 1][charged, pool].burst_milli -= milli
    for depth in range(max(levels, default=0), 1, -1):
        for (team, pool), use in levels[depth].items():
            above = levels[depth - 1][names.ways[team][-2], pool]
            above.milli += use.milli
            above.burst_milli += use.burst_milli
    return {key: use for level in levels.values() for key, use in level.items()}


def _pools(names: LabelNames, plan: _LastPlan) -> Iterator[Metric]:
    """Return the pools' families: devices as the tables have them, fragmentation as the last cycle found it."""
    labels = ("pool",)
    total = GaugeMetricFamily(
        "chamber_pool_gpus",
        "GPUs of the pool's nodes, whatever their state; a slice counts as its share.",
        labels=labels,
    )
    whole = GaugeMetricFamily(
        "chamber_pool_whole_gpus", "GPUs of the pool's nodes that are not cut into slices.", labels=labels
    )
    slices = GaugeMetricFamily(
        "chamber_pool_slices",
        "MIG slices and replicas of the pool's nodes, by their type.",
        labels=("pool", "gpu_type"),
    )
    slice_gpus = GaugeMetricFamily(
        "chamber_pool_slice_gpus", "What these slices count as, in GPUs.", labels=("pool", "gpu_type")
    )
    given = GaugeMetricFamily("chamber_pool_in_use_gpus", "GPUs given to workloads.", labels=labels)
    down = GaugeMetricFamily(
        "chamber_pool_unavailable_gpus",
        "GPUs nobody can get now: of nodes that are not ready, cordoned or out of touch, or still being emptied.",
        labels=labels,
    )
    idle = GaugeMetricFamily(
        "chamber_pool_idle_gpus",
        "GPUs given to nobody that newcomers could take.",
        labels=labels,
    )
    block = GaugeMetricFamily(
        "chamber_pool_largest_free_block_gpus", "Most whole GPUs idle on one node.", labels=labels
    )
    for key, pool in _devices().items():
        label = (names.pools.get(key, key),)
        total.add_metric(label, _gpus(pool.capacity_milli))
        whole.add_metric(label, pool.whole)
        for gpu_type, (count, milli) in sorted(pool.slices.items()):
            slices.add_metric((*label, gpu_type), count)
            slice_gpus.add_metric((*label, gpu_type), _gpus(milli))
        given.add_metric(label, _gpus(pool.allocated_milli))
        down.add_metric(label, _gpus(pool.unavailable_milli))
        idle.add_metric(label, _gpus(pool.capacity_milli - pool.allocated_milli - pool.unavailable_milli))
        block.add_metric(label, pool.largest_block)
    fragmentation = GaugeMetricFamily(
        "chamber_pool_fragmentation_ratio",
        "Part of the pool's free GPUs that its typical requests could not use, by the last cycle.",
        labels=labels,
    )
    for row in plan.pools:
        if (slug := names.pools.get(_hex(row["pool"]))) is not None:
            fragmentation.add_metric((slug,), row["fragmentation"])
    yield from (total, whole, slices, slice_gpus, given, down, idle, block, fragmentation)


@dataclass(slots=True)
class _Devices:
    """A pool's devices, added up; `slices` are their number and milli-GPUs by type."""

    whole: int = 0
    slices: dict[str, tuple[int, int]] = field(default_factory=dict)
    capacity_milli: int = 0
    allocated_milli: int = 0
    unavailable_milli: int = 0
    largest_block: int = 0


def _devices() -> dict[str, _Devices]:
    """Return the devices by pool (2 queries; added up by the database, a few rows for each pool)."""
    present = Device.objects.filter(node__gone_at__isnull=True, node__pool__isnull=False).order_by()
    # GPUs in one row, whatever their type.
    cut = Case(When(CUT, then=F("gpu_type")), default=None, output_field=CharField())
    sums = present.annotate(cut=cut).values_list("node__pool", "slicing", "cut")
    found: dict[str, _Devices] = defaultdict(_Devices)
    for pool, slicing, gpu_type, devices, capacity, allocated, gone in sums.annotate(
        devices=Count("id"),
        capacity=Sum("share_milli"),
        allocated=Sum("allocated_milli"),
        unavailable=Sum(UNAVAILABLE_MILLI),
    ):
        its = found[pool.hex]
        its.capacity_milli += capacity
        its.allocated_milli += allocated
        its.unavailable_milli += gone
        if slicing == DeviceSlicing.WHOLE:
            its.whole += devices
        else:
            count, milli = its.slices.get(gpu_type, (0, 0))
            its.slices[gpu_type] = (count + devices, milli + capacity)
    whole = present.filter(~OUT_OF_SERVICE, allocated_milli=0, occupied_milli=0, slicing=DeviceSlicing.WHOLE)
    # Counted by node, and each count that there is told once.
    blocks = whole.values("node__pool", "node").annotate(block=Count("id")).values_list("node__pool", "block")
    for pool, block in blocks.distinct():
        found[pool.hex].largest_block = max(found[pool.hex].largest_block, block)
    return found


def _workloads() -> Iterator[Metric]:
    """Return how many workloads are open, and why who waits waits (1 query)."""
    by_status, by_reason = Counter[str](dict.fromkeys(OPEN, 0)), Counter[str]()
    rows = Workload.objects.filter(status__in=OPEN).order_by().values_list("status", "reason_code")
    for status, reason, count in rows.annotate(count=Count("id")):
        by_status[status] += count
        if status == Status.PENDING:
            by_reason[reason or NOT_DECIDED] += count
    yield _gauge("chamber_workloads", "Workloads that have not ended, by status.", "status", by_status)
    yield _gauge(
        "chamber_workloads_pending", "Workloads that wait, by the reason why they do.", "reason", by_reason
    )


def _cluster_link(now: datetime) -> Iterator[Metric]:
    """Return how the clusters' agents keep in touch (1 query)."""
    labels = ("cluster",)
    connected = GaugeMetricFamily(
        "chamber_cluster_connected", "1 while the cluster's agent is in touch, else 0.", labels=labels
    )
    lag = GaugeMetricFamily(
        "chamber_cluster_lag_seconds", "Time since the cluster's agent was last heard.", labels=labels
    )
    behind = GaugeMetricFamily(
        "chamber_cluster_generations_behind",
        "Changes of what the cluster is to run that its agent has not confirmed.",
        labels=labels,
    )
    rejected = CounterMetricFamily(
        "chamber_cluster_rejected_messages",
        "Messages of the cluster's agent that were refused.",
        labels=labels,
    )
    fields = (
        "name",
        "connected",
        "last_seen_at",
        "desired_generation",
        "seen_generation",
        "rejected_messages",
    )
    kept = Cluster.objects.filter(released_at=None)  # of others nobody is to hear
    for name, is_connected, seen_at, desired, seen, refused in kept.values_list(*fields):
        connected.add_metric((name,), int(is_connected))
        if seen_at is not None:
            lag.add_metric((name,), max(0.0, (now - seen_at).total_seconds()))
        behind.add_metric((name,), max(0, desired - seen))
        rejected.add_metric((name,), refused)
    yield from (connected, lag, behind, rejected)


def _parts(plan: _LastPlan) -> Iterator[Metric]:
    """Return when the beat, the workers and the scheduler last showed that they live (2 queries)."""
    looked_at = Turn.objects.filter(pk=1).values_list("looked_at", flat=True).first()
    last = max((at for at in (plan.began_at, looked_at) if at is not None), default=None)
    succeeded = GaugeMetricFamily(
        "chamber_cycle_last_success_timestamp_seconds",
        "When the scheduler last looked at the tables successfully, whether or not there was anything to decide.",
    )
    if last is not None:
        succeeded.add_metric((), last.timestamp())
    beat = GaugeMetricFamily(
        "chamber_beat_last_seen_timestamp_seconds", "When a heartbeat of the beat was last carried out."
    )
    workers = GaugeMetricFamily(
        "chamber_worker_last_seen_timestamp_seconds",
        "When a worker of the queue last carried out a heartbeat.",
        labels=("queue",),
    )
    listening: dict[str, datetime] = {}
    for name, at in Mark.objects.values_list("name", "at"):
        for part in marks.parts_of(name):
            listening[part] = max(at, listening.get(part, at))
        if name == "beat":
            beat.add_metric((), at.timestamp())
        elif name.startswith("worker:"):
            workers.add_metric((name.removeprefix("worker:"),), at.timestamp())
    parts = GaugeMetricFamily(
        "chamber_part_last_seen_timestamp_seconds",
        "When a process of the part that listens, web or live, last said that it lives.",
        labels=("part",),
    )
    for part, at in sorted(listening.items()):
        parts.add_metric((part,), at.timestamp())
    yield from (succeeded, beat, workers, parts)


def _database() -> Iterator[Metric]:
    """Return how large the database is, and its disk with what is free there where they are known (1 query)."""
    found = storage.read()
    size = GaugeMetricFamily("chamber_database_size_bytes", "Size of the database with its indexes.")
    disk = GaugeMetricFamily(
        "chamber_database_disk_bytes",
        "Size of the disk of the database, measured or as CHAMBER_DATABASE_DISK_GIB says.",
    )
    free = GaugeMetricFamily(
        "chamber_database_disk_free_bytes", "What is free of that disk, where it can be measured."
    )
    for family, amount in ((size, found.size), (disk, found.disk), (free, found.free)):
        if amount is not None:
            family.add_metric((), amount)
    yield from (size, disk, free)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _gpus(milli: int) -> float:
    return milli / WHOLE_DEVICE_MILLI


def _hex(key: str) -> str:
    """Return an id as its 32 hexadecimal digits."""
    return key.replace("-", "")
