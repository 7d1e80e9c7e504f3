"""An independent reading of the rules: what a result must never say, whatever the engine's reasons.

It uses the snapshot and the JSON, none of the engine's decisions or arithmetic.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from scheduling.engine import (
    ElasticPreemption,
    Memory,
    NodeInfo,
    OpenStatus,
    Policy,
    Sharing,
    Slicing,
    Snapshot,
    TeamInfo,
    WorkloadInfo,
)
from scheduling.scenario.output import Json, Object

GPU = 1000
HOLDING = frozenset({"start", "keep", "grow", "shrink"})
LEGAL = {
    OpenStatus.PENDING: {"start", "wait", "end"},
    OpenStatus.STOPPING: {"keep"},
    OpenStatus.QUEUED: {"keep", "grow", "shrink", "preempt"},
    OpenStatus.STARTING: {"keep", "grow", "shrink", "preempt"},
    OpenStatus.RUNNING: {"keep", "grow", "shrink", "preempt"},
}


def broken_rules(snapshot: Snapshot, now: int, result: Object) -> list[str]:
    """Return a sentence for each rule that the result breaks."""
    world = _World(snapshot, result)
    if set(world.outcomes) != set(world.workloads):
        return ["not every workload stands in the result once"]
    checks = (
        _actions,
        _nodes,
        _newcomers,
        _victims,
        _ceilings,
        _charges,
        _figures,
        _entitlements,
        _positions,
    )
    found = [sentence for check in checks for sentence in check(world)]
    return found + list(_rights(world, now)) + list(_times(world, now))


@dataclass(frozen=True)
class _Outcome:
    """One workload of the result; GPUs in milli-GPUs."""

    action: str
    status: str
    pool: str | None
    nodes: dict[str, int]
    pods: int
    preempts: tuple[str, ...]
    preempted_by: str | None
    allocation: tuple[tuple[str | None, int], ...]
    position: int | None

    @property
    def milli(self) -> int:
        return sum(self.nodes.values())


class _World:
    """Snapshot and result by name."""

    def __init__(self, snapshot: Snapshot, result: Object) -> None:
        self.snapshot = snapshot
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.pools = {pool.id: pool for pool in snapshot.pools}
        self.teams = {team.id: team for team in snapshot.teams}
        self.children: dict[str | None, list[str]] = defaultdict(list)
        for team in snapshot.teams:
            self.children[team.parent].append(team.id)
        self.outcomes = {name: _outcome(_object(row)) for name, row in _object(result["workloads"]).items()}
        self.team_figures = _object(result["teams"])
        self.pool_figures = _object(result["pools"])

    def policy(self, outcome: _Outcome) -> Policy:
        return self.pools[outcome.pool or ""].policy

    def subtree(self, team: str) -> set[str]:
        found = [team]
        for each in found:
            found.extend(self.children[each])
        return set(found)

    def chain(self, team: str) -> list[str]:
        """The team and its ancestors, upwards."""
        found = [team]
        while (parent := self.teams[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def reservation(self, team: str, pool: str) -> int:
        return sum(share.reservation_milli for share in self.teams[team].shares if share.pool == pool)

    def guarantee(self, team: str, pool: str) -> int:
        below = sum(self.guarantee(child, pool) for child in self.children[team])
        return max(self.reservation(team, pool), below)

    def own(self, team: str, pool: str) -> int:
        return self.guarantee(team, pool) - sum(self.guarantee(child, pool) for child in self.children[team])

    def holders(self, team: str, pool: str) -> Iterator[tuple[WorkloadInfo, _Outcome]]:
        """Those of the subtree with an allocation in the pool after the plan."""
        teams = self.subtree(team)
        for name, outcome in self.outcomes.items():
            workload = self.workloads[name]
            counts = outcome.action in HOLDING and workload.status is not OpenStatus.STOPPING
            if counts and workload.team in teams and outcome.pool == pool:
                yield workload, outcome


# --- Each rule ---


def _actions(world: _World) -> Iterator[str]:
    for name, outcome in world.outcomes.items():
        if outcome.action not in LEGAL[world.workloads[name].status]:
            yield f"{name}: {outcome.action} is nothing for a {world.workloads[name].status} one"


def _nodes(world: _World) -> Iterator[str]:
    """Starting, Running and Queued fit on each node, by GPUs, CPU and memory."""
    gpus: dict[str, int] = defaultdict(int)
    cpu: dict[str, Fraction] = defaultdict(Fraction)
    memory: dict[str, Fraction] = defaultdict(Fraction)
    for name, outcome in world.outcomes.items():
        workload = world.workloads[name]
        if outcome.action not in HOLDING or workload.status is OpenStatus.STOPPING:
            continue
        for node_id, milli in outcome.nodes.items():
            pods = Fraction(milli, _pod_milli(workload, world.nodes[node_id]) or 1)
            if pods.denominator != 1:
                yield f"{name}: {milli} on {node_id} is no whole number of pods"
            gpus[node_id] += milli
            cpu[node_id] += pods * workload.cpu_milli
            memory[node_id] += pods * workload.memory_mib
    for node_id, node in world.nodes.items():
        has = sum(device.share_milli for device in node.devices if not device.foreign)
        over_cpu = node.cpu_milli is not None and cpu[node_id] > node.cpu_milli
        over_memory = node.memory_mib is not None and memory[node_id] > node.memory_mib
        if gpus[node_id] > has or over_cpu or over_memory:
            yield f"node {node_id} is over its capacity: {gpus[node_id]} of {has}"


def _newcomers(world: _World) -> Iterator[str]:
    """Who starts gets at least its minimum, in one cluster and domain, on nodes that take it."""
    for name, outcome in world.outcomes.items():
        workload = world.workloads[name]
        if outcome.action not in ("start", "grow"):
            continue
        old = {pod.node for pod in workload.placements}
        nodes = [world.nodes[node] for node in outcome.nodes]
        if not workload.min_pods <= outcome.pods <= workload.pods:
            yield f"{name}: has {outcome.pods} pods, of {workload.min_pods} to {workload.pods}"
        if workload.pools is not None and outcome.pool not in workload.pools:
            yield f"{name}: is in the pool {outcome.pool}"
        if len({_domain(world, workload, node) for node in nodes}) > 1:
            yield f"{name}: spans clusters or domains"
        if outcome.action == "grow" and _is_kept_back(world, workload):
            yield f"{name}: grows, but waits for somebody who is stopping"
        for node in nodes:
            if node.id not in old and not _takes(world, node, workload, outcome):
                yield f"{name}: node {node.id} does not take it"


def _is_kept_back(world: _World, workload: WorkloadInfo) -> bool:
    """Whether it is promised a device that it cannot share with somebody who is stopping on it."""
    held = _by_device(each for each in world.workloads.values() if each.status is OpenStatus.STOPPING)
    promised = _by_device([workload])
    size = {
        (node.id, device.index): device.share_milli
        for node in world.nodes.values()
        for device in node.devices
    }
    over = any(device in held and held[device] + milli > size[device] for device, milli in promised.items())
    return workload.status is OpenStatus.QUEUED and over


def _by_device(workloads: Iterable[WorkloadInfo]) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for workload in workloads:
        for pod in workload.placements:
            found.update({(pod.node, share.index): share.milli for share in pod.devices})
    return found


def _takes(world: _World, node: NodeInfo, workload: WorkloadInfo, outcome: _Outcome) -> bool:
    policy = world.policy(outcome)
    whole = not isinstance(workload.request, Memory) and workload.request.milli % GPU == 0
    slicing = node.devices[0].slicing
    shared = (node.sharing or slicing is not Slicing.WHOLE) and policy.sharing is Sharing.FRACTIONS
    tolerated = {(each.key, each.value) for each in workload.tolerations}
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    return (
        (node.pool, node.ready, node.cordoned) == (outcome.pool, True, False)
        and node.partition == workload.partition
        and (whole or shared)
        and (not workload.gpu_types or node.devices[0].gpu_type in workload.gpu_types)
        and (
            bool(workload.gpu_types)
            or slicing is Slicing.WHOLE
            or (slicing is Slicing.REPLICAS and not whole)
        )
        and (slicing is Slicing.WHOLE or not (whole and _asked_milli(workload) > GPU))
        and all({(taint.key, None), (taint.key, taint.value)} & tolerated for taint in taints)
    )


def _victims(world: _World) -> Iterator[str]:
    """Reserved work is nobody's victim; victims and newcomers name each other."""
    named = {name: outcome for name, outcome in world.outcomes.items() if outcome.preempts}
    for name, outcome in world.outcomes.items():
        yields = outcome.action in ("preempt", "shrink")
        by = [newcomer for newcomer, other in named.items() if name in other.preempts]
        if yields and world.workloads[name].reserved:
            yield f"{name}: reserved, but made to {outcome.action}"
        if yields and (outcome.preempted_by not in by or not by):
            yield f"{name}: yields to {outcome.preempted_by}, but is named by {by}"
        if by and not yields:
            yield f"{name}: stays, but is preempted by {by}"
        if outcome.action == "shrink" and outcome.pods < world.workloads[name].min_pods:
            yield f"{name}: shrunk below its minimum"
    for name, outcome in named.items():
        if outcome.action != "start":
            yield f"{name}: preempts, but does not start"


def _rights(world: _World, now: int) -> Iterator[str]:
    """Elastic work preempts only whom its pool's policy lets it."""
    for name, outcome in world.outcomes.items():
        newcomer = world.workloads[name]
        if newcomer.reserved or not outcome.preempts:
            continue
        policy = world.policy(outcome)
        if policy.elastic_preemption is ElasticPreemption.NEVER:
            yield f"{name}: elastic, and preempts under `never`"
        for victim in (world.workloads[each] for each in outcome.preempts):
            ran_ms = now - (victim.started_at or 0)
            if victim.status is OpenStatus.RUNNING and ran_ms < policy.min_runtime_ms:
                yield f"{name}: preempts {victim.id}, which ran too short"
            if policy.max_preemptions is not None and victim.preemptions_24h >= policy.max_preemptions:
                yield f"{name}: preempts {victim.id}, which was preempted too often"
            across = victim.team != newcomer.team
            equal_is_enough = across and policy.elastic_preemption is ElasticPreemption.PRIORITY
            any_is_enough = across and policy.elastic_preemption is ElasticPreemption.FAIR_SHARE
            if victim.priority > newcomer.priority - (not equal_is_enough) and not any_is_enough:
                yield f"{name}: preempts {victim.id} of priority {victim.priority}"


def _times(world: _World, now: int) -> Iterator[str]:
    """Nobody starts before its time; who waits at its deadline ends, and nobody else."""
    for name, outcome in world.outcomes.items():
        workload = world.workloads[name]
        over = workload.status is OpenStatus.PENDING and now >= (workload.deadline or now + 1)
        if over != (outcome.action == "end"):
            yield f"{name}: {outcome.action}, but its deadline is {workload.deadline}"
        if outcome.action == "start" and now < (workload.start_after or 0):
            yield f"{name}: starts before {workload.start_after}"


def _ceilings(world: _World) -> Iterator[str]:
    """No plan raises a subtree above its ceiling."""
    for team_id, team in world.teams.items():
        above = set(world.chain(team_id)[1:])
        for pool in world.pools:
            rows = list(world.holders(team_id, pool))
            used = sum(outcome.milli for _, outcome in rows)
            lent = sum(
                milli for _, outcome in rows for charged, milli in outcome.allocation if charged in above
            )
            before = _used_before(world, team_id, pool)
            started = any(outcome.action in ("start", "grow") for _, outcome in rows)
            for limit, counted in ((_maximum(team, pool), used), (_burst(world, team_id, pool), used - lent)):
                if limit is not None and counted > limit and counted > before and started:
                    yield f"{team_id}: {counted} in {pool} is above its ceiling of {limit}"


def _charges(world: _World) -> Iterator[str]:
    """Allocations are whole; reserved work is charged inside guarantees, own team first, no part twice."""
    for pool in world.pools:
        charged: Counter[str] = Counter()
        for team_id in world.children[None]:
            for workload, outcome in world.holders(team_id, pool):
                if sum(milli for _, milli in outcome.allocation) != outcome.milli:
                    yield f"{workload.id}: its allocation is not its size"
                teams = [team for team, _ in outcome.allocation]
                if (
                    workload.reserved
                    and outcome.action == "start"
                    and not set(teams) <= set(world.chain(workload.team))
                ):
                    yield f"{workload.id}: reserved, but charged to {teams}"
                if workload.reserved:
                    charged.update({team: milli for team, milli in outcome.allocation if team is not None})
        for team, milli in charged.items():
            if milli > world.own(team, pool):
                yield f"{team}: {milli} charged to its own part of {world.own(team, pool)} in {pool}"


def _figures(world: _World) -> Iterator[str]:
    """Capacity, use and guarantees are what the rows add up to."""
    for pool in world.pools:
        usable = [
            node for node in world.snapshot.nodes if node.pool == pool and node.ready and not node.cordoned
        ]
        capacity = sum(device.share_milli for node in usable for device in node.devices if not device.foreign)
        figures = _object(world.pool_figures[pool])
        used = sum(outcome.milli for team in world.children[None] for _, outcome in world.holders(team, pool))
        if (_milli(figures["capacity"]), _milli(figures["in_use"])) != (capacity, used):
            yield f"pool {pool}: {figures}, but {used} of {capacity} are used"
        for team in world.teams:
            own = _object(_object(world.team_figures[team])[pool])
            rows = list(world.holders(team, pool))
            expected = (
                world.guarantee(team, pool),
                sum(outcome.milli for _, outcome in rows),
                sum(outcome.milli for workload, outcome in rows if workload.reserved),
            )
            if tuple(_milli(own[key]) for key in ("guarantee", "in_use", "reserved_in_use")) != expected:
                yield f"{team} in {pool}: {own}, but the rows say {expected}"


def _entitlements(world: _World) -> Iterator[str]:
    """Nobody is entitled to more than he wants, and children to no more than their parent."""
    for pool, figures in world.pool_figures.items():
        entitled = {
            team: _milli(_object(_object(row)[pool])["entitlement"])
            for team, row in world.team_figures.items()
        }
        demand = {
            team: _milli(_object(_object(row)[pool])["demand"]) for team, row in world.team_figures.items()
        }
        capacity = _milli(_object(figures)["capacity"])
        for parent, children in world.children.items():
            if sum(entitled[child] for child in children) > (entitled[parent] if parent else capacity):
                yield f"the children of {parent} are entitled to more than it in {pool}"
        for team in world.teams:
            if entitled[team] > demand[team]:
                yield f"{team} is entitled to {entitled[team]}, but wants {demand[team]} in {pool}"


def _positions(world: _World) -> Iterator[str]:
    positions: dict[str | None, list[int]] = defaultdict(list)
    for outcome in world.outcomes.values():
        if outcome.position is not None:
            positions[outcome.pool].append(outcome.position)
    for pool, found in positions.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield f"the positions in {pool} are {sorted(found)}"


# --- Reading ---


def _outcome(row: Object) -> _Outcome:
    allocation = row.get("allocation", [])
    preempts = row.get("preempts", [])
    assert isinstance(allocation, list)
    assert isinstance(preempts, list)
    parts = [_object(part) for part in allocation]
    pool, by, position = row.get("pool"), row.get("preempted_by"), row.get("position")
    return _Outcome(
        action=str(row["action"]),
        status=str(row["status"]),
        pool=None if pool is None else str(pool),
        nodes={node: _milli(gpus) for node, gpus in _object(row.get("nodes", {})).items()},
        pods=int(str(row.get("pods", 0))),
        preempts=tuple(str(name) for name in preempts),
        preempted_by=None if by is None else str(by),
        allocation=tuple(
            (None if part["team"] is None else str(part["team"]), _milli(part["gpus"])) for part in parts
        ),
        position=None if position is None else int(str(position)),
    )


def _object(value: Json) -> Object:
    assert isinstance(value, dict)
    return value


def _milli(value: Json) -> int:
    assert isinstance(value, float)
    milli = Fraction(str(value)) * GPU
    assert milli.denominator == 1
    return int(milli)


def _pod_milli(workload: WorkloadInfo, node: NodeInfo) -> int | None:
    request = workload.request
    if node.devices[0].slicing is not Slicing.WHOLE:
        return node.devices[0].share_milli
    if not isinstance(request, Memory):
        return request.milli
    memory_mib = node.devices[0].memory_mib
    return None if memory_mib is None else -(-request.mib * GPU // memory_mib)


def _asked_milli(workload: WorkloadInfo) -> int:
    return 0 if isinstance(workload.request, Memory) else workload.request.milli


def _domain(world: _World, workload: WorkloadInfo, node: NodeInfo) -> tuple[str | None, ...]:
    level = workload.topology.required
    if level is None:
        return (node.cluster,)
    if level == "node":
        return (node.cluster, node.id)
    levels = world.pools[node.pool].topology
    labels = dict(node.labels)
    return (node.cluster, *(labels.get(key) for key in levels[: levels.index(level) + 1]))


def _maximum(team: TeamInfo, pool: str) -> int | None:
    found = [
        share.maximum_milli for share in team.shares if share.pool == pool and share.maximum_milli is not None
    ]
    return found[0] if found else team.maximum_milli


def _burst(world: _World, team: str, pool: str) -> int | None:
    percent = world.teams[team].burst_limit_percent
    return None if percent is None else world.guarantee(team, pool) * (100 + percent) // 100


def _used_before(world: _World, team: str, pool: str) -> int:
    teams = world.subtree(team)
    return sum(
        pod.milli
        for workload in world.snapshot.workloads
        if workload.team in teams
        and workload.pool == pool
        and workload.status in (OpenStatus.QUEUED, OpenStatus.STARTING, OpenStatus.RUNNING)
        for pod in workload.placements
    )
