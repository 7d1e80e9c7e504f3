"""Fragmentation: how much of what is free the pool's typical requests could not use (section 5).

The measure of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (FGD), USENIX ATC 2023, section 3. A typical request m comes with the probability p(m):

    F(node)    = sum over m of p(m) x F(node, m)
    F(node, m) = all that is free on the node, where m does not fit there (devices, type, CPU, memory);
                 else what is free on the devices that are too full for m

A placement is good that makes F grow least, or fall most. Like the paper's, its score is a whole number, so that
places which are about as good are equal, and something else decides between them
(:mod:`scheduling.engine.placement.scoring`). The paper takes hundredths of the sigmoid of what F falls in GPUs; steps
of a fiftieth of a GPU, all of one width, pack its own traces better.

Probabilities are whole millionths and amounts whole milli-GPUs, so that all sums are exact, in whatever order they
are added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduling.engine.model.quantities import UNLIMITED, in_arrays, memory_share
from scheduling.engine.model.snapshot import GPU_MILLI, Slicing, TypicalRequest
from scheduling.engine.placement.free import NodeFree
from scheduling.engine.placement.node_eligibility import NodeClass
from scheduling.engine.placement.pod_request import DeviceProfile, takes_slice

MILLIONTHS = 1_000_000
HEAVIEST = 1e15
"""A weight above counts as this."""
NEVER = UNLIMITED
"""More than any device has."""
STEP_MILLI = 20
"""What F must fall by for the next higher score."""


class RequestSize(NamedTuple):
    """How many devices, how much of each in milli-GPUs or else in MiB of its memory, of which types (none: any)."""

    devices: int
    milli: int
    mib: int
    types: tuple[str, ...]


class Weighted(NamedTuple):
    """A typical request, and its probability in millionths."""

    size: RequestSize
    cpu_milli: int
    memory_mib: int
    weight: int


def size_of(request: TypicalRequest) -> RequestSize:
    """What the request needs of devices."""
    types = tuple(sorted(set(request.gpu_types)))
    if request.gpu_memory_mib:
        return RequestSize(1, 0, in_arrays(request.gpu_memory_mib), types)
    return RequestSize(max(1, in_arrays(request.milli) // GPU_MILLI), min(request.milli, GPU_MILLI), 0, types)


def weighted(recent: Iterable[TypicalRequest]) -> list[Weighted]:
    """The typical requests of a pool, equal ones once, in order; requests of nothing or of no weight do not count."""
    counted: dict[tuple[RequestSize, int, int], float] = {}
    for request in sorted(recent, key=lambda each: (each.milli, each.weight)):
        if 0 < request.weight < math.inf and (request.milli > 0 or request.gpu_memory_mib > 0):
            key = (size_of(request), in_arrays(request.cpu_milli), in_arrays(request.memory_mib))
            counted[key] = counted.get(key, 0.0) + min(request.weight, HEAVIEST)
    total = sum(weight for _, weight in sorted(counted.items()))
    return [Weighted(*key, round(weight / total * MILLIONTHS)) for key, weight in sorted(counted.items())]


def need(size: RequestSize, device: DeviceProfile, *, parts: bool, sharing: bool) -> int:
    """Milli-GPUs that a request of this size needs of a device, :data:`NEVER` if it may not use it."""
    devices, milli, mib, types = size
    part = milli != GPU_MILLI
    if types and device.gpu_type not in types:
        return NEVER
    if device.slicing is not Slicing.WHOLE:
        whole = 0 if part else devices
        fits = takes_slice(device, bool(types), whole, part_milli=milli, mib=mib) and (parts or not part)
        return device.share_milli if fits else NEVER
    if part and not sharing:
        return NEVER
    if mib:
        memory_mib = device.memory_mib
        return memory_share(mib, memory_mib) if memory_mib and mib <= memory_mib else NEVER
    return milli


class Fragmentation:
    """The measure of one pool, for one node at a time. Sums are in milli-GPUs times :attr:`total`."""

    def __init__(self, recent: Iterable[TypicalRequest], classes: Sequence[NodeClass]) -> None:
        self._requests = weighted(recent)
        self._classes = classes
        self.total = sum(each.weight for each in self._requests)

    def __bool__(self) -> bool:
        return self.total > 0

    def of(self, number: int, free: NodeFree) -> int:
        """F of a node of this class with so much free."""
        node_class = self._classes[number]
        left = [max(0, each) for each in free.gpu]
        cpu, memory = in_arrays(free.cpu), in_arrays(free.memory)
        usable = 0
        for size, cpu_milli, memory_mib, weight in self._requests:
            if cpu >= cpu_milli and memory >= memory_mib:
                needs = [
                    need(size, device, parts=node_class.parts, sharing=node_class.sharing)
                    for device in node_class.devices
                ]
                enough = [has for has, needed in zip(left, needs, strict=True) if has >= needed]
                usable += weight * sum(enough) if len(enough) >= size.devices else 0
        return self.total * sum(left) - usable

    def score(self, fallen: int) -> int:
        """The score of a placement by which F falls so much; below zero where it grows."""
        return fallen // (self.total * STEP_MILLI)
