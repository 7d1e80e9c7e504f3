"""What a workload can never do in a pool as things are set up, whatever runs (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from scheduling.engine.model.plan import Reason, ReasonCode, ReasonKind
from scheduling.engine.model.quantities import UNLIMITED, gpus, in_gpus, memory_share
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    DeviceInfo,
    GpuShare,
    Memory,
    NodeInfo,
    PoolInfo,
    Slicing,
    WorkloadInfo,
)
from scheduling.engine.placement.domains import NODE_LEVEL
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.node_eligibility import NodeClass, NodeService
from scheduling.engine.placement.nodes import Nodes, PoolNodes
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons import misfit_sentences, sentences

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


def of_nodes(pool_nodes: PoolNodes, request: PodRequest, min_pods: int) -> Obstacle | None:
    """What keeps this many pods of a request out of the empty pool.

    What would be so even with all nodes in service is told with all counted in: else a number would be named that is
    not so. Else the cause is that some are not.
    """
    nodes, everything = pool_nodes.in_service, pool_nodes.everything
    found = _of_these(nodes, request, min_pods)
    if found is None:
        return None
    never = found if nodes is everything else _of_these(everything, request, min_pods)
    if never is not None:
        return Obstacle(never, None, _in_smaller_pods(everything, request, min_pods, never))
    if _of_these(pool_nodes.connected, request, min_pods) is None:
        milli = min_pods * pool_nodes.connected.pod_milli(request)
        return Obstacle(sentences.cluster_offline(nodes.pool, milli or None), milli)
    missed = [node for node in everything.takers(request, min_pods) if not nodes.service.counts(node)]
    reason = sentences.out_of_service(found, missed, none_left=not nodes.classes)
    examples = _in_smaller_pods(nodes, request, min_pods, found)
    return Obstacle(reason, min_pods * everything.pod_milli(request), examples)


def _in_smaller_pods(
    nodes: Nodes, request: PodRequest, min_pods: int, found: Reason
) -> tuple[Example, ...] | None:
    """As many GPUs in smaller pods that fit into the empty pool, the largest first; ``None`` where a pod does not ask
    for more GPUs than the largest nodes have."""
    asked, most = found.asked_milli or 0, found.limit_milli or 0
    too_large = found.code is ReasonCode.LARGER_THAN_ANY_NODE and asked > most >= GPU_MILLI
    if not (too_large and request.whole):
        return None
    fitting = []
    for size in range(most // GPU_MILLI, 0, -1):
        pods = min_pods * -(-request.whole // size)
        smaller = replace(request, request=GpuShare(size * GPU_MILLI), whole=size, together=pods > 1)
        if _of_these(nodes, smaller, pods) is None:
            fitting.append(Example(pods, size))
    return tuple(fitting)


def _of_these(nodes: Nodes, request: PodRequest, min_pods: int) -> Reason | None:
    pool, kinds = nodes.pool, nodes.undivided()
    if not kinds:
        return misfit_sentences.no_node(pool, request.gpu_types)
    typed = [kind for kind in kinds if _has_type(kind, request)]
    if not typed or _is_left_with_slices(kinds, request):
        types = {device.gpu_type for kind in kinds for device in kind.devices}
        if not request.gpu_types:
            return misfit_sentences.slices_only(pool, _in_words(nodes, request), sorted(types - {""}))
        offered = sorted(gpu_type or "GPUs of unknown type" for gpu_type in types)
        of_all = nodes.service is NodeService.ALL
        return misfit_sentences.no_matching_gpu_type(pool, request.gpu_types, offered, of_all=of_all)
    if not any(kind.admits(request) for kind in typed):
        slices = () if request.gpu_types or len(typed) == len(kinds) else _slices_that_take(kinds, request)
        keeps_out = _what_keeps_out(typed, request)
        step = misfit_sentences.ask_for_whole(pool, slices) if keeps_out == [WHOLE_ONLY] else None
        return misfit_sentences.no_matching_nodes(
            pool, keeps_out, request.gpu_types, unnamed=len(typed) < len(kinds), slices=slices, step=step
        )
    # What others share now is closed to it only as long as they run.
    fits_none = nodes.most_pods(request, nodes.usable(request, closed_too=True)) == 0
    return _too_large_a_pod(nodes, request) if fits_none else _too_many_pods(nodes, request, min_pods)


def _has_type(kind: NodeClass, request: PodRequest) -> bool:
    """Whether a kind has a device of a type that it asks for; where it names none, whether it has others than slices
    that go by name only."""
    if not request.gpu_types and (request.bare or not kind.has_slices):
        return True
    return any(is_of_type(device, request) for device in kind.devices)


def _is_left_with_slices(kinds: Iterable[NodeClass], request: PodRequest) -> bool:
    """Whether it names no type, and all devices that there are are slices that go by name only."""
    devices = [device for kind in kinds for device in kind.devices]
    by_name = not (request.gpu_types or request.bare)
    return by_name and bool(devices) and not any(is_of_type(device, request) for device in devices)


def _slices_that_take(kinds: Iterable[NodeClass], request: PodRequest) -> list[str]:
    """The types of slices on nodes whose labels, partition and taints let a request in that names none."""
    devices = {device for kind in kinds if kind.admits(request) for device in kind.devices}
    return sorted({each.gpu_type for each in devices if each.slicing is not Slicing.WHOLE} - {""})


def _what_keeps_out(kinds: Iterable[NodeClass], request: PodRequest) -> list[str]:
    """Which of its demands the nodes do not meet: those that no node meets if there are such, else their
    combination."""
    kinds = list(kinds)
    found = []
    for key, value in request.node_selector:
        if not any((key, value) in kind.labels for kind in kinds):
            found.append(f"none has the label {key}={value}")
    if not any(kind.partition == request.partition for kind in kinds):
        found.append(
            f"none is of the partition {request.partition}"
            if request.partition
            else "all belong to partitions it does not name"
        )
    if not any(kind.gives(request) for kind in kinds):
        found.append(WHOLE_ONLY)
    if taints := _taints(kinds, request):
        found.append(f"it does not tolerate the taint {taints}")
    return found or [_what_keeps_out_together(kinds, request)]


def _what_keeps_out_together(kinds: Iterable[NodeClass], request: PodRequest) -> str:
    """Why no node admits the request, though some node meets each of its demands.

    The taint of the nodes that have its labels and are of its partition, if it is that.
    """
    meet = [kind for kind in kinds if kind.partition == request.partition and kind.has_labels(request)]
    if meet and (taints := _taints(meet, request)):
        labels = " with its labels" if request.node_selector else ""
        partition = f" of the partition {request.partition}" if request.partition else ""
        return f"it does not tolerate the taint {taints} of the nodes{partition}{labels}"
    return "no one node meets its labels, partition, taints and sharing together"


def _taints(kinds: Collection[NodeClass], request: PodRequest) -> str:
    """The taints that keep the request out of all of these, in words; "" where they do not."""
    if any(all(request.tolerates(taint) for taint in kind.taints) for kind in kinds):
        return ""
    taints = {taint for kind in kinds for taint in kind.taints if not request.tolerates(taint)}
    names = sorted({f"{each.key}={each.value}" if each.value else each.key for each in taints})
    return " or ".join(names)


def _too_large_a_pod(nodes: Nodes, request: PodRequest) -> Reason:
    """One pod fits on no empty node: say what there is too little of.

    The numbers are given where it is GPUs, or their memory, as parts of the GPU that has most.
    """
    pool = nodes.pool
    admitted = {number for number, kind in enumerate(nodes.classes) if kind.admits(request)}
    admitting = [
        (node, kind) for node, kind in zip(nodes.rows, nodes.class_of, strict=True) if kind in admitted
    ]
    typed = [
        [
            each
            for each in node.devices
            if is_of_type(each, request) and _is_given(each, nodes.classes[kind], request)
        ]
        for node, kind in admitting
    ]
    left = [[device for device in devices if not device.foreign] for devices in typed]
    if not any(left):
        return _no_gpu(nodes, request, [*chain(*typed)])
    usable = [*chain(*left)]
    if isinstance(request.request, Memory):
        found = _too_much_memory(pool, request.request.mib, usable)
        if found is not None:
            return found
    if all(device.slicing is not Slicing.WHOLE for device in usable):
        found = _more_than_a_slice(nodes, request, max(each.share_milli for each in usable))
        if found is not None:
            return found
    asked, most = nodes.pod_milli(request), max(map(_in_whole_gpus, left))
    if asked > max(most, *(device.share_milli for device in usable)):
        largest = [there for mine, there in zip(left, typed, strict=True) if _in_whole_gpus(mine) == most]
        besides = ", besides those used without Chamber" if max(map(_in_whole_gpus, largest)) > most else ""
        text = f"A pod asks for {gpus(asked)}, but the largest node it may use has {in_gpus(most)}{besides}."
        return misfit_sentences.larger_than_any_node(pool, text, asked, most)
    free = [
        free_when_empty(node) for node, kind in admitting if _has_gpus(node, nodes.classes[kind], request)
    ]
    text = _too_little_beside_gpus(request, free)
    return misfit_sentences.larger_than_any_node(pool, text, asked, None)


def _too_little_beside_gpus(request: PodRequest, free: Collection[NodeFree]) -> str:
    """What a pod asks for beside GPUs that no one empty node with GPUs for it has."""
    cpu = max((node_free.cpu for node_free in free), default=0)
    memory = max((node_free.memory for node_free in free), default=0)
    if cpu < request.cpu_milli:
        what = f"{in_gpus(request.cpu_milli)} CPU{'' if request.cpu_milli == 1000 else 's'}"
        text = f"A pod asks for {what}, but the largest node with GPUs for it has {in_gpus(cpu)}."
        if memory < request.memory_mib:
            text += f" It also asks for {request.memory_mib} MiB of memory, of which no such node has "
            text += f"more than {memory}."
    elif memory < request.memory_mib:
        text = f"A pod asks for {request.memory_mib} MiB of memory, but the largest node with GPUs for it has {memory}."
    else:
        text = "A pod asks for more CPU and memory together than any one node with GPUs for it has."
    return text


def _has_gpus(node: NodeInfo, kind: NodeClass, request: PodRequest) -> bool:
    """Whether the GPUs of an empty node are enough for a pod, whatever CPU and memory it has."""
    node_free = NodeFree(free_when_empty(node).gpu, UNLIMITED, UNLIMITED)
    return request.bare or pods_in(node_free, kind.costs(request), request) > 0


def is_of_type(device: DeviceInfo | DeviceProfile, request: PodRequest) -> bool:
    """Whether it is of a type that is asked for; where none is named, a GPU, or for a part of one also a replica."""
    if request.gpu_types:
        return device.gpu_type in request.gpu_types
    return device.slicing is Slicing.WHOLE or (device.slicing is Slicing.REPLICAS and not request.whole)


def _is_given(device: DeviceInfo, kind: NodeClass, request: PodRequest) -> bool:
    """Whether sharing lets the request use the device of a node that lets it in."""
    return bool(request.whole or request.bare or kind.sharing) or device.slicing is not Slicing.WHOLE


def _in_whole_gpus(devices: Iterable[DeviceInfo]) -> int:
    """How many milli-GPUs a pod could have of these in whole GPUs."""
    return GPU_MILLI * sum(device.slicing is Slicing.WHOLE for device in devices)


def _more_than_a_slice(nodes: Nodes, request: PodRequest, most: int) -> Reason | None:
    """A pod asks for more than one slice, or for more of a GPU than the largest one is."""
    if request.whole > 1:
        types = " or ".join(request.gpu_types)
        text = f"A pod asks for {request.whole} of {types}, but takes one slice of a GPU at most."
        step = "Ask for 1 GPU per pod, and for more pods if need be."
        return misfit_sentences.larger_than_any_node(
            nodes.pool, text, request.whole * most, most, next_step=step
        )
    if not isinstance(request.request, GpuShare) or request.whole or request.request.milli <= most:
        return None
    asked = request.request.milli
    text = (
        f"A pod asks for {gpus(asked)}, but the largest slice of a GPU it may use is {in_gpus(most)} of one."
    )
    step = "Ask for a smaller part, for a whole GPU, or name a larger slice."
    return misfit_sentences.larger_than_any_node(nodes.pool, text, asked, most, next_step=step)


def _no_gpu(nodes: Nodes, request: PodRequest, taken: Sequence[DeviceInfo]) -> Reason:
    """The nodes that let the request in have no GPUs, or only such (``taken``) as others use."""
    asked = (
        _part_of_largest(request.request.mib, taken)
        if isinstance(request.request, Memory)
        else request.request.milli
    )
    if isinstance(request.request, Memory) and asked is not None and asked > GPU_MILLI:
        asked = None
    others = any(
        not device.foreign
        for node, kind in zip(nodes.rows, nodes.class_of, strict=True)
        for device in (node.devices if kind >= 0 else ())
    )
    what = _in_words(nodes, request)
    if not taken and _are_whole_only(nodes, request):
        text = f"A pod asks for {what}, but the nodes it may use give out whole GPUs only."
        step = misfit_sentences.ask_for_whole(nodes.pool)
        return misfit_sentences.larger_than_any_node(nodes.pool, text, None, None, next_step=step)
    step = "Change what it asks of the node, or choose another pool" if others else "Choose another pool"
    if taken:
        text = f"A pod asks for {what}, but all GPUs it may use are used without Chamber."
        step += ", or ask an admin to free GPUs of this one"
    else:
        text = f"A pod asks for {what}, but the nodes it may use have no GPUs."
    return misfit_sentences.larger_than_any_node(nodes.pool, text, asked, 0, next_step=f"{step}.")


def _are_whole_only(nodes: Nodes, request: PodRequest) -> bool:
    """Whether there are GPUs that it could use if it asked for whole ones."""
    return any(
        is_of_type(device, request)
        and not device.foreign
        and not _is_given(device, nodes.classes[kind], request)
        for node, kind in zip(nodes.rows, nodes.class_of, strict=True)
        if kind >= 0 and nodes.classes[kind].admits_whole(request)
        for device in node.devices
    )


def _in_words(nodes: Nodes, request: PodRequest) -> str:
    """What a pod asks for of GPUs."""
    asked = request.request
    if request.whole == 1 and nodes.pod_milli(request) < GPU_MILLI:
        return f"one {' or '.join(request.gpu_types)}"
    return f"{asked.mib} MiB of GPU memory" if isinstance(asked, Memory) else gpus(asked.milli)


def _too_much_memory(pool: PoolInfo, mib: int, usable: Sequence[DeviceInfo]) -> Reason | None:
    """No device that the request may use has so much memory, as far as that is known."""
    asked = _part_of_largest(mib, usable)
    if asked is not None and asked <= GPU_MILLI:
        return None
    # As parts of a GPU it would be told as GPUs asked for, more than one, which was not asked for.
    text = f"A pod asks for {mib} MiB of GPU memory, but "
    if asked is None:
        text += "of no GPU it may use is it known how much it has."
        step = "Ask for GPUs, or for a part of one, instead of GPU memory."
        return misfit_sentences.larger_than_any_node(pool, text, None, None, next_step=step)
    known = [device.memory_mib for device in usable if device.memory_mib]
    has = "has" if len(known) == len(usable) else "is known to have"
    text += f"no GPU it may use {has} more than {max(known)}."
    step = "Ask for less GPU memory, or for several GPUs per pod."
    return misfit_sentences.larger_than_any_node(pool, text, None, None, next_step=step)


def _part_of_largest(mib: int, devices: Iterable[DeviceInfo]) -> int | None:
    """The share that so much memory is of the device that has most, in milli-GPUs; ``None`` if none is known."""
    known = max((device.memory_mib or 0 for device in devices), default=0)
    return memory_share(mib, known) if known else None


def _too_many_pods(nodes: Nodes, request: PodRequest, min_pods: int) -> Reason | None:
    """All pods together are too many for the pool, for each cluster, or for each domain they require."""
    pool, what, pod = nodes.pool, _in_words(nodes, request), nodes.pod_milli(request)
    held: dict[tuple[str, bool], int] = {}
    for usable in nodes.usable(request, closed_too=True):
        kind = nodes.classes[usable.number]
        where = (kind.cluster, request.one_sort and kind.is_sliced(usable.costs))
        held[where] = held.get(where, 0) + nodes.most_pods(request, [usable])
    most, clusters = max(held.values()), {cluster for cluster, _ in held}
    level, levels = request.topology.required, (*pool.topology, NODE_LEVEL)
    if min_pods > most:
        both = len({sliced for _, sliced in held}) > 1
        inside = None if level not in levels else (level, nodes.most_together(request, closed_too=True))
        return misfit_sentences.larger_than_pool(
            pool, min_pods, most, what=what, pod=pod, clusters=len(clusters), either=both, inside=inside
        )
    if level is None:
        return None
    if level not in levels:
        return misfit_sentences.no_such_level(pool, level, min_pods * pod, levels)
    if min_pods <= nodes.most_together(request):
        return None
    most = nodes.most_together(request, closed_too=True)
    if min_pods <= most:
        return None
    return misfit_sentences.topology_impossible(pool, level, min_pods, most, what=what, pod=pod)


def of_quota(
    tree: Tree, charges: Charges, leaf: int, workload: WorkloadInfo, milli: int, *, pool: PoolInfo
) -> Reason | None:
    """What its team's guarantees and ceilings in a pool will never allow."""
    ceilings = charges.ceilings_forever(leaf, milli, reserved=workload.reserved)
    if workload.reserved:
        limit = charges.limit(leaf)
        if milli > limit:
            return misfit_sentences.exceeds_reservation(
                tree, leaf, milli, limit, pool=pool, ceilings=ceilings
            )
    return misfit_sentences.exceeds_ceilings(tree, ceilings, milli) if ceilings else None
