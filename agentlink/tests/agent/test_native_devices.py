"""What the device plugin's counts, labels and slices become: devices, and what pods ask for."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from agentlink.agent.backends.native import devices
from agentlink.agent.backends.native.devices import CannotHold, ClusterDevice, ContainerRequest
from agentlink.agent.backends.native.slices import DeviceAttribute, SliceDevice
from agentlink.protocol import AssignedPod, AssignedShare
from agentlink.protocol.profiles import Slicing

PATTERNS = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "amd.com/gpu")
PLUGIN = tuple(ClusterDevice(index, "H100", 81559, "nvidia.com/gpu") for index in range(4))


def published(name: str, *, refuses: bool = False, overlaps: tuple[str, ...] = ()) -> SliceDevice:
    mark = DeviceAttribute("d", "uuid", f'"{name}"')
    return SliceDevice("d", "p", name, "gpu", "H100", 81559, mark, refuses, overlaps=overlaps)


def pod(*shares: tuple[int, int]) -> AssignedPod:
    """Return a pod on node n with shares of devices: index and thousandths."""
    held = tuple(AssignedShare(index=index, share_milli=milli) for index, milli in shares)
    return AssignedPod(index=0, node="n", devices=held)


def asked(planned: AssignedPod, *known: ClusterDevice) -> ContainerRequest:
    return devices.ask(planned, {device.index: device for device in known})


T4 = {"product": "Tesla-T4", "memory": "15360", "replicas": "1"}


def labels_of(resource: str, **said: str) -> dict[str, str]:
    """Return the labels that feature discovery puts on a node about a resource."""
    return {f"{resource}.{name.replace('_', '-')}": value for name, value in said.items()}


A100 = "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("nvidia.com/gpu", {}, ("", None, 1, "whole", 1000)),
        ("nvidia.com/gpu", labels_of("nvidia.com/gpu", **T4), ("Tesla-T4", 15360, 1, "whole", 1000)),
        (
            "nvidia.com/gpu",
            labels_of("nvidia.com/gpu", product="Tesla-T4-SHARED", memory="15360", replicas="4"),
            ("Tesla-T4-SHARED", 3840, 4, "replicas", 250),
        ),
        (
            "nvidia.com/gpu.shared",
            labels_of("nvidia.com/gpu", product="Tesla-T4", memory="15360", replicas="3"),
            ("Tesla-T4-SHARED", 5120, 3, "replicas", 334),
        ),
        ("nvidia.com/gpu.shared", {}, ("gpu-SHARED", None, 2, "replicas", 500)),
        ("amd.com/gpu", labels_of("amd.com/gpu", vram="a lot"), ("", None, 1, "whole", 1000)),
        (
            "amd.com/gpu",
            labels_of("amd.com/gpu", product_name="MI300X", vram="192G"),
            ("MI300X", 196608, 1, "whole", 1000),
        ),
        # MIG's strategy "mixed": a resource for each profile.
        ("nvidia.com/mig-1g.10gb", {}, ("mig-1g.10gb", None, 1, "mig", 143)),
        ("nvidia.com/mig-1g.10gb.me", {}, ("mig-1g.10gb.me", None, 1, "mig", 143)),
        ("nvidia.com/mig-7g.80gb", {}, ("mig-7g.80gb", None, 1, "mig", 1000)),
        ("nvidia.com/mig-strange", {}, ("mig-strange", None, 1, "mig", 1000)),
        (
            "nvidia.com/mig-3g.40gb",
            labels_of("nvidia.com/mig-3g.40gb", product=f"{A100}-MIG-3g.40gb", memory="40192", replicas="1"),
            (f"{A100}-MIG-3g.40gb", 40192, 1, "mig", 429),
        ),
        (
            "nvidia.com/mig-1g.6gb",
            labels_of("nvidia.com/gpu", product="NVIDIA-A30", memory="24576"),
            ("mig-1g.6gb", None, 1, "mig", 250),
        ),
        (
            "nvidia.com/mig-1g.24gb",
            labels_of("nvidia.com/gpu", product="NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
            ("mig-1g.24gb", None, 1, "mig", 250),
        ),
        (
            "nvidia.com/mig-1g.10gb",
            labels_of(
                "nvidia.com/mig-1g.10gb", product=f"{A100}-MIG-1g.10gb-SHARED", memory="9728", replicas="2"
            ),
            (f"{A100}-MIG-1g.10gb-SHARED", 4864, 2, "mig", 72),
        ),
        # MIG's strategy "single": slices are counted as GPUs, and the label of the product tells.
        (
            "nvidia.com/gpu",
            labels_of("nvidia.com/gpu", product=f"{A100}-MIG-1g.10gb", memory="9728", replicas="1"),
            (f"{A100}-MIG-1g.10gb", 9728, 1, "mig", 143),
        ),
        (
            "nvidia.com/gpu",
            labels_of("nvidia.com/gpu", product="NVIDIA-A30-MIG-2g.12gb", memory="11968"),
            ("NVIDIA-A30-MIG-2g.12gb", 11968, 1, "mig", 500),
        ),
        (
            "nvidia.com/gpu",
            labels_of("nvidia.com/gpu", product=f"{A100}-MIG-INVALID", replicas="0"),
            (f"{A100}-MIG-INVALID", None, 1, "mig", 1000),
        ),
    ],
)
def test_labels_say_what_a_resource_counts(
    resource: str, labels: Mapping[str, str], expected: tuple[str, int | None, int, Slicing, int]
) -> None:
    (device,) = devices.of_plugin(labels, {resource: 1}, PATTERNS)
    found = (device.gpu_type, device.memory_mib, device.replicas, device.slicing, device.share_milli)
    assert (device.index, device.resource, found) == (0, resource, expected)


def test_devices_are_numbered_by_the_names_of_their_resources() -> None:
    counts = {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/gpu": 2, "example.com/fpga": 3, "amd.com/gpu": 1}
    found = devices.of_plugin({}, counts, PATTERNS)
    assert [(device.index, device.resource) for device in found] == [
        (0, "amd.com/gpu"),
        (1, "nvidia.com/gpu"),
        (2, "nvidia.com/gpu"),
        (3, "nvidia.com/mig-1g.10gb"),
        (4, "nvidia.com/mig-1g.10gb"),
    ]


@pytest.mark.parametrize(
    ("available", "used", "held", "before", "foreign"),
    [
        (4, 0, (), (), set()),
        (5, 0, (), (), set()),
        (4, 2, (), (), {2, 3}),
        (4, 2, (3,), (), {1, 2}),
        (4, 1, (), (1,), {1}),
        (4, 2, (1,), (1,), {2, 3}),
        (3, 1, (), (), {2, 3}),
        (0, 0, (0, 1), (), {2, 3}),
        (4, 9, (0,), (), {1, 2, 3}),
    ],
)
def test_of_what_the_kubelet_picks_the_highest_that_nobody_of_ours_holds_count_as_others(
    available: int, used: int, held: tuple[int, ...], before: tuple[int, ...], foreign: set[int]
) -> None:
    found = devices.foreign_of_plugin(
        PLUGIN,
        available={"nvidia.com/gpu": available},
        used={"nvidia.com/gpu": used},
        held=held,
        before=before,
    )
    assert found == foreign


def test_others_use_of_one_resource_takes_none_of_another() -> None:
    parted = (*PLUGIN[:2], ClusterDevice(2, "MIG", None, "nvidia.com/mig-1g.10gb"))
    available = {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 1}
    used = {"nvidia.com/gpu": 1}
    assert devices.foreign_of_plugin(parted, available=available, used=used, held=(), before=()) == {1}


def test_published_devices_keep_their_numbers_and_new_ones_get_the_lowest_that_are_free() -> None:
    known = {"d/p/gpu-1": 1, "d/p/gpu-3": 3, "d/p/gone": 0}
    found = devices.of_slices([published(f"gpu-{number}") for number in (1, 2, 3, 4)], known)
    assert [(device.index, device.keys[0]) for device in found] == [
        (0, "d/p/gpu-2"),
        (1, "d/p/gpu-1"),
        (2, "d/p/gpu-4"),
        (3, "d/p/gpu-3"),
    ]


def test_of_published_devices_those_that_are_claimed_in_whole_or_part_or_tainted_are_others() -> None:
    every = [
        published("free"),
        published("taken"),
        published("parted", overlaps=("d/p/part",)),
        published("sick", refuses=True),
        published("ours", refuses=True),
    ]
    found = devices.of_slices(every, {})
    assert devices.foreign_of_slices(found, taken={"d/p/taken", "d/p/part"}, held={4}) == {1, 2, 3}


def mig(index: int, profile: str = "1g.10gb", share_milli: int = 143) -> ClusterDevice:
    name = f"mig-{profile}"
    return ClusterDevice(index, name, None, f"nvidia.com/{name}", slicing="mig", share_milli=share_milli)


def test_whole_devices_of_the_plugin_are_asked_for_by_number() -> None:
    assert asked(pod((0, 1000), (3, 1000)), *PLUGIN) == ContainerRequest(limits=(("nvidia.com/gpu", "2"),))


def test_a_slice_is_asked_for_by_its_share() -> None:
    assert asked(pod((4, 143)), *PLUGIN, mig(4)) == ContainerRequest(
        limits=(("nvidia.com/mig-1g.10gb", "1"),)
    )
    assert asked(pod((4, 1000)), mig(4, "7g.80gb", 1000)) == ContainerRequest(
        limits=(("nvidia.com/mig-7g.80gb", "1"),)
    )


def test_a_published_slice_is_claimed_whole_and_by_itself() -> None:
    known = devices.of_slices([replace(published("mig-0"), slicing="mig", share_milli=143)], {})
    (claim,) = asked(pod((0, 143)), *known).claims
    assert ([index for index, _ in claim.devices], claim.shared) == ([0], False)


def test_published_devices_are_asked_for_by_claims_whole_ones_together_shared_ones_each() -> None:
    known = devices.of_slices([published(f"gpu-{number}") for number in range(3)], {})
    (claim,) = asked(pod((0, 1000), (2, 1000)), *known).claims
    assert [(index, device.name) for index, device in claim.devices] == [(0, "gpu-0"), (2, "gpu-2")]
    assert not claim.shared
    first, second = asked(pod((0, 250), (1, 250)), *known).claims
    assert [first.shared, second.shared] == [True, True]
    assert [claim.devices[0][0] for claim in (first, second)] == [0, 1]


REPLICAS = tuple(
    ClusterDevice(index, "T4-SHARED", 3840, "nvidia.com/gpu", 4, slicing="replicas", share_milli=250)
    for index in range(4)
)
CUT = devices.of_slices([replace(published("mig-0"), slicing="mig", share_milli=143)], {})


def test_a_part_of_a_divided_gpu_is_one_of_the_plugins_replicas() -> None:
    assert asked(pod((2, 250)), *REPLICAS) == ContainerRequest(limits=(("nvidia.com/gpu", "1"),))


@pytest.mark.parametrize(
    ("planned", "known", "sentence"),
    [
        (pod((0, 250)), PLUGIN, "Node n gives out nvidia.com/gpu whole; it cannot hold 0.25 of one."),
        (pod((0, 1000), (7, 1000)), PLUGIN, "Node n has no GPU 7 any more."),
        (
            pod((0, 1000)),
            (mig(0),),
            "Node n gives out nvidia.com/mig-1g.10gb whole, as 0.143 GPUs; 1 of one are planned.",
        ),
        (
            pod((0, 125)),
            REPLICAS,
            "Node n gives out nvidia.com/gpu whole, as 0.25 GPUs; 0.125 of one are planned.",
        ),
        (pod((0, 100)), CUT, "Node n gives out H100 whole, as 0.143 GPUs; 0.1 of one are planned."),
        (
            pod((0, 250), (1, 250)),
            REPLICAS,
            "A pod on node n can have one slice of a GPU and nothing else; 2 of nvidia.com/gpu are planned.",
        ),
        (
            pod(*((index, 143) for index in range(5)), (5, 429), (6, 429)),
            (*(mig(index) for index in range(5)), mig(5, "3g.40gb", 429), mig(6, "3g.40gb", 429)),
            "A pod on node n can have one slice of a GPU and nothing else; "
            "5 of nvidia.com/mig-1g.10gb and 2 of nvidia.com/mig-3g.40gb are planned.",
        ),
        (
            pod((4, 143), (1, 1000)),
            (*PLUGIN, mig(4)),
            "A pod on node n can have one slice of a GPU and nothing else; "
            "1 of nvidia.com/gpu and 1 of nvidia.com/mig-1g.10gb are planned.",
        ),
        (
            pod((0, 1000), (4, 1000)),
            (*PLUGIN, ClusterDevice(4, "MI300X", 196608, "amd.com/gpu")),
            "A pod on node n can have GPUs of one resource; 1 of amd.com/gpu and 1 of nvidia.com/gpu are planned.",
        ),
        (
            pod(*((index, 1000) for index in range(33))),
            devices.of_slices([published(f"gpu-{number}") for number in range(40)], {}),
            "A pod on node n can claim at most 32 GPUs; 33 are planned.",
        ),
    ],
)
def test_what_cannot_be_held_is_refused_with_a_sentence(
    planned: AssignedPod, known: tuple[ClusterDevice, ...], sentence: str
) -> None:
    with pytest.raises(CannotHold) as refused:
        asked(planned, *known)
    assert str(refused.value) == sentence
