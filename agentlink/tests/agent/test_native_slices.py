"""ResourceSlices, as drivers publish them, become devices of nodes."""

from typing import Any

import pytest

from agentlink.agent.backends.native.slices import (
    DeviceAttribute,
    SliceDevice,
    devices_of,
    in_order,
    read_slice,
)

DRIVER = "gpu.nvidia.com"


def slice_of(
    *devices: dict[str, Any], generation: int = 1, slices: int = 1, driver: str = DRIVER, **spec: Any
) -> dict[str, Any]:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": slices}
    return {"spec": {"driver": driver, "nodeName": "n", "pool": pool, "devices": list(devices), **spec}}


def gpu(name: str, **fields: Any) -> dict[str, Any]:
    attributes = {"uuid": {"string": f"GPU-{name}"}, "productName": {"string": "NVIDIA A100"}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}, **fields}


def mig(name: str, profile: str, **fields: Any) -> dict[str, Any]:
    made = gpu(name, **fields)
    made["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": profile}}
    return made


def read(*bodies: dict[str, Any]) -> list[SliceDevice] | None:
    """Return the devices of node n."""
    slices = [read_slice(body, (DRIVER,)) for body in bodies]
    return devices_of(each for each in slices if each is not None).get("n")


def only(body: dict[str, Any]) -> SliceDevice:
    """Return the one device of node n."""
    (device,) = read(body) or []
    return device


def names(*bodies: dict[str, Any]) -> list[str]:
    return [device.name for device in read(*bodies) or ()]


def test_a_gpu_is_read_with_type_memory_and_what_tells_it_apart() -> None:
    assert read(slice_of(gpu("gpu-0"))) == [
        SliceDevice(
            DRIVER, "n", "gpu-0", "gpu", "NVIDIA-A100", 40960, DeviceAttribute(DRIVER, "uuid", '"GPU-gpu-0"')
        )
    ]


def test_a_mig_device_is_a_type_of_its_own_named_as_feature_discovery_names_it() -> None:
    device = only(slice_of(mig("gpu-0-mig-0", "1g.5gb")))
    assert (device.kind, device.gpu_type) == ("mig", "NVIDIA-A100-MIG-1g.5gb")
    assert (device.slicing, device.share_milli) == ("mig", 143)
    assert only(slice_of(mig("gpu-0-mig-1", "3g.20gb"))).share_milli == 429
    assert only(slice_of(gpu("gpu-0"))).slicing == "whole"


@pytest.mark.parametrize(
    ("attributes", "mark"),
    [
        ({f"{DRIVER}/uuid": {"string": "a"}, "index": {"int": 3}}, DeviceAttribute(DRIVER, "uuid", '"a"')),
        (
            {"resource.kubernetes.io/pciBusID": {"string": "0000:01"}},
            DeviceAttribute("resource.kubernetes.io", "pciBusID", '"0000:01"'),
        ),
        ({"index": {"int": 3}}, DeviceAttribute(DRIVER, "index", "3")),
        ({"uuid": {"string": 'a" || true || "'}, "minor": {"int": 1}}, DeviceAttribute(DRIVER, "minor", "1")),
    ],
)
def test_the_first_attribute_that_tells_devices_apart_is_its_mark(
    attributes: dict[str, Any], mark: DeviceAttribute
) -> None:
    device = only(slice_of({"name": "a", "attributes": attributes}))
    assert device.mark == mark


def test_what_nothing_tells_apart_or_is_no_gpu_or_of_another_driver_is_left_out() -> None:
    plain = {"name": "plain", "attributes": {"productName": {"string": "NVIDIA A100"}}}
    vfio = gpu("vfio")
    vfio["attributes"]["type"] = {"string": "vfio"}
    assert names(slice_of(plain, vfio, gpu("gpu-1"))) == ["gpu-1"]
    assert read_slice(slice_of(gpu("gpu-1"), driver="net.example.com"), (DRIVER,)) is None


def test_devices_belong_to_the_node_of_their_slice_or_to_their_own() -> None:
    body = slice_of(gpu("a", nodeName="x"), gpu("b", nodeName="y"), gpu("c", allNodes=True), nodeName=None)
    facts = read_slice(body, (DRIVER,))
    assert facts is not None
    found = devices_of([facts])
    assert {node: [each.name for each in devices or ()] for node, devices in found.items()} == {
        "x": ["a"],
        "y": ["b"],
    }


def test_only_the_newest_generation_counts_in_whichever_order_slices_come() -> None:
    old, new = slice_of(gpu("old"), generation=1), slice_of(gpu("new"), generation=2)
    assert names(old, new) == names(new, old) == ["new"]


def test_a_pool_that_is_being_rewritten_says_nothing_yet() -> None:
    first, second = slice_of(gpu("b"), slices=2), slice_of(gpu("a"), slices=2)
    assert read(first) is None
    assert names(first, second) == ["a", "b"]


@pytest.mark.parametrize(("effect", "refuses"), [("NoSchedule", True), ("NoExecute", True), ("None", False)])
def test_a_taint_keeps_claims_away_by_its_effect(effect: str, refuses: bool) -> None:
    device = only(slice_of(gpu("a", taints=[{"key": "sick", "effect": effect}])))
    assert device.refuses is refuses


def consuming(amount: int, counters: str = "gpu-0") -> list[dict[str, Any]]:
    return [{"counterSet": counters, "counters": {"memory": {"value": f"{amount}Gi"}}}]


def test_of_the_ways_to_part_a_gpu_it_counts_as_a_whole_and_knows_its_parts() -> None:
    counters = slice_of(
        slices=2,
        devices=None,
        sharedCounters=[
            {"name": name, "counters": {"memory": {"value": "40Gi"}}} for name in ("gpu-0", "gpu-1")
        ],
    )
    parted = slice_of(
        mig("mig-0", "3g.20gb", consumesCounters=consuming(20)),
        mig("mig-1", "3g.20gb", consumesCounters=consuming(20)),
        gpu("gpu-0", consumesCounters=consuming(40)),
        mig("mig-2", "3g.20gb", consumesCounters=consuming(20, "gpu-1")),
        slices=2,
    )
    found = {device.name: device.overlaps for device in read(counters, parted) or ()}
    assert found == {
        "gpu-0": (f"{DRIVER}/n/mig-0", f"{DRIVER}/n/mig-1"),
        "mig-2": (),
    }


def test_names_are_ordered_with_their_numbers_as_numbers() -> None:
    assert sorted(["gpu-10", "gpu-2", "gpu", "a"], key=in_order) == ["a", "gpu", "gpu-2", "gpu-10"]
