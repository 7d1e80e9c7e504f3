"""Pools, their policies and their nodes, as a scenario describes them."""

from dataclasses import dataclass, replace
from zoneinfo import available_timezones

from scheduling.engine import (
    GPU_MILLI,
    DeviceInfo,
    ElasticPreemption,
    Fairness,
    NodeInfo,
    NodeOrder,
    PeakHours,
    Policy,
    PoolInfo,
    Queueing,
    Sharing,
    Slicing,
    Taint,
    TypicalRequest,
    WeeklyHours,
    labels_of,
    weekly_hours,
)

from .document import ScenarioError, Value
from .fields import Fields, shorten, show, string_of
from .rows import AllNames, KindNames, row_name, row_names

MAX_GPUS = 1024
MAX_ALL_GPUS = 10_000_000
MAX_MIB = 2**40
MAX_CPUS = 1_000_000
MAX_WEIGHT = 1_000_000
MAX_LEVELS = 16
NODE_LEVEL = "node"
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

POOL_KEYS = frozenset({"name", "policy", "topology", "recent", "nodes"})
POLICY_KEYS = frozenset(
    {
        "queueing",
        "elastic_preemption",
        "placement",
        "fairness",
        "usage_half_life",
        "min_runtime",
        "max_preemptions",
        "default_time_limit",
        "sharing",
        "peak",
    }
)
PEAK_KEYS = frozenset({"hours", "zone", "max_gpus", "classes"})
NODE_KEYS = frozenset(
    {
        "name",
        "count",
        "gpus",
        "gpu_type",
        "gpu_memory_mib",
        "cpu",
        "memory_mib",
        "labels",
        "partition",
        "ready",
        "cordoned",
        "taints",
        "foreign",
        "cluster",
        "sharing",
        "slices",
        "slice_milli",
    }
)
SLICES = (Slicing.MIG, Slicing.REPLICAS)


@dataclass(frozen=True, slots=True)
class Machines:
    """All pools and all nodes, both in the order of the file."""

    pools: tuple[PoolInfo, ...]
    nodes: tuple[NodeInfo, ...]


def read_machines(rows: tuple[Value, ...], known: AllNames) -> Machines:
    """Return the pools and nodes of the document's `pools`."""
    pools: list[PoolInfo] = []
    nodes: list[NodeInfo] = []
    all_gpus = 0
    for row in rows:
        fields = Fields(row, "a pool", POOL_KEYS)
        name = row_name(fields, "pool")
        known.pools.add(name, fields.line_of("name"))
        pools.append(
            PoolInfo(
                id=name,
                name=name,
                policy=_policy(fields.mapping("policy", POLICY_KEYS)),
                topology=_topology(fields),
                recent=tuple(_recent(item) for item in fields.sequence("recent")),
            )
        )
        cut: dict[str, bool] = {}
        for item in fields.sequence("nodes"):
            of_row = Fields(item, f"{fields.what}: a node", NODE_KEYS)
            names, node = _node(of_row, name, known.nodes)
            _check_type(of_row, node, cut)
            all_gpus += len(names) * len(node.devices)
            if all_gpus > MAX_ALL_GPUS:
                raise of_row.refusal(
                    "gpus",
                    f"that makes {all_gpus:,} in all: allowed are {MAX_ALL_GPUS:,} on all nodes together",
                )
            nodes.extend(replace(node, id=each, name=each) for each in names)
    return Machines(tuple(pools), tuple(nodes))


def _policy(fields: Fields | None) -> Policy:
    default = Policy()
    if fields is None:
        return default
    half_life_ms = fields.duration("usage_half_life", low=1)
    min_runtime_ms = fields.duration("min_runtime")
    return Policy(
        queueing=fields.choice("queueing", Queueing, default.queueing),
        elastic_preemption=fields.choice("elastic_preemption", ElasticPreemption, default.elastic_preemption),
        placement=fields.choice("placement", NodeOrder, default.placement),
        fairness=fields.choice("fairness", Fairness, default.fairness),
        usage_half_life_ms=default.usage_half_life_ms if half_life_ms is None else half_life_ms,
        min_runtime_ms=default.min_runtime_ms if min_runtime_ms is None else min_runtime_ms,
        max_preemptions=fields.optional_integer("max_preemptions", 0, 1_000_000),
        default_time_limit_ms=fields.duration("default_time_limit", low=1),
        sharing=fields.choice("sharing", Sharing, default.sharing),
        peak=_peak(fields.mapping("peak", PEAK_KEYS)),
    )


def _peak(fields: Fields | None) -> PeakHours | None:
    """The pool's peak hours; they say what is kept out, and leave some of the week open."""
    if fields is None:
        return None
    hours = tuple(each for item in fields.sequence("hours") for each in _hours(fields, item))
    fields.require("hours")
    zone = fields.text("zone") or "UTC"
    if zone not in available_timezones():
        raise fields.refusal("zone", 'allowed are names of time zones, such as "UTC" and "Europe/Berlin"')
    if not fields.has("max_gpus") and not fields.sequence("classes"):
        raise ScenarioError(
            f"{fields.what} keeps nothing out; a max_gpus or classes are required", fields.line
        )
    peak = PeakHours(hours, zone, fields.optional_milli("max_gpus", 0, MAX_ALL_GPUS), fields.texts("classes"))
    if not hours or peak.changes_at(0) is None:
        raise fields.refusal("hours", "allowed are hours that leave a part of the week")
    return peak


def _hours(fields: Fields, item: Value) -> tuple[WeeklyHours, ...]:
    found = weekly_hours(string_of(item, f"{fields.what}: hours"))
    if found is None:
        raise ScenarioError(
            f'{fields.what}: hours has {show(item)}; allowed are days and times such as "mon-fri 08:00-18:00"',
            item.line,
        )
    return found


def _topology(fields: Fields) -> tuple[str, ...]:
    levels = fields.texts("topology")
    if len(levels) > MAX_LEVELS:
        raise fields.refusal("topology", f"it has {len(levels):,} levels: allowed are {MAX_LEVELS}")
    for level, item in zip(levels, fields.sequence("topology"), strict=True):
        if level == NODE_LEVEL:
            raise ScenarioError(
                f'{fields.what}: topology lists "{NODE_LEVEL}"; it is always the innermost and not listed',
                item.line,
            )
        if levels.count(level) > 1:
            raise ScenarioError(
                f"{fields.what}: topology lists {shorten(level)} twice; levels are unique", item.line
            )
    return levels


def _recent(item: Value) -> TypicalRequest:
    fields = Fields(item, "a recent request", {"gpus", "weight"})
    fields.require("gpus")
    milli = fields.milli("gpus", GPU_MILLI, 0, MAX_GPUS)
    if milli == 0 or (milli > GPU_MILLI and milli % GPU_MILLI):
        raise fields.refusal("gpus", f"allowed are parts of one GPU and whole numbers from 1 to {MAX_GPUS:,}")
    return TypicalRequest(milli, fields.number("weight", 1.0, 0, MAX_WEIGHT))


def _node(fields: Fields, pool: str, taken: KindNames) -> tuple[tuple[str, ...], NodeInfo]:
    """The names of a row's nodes, in the order of their numbers, and what they have in common."""
    names = row_names(fields, "node", taken)
    node = NodeInfo(
        id="",
        name="",
        pool=pool,
        devices=_devices(fields),
        cluster=fields.text("cluster") or "",
        cpu_milli=fields.optional_milli("cpu", 0, MAX_CPUS),
        memory_mib=fields.optional_integer("memory_mib", 0, MAX_MIB),
        labels=_labels(fields),
        taints=tuple(_taint(item, fields.what) for item in fields.sequence("taints")),
        partition=fields.text("partition"),
        ready=fields.boolean("ready", True),
        cordoned=fields.boolean("cordoned", False),
        sharing=fields.boolean("sharing", True),
    )
    return names, node


def _devices(fields: Fields) -> tuple[DeviceInfo, ...]:
    """The node's GPUs, or slices of GPUs; those used by others are the last ones."""
    fields.require("gpus")
    gpus = fields.integer("gpus", 0, 0, MAX_GPUS)
    foreign = fields.integer("foreign", 0, 0, gpus)
    gpu_type = fields.text("gpu_type") or ""
    memory_mib = fields.optional_integer("gpu_memory_mib", 1, MAX_MIB)
    slicing, share_milli = _slices(fields)
    return tuple(
        DeviceInfo(index, gpu_type, memory_mib, index >= gpus - foreign, slicing, share_milli)
        for index in range(gpus)
    )


def _slices(fields: Fields) -> tuple[Slicing, int]:
    """How the node's devices were cut from GPUs, and the share of a GPU that each counts as."""
    text = fields.text("slices")
    share_milli = fields.integer("slice_milli", GPU_MILLI, 1, GPU_MILLI)
    if text is None:
        if share_milli != GPU_MILLI:
            raise fields.refusal("slice_milli", f"it needs slices: allowed are {', '.join(SLICES)}")
        return Slicing.WHOLE, GPU_MILLI
    if text not in SLICES:
        raise fields.refusal("slices", f"allowed are {', '.join(SLICES)}")
    if text == Slicing.MIG and not fields.has("gpu_type"):
        raise fields.refusal("slices", "a gpu_type is required: MIG slices go to workloads that name it")
    return Slicing(text), share_milli


def _check_type(fields: Fields, node: NodeInfo, cut: dict[str, bool]) -> None:
    """Refuse a type that whole GPUs and slices of a pool have in common: who names it would not know what he gets."""
    for device in node.devices[:1]:
        is_cut = device.slicing is not Slicing.WHOLE
        if cut.setdefault(device.gpu_type, is_cut) != is_cut and fields.has("gpu_type"):
            raise fields.refusal(
                "gpu_type",
                "whole GPUs and slices of the pool would have one type; allowed is one of its own for each",
            )


def _labels(fields: Fields) -> tuple[tuple[str, str], ...]:
    labels = fields.mapping("labels")
    if labels is None:
        return ()
    return labels_of({key: labels.required_text(key) for key in labels})


def _taint(item: Value, what: str) -> Taint:
    """The taint of ``key=value:Effect``; the value may be left out, and so may an effect of NoSchedule."""
    text = string_of(item, f"{what}: taints")
    pair, colon, effect = text.partition(":")
    key, _, value = pair.partition("=")
    if not key or (colon and effect not in TAINT_EFFECTS):
        effects = ", ".join(TAINT_EFFECTS)
        raise ScenarioError(
            f'{what}: taints has {show(item)}; allowed is "key=value:EFFECT" with {effects}', item.line
        )
    return Taint(key, value, effect if colon else TAINT_EFFECTS[0])
