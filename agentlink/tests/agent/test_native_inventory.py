"""Whose devices are: those that claims of Chamber's own Jobs have, and those that claims of others have."""

from typing import cast

import pytest

from agentlink.agent.backends.native.claims import ClaimFacts
from agentlink.agent.backends.native.inventory import Inventory, NodeUse
from agentlink.agent.backends.native.nodes import NodeFacts
from agentlink.agent.backends.native.slices import Mark, SliceDevice, SliceFacts
from agentlink.agent.kube.client import Kube

DRIVER = "gpu.nvidia.com"
NODE = NodeFacts("n", True, False, 8000, 65536, {}, (), {}, {})
GPU = SliceDevice(DRIVER, "n", "a", "gpu", "A100", 40960, Mark(DRIVER, "uuid", '"GPU-a"'))
OTHER = SliceDevice(DRIVER, "n", "b", "gpu", "A100", 40960, Mark(DRIVER, "uuid", '"GPU-b"'))


def inventory() -> Inventory:
    """Return one of a node with two published GPUs, where the Job of uid u-1 in namespace ns is Chamber's."""

    def owns(namespace: str, uid: str) -> bool:
        return (namespace, uid) == ("ns", "u-1")

    found = Inventory(cast(Kube, None), use_of=lambda _: NodeUse(), owns=owns, on_change=lambda: None)
    found.nodes._keep("n", NODE)
    found.slices._keep("n-1", SliceFacts(DRIVER, "n", 1, 1, (("n", GPU), ("n", OTHER)), ()))
    return found


def claim(namespace: str, owner: str, *, index: int) -> ClaimFacts:
    """Return a claim that was given the first GPU and says which index it has."""
    return ClaimFacts(namespace, "c", (owner,), (GPU.key,), ((GPU.key, index),), shared=False)


def foreign(found: Inventory) -> list[int]:
    _, (node,) = found.reports()
    return [device.index for device in node.devices if device.foreign]


@pytest.mark.parametrize(
    ("namespace", "owner", "taken"),
    [("ns", "u-1", []), ("ns", "u-2", [0]), ("elsewhere", "u-1", [0])],
)
def test_a_claim_is_chambers_by_its_owners_uid_in_the_owners_namespace_only(
    namespace: str, owner: str, taken: list[int]
) -> None:
    found = inventory()
    assert foreign(found) == []
    found.claims._keep(f"{namespace}/c", claim(namespace, owner, index=0))
    assert foreign(found) == taken


@pytest.mark.parametrize(("namespace", "first"), [("ns", 5), ("elsewhere", 0)])
def test_only_a_claim_of_chambers_own_says_which_index_a_device_has(namespace: str, first: int) -> None:
    found = inventory()
    found.claims._keep(f"{namespace}/c", claim(namespace, "u-1", index=5))
    found.reports()
    assert {device.index: device.published for device in found._devices["n"]}[first] == GPU
