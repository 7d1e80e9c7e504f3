"""ResourceClaims: how pods get the very devices of their plan under Dynamic Resource Allocation.

A claim names its devices by an attribute that no other device of the node has; the pod is tied to the node. A pod that
has a device for itself has a claim of its own. One that shares a device has a claim with the others of its namespace,
and the last Job that leaves takes it along: Kubernetes deletes what has no owner any more.
"""

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from agentlink.agent.backends.native.devices import CannotHold, DeviceClaim
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.slices import DeviceAttribute, SliceDevice
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import AlreadyExists, Invalid, NotFound, ObjectConflict
from agentlink.agent.kube.resources import RESOURCE_CLAIMS, JsonObject

SHARED = "chamber-shared-"
"""How names of shared claims begin."""
MOST_INDEX = 1024
TRIES = 20
AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What is kept of a claim: its owners' uids, the keys of the devices it was given, and its devices' indexes."""

    namespace: str
    name: str
    owners: tuple[str, ...]
    devices: tuple[str, ...]
    pins: tuple[tuple[str, int], ...]
    shared: bool
    used: bool = True
    """Whether a pod has reserved the devices that it was given."""


def read_claim(body: JsonObject, names: DomainNames) -> ClaimFacts:
    """Return what is kept of a claim of any owner. Access to watch over devices takes them from no pod."""
    metadata = body["metadata"]
    allocation = body.get("status", {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ClaimFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        owners=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        devices=tuple(
            f"{each['driver']}/{each['pool']}/{each['device']}"
            for each in results
            if not each.get("adminAccess")
        ),
        pins=_read_pins((metadata.get("annotations") or {}).get(_pins(names), "{}")),
        shared=metadata["name"].startswith(SHARED),
        used=not results or bool(body.get("status", {}).get("reservedFor")),
    )


def _pins(names: DomainNames) -> str:
    """Return the annotation that remembers the plan's index of each device."""
    return f"{names.domain}/devices"


def _read_pins(text: str) -> tuple[tuple[str, int], ...]:
    try:
        pins = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(pins, dict):
        return ()
    known = ((key, index) for key, index in sorted(pins.items()) if type(index) is int)
    return tuple((key, index) for key, index in known if 0 <= index < MOST_INDEX)


def name_of(claim: DeviceClaim, base: str) -> str:
    """Return a claim's name: `base` for the one of a pod of its own, the device's for a shared one."""
    if not claim.shared:
        return base
    ((_, device),) = claim.devices
    return SHARED + hashlib.sha256(device.key.encode()).hexdigest()[:16]


def body(
    claim: DeviceClaim,
    name: str,
    labels: Mapping[str, str],
    owner: JsonObject,
    *,
    names: DomainNames,
    classes: Mapping[str, str],
) -> JsonObject:
    """Return the object. `classes` has the device class of a driver, or of `driver/kind`, where another is wanted."""
    alike: dict[tuple[str, str, str, str], list[DeviceAttribute]] = defaultdict(list)
    for _, device in claim.devices:
        of = (device_class(device, classes), device.driver, device.mark.domain, device.mark.name)
        alike[of].append(device.mark)
    requests = [
        {
            "name": f"gpus-{number}",
            "exactly": {
                "deviceClassName": of[0],
                "allocationMode": "ExactCount",
                "count": len(marks),
                "selectors": [{"cel": {"expression": _expression(of[1], marks)}}],
            },
        }
        for number, (of, marks) in enumerate(sorted(alike.items()))
    ]
    pins = {device.key: index for index, device in claim.devices}
    return {
        "metadata": {
            "name": name,
            "labels": dict(labels),
            "annotations": {_pins(names): json.dumps(pins, sort_keys=True)},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def device_class(device: SliceDevice, classes: Mapping[str, str]) -> str:
    """Return the class to request a device by: one named for it, else as vendors name theirs.

    That is the driver's name for whole GPUs, and with the kind in place of its first word for others: `mig.nvidia.com`.
    """
    named = classes.get(f"{device.driver}/{device.kind}") or classes.get(device.driver)
    if named:
        return named
    return device.driver if device.kind == "gpu" else f"{device.kind}.{device.driver.partition('.')[2]}"


def _expression(driver: str, marks: list[DeviceAttribute]) -> str:
    domain, name = marks[0].domain, marks[0].name
    attributes = f'device.attributes["{domain}"]'
    values = ", ".join(sorted(mark.value for mark in marks))
    return f'device.driver == "{driver}" && "{name}" in {attributes} && {attributes}["{name}"] in [{values}]'


async def provide(kube: Kube, whole: JsonObject, namespace: str) -> None:
    """Have the claim exist with its owner; raise `CannotHold` where another of its name does not go away.

    A shared one that exists gets the owner beside those it has. One that is being deleted, as its last owner has gone,
    is waited for.
    """
    name = whole["metadata"]["name"]
    (owner,) = whole["metadata"]["ownerReferences"]
    for _ in range(TRIES):
        try:
            await kube.create(RESOURCE_CLAIMS, whole, namespace)
        except AlreadyExists:
            if await _join(kube, name, namespace, owner):
                return
        else:
            return
        await asyncio.sleep(AGAIN_SECONDS)
    raise CannotHold(f"The claim {namespace}/{name} on its GPU is being deleted, and is still there.")


async def _join(kube: Kube, name: str, namespace: str, owner: JsonObject) -> bool:
    """Add an owner to a claim; return False where it is going."""
    try:
        found = await kube.get(RESOURCE_CLAIMS, name, namespace)
        owners = found["metadata"].get("ownerReferences") or []
        if "deletionTimestamp" in found["metadata"]:
            return False
        if all(each["uid"] != owner["uid"] for each in owners):
            change = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
            change["metadata"]["ownerReferences"] = [*owners, owner]
            await kube.patch(RESOURCE_CLAIMS, name, change, namespace)
    except (ObjectConflict, Invalid, NotFound):
        return False
    return True
