"""An organisation that lives: work comes and goes, nodes fail, the tree is edited, plans are carried out.

Everything it does it does by chance, from the generator it is given, so that one seed is one life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from scheduling.engine import (
    GPU_MILLI,
    HOUR_MS,
    PLACED,
    AfterPreemption,
    DependencyState,
    DeviceInfo,
    ElasticPreemption,
    Fairness,
    GpuShare,
    Memory,
    NodeInfo,
    NodeOrder,
    OpenStatus,
    Plan,
    Policy,
    PoolInfo,
    Queueing,
    ReasonCode,
    Request,
    Sharing,
    Slicing,
    Snapshot,
    Taint,
    TeamInfo,
    TeamShare,
    Toleration,
    Topology,
    TypicalRequest,
    WorkloadInfo,
    labels_of,
)
from scheduling.tests.engine.build import MINUTE, NOW

RESERVATIONS = (0, 0, 0, 1000, 2000, 4000)
LIMITS = (None, None, None, None, 0, 50, 100)
MAXIMA = (None, None, None, None, 3000, 6000)
EXISTING = (OpenStatus.STARTING, OpenStatus.RUNNING, OpenStatus.STOPPING)
"""Statuses of those whose pods exist."""


class Organisation:
    """Its rows at the moment, and what can happen to them: a small one by chance, or that of a ``world``.

    ``bound``: each team's pods are in a namespace of their own, so that they share GPUs with each other only.
    """

    def __init__(self, chance: Random, *, bound: bool = False, world: Snapshot | None = None) -> None:
        self.now = NOW
        self._bound = bound
        self._count = 0
        self._told_to_wait: set[str] = set()
        if world is None:
            self._found(chance)
        else:
            self.pools = world.pools
            self.teams = {team.id: team for team in world.teams}
            self.nodes = {node.id: node for node in world.nodes}
            self.workloads = {workload.id: workload for workload in world.workloads}

    def _found(self, chance: Random) -> None:
        """Begin with one or two pools, a few teams and nodes, and no work."""
        names = ("main", "spare")[: chance.choice((1, 1, 2))]
        levels = chance.choice(((), (), ("rack",), ("block", "rack")))
        self.pools = tuple(_pool(chance, name, levels) for name in names)
        self.teams = {name: self._team(chance, name, None) for name in ("acme", "labs")}
        for name in ("acme-a", "acme-b", "labs-a", "acme-a-x")[: chance.randint(1, 4)]:
            self.teams[name] = self._team(chance, name, name.rpartition("-")[0])
        self.nodes = {}
        self.workloads = {}
        for _ in range(chance.randint(1, 3)):
            self.add_node(chance)

    @property
    def snapshot(self) -> Snapshot:
        """The rows as they are."""
        teams, nodes, workloads = self.teams.values(), self.nodes.values(), self.workloads.values()
        found = Snapshot(self.pools, tuple(teams), tuple(nodes), tuple(workloads))
        return marked(found) if self._bound else found

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count:03d}"

    # --- Work -----------------------------------------------------------------------------------------------

    def submit(self, chance: Random) -> None:
        """Somebody submits a workload."""
        id_, pods = self._name("w"), chance.choice((1, 1, 1, 2, 3, 4))
        pools = [None, (self.pools[0].id,), tuple(pool.id for pool in reversed(self.pools))]
        fields: dict[str, Any] = {
            "priority": chance.choice((10, 50, 50, 50, 60, 90, 100, 120)),
            "pods": pods,
            "min_pods": chance.choice((pods, pods, 1)),
            "pools": chance.choice(pools),
            "cpu_milli": chance.choice((0, 0, 1000)),
            "time_limit_ms": chance.choice((None, None, 10 * MINUTE, 90 * MINUTE)),
            "submitted_at": self.now - chance.randint(0, 3) * MINUTE,
            "on_preemption": chance.choice(tuple(AfterPreemption)),
            **chance.choice(ODD_WISHES),
        }
        shares = [GpuShare(milli) for milli in (1000, 1000, 1000, 2000, 4000, 500, 250)]
        requests: list[Request] = [*shares, Memory(20_000)]
        team = chance.choice(sorted(self.teams))
        self.workloads[id_] = WorkloadInfo(id_, id_, team, chance.choice(requests), **fields)

    def start(self, chance: Random) -> None:
        """The cluster starts a Queued workload, unless it was told to wait for others, or runs a Starting one."""
        workload = self._some(chance, OpenStatus.QUEUED, OpenStatus.STARTING)
        if workload is None:
            return
        if workload.status is OpenStatus.STARTING:
            self._put(replace(workload, status=OpenStatus.RUNNING, started_at=self.now))
        elif workload.id not in self._told_to_wait:
            self._put(replace(workload, status=OpenStatus.STARTING))

    def crowded(self) -> list[str]:
        """Nodes on which more exists than there is room for."""
        held: Counter[tuple[str, int | str]] = Counter()
        for workload in self.workloads.values():
            for pod in workload.placements if workload.status in EXISTING else ():
                held[pod.node, "cpu"] += workload.cpu_milli
                held[pod.node, "memory"] += workload.memory_mib
                held.update({(pod.node, share.index): share.milli for share in pod.devices})
        return [node.id for node in self.nodes.values() if _is_crowded(node, held)]

    def checkpoint(self, chance: Random) -> None:
        """A running workload writes a checkpoint."""
        workload = self._some(chance, OpenStatus.RUNNING)
        if workload is not None:
            self._put(replace(workload, checkpointed_at=self.now))

    def finish(self, chance: Random) -> None:
        """A running workload completes; its pods may take a while to go."""
        workload = self._some(chance, OpenStatus.RUNNING)
        if workload is not None:
            self._stop(workload, lingers=chance.random() < 0.3)

    def cancel(self, chance: Random) -> None:
        """Somebody cancels a workload, whatever its status."""
        workload = self._some(chance, OpenStatus.PENDING, *PLACED)
        if workload is not None:
            self._stop(workload, lingers=workload.status in (OpenStatus.STARTING, OpenStatus.RUNNING))

    def fail(self, chance: Random) -> None:
        """A running workload fails and backs off before its next attempt."""
        workload = self._some(chance, OpenStatus.STARTING, OpenStatus.RUNNING)
        if workload is not None:
            self._stop(workload, lingers=True)
            self._put(_waiting(workload, backing_off_until=self.now + chance.randint(1, 30) * MINUTE))

    def clean_up(self, chance: Random) -> None:
        """The cluster reports the pods of somebody who was stopping gone."""
        workload = self._some(chance, OpenStatus.STOPPING)
        if workload is not None:
            del self.workloads[workload.id]

    def hold_or_release(self, chance: Random) -> None:
        """Somebody holds a waiting workload, or releases it."""
        workload = self._some(chance, OpenStatus.PENDING)
        if workload is not None:
            dependency = chance.choice((DependencyState.NONE, DependencyState.NONE, *DependencyState))
            self._put(replace(workload, held=not workload.held, dependency=dependency))

    def _some(self, chance: Random, *statuses: OpenStatus) -> WorkloadInfo | None:
        found = [each for _, each in sorted(self.workloads.items()) if each.status in statuses]
        return chance.choice(found) if found else None

    def _put(self, workload: WorkloadInfo) -> None:
        self.workloads[workload.id] = workload

    def _stop(self, workload: WorkloadInfo, *, lingers: bool) -> None:
        """It is over; the attempt whose pods are still there becomes a row of its own."""
        del self.workloads[workload.id]
        if lingers and workload.placements:
            attempt = self._name(f"{workload.id}.")
            self._put(replace(workload, id=attempt, status=OpenStatus.STOPPING))

    # --- Nodes ----------------------------------------------------------------------------------------------

    def add_node(self, chance: Random) -> None:
        """A node joins."""
        id_ = self._name("n")
        labels = {"block": chance.choice("xy"), "rack": chance.choice("123")}
        if chance.random() < 0.1:
            del labels[chance.choice(sorted(labels))]
        fields: dict[str, Any] = {"labels": labels_of(labels), **chance.choice(ODD_NODES)}
        self.nodes[id_] = NodeInfo(id_, id_, chance.choice(self.pools).id, _devices(chance), **fields)

    def drain(self, chance: Random) -> None:
        """A node is cordoned, or comes back."""
        node = self._node(chance)
        if node is not None:
            self.nodes[node.id] = replace(node, cordoned=not node.cordoned)

    def disconnect(self, chance: Random) -> None:
        """The link to a cluster breaks, or is there again."""
        cluster, online = chance.choice(("", "far")), chance.random() < 0.6
        for node in list(self.nodes.values()):
            if node.cluster == cluster:
                self.nodes[node.id] = replace(node, cluster_online=online)

    def lose_node(self, chance: Random) -> None:
        """A node fails, with or without word of what ran on it; or it is gone altogether."""
        node = self._node(chance)
        if node is None:
            return
        if chance.random() < 0.5:
            self.nodes[node.id] = replace(node, ready=not node.ready)
        else:
            del self.nodes[node.id]
        for workload in list(self.workloads.values()):
            if chance.random() < 0.5 and any(pod.node == node.id for pod in workload.placements):
                self._stop(workload, lingers=False)

    def _node(self, chance: Random) -> NodeInfo | None:
        return self.nodes[chance.choice(sorted(self.nodes))] if self.nodes else None

    # --- Edits ----------------------------------------------------------------------------------------------

    def _team(self, chance: Random, name: str, parent: str | None) -> TeamInfo:
        shares = tuple(
            TeamShare(
                pool.id,
                chance.choice(RESERVATIONS),
                chance.choice(MAXIMA),
                chance.randint(0, 5) * HOUR_MS,
            )
            for pool in self.pools
        )
        burst, maximum = chance.choice(LIMITS), chance.choice(MAXIMA)
        return TeamInfo(name, name, parent, chance.randint(0, 3), burst, maximum, shares)

    def edit_tree(self, chance: Random) -> None:
        """An admin changes a team's numbers, moves it, or adds one."""
        name = chance.choice(sorted(self.teams))
        parent = self.teams[name].parent
        if chance.random() < 0.3:
            below = {team for team in self.teams if team.startswith(name)}
            parent = chance.choice([None, *sorted(set(self.teams) - below)])
            parent = None if parent is not None and self._is_below(parent, name) else parent
        elif chance.random() < 0.3:
            parent, name = name, f"{name}-{self._name('t')}"
        self.teams[name] = self._team(chance, name, parent)

    def _is_below(self, team: str, above: str) -> bool:
        found: str | None = team
        while found is not None and found != above:
            found = self.teams[found].parent
        return found == above

    def edit_policy(self, chance: Random) -> None:
        """An admin changes the rules of a pool, or pauses it."""
        pool = chance.choice(self.pools)
        changed = replace(pool, policy=_policy(chance), paused=chance.random() < 0.15)
        self.pools = tuple(changed if each.id == pool.id else each for each in self.pools)

    def book_usage(self, chance: Random) -> None:
        """Use is booked, and decays."""
        for team in list(self.teams.values()):
            shares = tuple(
                replace(share, usage_gpu_ms=chance.randint(0, 5) * HOUR_MS) for share in team.shares
            )
            self.teams[team.id] = replace(team, shares=shares)

    def wait(self, chance: Random) -> None:
        """Time goes by; once in a while the clock is set back."""
        self.now += chance.choice((1, 60, 600, 3600, 7200, -60)) * 1000

    # --- Plans ----------------------------------------------------------------------------------------------

    def carry_out(self, plan: Plan) -> None:
        """What a plan decides becomes so; whose pods may exist, stops."""
        for gone in plan.preemptions:
            workload = self.workloads[gone.workload]
            self._stop(workload, lingers=workload.status is not OpenStatus.QUEUED)
            if workload.on_preemption is AfterPreemption.REQUEUE:
                self._put(_waiting(workload, preemptions_24h=workload.preemptions_24h + 1))
        for shrink in plan.shrinks:
            workload = self.workloads[shrink.workload]
            lost = tuple(pod for pod in workload.placements if pod.pod_index in shrink.pods)
            rest = tuple(pod for pod in workload.placements if pod.pod_index not in shrink.pods)
            self._put(replace(workload, placements=rest))
            if workload.status is not OpenStatus.QUEUED:
                attempt = self._name(f"{workload.id}.")
                self._put(replace(workload, id=attempt, status=OpenStatus.STOPPING, placements=lost))
        for grow in plan.grows:
            workload = self.workloads[grow.workload]
            self._put(replace(workload, placements=(*workload.placements, *grow.placements)))
        waiting = ReasonCode.WAITING_FOR_VICTIMS
        kept = {keep.workload for keep in plan.keeps if keep.reason and keep.reason.code is waiting}
        self._told_to_wait = kept | {start.workload for start in plan.starts if start.waits_for_victims}
        for start in plan.starts:
            workload = self.workloads[start.workload]
            pods = start.placements
            self._put(replace(workload, status=OpenStatus.QUEUED, pool=start.pool, placements=pods))


def _is_crowded(node: NodeInfo, held: Mapping[tuple[str, int | str], int]) -> bool:
    """Whether more is held of a node than it has."""
    sizes: dict[int | str, int | None] = {"cpu": node.cpu_milli, "memory": node.memory_mib}
    sizes |= {each.index: 0 if each.foreign else each.share_milli for each in node.devices}
    return any(size is not None and held.get((node.id, part), 0) > size for part, size in sizes.items())


ODD_WISHES: tuple[dict[str, Any], ...] = (
    *({},) * 6,
    {"gpu_types": ("A100",)},
    {"gpu_types": ("H100",)},
    {"gpu_types": ("H100", "A100")},
    {"gpu_types": ("mig-1g",)},
    {"gpu_types": ("mig-3g", "mig-1g", "mig-7g")},
    {"gpu_types": ("mig-3g", "H100")},
    {"gpu_types": ("shared",)},
    {"node_selector": (("rack", "1"),)},
    {"partition": "lab"},
    {"tolerations": (Toleration("odd"),)},
    {"topology": Topology(required="rack")},
    {"topology": Topology(required="block", preferred="rack")},
    {"topology": Topology(required="rack", preferred="node")},
    {"topology": Topology(preferred="node")},
    {"memory_mib": 30},
)
Cut = tuple[str, int | None, Slicing, int]
"""A type of slices: its name, memory, how it was cut, its share."""
SLICES: tuple[tuple[Cut, ...], ...] = (
    (("mig-1g", 10_240, Slicing.MIG, 143),),
    (("mig-1g", 10_240, Slicing.MIG, 143), ("mig-3g", 40_960, Slicing.MIG, 429)),
    (("mig-7g", 81_920, Slicing.MIG, 1000),),
    (("shared", 20_480, Slicing.REPLICAS, 250),),
    (("shared", None, Slicing.REPLICAS, 500),),
    (("H100", 81_920, Slicing.WHOLE, 1000), ("mig-3g", 40_960, Slicing.MIG, 429)),
)
ODD_NODES: tuple[dict[str, Any], ...] = (
    *({},) * 6,
    {"cluster": "far"},
    {"cpu_milli": 3000},
    {"memory_mib": 50},
    {"partition": "lab"},
    {"sharing": False},
    {"taints": (Taint("odd"),)},
)

HAPPENINGS: tuple[tuple[int, Callable[[Organisation, Random], None]], ...] = (
    (12, Organisation.submit),
    (16, Organisation.start),
    (1, Organisation.checkpoint),
    (4, Organisation.finish),
    (2, Organisation.cancel),
    (2, Organisation.fail),
    (4, Organisation.clean_up),
    (1, Organisation.hold_or_release),
    (1, Organisation.add_node),
    (1, Organisation.drain),
    (1, Organisation.disconnect),
    (1, Organisation.lose_node),
    (2, Organisation.edit_tree),
    (1, Organisation.edit_policy),
    (1, Organisation.book_usage),
    (3, Organisation.wait),
)
"""What can happen, and how often compared with the rest."""


def happen(organisation: Organisation, chance: Random, times: int) -> None:
    """Let some of it happen."""
    weights: Sequence[int] = [weight for weight, _ in HAPPENINGS]
    acts = [act for _, act in HAPPENINGS]
    for act in chance.choices(acts, weights, k=times):
        act(organisation, chance)


def marked(snapshot: Snapshot) -> Snapshot:
    """The same, where pods of two teams cannot share a GPU."""
    parts = {
        workload.id: workload
        for workload in snapshot.workloads
        if isinstance(workload.request, Memory) or workload.request.milli < GPU_MILLI
    }
    by: dict[tuple[str, int], str] = {}
    for workload in parts.values():
        for pod in workload.placements:
            for share in pod.devices:
                known = by.setdefault((pod.node, share.index), workload.team)
                if known != workload.team:
                    by[pod.node, share.index] = "several"
    nodes = tuple(
        replace(
            node,
            devices=tuple(replace(each, shared_by=by.get((node.id, each.index))) for each in node.devices),
        )
        for node in snapshot.nodes
    )
    workloads = tuple(
        replace(row, shares_with=(row.team,)) if row.id in parts else row for row in snapshot.workloads
    )
    return replace(snapshot, nodes=nodes, workloads=workloads)


def _devices(chance: Random) -> tuple[DeviceInfo, ...]:
    """The devices of a node: mostly all alike and ours; of some nobody knows the memory. Some are slices."""
    found = []
    if chance.random() < 0.2:
        return _slices(chance)
    memory = chance.choice((40_960, 81_920, 81_920, None))
    gpu_type, mixed = chance.choice(("H100", "H100", "A100")), chance.random() < 0.1
    for index in range(chance.choice((1, 2, 4, 4, 8))):
        own_type = chance.choice(("H100", "A100")) if mixed else gpu_type
        found.append(DeviceInfo(index, own_type, memory, foreign=chance.random() < 0.03))
    return tuple(found)


def _slices(chance: Random) -> tuple[DeviceInfo, ...]:
    """A node of MIG slices of one or two profiles, or of replicas; or one where whole GPUs are left beside slices."""
    kinds = chance.choice(SLICES)
    return tuple(
        _slice(index, chance.choice(kinds), foreign=chance.random() < 0.03)
        for index in range(chance.choice((2, 4, 7)))
    )


def _slice(index: int, cut: Cut, *, foreign: bool) -> DeviceInfo:
    gpu_type, memory_mib, slicing, share_milli = cut
    return DeviceInfo(index, gpu_type, memory_mib, foreign, slicing, share_milli)


def _waiting(workload: WorkloadInfo, **fields: Any) -> WorkloadInfo:
    """The workload back in the queue."""
    return replace(
        workload,
        status=OpenStatus.PENDING,
        pool=None,
        placements=(),
        started_at=None,
        checkpointed_at=None,
        **fields,
    )


def _pool(chance: Random, name: str, levels: tuple[str, ...]) -> PoolInfo:
    recent = tuple(
        TypicalRequest(milli, chance.randint(1, 5)) for milli in chance.sample((250, 500, 1000, 4000), 2)
    )
    return PoolInfo(name, name, _policy(chance), levels, recent if chance.random() < 0.5 else ())


def _policy(chance: Random) -> Policy:
    return Policy(
        queueing=chance.choice(tuple(Queueing)),
        elastic_preemption=chance.choice(tuple(ElasticPreemption)),
        placement=chance.choice(tuple(NodeOrder)),
        fairness=chance.choice(tuple(Fairness)),
        min_runtime_ms=chance.choice((0, 10 * MINUTE)),
        max_preemptions=chance.choice((None, None, 1)),
        default_time_limit_ms=chance.choice((None, HOUR_MS)),
        sharing=chance.choice((Sharing.FRACTIONS, Sharing.FRACTIONS, Sharing.NONE)),
    )
