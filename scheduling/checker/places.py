"""Where the plan puts pods: devices, nodes, gangs, domains (sections 1 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.checker.picture import Action, Fate, Picture
from scheduling.checker.room import (
    Rooms,
    devices_per_pod,
    domain_of,
    is_closed,
    is_offered,
    refusal,
    share_on,
    sorts_of,
)
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import ReasonCode
from scheduling.engine.model.snapshot import PLACED, OpenStatus, PodPlacement


def broken_places(picture: Picture) -> Iterator[Violation]:
    """Every rule of a place that the plan breaks."""
    for fate in picture.fates.values():
        if fate.new:
            yield from _pool(picture, fate)
            yield from _gang(picture, fate)
            for pod in fate.new:
                yield from _pod(picture, fate, pod)
    yield from _capacity(picture)


def _pool(picture: Picture, fate: Fate) -> Iterator[Violation]:
    workload = fate.workload
    pool = picture.pools.get(fate.pool or "")
    if pool is None or (fate.action is Action.GROW and fate.pool != workload.pool):
        text = f"{workload.id} is put into the pool {fate.pool}."
        yield broken(BrokenRule.UNKNOWN_ROW, text, workload=workload.id)
    elif fate.action is Action.START and workload.pools is not None and pool.id not in workload.pools:
        text = f"{workload.id} starts in {pool.id}, but asks for {', '.join(workload.pools)}."
        yield broken(BrokenRule.POOL_NOT_ASKED, text, workload=workload.id, pool=pool.id)
    if pool is not None and pool.paused:
        text = f"{workload.id} gets GPUs of {pool.id}, which is paused."
        yield broken(BrokenRule.POOL_PAUSED, text, workload=workload.id, pool=pool.id)


def _pod(picture: Picture, fate: Fate, pod: PodPlacement) -> Iterator[Violation]:
    """One new pod: its size, its devices, its node."""
    workload, node = fate.workload, picture.nodes[pod.node]
    where = {"workload": workload.id, "node": node.id}
    devices = {device.index: device for device in node.devices}
    if len({share.index for share in pod.devices}) != devices_per_pod(workload):
        text = (
            f"A pod of {workload.id} has {len(pod.devices)} devices instead of {devices_per_pod(workload)}."
        )
        yield broken(BrokenRule.POD_SIZE, text, **where)
    for share in pod.devices:
        device = devices[share.index]
        if device.foreign:
            text = f"{workload.id} gets device {device.index} of {node.id}, which others use."
            yield broken(BrokenRule.FOREIGN_DEVICE, text, **where)
        elif is_closed(workload, device):
            text = f"{workload.id} gets a part of device {device.index} of {node.id}, which others share."
            yield broken(BrokenRule.SHARED_BY_OTHERS, text, **where)
        elif not is_offered(workload, device):
            types = " or ".join(workload.gpu_types) or "a GPU"
            text = f"{workload.id} gets a {device.gpu_type}, but asks for {types}."
            yield broken(BrokenRule.GPU_TYPE, text, **where)
        elif share.milli != (due := share_on(workload, node, device)):
            text = f"A pod of {workload.id} holds {share.milli} of a device, not {due}."
            yield broken(BrokenRule.POD_SIZE, text, **where)
    pool = picture.pools.get(fate.pool or "")
    why = refusal(pool, node, workload) if pool and node.pool == pool.id else f"it is of {node.pool}"
    if why is not None:
        yield broken(BrokenRule.NODE_REFUSES, f"{workload.id} lies on {node.id}, but {why}.", **where)


def _gang(picture: Picture, fate: Fate) -> Iterator[Violation]:
    """At least the minimum and at most all pods, each once, in one cluster and in one domain of the level."""
    workload, pods = fate.workload, (*fate.kept, *fate.new)
    indexes = {pod.pod_index for pod in pods}
    enough = fate.action is Action.GROW or len(pods) >= workload.min_pods
    if len(indexes) != len(pods) or not enough or not indexes <= set(range(workload.pods)):
        text = f"{workload.id} has {len(pods)} pods of {workload.min_pods} to {workload.pods}."
        yield broken(BrokenRule.GANG_CUT, text, workload=workload.id)
    nodes = [picture.nodes[pod.node] for pod in pods if pod.node in picture.nodes]
    if len({node.cluster for node in nodes}) > 1:
        yield broken(BrokenRule.SPANS_CLUSTERS, f"{workload.id} spans clusters.", workload=workload.id)
    before, after = sorts_of(picture.nodes, fate.kept), sorts_of(picture.nodes, pods)
    if workload.gpu_types and len(after) > max(1, len(before)):
        text = f"{workload.id} lies on GPUs and on slices of GPUs."
        yield broken(BrokenRule.MIXED_DEVICES, text, workload=workload.id)
    pool, level = picture.pools.get(fate.pool or ""), workload.topology.required
    if pool is not None and level is not None:
        domains = {domain_of(pool, node, level) for node in nodes}
        if len(domains) > 1 or None in domains:
            text = f"{workload.id} requires one {level}, but lies in {len(domains)}."
            yield broken(BrokenRule.TOPOLOGY_REQUIRED, text, workload=workload.id)


def _capacity(picture: Picture) -> Iterator[Violation]:
    """Nothing is given out beyond what there is: not with those who stop, not with those who wait for them.

    An excess that was there before counts only where the plan adds to it.
    """
    promised, held = Rooms(picture.nodes.values()), Rooms(picture.nodes.values())
    everything = Rooms(picture.nodes.values())
    for fate in picture.fates.values():
        workload = fate.workload
        status = workload.status
        if status is not OpenStatus.STOPPING:
            promised.take(workload, (*fate.kept, *fate.new))
        exists = status in (OpenStatus.STARTING, OpenStatus.RUNNING, OpenStatus.STOPPING)
        waits = fate.action is Action.START and picture.starts[workload.id].waits_for_victims
        held.take(workload, (*(workload.placements if exists else ()), *(() if waits else fate.new)))
        lost = fate.lost if exists else ()
        everything.take(workload, (*fate.kept, *lost, *fate.new))
    for fate in picture.fates.values():
        workload = fate.workload
        waits = _waits(picture, fate)
        if promised.short(workload, fate.new):
            text = f"What {workload.id} gets is promised to others too."
            yield broken(BrokenRule.OVER_CAPACITY, text, workload=workload.id)
        elif fate.new and not waits and held.short(workload, fate.new):
            text = f"{workload.id} starts on what somebody still holds."
            yield broken(BrokenRule.HELD_TWICE, text, workload=workload.id)
        pods = (*fate.kept, *fate.new)
        if waits and not everything.short(workload, pods):
            text = f"{workload.id} waits for victims, but nobody holds what it was given."
            yield broken(BrokenRule.WAITS_UNTRUE, text, workload=workload.id)
        first = (*fate.kept, *fate.at_its_turn)
        is_held = everything.short(workload, first) and not promised.short(workload, first)
        if is_held and workload.status in (OpenStatus.PENDING, OpenStatus.QUEUED):
            yield from _while_it_waits(fate, told=waits)


def _while_it_waits(fate: Fate, *, told: bool) -> Iterator[Violation]:
    """Who was given what somebody who is stopping still holds is told so, and does not grow."""
    id_ = fate.workload.id
    if fate.grown:
        text = f"{id_} grows, although somebody still holds what it was given first."
        yield broken(BrokenRule.GROWS_WAITING, text, workload=id_)
    elif fate.action is Action.KEEP and not told:
        text = f"{id_} is not told that somebody still holds what it was given."
        yield broken(BrokenRule.WAITS_UNTRUE, text, workload=id_)


def _waits(picture: Picture, fate: Fate) -> bool:
    """Whether the plan says that somebody still holds what it was given."""
    if fate.action is Action.START:
        return picture.starts[fate.workload.id].waits_for_victims
    reason = fate.reason
    placed = fate.action is Action.KEEP and fate.workload.status in PLACED
    return placed and reason is not None and reason.code is ReasonCode.WAITING_FOR_VICTIMS
