"""The victims by the order of the page, in a given place, step by step: slow, and obvious (section 7).

For worlds of :func:`~scheduling.tests.proof.victims.crowded`: two teams side by side, one newcomer of the team ``a``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.engine import GPU_MILLI, GpuShare, Plan, PodPlacement, Snapshot, WorkloadInfo
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.victims import STATUSES, Cost, Loss, Losses, cost

Devices = frozenset[tuple[str, int]]
"""The devices of a place."""
Domains = tuple[Devices, ...]


@dataclass(frozen=True)
class Step:
    """What can be taken at once: one pod above a minimum, or (``whole``) the workload with the pods it has left."""

    workload: WorkloadInfo
    pods: tuple[PodPlacement, ...]
    whole: bool

    def key(self, above: float) -> tuple[object, ...]:
        """Its place in the order of victims."""
        status = STATUSES.index(self.workload.status)
        started = self.workload.started_at if status == len(STATUSES) - 1 else None
        milli = sum(pod.milli for pod in (self.workload.placements if self.whole else self.pods))
        lost = 0 if started is None else milli * (NOW - started) // GPU_MILLI
        first = min(pod.pod_index for pod in self.pods)
        return (self.whole, status, self.workload.priority, -above, lost, self.workload.id, -first)


def cheapest(world: Snapshot, plan: Plan, newcomer: WorkloadInfo) -> Cost | None:
    """What the set costs that the page asks for; none, where there is no set.

    That is the plain order's where it is one victim or the newcomer does not need one place; else the cheapest of those
    that the order gives in each place. It is not always the cheapest of all sets: the page does not ask for that.
    """
    domains = _domains(world, newcomer)
    anywhere = _plain(world, plan, newcomer, domains)
    if anywhere is not None and len(anywhere) == 1:
        return cost(_together(anywhere))
    tried = (_plain(world, plan, newcomer, (place,)) for place in _places(world, newcomer, domains))
    found = [cost(_together(steps)) for steps in (anywhere, *tried) if steps]
    return min(found, default=None)


def _domains(world: Snapshot, newcomer: WorkloadInfo) -> Domains:
    level = newcomer.topology.required
    found: dict[str, set[tuple[str, int]]] = {}
    for node in world.nodes:
        name = node.id if level == "node" else dict(node.labels).get(level or "", "")
        found.setdefault(name, set()).update((node.id, device.index) for device in node.devices)
    return tuple(frozenset(devices) for _, devices in sorted(found.items()))


def _places(world: Snapshot, newcomer: WorkloadInfo, domains: Domains) -> Domains:
    """A device or a node for one pod, a domain for several if there is more than one."""
    if newcomer.pods > 1:
        return domains if len(domains) > 1 else ()
    assert isinstance(newcomer.request, GpuShare)
    if newcomer.request.milli <= GPU_MILLI:
        return tuple(frozenset([device]) for devices in domains for device in sorted(devices))
    return tuple(frozenset((node.id, device.index) for device in node.devices) for node in world.nodes)


def _plain(world: Snapshot, plan: Plan, newcomer: WorkloadInfo, domains: Domains) -> list[Step] | None:
    """One after the other in order, until the newcomer fits into one of the domains; then those are spared who can."""
    chosen: list[Step] = []
    while not _fits(world, newcomer, chosen, domains):
        steps = list(_steps(world, newcomer, chosen, frozenset().union(*domains)))
        if not steps:
            return None
        above = {name: _above(world, plan, newcomer, chosen, name) for name in ("a", "b")}
        chosen.append(min(steps, key=lambda step: step.key(above[step.workload.team])))
    for step in reversed(tuple(chosen)):
        rest = [each for each in chosen if each is not step]
        goes_whole = any(each.whole and each.workload is step.workload for each in rest)
        if not (goes_whole and not step.whole) and _fits(world, newcomer, rest, domains):
            chosen = rest
    return chosen


def _steps(world: Snapshot, newcomer: WorkloadInfo, chosen: list[Step], place: Devices) -> Iterator[Step]:
    """Who may be taken next, and holds something of the place."""
    gone = {(step.workload.id, pod.pod_index) for step in chosen for pod in step.pods}
    for workload in world.workloads:
        lawful = not workload.reserved and workload.priority < newcomer.priority
        pods = tuple(pod for pod in workload.placements if (workload.id, pod.pod_index) not in gone)
        if workload.status in STATUSES and lawful and pods:
            spare = [pod for pod in workload.placements[workload.min_pods :] if pod in pods]
            steps = [
                *(Step(workload, (pod,), whole=False) for pod in spare),
                Step(workload, pods, whole=True),
            ]
            for step in steps:
                if any((pod.node, share.index) in place for pod in step.pods for share in pod.devices):
                    yield step


def _above(world: Snapshot, plan: Plan, newcomer: WorkloadInfo, chosen: list[Step], team: str) -> float:
    """How far a team is above its entitlement, the newcomer counted in and those who go taken out."""
    row = next(row for row in plan.teams if row.team == team)
    placed = (each for each in world.workloads if each.team == team and each.status in STATUSES)
    in_use = sum(pod.milli for each in placed for pod in each.placements)
    gone = sum(pod.milli for step in chosen for pod in step.pods if step.workload.team == team)
    asked = newcomer.request.milli * newcomer.pods if isinstance(newcomer.request, GpuShare) else 0
    used = in_use - gone + (asked if newcomer.team == team else 0)
    if row.entitlement_milli:
        return used / row.entitlement_milli
    return float("inf") if used > 0 else 0.0


def _fits(world: Snapshot, newcomer: WorkloadInfo, chosen: list[Step], domains: Domains) -> bool:
    free = {(node.id, device.index): GPU_MILLI for node in world.nodes for device in node.devices}
    gone = {(step.workload.id, pod.pod_index) for step in chosen for pod in step.pods}
    for workload in world.workloads:
        for pod in workload.placements:
            for share in () if (workload.id, pod.pod_index) in gone else pod.devices:
                free[pod.node, share.index] -= share.milli
    assert isinstance(newcomer.request, GpuShare)
    return any(_pods(free, devices, newcomer.request.milli) >= newcomer.min_pods for devices in domains)


def _pods(free: dict[tuple[str, int], int], devices: Devices, milli: int) -> int:
    """How many pods those devices hold."""
    if milli < GPU_MILLI:
        return sum(free[device] // milli for device in devices)
    whole = [node for node, index in devices if free[node, index] == GPU_MILLI]
    return sum(whole.count(node) // (milli // GPU_MILLI) for node in set(whole))


def _together(steps: list[Step]) -> Losses:
    """The same as losses, one of each workload."""
    found: dict[str, Loss] = {}
    for step in steps:
        before = found.get(step.workload.id)
        pods = (*before.pods, *step.pods) if before else step.pods
        found[step.workload.id] = Loss(step.workload, pods, step.whole or bool(before and before.whole))
    return tuple(found.values())
