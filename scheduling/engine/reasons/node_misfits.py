"""Why pods fit on no node of a pool, or too few of them, even if the nodes ran nothing of ours (sections 5 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from scheduling.engine.model.plan import Reason, ReasonCode
from scheduling.engine.model.quantities import UNLIMITED, gpus, in_gpus, memory_share
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    DataSet,
    DeviceInfo,
    GpuShare,
    Memory,
    NodeInfo,
    Sharing,
    Slicing,
)
from scheduling.engine.placement.domains import NODE_LEVEL
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.node_eligibility import NodeClass, NodeService
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest
from scheduling.engine.reasons import sentences

LESS_PER_POD = "Ask for less per pod, and for more pods if need be"
LESS_IN_ALL = "Ask for less per pod and in all"
WHOLE_ONLY = "they give out whole GPUs only"
"""Said of nodes that share none."""


def is_of_type(device: DeviceInfo | DeviceProfile, request: PodRequest) -> bool:
    """Whether it is of a type that is asked for; where none is named, a GPU, or for a part of one also a replica."""
    if request.gpu_types:
        return device.gpu_type in request.gpu_types
    return device.slicing is Slicing.WHOLE or (device.slicing is Slicing.REPLICAS and not request.whole)


def _where(data: DataSet) -> str:
    *others, last = data.named or data.clusters or ("",)
    together = f"{', '.join(others)} and {last}" if others else last
    return f"on {together} only" if last else "on no cluster"


class NodeMisfits:
    """Why pods of a request would not fit on these nodes. All sentences here speak of one pool."""

    def __init__(self, nodes: Nodes, request: PodRequest) -> None:
        self._nodes = nodes
        self._pool = nodes.pool
        self._request = request

    def find(self, min_pods: int) -> Reason | None:
        """What keeps that many out: data, types, labels, taints, a pod's size, their number; ``None`` if they fit."""
        classes, nodes, request = self._nodes.undivided(), self._nodes, self._request
        if not classes:
            return self._reason(
                ReasonCode.NO_MATCHING_GPU_TYPE if request.gpu_types else ReasonCode.NO_MATCHING_NODES,
                f"The pool {self._pool.name} has no node that takes workloads.",
                "Choose another pool, or ask an operator to connect a cluster with nodes for this one.",
            )
        if request.data:
            classes = [each for each in classes if each.has_data(request)]
            if not classes:
                return self._no_data()
        typed = [each for each in classes if _has_type(each, request)]
        if not typed or _is_left_with_slices(classes, request):
            return self._no_type({device.gpu_type for each in classes for device in each.devices})
        if not any(each.admits(request) for each in typed):
            return self._no_admission(classes, typed)
        # What others share now is closed to it only as long as they run.
        if nodes.most_pods(request, nodes.usable(request, closed_too=True)) == 0:
            return self._too_large_a_pod()
        return self._too_many_pods(min_pods)

    def _reason(
        self,
        code: ReasonCode,
        message: str,
        step: str,
        *,
        asked: int | None = None,
        limit: int | None = None,
        level: str | None = None,
    ) -> Reason:
        """A reason of the pool, or of a ``level`` of its topology; what there is never exceeds the limit."""
        level = level or self._pool.id
        return sentences.reason(code, message, step, asked=asked, available=limit, limit=limit, level=level)

    def _no_data(self) -> Reason:
        """No cluster with nodes of the pool has all data sets; the first that no cluster has is told alone."""
        data = self._request.data
        shown = [each for each in data if not each.clusters][:1] or list(data)
        message = f"The data set {shown[0].name} is {_where(shown[0])}."
        if len(shown) > 1:
            places = ", ".join(f"{each.name} {_where(each)}" for each in shown)
            message = f"No cluster with nodes of the pool {self._pool.name} has all its data sets: {places}."
        step = (
            "Choose a pool with nodes where the data is, or ask an operator to make it available elsewhere."
        )
        return self._reason(ReasonCode.DATA_ELSEWHERE, message, step)

    # --- Types, labels, partitions, taints, sharing ----------------------------------------------------------

    def _no_type(self, types: set[str]) -> Reason:
        """No device has one of the types; where none is named, all GPUs are cut into slices that go by name only."""
        code, pool = ReasonCode.NO_MATCHING_GPU_TYPE, self._pool.name
        if not self._request.gpu_types:
            names = " or ".join(sorted(types - {""})) or "none that has a name"
            return self._reason(
                code,
                f"It asks for {self._in_words()} of no type by name, but all GPUs of the pool {pool} are cut into "
                f"slices, which go only to workloads that name them: {names}.",
                "Name one of these types, with 1 GPU per pod, or choose another pool.",
            )
        wanted = " or ".join(self._request.gpu_types)
        which = "" if self._nodes.service is NodeService.ALL else " that take workloads"
        offered = ", ".join(sorted(each or "GPUs of unknown type" for each in types)) or "no GPUs"
        return self._reason(
            code,
            f"It asks for {wanted}, but the nodes of the pool {pool}{which} have {offered}.",
            "Ask for another GPU type or another pool.",
        )

    def _no_admission(self, classes: Sequence[NodeClass], typed: Sequence[NodeClass]) -> Reason:
        """Labels, partition, taints or sharing keep it out of all nodes with GPUs for it."""
        request, some_others = self._request, len(typed) < len(classes)
        slices = _slices_that_take(classes, request) if some_others and not request.gpu_types else []
        keeps_out = _what_keeps_out(typed, request)
        having = " with GPUs for workloads that name no type" if some_others else ""
        if request.gpu_types:
            having = f" with {' or '.join(request.gpu_types)}"
        return self._reason(
            ReasonCode.NO_MATCHING_NODES,
            f"No node of the pool {self._pool.name}{having} takes it: {', '.join(keeps_out)}.",
            self._ask_for_whole(slices)
            if keeps_out == [WHOLE_ONLY]
            else f"Change what it asks of the node, {_name_a_slice(slices)}or choose another pool.",
        )

    def _ask_for_whole(self, slices: Sequence[str] = ()) -> str:
        """The next step of one that asks for a part of a GPU where only whole ones are given out."""
        share = "ask an admin to set sharing of the pool to fractions"
        if self._pool.policy.sharing is not Sharing.NONE:
            means = "Dynamic Resource Allocation, or time-slicing into replicas"
            share = f"ask an operator to have the nodes share theirs ({means})"
        return f"Ask for whole GPUs, {_name_a_slice(slices)}{share}, or choose another pool."

    # --- One pod ---------------------------------------------------------------------------------------------

    def _larger(
        self, message: str, asked: int | None, limit: int | None, step: str = f"{LESS_PER_POD}."
    ) -> Reason:
        """One pod is more than an empty node holds; ``limit`` is ``None`` where it is not GPUs that are too few."""
        return self._reason(ReasonCode.LARGER_THAN_ANY_NODE, message, step, asked=asked, limit=limit)

    def _admitting(self) -> Iterator[tuple[NodeInfo, NodeClass]]:
        for node, number in zip(self._nodes.rows, self._nodes.class_of, strict=True):
            if number >= 0 and self._nodes.classes[number].admits(self._request):
                yield node, self._nodes.classes[number]

    def _too_large_a_pod(self) -> Reason:
        """One pod fits on no empty node: what there is too little of.

        The numbers are given where it is GPUs, or their memory, as parts of the GPU that has most.
        """
        request, admitting = self._request, list(self._admitting())
        typed = [[each for each in node.devices if self._is_given(each, of)] for node, of in admitting]
        left = [[device for device in devices if not device.foreign] for devices in typed]
        usable = [device for devices in left for device in devices]
        if not usable:
            return self._no_gpu([device for devices in typed for device in devices])
        found = self._too_much_memory(usable)
        if found is None and all(device.slicing is not Slicing.WHOLE for device in usable):
            found = self._more_than_a_slice(max(each.share_milli for each in usable))
        if found is not None:
            return found
        asked, most = self._nodes.pod_milli(request), max(map(_in_whole_gpus, left))
        if asked > max(most, *(device.share_milli for device in usable)):
            largest = [there for mine, there in zip(left, typed, strict=True) if _in_whole_gpus(mine) == most]
            besides = (
                ", besides those used without Chamber" if max(map(_in_whole_gpus, largest)) > most else ""
            )
            text = (
                f"A pod asks for {gpus(asked)}, but the largest node it may use has {in_gpus(most)}{besides}."
            )
            return self._larger(text, asked, most)
        free = [free_when_empty(node) for node, of in admitting if _has_gpus(node, of, request)]
        return self._larger(_too_little_beside_gpus(request, free), asked, None)

    def _is_given(self, device: DeviceInfo, node_class: NodeClass) -> bool:
        """Whether a device is of its types, and sharing lets the request use it."""
        any_device = self._request.whole or self._request.bare or node_class.sharing
        return is_of_type(device, self._request) and (bool(any_device) or device.slicing is not Slicing.WHOLE)

    def _no_gpu(self, taken: Sequence[DeviceInfo]) -> Reason:
        """The nodes that admit the request have no GPUs, or only such (``taken``) as others use."""
        request, what = self._request, f"A pod asks for {self._in_words()}"
        if not taken and self._would_be_given_whole_ones():
            text = f"{what}, but the nodes it may use give out whole GPUs only."
            return self._larger(text, None, None, self._ask_for_whole())
        others = any(
            not device.foreign
            for node, number in zip(self._nodes.rows, self._nodes.class_of, strict=True)
            for device in (node.devices if number >= 0 else ())
        )
        step = "Change what it asks of the node, or choose another pool" if others else "Choose another pool"
        text = f"{what}, but the nodes it may use have no GPUs."
        if taken:
            text = f"{what}, but all GPUs it may use are used without Chamber."
            step += ", or ask an admin to free GPUs of this one"
        asked: int | None
        if isinstance(request.request, Memory):
            asked = _part_of_largest(request.request.mib, taken)
            asked = None if asked is not None and asked > GPU_MILLI else asked
        else:
            asked = request.request.milli
        return self._larger(text, asked, 0, f"{step}.")

    def _would_be_given_whole_ones(self) -> bool:
        """Whether there are GPUs that it could use if it asked for whole ones."""
        return any(
            is_of_type(device, self._request) and not device.foreign and not self._is_given(device, of)
            for node, number in zip(self._nodes.rows, self._nodes.class_of, strict=True)
            if number >= 0 and (of := self._nodes.classes[number]).admits_whole(self._request)
            for device in node.devices
        )

    def _too_much_memory(self, usable: Sequence[DeviceInfo]) -> Reason | None:
        """No device that the request may use has so much memory, as far as that is known."""
        if not isinstance(self._request.request, Memory):
            return None
        mib = self._request.request.mib
        asked = _part_of_largest(mib, usable)
        # As parts of a GPU it would be told as GPUs asked for, more than one, which was not asked for.
        text = f"A pod asks for {mib} MiB of GPU memory, but "
        if asked is None:
            text += "of no GPU it may use is it known how much it has."
            step = "Ask for GPUs, or for a part of one, instead of GPU memory."
            return self._larger(text, None, None, step)
        if asked <= GPU_MILLI:
            return None
        known = [device.memory_mib for device in usable if device.memory_mib]
        has = "has" if len(known) == len(usable) else "is known to have"
        text += f"no GPU it may use {has} more than {max(known)}."
        return self._larger(text, None, None, "Ask for less GPU memory, or for several GPUs per pod.")

    def _more_than_a_slice(self, most: int) -> Reason | None:
        """A pod asks for more than one slice, or for more of a GPU than the largest one is."""
        request = self._request
        if request.whole > 1:
            types = " or ".join(request.gpu_types)
            text = f"A pod asks for {request.whole} of {types}, but takes one slice of a GPU at most."
            step = "Ask for 1 GPU per pod, and for more pods if need be."
            return self._larger(text, request.whole * most, most, step)
        if not isinstance(request.request, GpuShare) or request.whole or request.request.milli <= most:
            return None
        asked = request.request.milli
        largest = f"the largest slice of a GPU it may use is {in_gpus(most)} of one"
        step = "Ask for a smaller part, for a whole GPU, or name a larger slice."
        return self._larger(f"A pod asks for {gpus(asked)}, but {largest}.", asked, most, step)

    def _in_words(self) -> str:
        """What a pod asks for of GPUs."""
        asked = self._request.request
        if self._request.whole == 1 and self._nodes.pod_milli(self._request) < GPU_MILLI:
            return f"one {' or '.join(self._request.gpu_types)}"
        return f"{asked.mib} MiB of GPU memory" if isinstance(asked, Memory) else gpus(asked.milli)

    # --- All pods --------------------------------------------------------------------------------------------

    def _too_many_pods(self, min_pods: int) -> Reason | None:
        """All pods together are too many for the pool, for each cluster, or for each domain they require."""
        nodes, request = self._nodes, self._request
        level, levels = request.topology.required, (*self._pool.topology, NODE_LEVEL)
        held: dict[tuple[str, bool], int] = {}
        for usable in nodes.usable(request, closed_too=True):
            of = nodes.classes[usable.number]
            where = (of.cluster, request.one_sort and of.is_sliced(usable.costs))
            held[where] = held.get(where, 0) + nodes.most_pods(request, [usable])
        if min_pods > max(held.values()):
            return self._larger_than_pool(min_pods, held, level if level in levels else None)
        if level is None:
            return None
        asked, name = min_pods * nodes.pod_milli(request), self._pool.name
        if level not in levels:
            return self._reason(
                ReasonCode.TOPOLOGY_IMPOSSIBLE,
                f"It asks for {gpus(asked)} inside one {level}, but the topology of the pool {name} has no level "
                f"{level}.",
                f"Ask for one of its levels ({', '.join(levels)}), for none, or choose another pool.",
                asked=asked,
                limit=0,
                level=level,
            )
        most = nodes.most_together(request, closed_too=True)
        if min_pods <= max(most, nodes.most_together(request)):
            return None
        needs = f"{min_pods} pods" if min_pods > 1 else "a pod"
        room = f"has room for more than {most} of them" if most else "has room for any"
        return self._reason(
            ReasonCode.TOPOLOGY_IMPOSSIBLE,
            f"It needs {needs} of {self._in_words()} inside one {level}, but no {level} of the pool {name} {room} even "
            "when empty.",
            "Ask for fewer pods, or for a wider level." if most else "Ask for a wider level, or for none.",
            asked=asked,
            limit=most * nodes.pod_milli(request),
            level=level,
        )

    def _larger_than_pool(self, pods: int, held: dict[tuple[str, bool], int], level: str | None) -> Reason:
        """More pods than the pool, or each of its clusters, would hold, by what is ``held`` by cluster and by whether
        on slices; nor would a domain of the ``level`` that is required."""
        most, pod, name = max(held.values()), self._nodes.pod_milli(self._request), self._pool.name
        room = f"the pool {name} has room for"
        if len({cluster for cluster, _ in held}) > 1:
            room = f"no one cluster of the pool {name} has room for more than"
        either = " on GPUs alone or on slices alone" if len({sliced for _, sliced in held}) > 1 else ""
        limit, inside, wider = most, "", ""
        if level is not None:
            limit = self._nodes.most_together(self._request, closed_too=True)
        if level is not None and limit < most:
            inside = f", and no {level} for {f'more than {limit}' if limit else 'any'}"
            wider = f", and for a wider level than {level} or for none"
        return self._reason(
            ReasonCode.LARGER_THAN_POOL,
            f"It needs {pods} pods of {self._in_words()} at once, but {room} {most} of them{either} even when "
            f"empty{inside}.",
            f"Ask for fewer pods, or a smaller minimum of pods{wider}.",
            asked=pods * pod,
            limit=limit * pod,
        )


def _name_a_slice(slices: Sequence[str]) -> str:
    return f"name a type of slice ({', '.join(slices)}, with 1 GPU per pod), " if slices else ""


def _has_type(node_class: NodeClass, request: PodRequest) -> bool:
    """Whether a class has a device of a type that it asks for; where it names none, one that goes not by name only."""
    if not request.gpu_types and (request.bare or not node_class.has_slices):
        return True
    return any(is_of_type(device, request) for device in node_class.devices)


def _is_left_with_slices(classes: Iterable[NodeClass], request: PodRequest) -> bool:
    """Whether it names no type, and all devices that there are are slices that go by name only."""
    devices = [device for each in classes for device in each.devices]
    by_name = not (request.gpu_types or request.bare)
    return by_name and bool(devices) and not any(is_of_type(device, request) for device in devices)


def _slices_that_take(classes: Iterable[NodeClass], request: PodRequest) -> list[str]:
    """The types of slices on nodes that admit a request, which names none."""
    devices = {device for each in classes if each.admits(request) for device in each.devices}
    return sorted({each.gpu_type for each in devices if each.slicing is not Slicing.WHOLE} - {""})


def _what_keeps_out(classes: Sequence[NodeClass], request: PodRequest) -> list[str]:
    """The demands that no node meets; if some node meets each, those that no one node meets together."""
    found = [
        f"none has the label {key}={value}"
        for key, value in request.node_selector
        if not any((key, value) in each.labels for each in classes)
    ]
    if not any(each.partition == request.partition for each in classes):
        named = f"none is of the partition {request.partition}"
        found.append(named if request.partition else "all belong to partitions it does not name")
    if not any(each.gives(request) for each in classes):
        found.append(WHOLE_ONLY)
    if taints := _taints(classes, request):
        found.append(f"it does not tolerate the taint {taints}")
    if found:
        return found
    # Some node meets each demand: it is the taint of the nodes that have its labels and are of its partition, or more.
    meet = [each for each in classes if each.partition == request.partition and each.has_labels(request)]
    if meet and (taints := _taints(meet, request)):
        labels = " with its labels" if request.node_selector else ""
        partition = f" of the partition {request.partition}" if request.partition else ""
        return [f"it does not tolerate the taint {taints} of the nodes{partition}{labels}"]
    return ["no one node meets its labels, partition, taints and sharing together"]


def _taints(classes: Collection[NodeClass], request: PodRequest) -> str:
    """The taints that keep the request out of all of these, in words; "" where they do not."""
    if any(all(request.tolerates(taint) for taint in each.taints) for each in classes):
        return ""
    taints = {taint for each in classes for taint in each.taints if not request.tolerates(taint)}
    return " or ".join(sorted({f"{each.key}={each.value}" if each.value else each.key for each in taints}))


def _too_little_beside_gpus(request: PodRequest, free: Collection[NodeFree]) -> str:
    """What a pod asks for beside GPUs that no one empty node with GPUs for it has."""
    cpu = max((node_free.cpu for node_free in free), default=0)
    memory = max((node_free.memory for node_free in free), default=0)
    node = "the largest node with GPUs for it has"
    if cpu < request.cpu_milli:
        what = f"{in_gpus(request.cpu_milli)} CPU{'' if request.cpu_milli == 1000 else 's'}"
        text = f"A pod asks for {what}, but {node} {in_gpus(cpu)}."
        if memory < request.memory_mib:
            text += f" It also asks for {request.memory_mib} MiB of memory, of which no such node has "
            text += f"more than {memory}."
        return text
    if memory < request.memory_mib:
        return f"A pod asks for {request.memory_mib} MiB of memory, but {node} {memory}."
    return "A pod asks for more CPU and memory together than any one node with GPUs for it has."


def _has_gpus(node: NodeInfo, node_class: NodeClass, request: PodRequest) -> bool:
    """Whether the GPUs of an empty node are enough for a pod, whatever CPU and memory it has."""
    node_free = NodeFree(free_when_empty(node).gpu, UNLIMITED, UNLIMITED)
    return request.bare or pods_in(node_free, node_class.costs(request), request) > 0


def _in_whole_gpus(devices: Iterable[DeviceInfo]) -> int:
    return GPU_MILLI * sum(device.slicing is Slicing.WHOLE for device in devices)


def _part_of_largest(mib: int, devices: Iterable[DeviceInfo]) -> int | None:
    """The share that so much memory is of the device that has most, in milli-GPUs; ``None`` if none is known."""
    known = max((device.memory_mib or 0 for device in devices), default=0)
    return memory_share(mib, known) if known else None
