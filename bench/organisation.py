"""A random organisation of a given size, as a scheduler has it after a while.

Scale 1 is 10,000 nodes of 8 GPUs in racks of 16, 2,000 teams in 5 levels, a tenth of them with reservations (together
70 % of the capacity), running workloads that fill 99 %, and about 100,000 pending ones with the shapes of the openb pod
list, of which a twentieth are gangs of 2 to 64 pods. Everything is drawn from the seed; then the engine itself starts
the elastic work, so that everybody holds about what is due to him.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from scheduling.engine import (
    GPU_MILLI,
    HOUR_MS,
    DeviceInfo,
    DeviceShare,
    GpuShare,
    NodeInfo,
    OpenStatus,
    Plan,
    PodPlacement,
    Policy,
    PoolInfo,
    Snapshot,
    State,
    TeamInfo,
    TeamShare,
    Topology,
    WorkloadInfo,
    decide,
    labels_of,
)

NOW = 1_800_000_000_000
MINUTE_MS = 60_000
POOL = "gpu"
NODES, TEAMS, PENDING = 10_000, 2_000, 100_000
GPUS_PER_NODE, NODES_PER_RACK, RACKS_PER_BLOCK = 8, 16, 16
NODE_CPU_MILLI, NODE_MEMORY_MIB = 224_000, 2_097_152
LEVELS = (0.002, 0.01, 0.05, 0.2, 1.0)
"""How many of the teams there are down to each level of the tree, as parts of all."""
RESERVED_PART, FILLED_PART = 0.7, 0.99
GANG_EVERY = 20
GANG_PODS = (2, 2, 2, 4, 4, 4, 8, 8, 16, 16, 32, 64)
PREEMPTING_GPUS = 1_024
SETTLED_AFTER = 10

SHAPES = (
    (1000, 3_000, 5_000, 215), (1000, 11_000, 49_000, 205), (1000, 12_000, 47_000, 100), (1000, 16_000, 41_000, 50),
    (1000, 8_000, 16_000, 35), (1000, 4_000, 24_000, 30), (1000, 19_000, 64_000, 40), (1000, 24_000, 93_000, 12),
    (500, 8_000, 30_000, 65), (500, 12_000, 47_000, 60), (500, 4_000, 22_000, 50), (500, 6_000, 6_000, 20),
    (750, 12_000, 47_000, 40), (750, 4_000, 10_000, 22), (250, 4_000, 15_000, 30), (250, 8_000, 30_000, 16),
    (2000, 16_000, 65_000, 2), (4000, 32_000, 131_000, 2), (8000, 88_000, 327_000, 3), (8000, 64_000, 263_000, 3),
)  # fmt: skip
"""Milli-GPUs, CPU and memory of a pod, and how many of a thousand in the openb list (shares in quarters) ask so."""
SHARES = tuple(accumulate(weight for *_, weight in SHAPES))
RESERVED = (100, 110)
RUNNING_ELASTIC, PENDING_ELASTIC = (50, 60, 70, 90), (10, 20, 50, 50)


@dataclass(slots=True)
class Organisation:
    """A snapshot in the making: everything is drawn from `chance`, in one order."""

    scale: float
    chance: random.Random

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Return the nodes, in racks and blocks."""
        devices = tuple(DeviceInfo(index, "H100", 81_920) for index in range(GPUS_PER_NODE))
        return tuple(self._node(number, devices) for number in range(round(NODES * self.scale)))

    def _node(self, number: int, devices: tuple[DeviceInfo, ...]) -> NodeInfo:
        rack = number // NODES_PER_RACK
        where = {"rack": f"r{rack:04d}", "block": f"b{rack // RACKS_PER_BLOCK:03d}"}
        name = f"node-{number:05d}"
        return NodeInfo(
            name,
            name,
            POOL,
            devices,
            cpu_milli=NODE_CPU_MILLI,
            memory_mib=NODE_MEMORY_MIB,
            labels=labels_of(where),
        )

    def teams(self) -> tuple[TeamInfo, ...]:
        """Return the tree; whoever has a reservation has nobody with one above or below him."""
        count = max(10, round(TEAMS * self.scale))
        ends = [max(level + 1, round(part * count)) for level, part in enumerate(LEVELS)]
        parents: list[int | None] = [None] * ends[0]
        for above, (start, end) in zip((0, *ends), pairwise(ends), strict=False):
            parents += [self.chance.randrange(above, start) for _ in range(start, end)]
        reserved = self._reserved(parents, count // 10)
        return tuple(
            self._team(number, parent, reserved.get(number, 0)) for number, parent in enumerate(parents)
        )

    def _reserved(self, parents: list[int | None], wanted: int) -> dict[int, int]:
        """Return who has a reservation, in milli-GPUs: whole GPUs, together so much of the capacity."""
        inner = set(parents)
        leaves = [number for number in range(len(parents)) if number not in inner]
        chosen = self.chance.sample(leaves, min(wanted, len(leaves)))
        weights = [self.chance.randint(1, 10) for _ in chosen]
        gpus = RESERVED_PART * round(NODES * self.scale) * GPUS_PER_NODE
        return {
            team: int(gpus * weight / sum(weights)) * GPU_MILLI
            for team, weight in zip(chosen, weights, strict=True)
        }

    def _team(self, number: int, parent: int | None, reserved: int) -> TeamInfo:
        name = f"team-{number:04d}"
        limit = self.chance.choice([50, 100, 200]) if reserved and self.chance.random() < 0.2 else None
        return TeamInfo(
            name,
            name,
            None if parent is None else f"team-{parent:04d}",
            weight=self.chance.randint(1, 10),
            burst_limit_percent=limit,
            shares=(TeamShare(POOL, reserved),),
        )

    def workloads(self, nodes: tuple[NodeInfo, ...], teams: tuple[TeamInfo, ...]) -> Iterator[WorkloadInfo]:
        """Yield who runs, on all GPUs, then who waits.

        Half of the teams with a reservation use all of it for reserved work and have more waiting; the others use a
        third of it. Elastic work fills the rest.
        """
        room = _NodesLeft(nodes)
        everybody = [team.id for team in teams]
        reserving = [team for team in teams if team.shares[0].reservation_milli]
        busy = [team.id for number, team in enumerate(reserving) if number % 2 == 0]
        running: list[WorkloadInfo] = []
        for team in reserving:
            part = 1 if team.id in busy else 3
            running += self._fill(room, team.shares[0].reservation_milli // part, [team.id], RESERVED)
        running += self._fill(room, room.free_milli, everybody, RUNNING_ELASTIC)
        pending = [self._pending(number, everybody, busy) for number in range(round(PENDING * self.scale))]
        yield from running
        yield from pending

    def without_some(self, snapshot: Snapshot, milli: int) -> Snapshot:
        """Return the snapshot after elastic workloads that held so much have completed."""
        rows = []
        for workload in self.chance.sample(snapshot.workloads, len(snapshot.workloads)):
            if milli > 0 and workload.status is OpenStatus.RUNNING and not workload.reserved:
                milli -= milli_of(workload)
            else:
                rows.append(workload)
        return replace(snapshot, workloads=tuple(rows))

    def _fill(
        self, room: _NodesLeft, milli: int, teams: list[str], priorities: tuple[int, ...]
    ) -> Iterator[WorkloadInfo]:
        """Yield running workloads of these teams until they hold so much; what finds no place is left out."""
        failures = 0
        while milli > 0 and failures < 50:
            workload = self._drawn(f"w{room.placed:06d}", self.chance.choice(teams), priorities)
            pods = room.place(workload) if milli_of(workload) <= milli else None
            if pods is None:
                failures += 1
                continue
            milli -= milli_of(workload)
            yield replace(
                workload,
                status=OpenStatus.RUNNING,
                pool=POOL,
                placements=pods,
                started_at=workload.submitted_at + MINUTE_MS,
            )

    def _pending(self, number: int, everybody: list[str], busy: list[str]) -> WorkloadInfo:
        reserved = self.chance.random() < 0.1
        teams, priorities = (busy, RESERVED) if reserved else (everybody, PENDING_ELASTIC)
        return self._drawn(f"p{number:06d}", self.chance.choice(teams), priorities)

    def _drawn(self, name: str, team: str, priorities: tuple[int, ...]) -> WorkloadInfo:
        """Return a waiting workload with a shape of the table; a twentieth are gangs, a few of them within a rack."""
        chance = self.chance
        milli, cpu, memory, _ = chance.choices(SHAPES, cum_weights=SHARES)[0]
        gang = chance.randrange(GANG_EVERY) == 0
        pods = chance.choice(GANG_PODS) if gang else 1
        level = (
            chance.choice([None, None, "rack", "block"]) if gang and pods * milli <= 64 * GPU_MILLI else None
        )
        return WorkloadInfo(
            name,
            name,
            team,
            GpuShare(milli),
            chance.choice(priorities),
            pods=pods,
            min_pods=pods,
            cpu_milli=cpu,
            memory_mib=memory,
            topology=Topology(required=level),
            submitted_at=NOW - chance.randint(2, 24 * 60) * MINUTE_MS,
            time_limit_ms=chance.choice([None, 24 * HOUR_MS, 48 * HOUR_MS, 96 * HOUR_MS]),
        )


class _NodesLeft:
    """What is left of the nodes while running workloads are put on them: pods go where they fit most tightly."""

    def __init__(self, nodes: tuple[NodeInfo, ...]) -> None:
        self.placed = 0
        self.free_milli = len(nodes) * GPUS_PER_NODE * GPU_MILLI
        self._nodes = nodes
        self._devices = [[GPU_MILLI] * GPUS_PER_NODE for _ in nodes]
        self._whole = [GPUS_PER_NODE] * len(nodes)
        self._first: dict[int, int] = {}
        """By what a pod asks of devices, the first node that may have room for it: nothing comes free here."""

    def place(self, workload: WorkloadInfo) -> tuple[PodPlacement, ...] | None:
        """Place all pods, or none."""
        milli = workload.request.milli if isinstance(workload.request, GpuShare) else 0
        pods: list[PodPlacement] = []
        rank = self._first.get(milli, 0)
        while len(pods) < workload.pods and rank < len(self._nodes):
            picks = self._picks(rank, milli)
            if picks is None:
                rank += 1
                if not pods:
                    self._first[milli] = rank
                continue
            self._change(rank, picks, -1)
            shares = tuple(DeviceShare(at, each) for at, each in picks)
            pods.append(PodPlacement(len(pods), self._nodes[rank].id, shares))
        if len(pods) < workload.pods:
            for pod in pods:
                at = int(pod.node.removeprefix("node-"))
                self._change(at, [(share.index, share.milli) for share in pod.devices], 1)
            return None
        self.placed += 1
        return tuple(pods)

    def _picks(self, rank: int, milli: int) -> list[tuple[int, int]] | None:
        devices = self._devices[rank]
        if milli >= GPU_MILLI:
            wanted = milli // GPU_MILLI
            if self._whole[rank] < wanted:
                return None
            free = [at for at, left in enumerate(devices) if left == GPU_MILLI]
            return [(at, GPU_MILLI) for at in free[:wanted]]
        fitting = [(left, at) for at, left in enumerate(devices) if left >= milli]
        return [(min(fitting)[1], milli)] if fitting else None

    def _change(self, rank: int, picks: Iterable[tuple[int, int]], sign: int) -> None:
        for at, milli in picks:
            self._devices[rank][at] += sign * milli
            self.free_milli += sign * milli
        self._whole[rank] = self._devices[rank].count(GPU_MILLI)


def milli_of(workload: WorkloadInfo) -> int:
    """Return what all its pods take."""
    return workload.pods * (workload.request.milli if isinstance(workload.request, GpuShare) else 0)


def organisation(scale: float, seed: int, starts: int = 0) -> Snapshot:
    """Return the snapshot of the first row: nearly full, settled, and far more waiting than ever fits."""
    drawn = Organisation(scale, random.Random(seed))
    nodes, teams = drawn.nodes(), drawn.teams()
    workloads = tuple(drawn.workloads(nodes, teams))
    snapshot = settled(
        Snapshot((PoolInfo(POOL, POOL, Policy(), ("block", "rack")),), teams, nodes, workloads)
    )
    pending = [each for each in snapshot.workloads if each.status is OpenStatus.PENDING and not each.reserved]
    idle = round((1 - FILLED_PART) * len(nodes) * GPUS_PER_NODE * GPU_MILLI)
    return drawn.without_some(snapshot, sum(milli_of(each) for each in pending[:starts]) or idle)


def settled(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as the engine has it after a while: all elastic work back in the queue, and started by it.

    Who is drawn at random holds far from what is due to him, and would be preempted in hundreds.
    """
    rows = tuple(each if each.reserved else _waiting(each) for each in snapshot.workloads)
    for _ in range(SETTLED_AFTER):
        snapshot = replace(snapshot, workloads=rows)
        plan = decide(State.of(snapshot), NOW)
        if not (plan.preemptions or plan.starts):
            break
        rows = tuple(carried_out(snapshot.workloads, plan))
    return snapshot


def carried_out(workloads: Iterable[WorkloadInfo], plan: Plan) -> Iterator[WorkloadInfo]:
    """Yield the workloads after a plan has been carried out."""
    gone = {each.workload for each in plan.preemptions}
    pods = {each.workload: each.placements for each in plan.starts}
    for each in workloads:
        if each.id in gone:
            yield _waiting(each)
        elif each.id in pods:
            yield replace(
                each,
                status=OpenStatus.RUNNING,
                pool=POOL,
                placements=pods[each.id],
                started_at=NOW - MINUTE_MS,
            )
        else:
            yield each


def _waiting(workload: WorkloadInfo) -> WorkloadInfo:
    if workload.status is OpenStatus.PENDING:
        return workload
    return replace(workload, status=OpenStatus.PENDING, pool=None, placements=(), started_at=None)


def full_for_a_gang(scale: float, seed: int) -> Snapshot:
    """Return a full cluster and one reserved gang that needs a block; whoever else waits is left out.

    Its team, beside the tree, has the guarantee that the others leave.
    """
    drawn = Organisation(scale, random.Random(seed))
    nodes, teams = drawn.nodes(), drawn.teams()
    running = [each for each in drawn.workloads(nodes, teams) if each.status is OpenStatus.RUNNING]
    milli = PREEMPTING_GPUS * GPU_MILLI
    pods = PREEMPTING_GPUS // GPUS_PER_NODE
    team = TeamInfo("gang", "gang", shares=(TeamShare(POOL, milli),))
    gang = WorkloadInfo(
        "gang",
        "gang",
        team.id,
        GpuShare(GPUS_PER_NODE * GPU_MILLI),
        100,
        pods=pods,
        min_pods=pods,
        topology=Topology(required="block"),
        submitted_at=NOW - MINUTE_MS,
    )
    pool = PoolInfo(POOL, POOL, Policy(), ("block", "rack"))
    return Snapshot((pool,), (*teams, team), nodes, (*running, gang))
