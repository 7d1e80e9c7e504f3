"""Who stands in a queue at all, and what keeps out the others whatever comes free (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.checker.picture import Action, Picture
from scheduling.checker.room import (
    Rooms,
    devices_for,
    devices_per_pod,
    has_data,
    is_closed,
    is_offered,
    is_slice,
    refusal,
    share_on,
    takes,
)
from scheduling.checker.timing import is_over, is_shut_out
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import ReasonCode
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    PLACED,
    DependencyState,
    NodeInfo,
    OpenStatus,
    PoolInfo,
    WorkloadInfo,
)

Codes = frozenset[ReasonCode]
NOBODY: Codes = frozenset()
BEFORE_PEAK_HOURS = frozenset({ReasonCode.DEADLINE_PASSED, ReasonCode.HELD, ReasonCode.NOT_BEFORE})
FOR_ADMINS = frozenset({ReasonCode.POOL_PAUSED, ReasonCode.CLUSTER_OFFLINE, ReasonCode.BURSTING_DISABLED})


def broken_eligibility(picture: Picture, admission: Admission) -> Iterator[Violation]:
    """Who starts without standing in a queue, who is kept out of it, and who is told a wrong reason for it."""
    positions = {wait.workload: wait.position for wait in picture.plan.waits}
    for id_, fate in sorted(picture.fates.items()):
        if fate.action not in (Action.START, Action.WAIT):
            continue
        entry = admission.of(fate.workload)
        if fate.action is Action.START:
            if fate.pool not in entry.pools:
                text = f"{id_} starts in {fate.pool}, but cannot: {', '.join(sorted(entry.codes))}."
                yield broken(BrokenRule.NOT_ELIGIBLE, text, workload=id_)
            continue
        code = fate.reason.code if fate.reason else None
        if entry.pools:
            if positions[id_] is None:
                text = f"{id_} could start in {', '.join(entry.pools)}, but stands in no queue: {code}."
                yield broken(BrokenRule.NOT_ELIGIBLE, text, workload=id_)
        elif positions[id_] is not None or code not in entry.codes:
            text = f"{id_} is told {code}, but it is {' or '.join(sorted(entry.codes))}."
            yield broken(BrokenRule.REASON, text, workload=id_)


@dataclass(frozen=True, slots=True)
class Entry:
    """In which pools' queues a workload stands, in its order; or, in none, the reasons that are true."""

    pools: tuple[str, ...]
    codes: Codes = NOBODY


@dataclass(frozen=True, slots=True)
class Fit:
    """What an empty pool holds of a workload's pods: in all and together, and the most that one takes, in
    milli-GPUs. ``back_milli``: the same with nodes back that are out of service, where only these keep it out."""

    codes: Codes
    together: int
    pod_milli: int
    back_milli: int | None = None


class Admission:
    """Looks each workload's case up; equal requests are worked out once."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._fits: dict[tuple[object, ...], Fit] = {}
        self._entries: dict[str, Entry] = {}
        nodes = sorted(picture.nodes.values(), key=lambda node: node.id)
        self._nodes = {pool: [node for node in nodes if node.pool == pool] for pool in picture.pools}
        self._beyond = frozenset(_beyond_arrays([fate.workload for fate in picture.fates.values()]))

    def of(self, workload: WorkloadInfo) -> Entry:
        """Where a pending workload could ever start."""
        found = self._entries.get(workload.id)
        if found is None:
            found = self._entries[workload.id] = self._entry(workload)
        return found

    def first(self, workload: WorkloadInfo) -> str | None:
        """The pool in which it counts as demand."""
        return next(iter(self.of(workload).pools), None)

    def _entry(self, workload: WorkloadInfo) -> Entry:
        pools, now = self._picture.pools, self._picture.now
        own = _of_itself(workload, now)
        timed = any(pool.policy.peak is not None for pool in pools.values())
        if own is not None and (own in BEFORE_PEAK_HOURS or not timed):
            return Entry((), frozenset({own}))
        asked = tuple(pools) if workload.pools is None else workload.pools
        known = [pools[pool] for pool in asked if pool in pools]
        found = {pool.id: self._codes(pool, workload) for pool in known}
        ever = tuple(pool for pool, (codes, _) in found.items() if not codes)
        eligible = tuple(pool for pool in ever if not self.is_shut_out(pools[pool], workload, now))
        if ever and not eligible:
            return Entry((), frozenset({ReasonCode.PEAK_HOURS}))
        own = own or (ReasonCode.ARRAY_LIMIT if workload.id in self._beyond else None)
        if own is not None:
            return Entry((), frozenset({own}))
        if eligible:
            return Entry(eligible)
        every = NOBODY.union(*[codes for codes, _ in found.values()])
        passing = [codes for codes, passes in found.values() if passes]
        if (
            passing
        ):  # To wait for nodes or for an admin helps: nobody is told to ask otherwise in another pool.
            return Entry((), NOBODY.union(*passing) | (every & FOR_ADMINS))
        return Entry((), every if found else frozenset({_NOWHERE}))

    def is_shut_out(self, pool: PoolInfo, workload: WorkloadInfo, at: int) -> bool:
        """Whether the pool's peak hours keep it out at that time."""
        milli = workload.pods * self.fit(pool, workload).pod_milli if pool.policy.peak else 0
        return is_shut_out(pool, workload, milli, at)

    def _codes(self, pool: PoolInfo, workload: WorkloadInfo) -> tuple[Codes, bool]:
        """What keeps it out of one pool; of several that are true at once each is named. And whether these are only
        nodes that are out of service, or a pause."""
        codes, passes = self._codes_if_open(pool, workload)
        if pool.paused and (passes or not codes):
            return frozenset({ReasonCode.POOL_PAUSED}), True
        return codes, passes

    def _codes_if_open(self, pool: PoolInfo, workload: WorkloadInfo) -> tuple[Codes, bool]:
        fit = self.fit(pool, workload)
        if fit.codes and fit.back_milli is None:
            return fit.codes, False
        pod = fit.pod_milli if fit.back_milli is None else fit.back_milli
        limits = self._quota(pool, workload, workload.min_pods * pod)
        return limits or fit.codes, bool(fit.codes and not limits)

    def _quota(self, pool: PoolInfo, workload: WorkloadInfo, milli: int) -> Codes:
        """What guarantees and ceilings will never allow."""
        hierarchy, quotas = self._picture.hierarchy, self._picture.quotas[pool.id]
        chain = hierarchy.chain(workload.team)
        if workload.reserved and milli > sum(quotas.own[team] for team in chain):
            return frozenset({ReasonCode.EXCEEDS_RESERVATION})
        found = set()
        for team in chain:
            burst, maximum = quotas.burst[team], quotas.maximum[team]
            if not workload.reserved and burst is not None and milli > burst:
                off = hierarchy.teams[team].burst_limit_percent == 0
                found.add(ReasonCode.BURSTING_DISABLED if off else ReasonCode.EXCEEDS_CEILING)
            if maximum is not None and milli > maximum:
                found.add(ReasonCode.EXCEEDS_CEILING)
        return frozenset(found)

    def fit(self, pool: PoolInfo, workload: WorkloadInfo) -> Fit:
        """What the empty pool holds of it."""
        key = (pool.id, workload.min_pods, workload.pods > 1, *wishes_of(workload))
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._fit(pool, workload)
        return found

    def _fit(self, pool: PoolInfo, workload: WorkloadInfo) -> Fit:
        nodes = self._nodes[pool.id]
        found = _judge(pool, [node for node in nodes if node.cluster_online], workload)
        if not found.codes:
            return found
        back = [replace(node, cluster_online=True) for node in nodes]
        all_back = [replace(node, ready=True, cordoned=False) for node in back]
        ever = _judge(pool, all_back, workload)
        if ever.codes:
            return replace(found, codes=ever.codes)
        online = _judge(pool, back, workload)
        if not online.codes:
            return replace(found, codes=frozenset({ReasonCode.CLUSTER_OFFLINE}), back_milli=online.pod_milli)
        return replace(found, back_milli=ever.pod_milli)


_NOWHERE = ReasonCode.NO_MATCHING_NODES


def wishes_of(workload: WorkloadInfo) -> tuple[object, ...]:
    """Everything about a pod that decides where it may lie."""
    return (
        workload.request,
        workload.cpu_milli,
        workload.memory_mib,
        workload.gpu_types,
        workload.node_selector,
        workload.partition,
        workload.tolerations,
        workload.topology,
        workload.shares_with,
        workload.data,
    )


def _of_itself(workload: WorkloadInfo, now: int) -> ReasonCode | None:
    """What keeps it out of every queue."""
    found = (
        (is_over(workload, now), ReasonCode.DEADLINE_PASSED),
        (workload.held, ReasonCode.HELD),
        (now < (workload.start_after or now), ReasonCode.NOT_BEFORE),
        (workload.dependency is DependencyState.WAITING, ReasonCode.WAITING_FOR_DEPENDENCY),
        (workload.dependency is DependencyState.FAILED, ReasonCode.DEPENDENCY_FAILED),
        (now < (workload.backing_off_until or now), ReasonCode.BACKING_OFF),
    )
    return next((code for true, code in found if true), None)


def _beyond_arrays(workloads: Iterable[WorkloadInfo]) -> Iterator[str]:
    """Who waits for others of its array: all but the first that the array's limit leaves room for."""
    arrays: dict[str, list[WorkloadInfo]] = {}
    for workload in workloads:
        if workload.array is not None:
            arrays.setdefault(workload.array, []).append(workload)
    for members in arrays.values():
        placed = sum(member.status in PLACED for member in members)
        could = [
            member
            for member in members
            if member.status is OpenStatus.PENDING
            and not member.held
            and member.dependency is DependencyState.NONE
        ]
        could.sort(key=lambda each: (each.backing_off_until or 0, -each.priority, each.submitted_at, each.id))
        room = min(member.max_parallel or 0 for member in members) - placed
        yield from (member.id for member in could[max(0, room) :])


def _judge(pool: PoolInfo, nodes: Iterable[NodeInfo], workload: WorkloadInfo) -> Fit:
    """What these nodes, empty, hold of the workload's pods."""
    usable = [node for node in nodes if node.ready and not node.cordoned]
    reached = [node for node in usable if has_data(node, workload)]
    if usable and not reached:
        return Fit(frozenset({ReasonCode.DATA_ELSEWHERE}), 0, 0)
    usable = reached
    typed = [node for node in usable if _has_type(node, workload)]
    admitting = [node for node in typed if refusal(pool, node, workload) is None]
    if not workload.gpu_types and _has_slices_only(usable, workload):
        return Fit(frozenset({ReasonCode.NO_MATCHING_GPU_TYPE}), 0, 0)
    if not admitting:
        untyped = workload.gpu_types and not typed
        code = ReasonCode.NO_MATCHING_GPU_TYPE if untyped else ReasonCode.NO_MATCHING_NODES
        return Fit(frozenset({code}), 0, 0)
    closes = any(
        is_closed(workload, device) and takes(workload, node, device)
        for node in admitting
        for device in node.devices
    )
    now = Rooms(admitting)
    ever = [_not_shared(node) for node in admitting] if closes else admitting
    rooms = Rooms(ever)
    held = sum(rooms.rooms[node.id].pods(node, workload) for node in ever)
    level = workload.topology.required
    most = rooms.most(pool, workload, None) if workload.pods > 1 else held
    together = now.most(pool, workload, level) if closes or level is not None else most
    tests = (
        (held > 0, ReasonCode.LARGER_THAN_ANY_NODE),
        (workload.min_pods <= most, ReasonCode.LARGER_THAN_POOL),
        (workload.min_pods <= rooms.most(pool, workload, level), ReasonCode.TOPOLOGY_IMPOSSIBLE),
    )
    codes = [code for fine, code in tests if not fine]
    return Fit(frozenset(codes[:1]), together, _pod_milli(admitting, workload) or _pod_milli(ever, workload))


def _has_type(node: NodeInfo, workload: WorkloadInfo) -> bool:
    offered = any(is_offered(workload, device) for device in node.devices)
    return offered or not (workload.gpu_types or any(map(is_slice, node.devices)))


def _has_slices_only(nodes: Iterable[NodeInfo], workload: WorkloadInfo) -> bool:
    """Whether everything there is goes to workloads that name it."""
    devices = [device for node in nodes for device in node.devices]
    return bool(devices) and not any(is_offered(workload, device) for device in devices)


def _pod_milli(nodes: Iterable[NodeInfo], workload: WorkloadInfo) -> int:
    """What a pod takes where it takes most."""
    shares = [
        share_on(workload, node, device) or 0 for node in nodes for device in devices_for(workload, node)
    ]
    return devices_per_pod(workload) * min(GPU_MILLI, max(shares, default=0))


def _not_shared(node: NodeInfo) -> NodeInfo:
    """The node with devices that nobody shares."""
    return replace(node, devices=tuple([replace(each, shared_by=None) for each in node.devices]))
