"""Devices as drivers publish them for Dynamic Resource Allocation: ResourceSlices become devices of nodes.

A driver publishes pools, each in one or more slices of one generation; of a pool only the newest generation counts, and
only when all its slices are there. Types are written as the labels of gpu-feature-discovery write them, so that a node
has the same ones whichever way its GPUs are handed out.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentlink.agent.kube.quantities import mebibytes, number
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import profiles
from agentlink.protocol.profiles import GPU_MILLI, Slicing

UNIQUE = ("uuid", "resource.kubernetes.io/pciBusID", "pciBusID", "index", "minor")
"""Attributes that tell the devices of a node apart; the first that a device has is what claims name it by."""
REFUSING = frozenset({"NoSchedule", "NoExecute"})

Counted = tuple[tuple[str, int], ...]
"""Amounts of shared counters, as `set/counter`."""


@dataclass(frozen=True, slots=True)
class DeviceAttribute:
    """An attribute by which claims name one device of a node: its domain and name, and the value as CEL writes it."""

    domain: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device of a pool. `kind` is what its driver calls it ("gpu", "mig"); `refuses`: a taint keeps claims away."""

    driver: str
    pool: str
    name: str
    kind: str
    gpu_type: str
    memory_mib: int | None
    mark: DeviceAttribute
    refuses: bool = False
    consumes: Counted = ()
    overlaps: tuple[str, ...] = ()
    """Keys of devices that are other parts of the same GPU: it is not to be had while one of them is taken."""
    slicing: Slicing = "whole"
    share_milli: int = GPU_MILLI
    """The share of a GPU that a MIG slice counts as."""

    @property
    def key(self) -> str:
        """Return the name by which allocations know it."""
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """What is kept of a ResourceSlice: devices with their nodes, or the counters that devices of its pool share."""

    driver: str
    pool: str
    generation: int
    slices: int
    devices: tuple[tuple[str, SliceDevice], ...]
    counters: Counted


def read_slice(body: JsonObject, drivers: Iterable[str]) -> SliceFacts | None:
    """Return what is kept of a slice; None where its driver is none of these.

    Devices that are not tied to one node, or that nothing tells apart, are left out.
    """
    spec = body["spec"]
    driver, pool = spec["driver"], spec["pool"]
    if driver not in drivers:
        return None
    found = []
    for device in spec.get("devices") or ():
        node = device.get("nodeName") or spec.get("nodeName")
        read = _read_device(device, driver, pool["name"]) if node else None
        if read is not None:
            found.append((node, read))
    return SliceFacts(
        driver=driver,
        pool=pool["name"],
        generation=pool["generation"],
        slices=pool["resourceSliceCount"],
        devices=tuple(found),
        counters=_counters(spec.get("sharedCounters") or (), "name"),
    )


def _read_device(body: JsonObject, driver: str, pool: str) -> SliceDevice | None:
    attributes = {
        name.removeprefix(f"{driver}/"): value for name, value in (body.get("attributes") or {}).items()
    }
    capacity = {
        name.removeprefix(f"{driver}/"): value for name, value in (body.get("capacity") or {}).items()
    }
    mark = next((found for name in UNIQUE if (found := _mark(attributes, name, driver))), None)
    kind = str(attributes.get("type", {}).get("string", "gpu"))
    if mark is None or kind not in {"gpu", "mig"}:
        return None
    memory = capacity.get("memory", {}).get("value")
    gpu_type = _gpu_type(attributes, kind)
    share_milli = profiles.mig_share_milli(gpu_type) if kind == "mig" else None
    return SliceDevice(
        driver=driver,
        pool=pool,
        name=body["name"],
        kind=kind,
        gpu_type=gpu_type,
        memory_mib=mebibytes(memory) if memory else None,
        mark=mark,
        refuses=any(taint["effect"] in REFUSING for taint in body.get("taints") or ()),
        consumes=_counters(body.get("consumesCounters") or (), "counterSet"),
        slicing="mig" if kind == "mig" else "whole",
        share_milli=share_milli or GPU_MILLI,
    )


def _mark(attributes: JsonObject, name: str, driver: str) -> DeviceAttribute | None:
    value = attributes.get(name, {})
    domain, _, plain = name.rpartition("/")
    if "string" in value and '"' not in value["string"] and "\\" not in value["string"]:
        return DeviceAttribute(domain or driver, plain, f'"{value["string"]}"')
    return DeviceAttribute(domain or driver, plain, str(value["int"])) if "int" in value else None


def _gpu_type(attributes: JsonObject, kind: str) -> str:
    product = str(attributes.get("productName", {}).get("string", ""))
    profile = str(attributes.get("profile", {}).get("string", ""))
    parts = (product, "MIG", profile) if kind == "mig" else (product,)
    return "-".join(part.replace(" ", "-") for part in parts if part)


def _counters(sets: Iterable[JsonObject], name: str) -> Counted:
    return tuple(
        (f"{each[name]}/{counter}", int(number(amount["value"])))
        for each in sets
        for counter, amount in sorted(each["counters"].items())
    )


def devices_of(slices: Iterable[SliceFacts]) -> dict[str, list[SliceDevice] | None]:
    """Return the devices of each node, in the order of their names; None for a node whose pools are being rewritten."""
    pools: dict[tuple[str, str], list[SliceFacts]] = defaultdict(list)
    for each in slices:
        pools[each.driver, each.pool].append(each)
    found: dict[str, list[SliceDevice] | None] = {}
    for _, parts in sorted(pools.items()):
        newest = max(part.generation for part in parts)
        current = [part for part in parts if part.generation == newest]
        complete = len(current) == current[0].slices
        for node, devices in _apart(current).items():
            known = found.setdefault(node, [])
            if not complete:
                found[node] = None
            elif known is not None:
                known += devices
    return found


def _apart(parts: Sequence[SliceFacts]) -> dict[str, list[SliceDevice]]:
    """Return devices of a pool that can all be used at once, by node.

    Devices that are made of the same counters exclude each other: the largest come first, so that a GPU counts as a
    whole and not as each of the ways to part it.
    """
    left: Counter[str] = Counter()
    for part in parts:
        left.update(dict(part.counters))
    every = [pair for part in parts for pair in part.devices]
    every.sort(key=lambda pair: (-sum(amount for _, amount in pair[1].consumes), in_order(pair[1].name)))
    chosen: list[tuple[str, SliceDevice]] = []
    others: list[SliceDevice] = []
    for node, device in every:
        if all(left[counter] >= amount for counter, amount in device.consumes):
            left.subtract(dict(device.consumes))
            chosen.append((node, device))
        else:
            others.append(device)
    found: dict[str, list[SliceDevice]] = defaultdict(list)
    for node, device in sorted(chosen, key=lambda pair: in_order(pair[1].name)):
        overlaps = tuple(other.key for other in others if _overlap(device, other))
        found[node].append(replace(device, overlaps=overlaps) if overlaps else device)
    return dict(found)


def _overlap(device: SliceDevice, other: SliceDevice) -> bool:
    return not dict(device.consumes).keys().isdisjoint(dict(other.consumes))


def in_order(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that orders names with their numbers as numbers: gpu-2 before gpu-10."""
    return tuple((text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", name))
