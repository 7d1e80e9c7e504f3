"""An obvious, slow reader of snapshot and plan: which rules does a plan break?

It shares no code with the engine, so that a mistake would have to be made twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from scheduling.engine.types import Node, Plan, PodPlacement, Snapshot, Status, Team, Workload

PLACED = (Status.QUEUED, Status.STARTING, Status.RUNNING)


class Outcome:
    """Who lies where after the plan: ``held`` until those who stop are gone, ``later`` when they are."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.plan = plan
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.later: dict[str, list[PodPlacement]] = {}
        self.leaving: dict[str, list[PodPlacement]] = {}
        gone = {preemption.workload for preemption in plan.preemptions}
        lost = {shrink.workload: set(shrink.pods) for shrink in plan.shrinks}
        for workload in snapshot.workloads:
            for pod in workload.placements:
                stays = workload.status in PLACED and workload.id not in gone
                stays = stays and pod.pod_index not in lost.get(workload.id, ())
                (self.later if stays else self.leaving).setdefault(workload.id, []).append(pod)
        for grow in plan.grows:
            self.later[grow.workload].extend(grow.placements)
        for start in plan.starts:
            self.later[start.workload] = list(start.placements)
        self.waiting_starts = {start.workload for start in plan.starts if start.waits_for_victims}

    def applied(self, *, stopped: bool = True) -> Snapshot:
        """The next cycle's snapshot, everything carried out. Who was stopping is gone, or (``stopped`` false) not."""
        rows = []
        for workload in self.snapshot.workloads:
            if workload.id in self.later:
                status = Status.QUEUED if workload.status is Status.PENDING else workload.status
                pool = workload.pool or next(
                    start.pool for start in self.plan.starts if start.workload == workload.id
                )
                pods = tuple(self.later[workload.id])
                rows.append(replace(workload, status=status, placements=pods, pool=pool))
            elif workload.status is Status.STOPPING:
                rows.extend([] if stopped else [workload])
            else:
                rows.append(
                    replace(workload, status=Status.PENDING, placements=(), pool=None, started_at=None)
                )
        return replace(self.snapshot, workloads=tuple(rows))


def broken_rules(snapshot: Snapshot, plan: Plan) -> list[str]:
    """A sentence for every rule that the plan breaks."""
    outcome = Outcome(snapshot, plan)
    checks = (_once, _capacity, _whole, _gangs, _allowed, _classes, _guarantees, _ceilings, _positions)
    return [sentence for check in checks for sentence in check(outcome)]


def _once(outcome: Outcome) -> Iterator[str]:
    plan = outcome.plan
    rows = (plan.starts, plan.grows, plan.keeps, plan.shrinks, plan.preemptions, plan.waits)
    seen = Counter(row.workload for group in rows for row in group)
    for id_ in outcome.workloads:
        if seen[id_] != 1:
            yield f"{id_} stands {seen[id_]} times in the plan"


def _capacity(outcome: Outcome) -> Iterator[str]:
    """No device, CPU or memory is over capacity: once with those who stop, once with those who wait for them."""
    held = {**outcome.leaving}
    for id_, pods in outcome.later.items():
        queued = outcome.workloads[id_].status is Status.QUEUED
        if not queued and id_ not in outcome.waiting_starts:
            held[id_] = [*held.get(id_, ()), *pods]
    for id_ in list(held):
        if outcome.workloads[id_].status is Status.QUEUED:
            del held[id_]
    for name, layer in (("held", held), ("promised", outcome.later)):
        yield from _over(outcome, name, layer)


def _over(outcome: Outcome, name: str, layer: dict[str, list[PodPlacement]]) -> Iterator[str]:
    devices: Counter[tuple[str, int]] = Counter()
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for id_, pods in layer.items():
        for pod in pods:
            for share in pod.devices:
                devices[pod.node, share.index] += share.milli
            cpu[pod.node] += outcome.workloads[id_].cpu_milli
            memory[pod.node] += outcome.workloads[id_].memory_mib
    for (where, index), milli in devices.items():
        if milli > 1000:
            yield f"device {index} of {where} is {name} with {milli}"
    for node_id, node in outcome.nodes.items():
        if node.cpu_milli is not None and cpu[node_id] > node.cpu_milli:
            yield f"CPU of {node_id} is {name} with {cpu[node_id]}"
        if node.memory_mib is not None and memory[node_id] > node.memory_mib:
            yield f"memory of {node_id} is {name} with {memory[node_id]}"


def _new_pods(outcome: Outcome) -> Iterator[tuple[Workload, PodPlacement]]:
    new = [(row.workload, row.placements) for row in outcome.plan.starts]
    new += [(row.workload, row.placements) for row in outcome.plan.grows]
    for id_, placements in new:
        for pod in placements:
            yield outcome.workloads[id_], pod


def _whole(outcome: Outcome) -> Iterator[str]:
    """Whole GPUs are taken as such, a fraction is of one device, and foreign devices are left alone."""
    for workload, pod in _new_pods(outcome):
        milli = getattr(workload.request, "milli", None)
        if milli is not None and pod.milli != milli:
            yield f"a pod of {workload.id} got {pod.milli}"
        if len(pod.devices) > 1 and any(share.milli != 1000 for share in pod.devices):
            yield f"a pod of {workload.id} has parts of several devices"
        foreign = {device.index for device in outcome.nodes[pod.node].devices if device.foreign}
        if foreign & {share.index for share in pod.devices}:
            yield f"{workload.id} got a foreign device"


def _gangs(outcome: Outcome) -> Iterator[str]:
    """At least the minimum, at most all pods, each once, in one cluster."""
    for id_, pods in outcome.later.items():
        workload = outcome.workloads[id_]
        if workload.status in PLACED and len(pods) == len(workload.placements):
            continue
        if not workload.min_pods <= len({pod.pod_index for pod in pods}) == len(pods) <= workload.pods:
            yield f"{id_} has {len(pods)} of {workload.min_pods} to {workload.pods} pods"
        if len({outcome.nodes[pod.node].cluster for pod in pods}) > 1:
            yield f"{id_} spans clusters"


def _allowed(outcome: Outcome) -> Iterator[str]:
    for workload, pod in _new_pods(outcome):
        node = outcome.nodes[pod.node]
        if not _admits(node, workload):
            yield f"{workload.id} may not go to {node.id}"
        types = {device.index: device.gpu_type for device in node.devices}
        if workload.gpu_types and any(types[share.index] not in workload.gpu_types for share in pod.devices):
            yield f"{workload.id} got a GPU type it did not ask for"


def _admits(node: Node, workload: Workload) -> bool:
    labels = dict(node.labels)
    tolerated = all(
        any(each.key == taint.key and each.value in (None, taint.value) for each in workload.tolerations)
        for taint in node.taints
    )
    whole = getattr(workload.request, "milli", 0) >= 1000
    return (
        node.ready
        and not node.cordoned
        and node.cluster_online
        and tolerated
        and node.partition == workload.partition
        and (node.sharing or whole)
        and all(labels.get(key) == value for key, value in workload.node_selector)
    )


def _classes(outcome: Outcome) -> Iterator[str]:
    """Reserved ones are never touched; victims have a newcomer who starts and names them."""
    starts = {start.workload: start for start in outcome.plan.starts}
    touched: list[tuple[str, str]] = [(row.workload, row.by) for row in outcome.plan.preemptions]
    touched += [(row.workload, row.by) for row in outcome.plan.shrinks]
    for id_, by in touched:
        if outcome.workloads[id_].reserved:
            yield f"{id_} is reserved and was touched"
        if by not in starts or id_ not in starts[by].victims:
            yield f"{id_} goes for {by}, who does not start with it"
    named = {victim for start in starts.values() for victim in start.victims}
    for id_ in named - {id_ for id_, _ in touched}:
        yield f"{id_} is named as a victim, but stays"


def _above(teams: dict[str, Team], team: str) -> list[str]:
    chain = [team]
    while (parent := teams[chain[-1]].parent) is not None:
        chain.append(parent)
    return chain


def _guarantee(teams: dict[str, Team], team: str, pool: str) -> int:
    own = sum(share.reservation_milli for share in teams[team].shares if share.pool == pool)
    return max(own, sum(_guarantee(teams, each.id, pool) for each in teams.values() if each.parent == team))


def _reserved_charges(outcome: Outcome) -> dict[str, list[tuple[str, int]]]:
    plan = outcome.plan
    rows = [(row.workload, row.allocation) for row in plan.starts]
    rows += [(row.workload, row.allocation) for row in plan.grows]
    rows += [(row.workload, row.allocation) for row in plan.keeps]
    return {
        id_: [(part.team, part.milli) for part in allocation if part.team is not None]
        for id_, allocation in rows
        if outcome.workloads[id_].reserved
    }


def _guarantees(outcome: Outcome) -> Iterator[str]:
    """Reserved workloads are charged to their team and those above, never beyond an own part, new ones wholly."""
    teams = {team.id: team for team in outcome.snapshot.teams}
    charged: Counter[tuple[str, str]] = Counter()
    new = {row.workload for row in outcome.plan.starts}
    for id_, parts in _reserved_charges(outcome).items():
        workload = outcome.workloads[id_]
        pool = workload.pool or next(row.pool for row in outcome.plan.starts if row.workload == id_)
        for team, milli in parts:
            charged[team, pool] += milli
            if team not in _above(teams, workload.team):
                yield f"{id_} is charged to {team}"
        if id_ in new and sum(milli for _, milli in parts) != sum(pod.milli for pod in outcome.later[id_]):
            yield f"{id_} is not charged as a whole"
    for (team, pool), milli in charged.items():
        below = sum(_guarantee(teams, each.id, pool) for each in teams.values() if each.parent == team)
        if milli > _guarantee(teams, team, pool) - below:
            yield f"{team} is charged {milli}, more than its own part"


def _ceilings(outcome: Outcome) -> Iterator[str]:
    """Nobody is raised above a ceiling."""
    teams = {team.id: team for team in outcome.snapshot.teams}
    pools = {workload.id: workload.pool for workload in outcome.snapshot.workloads}
    pools.update((start.workload, start.pool) for start in outcome.plan.starts)
    charges = _reserved_charges(outcome)
    for pool in outcome.snapshot.pools:
        before, after = Counter[str](), Counter[str]()
        bursting_before, bursting = Counter[str](), Counter[str]()
        for workload in outcome.snapshot.workloads:
            if pools[workload.id] != pool.id:
                continue
            chain = _above(teams, workload.team)
            old = sum(pod.milli for pod in workload.placements) if workload.status in PLACED else 0
            new = sum(pod.milli for pod in outcome.later.get(workload.id, ()))
            charged = dict.fromkeys(chain, 0)
            for payer, milli in charges.get(workload.id, ()):
                for lower in chain[: chain.index(payer)]:
                    charged[lower] += milli
            before.update(dict.fromkeys(chain, old))
            after.update(dict.fromkeys(chain, new))
            # What it grew by in this cycle was charged last.
            bursting_before.update({each: old - max(0, charged[each] - (new - old)) for each in chain if old})
            bursting.update({each: new - charged[each] for each in chain})
        for team in teams.values():
            if after[team.id] > before[team.id]:
                yield from _above_maximum(team, pool.id, after[team.id])
            if bursting[team.id] > bursting_before[team.id]:
                yield from _above_burst_limit(teams, team, pool.id, bursting[team.id])


def _above_maximum(team: Team, pool: str, used: int) -> Iterator[str]:
    own = [share.maximum_milli for share in team.shares if share.pool == pool]
    maximum = own[0] if own and own[0] is not None else team.maximum_milli
    if maximum is not None and maximum >= 0 and used > maximum:
        yield f"{team.id} has {used}, its maximum is {maximum}"


def _above_burst_limit(teams: dict[str, Team], team: Team, pool: str, used: int) -> Iterator[str]:
    if team.burst_limit_percent is not None:
        limit = _guarantee(teams, team.id, pool) * (100 + team.burst_limit_percent) // 100
        if used > limit:
            yield f"{team.id} has {used} in its burst limit of {limit}"


def _positions(outcome: Outcome) -> Iterator[str]:
    """Positions count from 1 in every pool."""
    by_pool: dict[str | None, list[int]] = {}
    for wait in outcome.plan.waits:
        if wait.position is not None:
            by_pool.setdefault(wait.pool, []).append(wait.position)
    for pool, positions in by_pool.items():
        if positions != list(range(1, len(positions) + 1)):
            yield f"positions in {pool} are {positions}"
