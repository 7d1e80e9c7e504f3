"""What a workload can never do in a pool as things are set up, whatever runs (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scheduling.engine import reasons
from scheduling.engine.model.plan import Reason, ReasonCode, ReasonKind
from scheduling.engine.model.quantities import UNLIMITED, gpus, in_gpus, memory_share
from scheduling.engine.model.snapshot import GPU_MILLI, Device, Memory, Node, Pool, Share, Slicing, Workload
from scheduling.engine.placement.domains import NODE_LEVEL
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.node_eligibility import NodeClass, Service
from scheduling.engine.placement.nodes import Nodes, PoolNodes
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import Tree

WHOLE_ONLY = "they give out whole GPUs only"
"""Said of nodes that share none."""


class Example(NamedTuple):
    """So many pods of so many whole GPUs each."""

    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a workload out of a pool. ``back_milli``: only nodes that are out of service do; with them back its
    minimum of pods would take so many milli-GPUs. ``examples``: as many GPUs in smaller pods, for which there would be
    nodes; ``None`` where smaller pods are no remedy."""

    reason: Reason
    back_milli: int | None = None
    examples: tuple[Example, ...] | None = None

    @property
    def is_for_others(self) -> bool:
        """Whether its user is not the one to mend it."""
        return self.back_milli is not None or self.reason.kind is not ReasonKind.CHANGE


def of_nodes(pool_nodes: PoolNodes, ask: PodRequest, min_pods: int) -> Obstacle | None:
    """What keeps this many pods of an ask out of the empty pool.

    What would be so even with all nodes in service is told with all counted in: else a number would be named that is
    not so. Else the cause is that some are not.
    """
    nodes, everything = pool_nodes.in_service, pool_nodes.everything
    found = _of_these(nodes, ask, min_pods)
    if found is None or nodes is everything:
        return None if found is None else Obstacle(found, None, _in_smaller_pods(nodes, ask, min_pods, found))
    never = _of_these(everything, ask, min_pods)
    if never is not None:
        return Obstacle(never, None, _in_smaller_pods(everything, ask, min_pods, never))
    if _of_these(pool_nodes.connected, ask, min_pods) is None:
        milli = min_pods * pool_nodes.connected.pod_milli(ask)
        return Obstacle(reasons.cluster_offline(nodes.pool, milli or None), milli)
    missed = [node for node in everything.unshared.takers(ask, min_pods) if not nodes.service.counts(node)]
    reason = reasons.out_of_service(found, missed, none_left=not nodes.classes)
    examples = _in_smaller_pods(nodes, ask, min_pods, found)
    return Obstacle(reason, min_pods * everything.pod_milli(ask), examples)


def _in_smaller_pods(
    nodes: Nodes, ask: PodRequest, min_pods: int, found: Reason
) -> tuple[Example, ...] | None:
    """As many GPUs in smaller pods that fit into the empty pool, the largest first; ``None`` where a pod does not ask
    for more GPUs than the largest nodes have."""
    asked, most = found.asked_milli or 0, found.limit_milli or 0
    if found.code is not ReasonCode.LARGER_THAN_ANY_NODE or not asked > most >= GPU_MILLI or not ask.whole:
        return None
    fitting = []
    for size in range(most // GPU_MILLI, 0, -1):
        pods = min_pods * -(-ask.whole // size)
        smaller = replace(ask, request=Share(size * GPU_MILLI), whole=size, together=pods > 1)
        if _of_these(nodes, smaller, pods) is None:
            fitting.append(Example(pods, size))
    return tuple(fitting)


def _of_these(nodes: Nodes, ask: PodRequest, min_pods: int) -> Reason | None:
    pool, kinds = nodes.pool, nodes.undivided()
    if not kinds:
        return reasons.no_node(pool, ask.gpu_types)
    typed = [kind for kind in kinds if _has_type(kind, ask)]
    if not typed or _is_left_with_slices(kinds, ask):
        types = {device.gpu_type for kind in kinds for device in kind.devices}
        if not ask.gpu_types:
            return reasons.slices_only(pool, _in_words(nodes, ask), sorted(types - {""}))
        offered = sorted(gpu_type or "GPUs of unknown type" for gpu_type in types)
        of_all = nodes.service is Service.ALL
        return reasons.no_matching_gpu_type(pool, ask.gpu_types, offered, of_all=of_all)
    if not any(kind.admits(ask) for kind in typed):
        slices = () if ask.gpu_types or len(typed) == len(kinds) else _slices_that_take(kinds, ask)
        keeps_out = _what_keeps_out(typed, ask)
        step = reasons.ask_for_whole(pool, slices) if keeps_out == [WHOLE_ONLY] else None
        return reasons.no_matching_nodes(
            pool, keeps_out, ask.gpu_types, unnamed=len(typed) < len(kinds), slices=slices, step=step
        )
    # What others share now is closed to it only as long as they run.
    fits_none = nodes.most_pods(ask, nodes.usable(ask, closed_too=True)) == 0
    return _too_large_a_pod(nodes, ask) if fits_none else _too_many_pods(nodes, ask, min_pods)


def _has_type(kind: NodeClass, ask: PodRequest) -> bool:
    """Whether a kind has a device of a type that it asks for; where it names none, whether it has others than slices
    that go by name only."""
    if not ask.gpu_types and (ask.bare or not kind.has_slices):
        return True
    return any(is_of_type(device, ask) for device in kind.devices)


def _is_left_with_slices(kinds: Iterable[NodeClass], ask: PodRequest) -> bool:
    """Whether it names no type, and all devices that there are are slices that go by name only."""
    devices = [device for kind in kinds for device in kind.devices]
    by_name = not (ask.gpu_types or ask.bare)
    return by_name and bool(devices) and not any(is_of_type(device, ask) for device in devices)


def _slices_that_take(kinds: Iterable[NodeClass], ask: PodRequest) -> list[str]:
    """The types of slices on nodes whose labels, partition and taints let an ask in that names none."""
    devices = {device for kind in kinds if kind.admits(ask) for device in kind.devices}
    return sorted({each.gpu_type for each in devices if each.slicing is not Slicing.WHOLE} - {""})


def _what_keeps_out(kinds: Iterable[NodeClass], ask: PodRequest) -> list[str]:
    """Which of its demands the nodes do not meet: those that no node meets if there are such, else their
    combination."""
    kinds = list(kinds)
    found = []
    for key, value in ask.node_selector:
        if not any((key, value) in kind.labels for kind in kinds):
            found.append(f"none has the label {key}={value}")
    if not any(kind.partition == ask.partition for kind in kinds):
        found.append(
            f"none is of the partition {ask.partition}"
            if ask.partition
            else "all belong to partitions it does not name"
        )
    if not any(kind.gives(ask) for kind in kinds):
        found.append(WHOLE_ONLY)
    if taints := _taints(kinds, ask):
        found.append(f"it does not tolerate the taint {taints}")
    return found or [_what_keeps_out_together(kinds, ask)]


def _what_keeps_out_together(kinds: Iterable[NodeClass], ask: PodRequest) -> str:
    """Why no node lets the ask in, though each of its demands is met by some: the taint of those that have its labels
    and are of its partition, if it is that."""
    meet = [kind for kind in kinds if kind.partition == ask.partition and kind.has_labels(ask)]
    if meet and (taints := _taints(meet, ask)):
        labels = " with its labels" if ask.node_selector else ""
        partition = f" of the partition {ask.partition}" if ask.partition else ""
        return f"it does not tolerate the taint {taints} of the nodes{partition}{labels}"
    return "no one node meets its labels, partition, taints and sharing together"


def _taints(kinds: Collection[NodeClass], ask: PodRequest) -> str:
    """The taints that keep the ask out of all of these, in words; "" where they do not."""
    if any(all(ask.tolerates(taint) for taint in kind.taints) for kind in kinds):
        return ""
    taints = {taint for kind in kinds for taint in kind.taints if not ask.tolerates(taint)}
    names = sorted({f"{each.key}={each.value}" if each.value else each.key for each in taints})
    return " or ".join(names)


def _too_large_a_pod(nodes: Nodes, ask: PodRequest) -> Reason:
    """One pod fits on no empty node: say what there is too little of.

    The numbers are given where it is GPUs, or their memory, as parts of the GPU that has most.
    """
    pool = nodes.pool
    admitted = {number for number, kind in enumerate(nodes.classes) if kind.admits(ask)}
    admitting = [
        (node, kind) for node, kind in zip(nodes.rows, nodes.class_of, strict=True) if kind in admitted
    ]
    typed = [
        [each for each in node.devices if is_of_type(each, ask) and _is_given(each, nodes.classes[kind], ask)]
        for node, kind in admitting
    ]
    left = [[device for device in devices if not device.foreign] for devices in typed]
    if not any(left):
        return _no_gpu(nodes, ask, [device for devices in typed for device in devices])
    if isinstance(ask.request, Memory):
        found = _too_much_memory(pool, ask.request.mib, [device for devices in left for device in devices])
        if found is not None:
            return found
    if all(device.slicing is not Slicing.WHOLE for devices in left for device in devices):
        found = _more_than_a_slice(nodes, ask, max(each.share_milli for devices in left for each in devices))
        if found is not None:
            return found
    asked, most = nodes.pod_milli(ask), max(map(_in_whole_gpus, left))
    if asked > max(most, *(device.share_milli for devices in left for device in devices)):
        largest = [there for mine, there in zip(left, typed, strict=True) if _in_whole_gpus(mine) == most]
        besides = ", besides those used without Chamber" if max(map(_in_whole_gpus, largest)) > most else ""
        text = f"A pod asks for {gpus(asked)}, but the largest node it may use has {in_gpus(most)}{besides}."
        return reasons.larger_than_any_node(pool, text, asked, most)
    rooms = [free_when_empty(node) for node, kind in admitting if _has_gpus(node, nodes.classes[kind], ask)]
    cpu = max((room.cpu for room in rooms), default=0)
    memory = max((room.memory for room in rooms), default=0)
    if cpu < ask.cpu_milli:
        what = f"{in_gpus(ask.cpu_milli)} CPU{'' if ask.cpu_milli == 1000 else 's'}"
        text = f"A pod asks for {what}, but the largest node with GPUs for it has {in_gpus(cpu)}."
        if memory < ask.memory_mib:
            text += f" It also asks for {ask.memory_mib} MiB of memory, of which no such node has more than {memory}."
    elif memory < ask.memory_mib:
        text = f"A pod asks for {ask.memory_mib} MiB of memory, but the largest node with GPUs for it has {memory}."
    else:
        text = "A pod asks for more CPU and memory together than any one node with GPUs for it has."
    return reasons.larger_than_any_node(pool, text, asked, None)


def _has_gpus(node: Node, kind: NodeClass, ask: PodRequest) -> bool:
    """Whether the GPUs of an empty node are enough for a pod, whatever CPU and memory it has."""
    room = NodeFree(free_when_empty(node).gpu, UNLIMITED, UNLIMITED)
    return ask.bare or pods_in(room, kind.costs(ask), ask) > 0


def is_of_type(device: Device | DeviceProfile, ask: PodRequest) -> bool:
    """Whether it is of a type that is asked for; where none is named, a GPU, or for a part of one also a replica."""
    if ask.gpu_types:
        return device.gpu_type in ask.gpu_types
    return device.slicing is Slicing.WHOLE or (device.slicing is Slicing.REPLICAS and not ask.whole)


def _is_given(device: Device, kind: NodeClass, ask: PodRequest) -> bool:
    """Whether sharing lets the ask use the device of a node that lets it in."""
    return bool(ask.whole or ask.bare or kind.sharing) or device.slicing is not Slicing.WHOLE


def _in_whole_gpus(devices: Iterable[Device]) -> int:
    """How many milli-GPUs a pod could have of these in whole GPUs."""
    return GPU_MILLI * sum(device.slicing is Slicing.WHOLE for device in devices)


def _more_than_a_slice(nodes: Nodes, ask: PodRequest, most: int) -> Reason | None:
    """A pod asks for more than one slice, or for more of a GPU than the largest one is."""
    if ask.whole > 1:
        text = f"A pod asks for {ask.whole} of {' or '.join(ask.gpu_types)}, but takes one slice of a GPU at most."
        step = "Ask for 1 GPU per pod, and for more pods if need be."
        return reasons.larger_than_any_node(nodes.pool, text, ask.whole * most, most, next_step=step)
    if not isinstance(ask.request, Share) or ask.whole or ask.request.milli <= most:
        return None
    asked = ask.request.milli
    text = (
        f"A pod asks for {gpus(asked)}, but the largest slice of a GPU it may use is {in_gpus(most)} of one."
    )
    step = "Ask for a smaller part, for a whole GPU, or name a larger slice."
    return reasons.larger_than_any_node(nodes.pool, text, asked, most, next_step=step)


def _no_gpu(nodes: Nodes, ask: PodRequest, taken: Sequence[Device]) -> Reason:
    """The nodes that let the ask in have no GPUs, or only such (``taken``) as others use."""
    asked = _part_of_largest(ask.request.mib, taken) if isinstance(ask.request, Memory) else ask.request.milli
    if isinstance(ask.request, Memory) and asked is not None and asked > GPU_MILLI:
        asked = None
    others = any(
        not device.foreign
        for node, kind in zip(nodes.rows, nodes.class_of, strict=True)
        for device in (node.devices if kind >= 0 else ())
    )
    what = _in_words(nodes, ask)
    if not taken and _are_whole_only(nodes, ask):
        text = f"A pod asks for {what}, but the nodes it may use give out whole GPUs only."
        step = reasons.ask_for_whole(nodes.pool)
        return reasons.larger_than_any_node(nodes.pool, text, None, None, next_step=step)
    step = "Change what it asks of the node, or choose another pool" if others else "Choose another pool"
    if taken:
        text = f"A pod asks for {what}, but all GPUs it may use are used without Chamber."
        step += ", or ask an admin to free GPUs of this one"
    else:
        text = f"A pod asks for {what}, but the nodes it may use have no GPUs."
    return reasons.larger_than_any_node(nodes.pool, text, asked, 0, next_step=f"{step}.")


def _are_whole_only(nodes: Nodes, ask: PodRequest) -> bool:
    """Whether there are GPUs that it could use if it asked for whole ones."""
    return any(
        is_of_type(device, ask) and not device.foreign and not _is_given(device, nodes.classes[kind], ask)
        for node, kind in zip(nodes.rows, nodes.class_of, strict=True)
        if kind >= 0 and nodes.classes[kind].admits_whole(ask)
        for device in node.devices
    )


def _in_words(nodes: Nodes, ask: PodRequest) -> str:
    """What a pod asks for of GPUs."""
    request = ask.request
    if ask.whole == 1 and nodes.pod_milli(ask) < GPU_MILLI:
        return f"one {' or '.join(ask.gpu_types)}"
    return f"{request.mib} MiB of GPU memory" if isinstance(request, Memory) else gpus(request.milli)


def _too_much_memory(pool: Pool, mib: int, usable: Sequence[Device]) -> Reason | None:
    """No device that the ask may use has so much memory, as far as that is known."""
    asked = _part_of_largest(mib, usable)
    if asked is not None and asked <= GPU_MILLI:
        return None
    # As parts of a GPU it would be told as GPUs asked for, more than one: nobody did.
    text = f"A pod asks for {mib} MiB of GPU memory, but "
    if asked is None:
        text += "of no GPU it may use is it known how much it has."
        step = "Ask for GPUs, or for a part of one, instead of GPU memory."
        return reasons.larger_than_any_node(pool, text, None, None, next_step=step)
    known = [device.memory_mib for device in usable if device.memory_mib]
    has = "has" if len(known) == len(usable) else "is known to have"
    text += f"no GPU it may use {has} more than {max(known)}."
    step = "Ask for less GPU memory, or for several GPUs per pod."
    return reasons.larger_than_any_node(pool, text, None, None, next_step=step)


def _part_of_largest(mib: int, devices: Iterable[Device]) -> int | None:
    """The share that so much memory is of the device that has most, in milli-GPUs; ``None`` if none is known."""
    known = max((device.memory_mib or 0 for device in devices), default=0)
    return memory_share(mib, known) if known else None


def _too_many_pods(nodes: Nodes, ask: PodRequest, min_pods: int) -> Reason | None:
    """All pods together are too many for the pool, for each cluster, or for each domain they require."""
    pool, what, pod = nodes.pool, _in_words(nodes, ask), nodes.pod_milli(ask)
    held: dict[tuple[str, bool], int] = {}
    for usable in nodes.usable(ask, closed_too=True):
        kind = nodes.classes[usable.number]
        where = (kind.cluster, ask.one_sort and kind.is_sliced(usable.costs))
        held[where] = held.get(where, 0) + nodes.most_pods(ask, [usable])
    most, clusters = max(held.values()), {cluster for cluster, _ in held}
    level, levels = ask.topology.required, (*pool.topology, NODE_LEVEL)
    if min_pods > most:
        both = len({sliced for _, sliced in held}) > 1
        inside = None if level not in levels else (level, nodes.unshared.most_together(ask))
        return reasons.larger_than_pool(
            pool, min_pods, most, what=what, pod=pod, clusters=len(clusters), either=both, inside=inside
        )
    if level is None:
        return None
    if level not in levels:
        return reasons.no_such_level(pool, level, min_pods * pod, levels)
    if min_pods <= nodes.most_together(ask):
        return None
    most = nodes.unshared.most_together(ask)
    if min_pods <= most:
        return None
    return reasons.topology_impossible(pool, level, min_pods, most, what=what, pod=pod)


def of_quota(
    tree: Tree, charges: Charges, leaf: int, workload: Workload, milli: int, *, pool: Pool
) -> Reason | None:
    """What its team's guarantees and ceilings in a pool will never allow."""
    ceilings = charges.ceilings_forever(leaf, milli, reserved=workload.reserved)
    if workload.reserved:
        limit = charges.limit(leaf)
        if milli > limit:
            return reasons.exceeds_reservation(tree, leaf, milli, limit, pool=pool, ceilings=ceilings)
    return reasons.exceeds_ceilings(tree, ceilings, milli) if ceilings else None
