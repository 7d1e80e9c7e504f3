"""Workloads as a scenario describes them: one row each, before they are named one by one and placed."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine import (
    GPU_MILLI,
    RESERVED_PRIORITY,
    AfterDeadline,
    AfterPreemption,
    DataSet,
    DependencyState,
    GpuShare,
    Memory,
    OpenStatus,
    PoolInfo,
    Request,
    Toleration,
    Topology,
    WorkloadInfo,
)
from scheduling.engine.model.quantities import counted

from .circles import first_circle
from .document import ScenarioError, Sequence, Value
from .fields import Fields, number_of, string_of
from .pools import MAX_CPUS, MAX_GPUS, MAX_MIB, NODE_LEVEL
from .rows import AllNames, KindNames, row_names

MAX_PRIORITY = 1_000_000
MAX_PODS = 100_000
MAX_PLACED_PODS = 1_000_000
MAX_MEMBERS = 1_000_000
MAX_PREEMPTIONS = 1_000_000
FRACTIONS_MILLI = (250, 500, 750)
REQUEST_KEYS = ("gpus", "gpu_memory_mib", "gpu_milli")

WORKLOAD_KEYS = frozenset(
    {
        "name",
        "count",
        "team",
        "pool",
        "priority",
        "class",
        "pods",
        *REQUEST_KEYS,
        "cpu",
        "memory_mib",
        "gpu_types",
        "partition",
        "gang",
        "min_pods",
        "topology",
        "status",
        "nodes",
        "submitted",
        "started",
        "checkpointed",
        "time_limit",
        "preemptions",
        "depends_on",
        "held",
        "array",
        "max_parallel",
        "start_after",
        "deadline",
        "on_deadline",
        "job_class",
        "tolerations",
        "data",
        "on_preemption",
        "duration",
    }
)


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One row: what its workloads have in common, and what is only known once all rows are read.

    `workload` has no id, no times and no placements yet. `nodes` is None where the loader is to place it.
    Times are relative to now, in milliseconds. `duration_ms` is how long it runs, for a clock that runs, and
    `depends_on` whom it then waits for.
    """

    line: int
    names: tuple[str, ...]
    workload: WorkloadInfo
    nodes: tuple[str, ...] | None
    nodes_line: int
    submitted_ms: int | None
    started_ms: int | None
    checkpointed_ms: int | None
    duration_ms: int | None
    depends_on: tuple[str, ...]
    start_after_ms: int | None = None
    deadline_ms: int | None = None


def read_workloads(
    rows: Iterable[Value], known: AllNames, pools: tuple[PoolInfo, ...], *, future: bool = False
) -> list[WorkloadRow]:
    """Return the rows of `workloads`; every name they use is known. Where `future`, some are yet to be submitted."""
    found: list[WorkloadRow] = []
    dependent: list[tuple[Fields, WorkloadRow]] = []
    placed_pods = 0
    for value in rows:
        fields = Fields(value, "a workload", WORKLOAD_KEYS)
        names = row_names(fields, "workload", known.workloads)
        row = _row(fields, names, known, pools, future=future)
        found.append(row)
        if row.workload.status is not OpenStatus.PENDING:
            placed_pods += len(names) * row.workload.pods
            if placed_pods > MAX_PLACED_PODS:
                raise ScenarioError(
                    f"{fields.what}: that makes {placed_pods:,} placed pods; allowed are {MAX_PLACED_PODS:,}",
                    fields.line,
                )
        if row.depends_on:
            dependent.append((fields, row))
    for fields, row in dependent:
        _check_dependencies(fields, row, known.workloads)
    _check_circles(dependent)
    return found


def _row(
    fields: Fields, names: tuple[str, ...], known: AllNames, pools: tuple[PoolInfo, ...], *, future: bool
) -> WorkloadRow:
    status = fields.choice("status", OpenStatus, OpenStatus.PENDING)
    pods = fields.integer("pods", 1, 1, MAX_PODS)
    wanted_pools = _pools(fields, known.pools)
    workload = WorkloadInfo(
        id="",
        name="",
        team=known.teams.check(fields, "team", fields.required_text("team")),
        request=_request(fields),
        priority=_priority(fields),
        pods=pods,
        min_pods=_min_pods(fields, pods),
        pools=wanted_pools,
        cpu_milli=fields.milli("cpu", 0, 0, MAX_CPUS),
        memory_mib=fields.integer("memory_mib", 0, 0, MAX_MIB),
        gpu_types=fields.texts("gpu_types"),
        partition=fields.text("partition"),
        tolerations=tuple(_toleration(fields, item) for item in fields.sequence("tolerations")),
        topology=_topology(fields, wanted_pools, pools),
        data=_data(fields),
        status=status,
        time_limit_ms=fields.duration("time_limit", low=1),
        preemptions_24h=fields.integer("preemptions", 0, 0, MAX_PREEMPTIONS),
        held=fields.boolean("held", False),
        dependency=_dependency(fields, status),
        on_preemption=fields.choice("on_preemption", AfterPreemption, AfterPreemption.REQUEUE),
        on_deadline=fields.choice("on_deadline", AfterDeadline, AfterDeadline.FAIL),
        job_class=fields.text("job_class") or "",
        array=fields.text("array"),
        max_parallel=_max_parallel(fields),
    )
    start_after_ms, deadline_ms = _window(fields)
    return WorkloadRow(
        line=fields.line,
        names=names,
        workload=workload,
        nodes=_nodes(fields, workload, known.nodes),
        nodes_line=fields.line_of("nodes"),
        submitted_ms=_submitted(fields, status, future=future),
        started_ms=fields.past("started"),
        checkpointed_ms=fields.past("checkpointed"),
        duration_ms=fields.duration("duration", low=1),
        depends_on=fields.texts("depends_on"),
        start_after_ms=start_after_ms,
        deadline_ms=deadline_ms,
    )


def _max_parallel(fields: Fields) -> int | None:
    """How many members of its array may be placed at once; given with the array, and only then."""
    if fields.has("array") is not fields.has("max_parallel"):
        given, missing = ("array", "max_parallel") if fields.has("array") else ("max_parallel", "array")
        raise fields.refusal(given, f"allowed is {given} with {missing}")
    return fields.optional_integer("max_parallel", 1, MAX_MEMBERS)


def _window(fields: Fields) -> tuple[int | None, int | None]:
    """When it starts at the earliest, and by when it must be Queued."""
    start_after, deadline = fields.moment("start_after"), fields.moment("deadline")
    if start_after is not None and deadline is not None and deadline <= start_after:
        raise fields.refusal("deadline", "allowed are times after start_after")
    return start_after, deadline


def _submitted(fields: Fields, status: OpenStatus, *, future: bool) -> int | None:
    """When it is submitted: before now, but for what a clock that runs will see arrive."""
    return fields.moment("submitted") if future and status is OpenStatus.PENDING else fields.past("submitted")


def _priority(fields: Fields) -> int:
    """The priority; a class that is given besides must be the one that follows from it."""
    priority = fields.integer("priority", 50, 0, MAX_PRIORITY)
    given = fields.text("class")
    follows = "reserved" if priority >= RESERVED_PRIORITY else "elastic"
    if given is not None and given != follows:
        raise fields.refusal(
            "class",
            f'priority {priority:,} is "{follows}": allowed are "reserved" from priority {RESERVED_PRIORITY} '
            'on and "elastic" below',
        )
    return priority


def _request(fields: Fields) -> Request:
    """What a pod asks for, by the one key that says so."""
    given = [key for key in REQUEST_KEYS if fields.has(key)]
    if len(given) > 1:
        raise fields.refusal(
            given[1], f"{given[0]} is given as well; allowed is one of {', '.join(REQUEST_KEYS)}"
        )
    memory_mib = fields.optional_integer("gpu_memory_mib", 1, MAX_MIB)
    if memory_mib is not None:
        return Memory(memory_mib)
    share_milli = fields.optional_integer("gpu_milli", 1, GPU_MILLI)
    return GpuShare(_gpus_milli(fields) if share_milli is None else share_milli)


def _gpus_milli(fields: Fields) -> int:
    """Whole GPUs or a quarter, a half or three quarters of one."""
    value = fields.value("gpus")
    if value is None:
        return GPU_MILLI
    number = number_of(value)
    allowed = f"allowed are 0.25, 0.5, 0.75 and whole numbers from 1 to {MAX_GPUS:,}"
    if number is None or not 0 < number <= MAX_GPUS:
        raise fields.refusal("gpus", allowed)
    milli = number * GPU_MILLI
    if milli % GPU_MILLI == 0 or milli in FRACTIONS_MILLI:
        return int(milli)
    if number > 1:
        raise fields.refusal("gpus", f"the nearest are {int(number)} and {int(number) + 1}: {allowed}")
    raise fields.refusal("gpus", allowed)


def _min_pods(fields: Fields, pods: int) -> int:
    """With how many pods it starts: all of them for a gang, one for what is no gang."""
    gang = fields.boolean("gang", True)
    if not gang and fields.has("min_pods") and fields.integer("min_pods", 1, 1, pods) > 1:
        raise fields.refusal("min_pods", "gang is false, which is a min_pods of 1")
    return fields.integer("min_pods", pods if gang else 1, 1, pods)


def _pools(fields: Fields, pool_names: KindNames) -> tuple[str, ...] | None:
    """The pools it may use, best first; None for any."""
    value = fields.value("pool")
    if value is None:
        return None
    is_list = isinstance(value, Sequence)
    wanted = fields.texts("pool") if is_list else (fields.text("pool") or "",)
    if not wanted or len(set(wanted)) < len(wanted):
        raise fields.refusal("pool", "allowed is one pool, or a list of different pools")
    return tuple(pool_names.check(fields, "pool", pool) for pool in wanted)


def _data(fields: Fields) -> tuple[DataSet, ...]:
    """The data sets that it mounts, each with the clusters that have it: `{imagenet: [east]}`."""
    named = fields.mapping("data")
    if named is None:
        return ()
    return tuple(DataSet(name, tuple(sorted(set(named.texts(name))))) for name in named)


def _toleration(fields: Fields, item: Value) -> Toleration:
    key, equals, value = string_of(item, f"{fields.what}: tolerations").partition("=")
    if not key:
        raise fields.refusal("tolerations", 'allowed are "key" and "key=value"')
    return Toleration(key, value if equals else None)


def _topology(fields: Fields, wanted: tuple[str, ...] | None, pools: tuple[PoolInfo, ...]) -> Topology:
    """The levels it asks for, each a level of one of its pools or the node."""
    topology = fields.mapping("topology", {"required", "preferred"})
    if topology is None:
        return Topology()
    known = {level for pool in pools if wanted is None or pool.id in wanted for level in pool.topology}
    for key in topology:
        if topology.has(key) and topology.text(key) not in known | {NODE_LEVEL}:
            levels = ", ".join([*sorted(known), NODE_LEVEL])
            raise topology.refusal(key, f"allowed are the levels of its pools: {levels}")
    return Topology(topology.text("required"), topology.text("preferred"))


def _nodes(fields: Fields, workload: WorkloadInfo, node_names: KindNames) -> tuple[str, ...] | None:
    """The node of each pod of a placed workload; None where it names none. A pending one lies nowhere yet."""
    nodes = fields.texts("nodes")
    for node, item in zip(nodes, fields.sequence("nodes"), strict=True):
        node_names.check(fields, "nodes", node, item.line)
    if not nodes or workload.status is OpenStatus.PENDING:
        return None
    least = 1 if workload.status is OpenStatus.STOPPING else workload.min_pods
    if not least <= len(nodes) <= workload.pods:
        count = str(least) if least == workload.pods else f"{least} to {workload.pods}"
        raise fields.refusal(
            "nodes", f"it names {counted(len(nodes), 'node')}: allowed are {count}, one for each pod"
        )
    return nodes


def _dependency(fields: Fields, status: OpenStatus) -> DependencyState:
    """Everybody in a scenario is unfinished, so that a pending workload still waits for all it depends on."""
    waits = status is OpenStatus.PENDING and fields.sequence("depends_on")
    return DependencyState.WAITING if waits else DependencyState.NONE


def _check_dependencies(fields: Fields, row: WorkloadRow, names: KindNames) -> None:
    for name, item in zip(row.depends_on, fields.sequence("depends_on"), strict=True):
        names.check(fields, "depends_on", name, item.line)
        if name in row.names:
            raise fields.refusal("depends_on", f"{name} is the workload itself: allowed are others")


def _check_circles(dependent: Iterable[tuple[Fields, WorkloadRow]]) -> None:
    """Refuse workloads that wait for each other. All names of a row wait for the same ones, so its first stands for
    them.
    """
    rows = {row.names[0]: (fields, row) for fields, row in dependent if row.names}
    first = {name: row.names[0] for _, row in rows.values() for name in row.names}
    needs = {key: [first.get(name, name) for name in row.depends_on] for key, (_, row) in rows.items()}
    circle = first_circle(needs)
    if circle:
        fields, _ = rows[circle[0]]
        way = " and ".join(
            f"{a} waits for {b}" for a, b in zip(circle, [*circle[1:], circle[0]], strict=True)
        )
        raise fields.refusal("depends_on", f"{way}: none of them would ever start")
