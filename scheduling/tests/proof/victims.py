"""All sets of victims that would do, by trying every one: slow, and obvious (section 7).

For one newcomer that is reserved, or elastic where priorities decide: then each victim is lawful or not by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product
from random import Random

from scheduling.engine import GPU_MILLI, OpenStatus, Plan, PodPlacement, Snapshot, Topology, WorkloadInfo
from scheduling.tests.engine.build import NOW, node, placed, pool, snapshot, team, waiting

STATUSES = (OpenStatus.QUEUED, OpenStatus.STARTING, OpenStatus.RUNNING)
Tier = tuple[bool, int, int]
Cost = tuple[Tier, int, int, tuple[str, ...]]


@dataclass(frozen=True)
class Loss:
    """What one workload would give: some pods above its minimum, or (``whole``) everything."""

    workload: WorkloadInfo
    pods: tuple[PodPlacement, ...]
    whole: bool

    @property
    def milli(self) -> int:
        return sum(pod.milli for pod in self.pods)

    @property
    def tier(self) -> Tier:
        return (self.whole, STATUSES.index(self.workload.status), self.workload.priority)

    @property
    def lost_gpu_ms(self) -> int:
        """Work since its start, pod by pod where it goes pod by pod."""
        if self.workload.status is not OpenStatus.RUNNING:
            return 0
        parts = [self.milli] if self.whole else [pod.milli for pod in self.pods]
        return sum(part * (NOW - (self.workload.started_at or 0)) // GPU_MILLI for part in parts)


Losses = tuple[Loss, ...]


def cost(losses: Losses) -> Cost:
    """What a set costs: the dearest, GPU-seconds in sum, GPUs, ids."""
    return (
        max(loss.tier for loss in losses),
        sum(loss.lost_gpu_ms for loss in losses),
        sum(loss.milli for loss in losses),
        tuple(sorted(loss.workload.id for loss in losses)),
    )


def sets_that_do(world: Snapshot, newcomer: WorkloadInfo) -> Iterator[Losses]:
    """Every set of lawful victims with whom the newcomer fits."""
    lawful = [
        each
        for each in world.workloads
        if each.status in STATUSES and each.priority < 100 and each.priority < newcomer.priority
    ]
    for choice in product(*(tuple(losses_of(each)) for each in lawful)):
        losses = tuple(loss for loss in choice if loss.pods)
        if fits(world, newcomer, losses):
            yield losses


def losses_of(workload: WorkloadInfo) -> Iterator[Loss]:
    """What can be taken of one workload: nothing, any of its spare pods, or all."""
    spare = workload.placements[workload.min_pods :]
    some = chain.from_iterable(combinations(spare, size) for size in range(len(spare) + 1))
    yield from (Loss(workload, pods, whole=False) for pods in some)
    yield Loss(workload, workload.placements, whole=True)


def fits(world: Snapshot, newcomer: WorkloadInfo, losses: Losses) -> bool:
    """Whether all pods of the newcomer fit in one domain when these are gone."""
    free = {(node.id, device.index): GPU_MILLI for node in world.nodes for device in node.devices}
    gone = {(loss.workload.id, pod.pod_index) for loss in losses for pod in loss.pods}
    for workload in world.workloads:
        for pod in workload.placements:
            for share in () if (workload.id, pod.pod_index) in gone else pod.devices:
                free[pod.node, share.index] -= share.milli
    domains: dict[str, int] = {}
    for each in world.nodes:
        level = newcomer.topology.required
        domain = each.id if level == "node" else dict(each.labels).get(level or "", "")
        here = [free[each.id, device.index] for device in each.devices]
        domains[domain] = domains.get(domain, 0) + _pods(here, getattr(newcomer.request, "milli", 0))
    return max(domains.values()) >= newcomer.min_pods


def _pods(free: list[int], milli: int) -> int:
    if milli >= GPU_MILLI:
        return free.count(GPU_MILLI) // (milli // GPU_MILLI)
    return sum(left // milli for left in free)


def chosen(world: Snapshot, plan: Plan) -> Losses:
    """The victims of a plan."""
    by_id = {workload.id: workload for workload in world.workloads}
    found = [
        Loss(by_id[row.workload], by_id[row.workload].placements, whole=True) for row in plan.preemptions
    ]
    for row in plan.shrinks:
        workload = by_id[row.workload]
        pods = tuple(pod for pod in workload.placements if pod.pod_index in row.pods)
        found.append(Loss(workload, pods, whole=False))
    return tuple(found)


def crowded(chance: Random) -> Snapshot:
    """A small pool, nearly full, with one newcomer."""
    nodes = [
        node(f"n{at}", chance.choice((1, 2, 2, 4)), labels={"rack": chance.choice("xy")})
        for at in range(chance.randint(1, 3))
    ]
    spots = [f"{each.id}:{device.index}" for each in nodes for device in each.devices]
    chance.shuffle(spots)
    workloads: list[WorkloadInfo] = []
    while spots and len(workloads) < 6 and chance.random() < 0.95:
        workloads.append(_pods_on(chance, f"w{len(workloads)}", spots))
    level = chance.choice((None, None, "rack", "node"))
    gpus, pods = chance.choice(((0.5, 1), (1, 1), (1, 1), (2, 1), (1, 2), (1, 3), (2, 2)))
    newcomer = waiting(
        "new",
        "a",
        gpus,
        pods=pods,
        priority=chance.choice((60, 100)),
        topology=Topology(required=level),
    )
    teams = [team("a", reserved=16), team("b")]
    return snapshot(nodes, teams, [*workloads, newcomer], pool(topology=["rack"]))


def _pods_on(chance: Random, id_: str, spots: list[str]) -> WorkloadInfo:
    """A workload of one to three pods; a fraction may leave the rest of its device to the next one."""
    shared = spots[-1].endswith("+")
    gpus = 0.5 if shared else chance.choice((1, 1, 1, 0.5))
    mine = [
        spots.pop() for _ in range(1 if shared or gpus < 1 else min(chance.choice((1, 1, 2, 3)), len(spots)))
    ]
    if gpus < 1 and not shared and chance.random() < 0.7:
        spots.append(f"{mine[0]}+")
    return placed(
        id_,
        chance.choice("ab"),
        gpus,
        on=" ".join(mine).rstrip("+"),
        min_pods=chance.choice((1, len(mine))),
        priority=chance.choice((10, 20, 50, 100)),
        status=chance.choice((OpenStatus.RUNNING, OpenStatus.RUNNING, *STATUSES)),
        started=chance.randint(1, 60),
    )
