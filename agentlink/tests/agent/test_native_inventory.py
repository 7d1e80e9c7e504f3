"""Whose devices are: those that claims of Chamber's own Jobs have, and those that claims of others have."""

from dataclasses import replace
from typing import cast

import pytest

from agentlink.agent.backends.native.claims import ClaimFacts
from agentlink.agent.backends.native.inventory import NodeInventory, NodeUse
from agentlink.agent.backends.native.nodes import NodeFacts
from agentlink.agent.backends.native.slices import DeviceAttribute, SliceDevice, SliceFacts
from agentlink.agent.kube.client import Kube

DRIVER = "gpu.nvidia.com"
NODE = NodeFacts("n", True, False, 8000, 65536, {}, (), {}, {})
GPU = SliceDevice(DRIVER, "n", "a", "gpu", "A100", 40960, DeviceAttribute(DRIVER, "uuid", '"GPU-a"'))
OTHER = SliceDevice(DRIVER, "n", "b", "gpu", "A100", 40960, DeviceAttribute(DRIVER, "uuid", '"GPU-b"'))


def inventory() -> NodeInventory:
    """Return one of a node with two published GPUs, where the Job of uid u-1 in namespace ns is Chamber's."""

    def owns(namespace: str, uid: str) -> bool:
        return (namespace, uid) == ("ns", "u-1")

    found = NodeInventory(cast(Kube, None), use_of=lambda _: NodeUse(), owns=owns, on_change=lambda: None)
    found.nodes._keep("n", NODE)
    found.slices._keep("n-1", SliceFacts(DRIVER, "n", 1, 1, (("n", GPU), ("n", OTHER)), ()))
    return found


def claim(namespace: str, owner: str, *, index: int) -> ClaimFacts:
    """Return a claim that was given the first GPU and says which index it has."""
    return ClaimFacts(namespace, "c", (owner,), (GPU.key,), ((GPU.key, index),), shared=False)


def foreign(found: NodeInventory) -> list[int]:
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


def shared(*owners: str, given: bool = True) -> ClaimFacts:
    """Return a claim on the first GPU that Jobs of these uids share, as one of its versions tells it."""
    devices = (GPU.key,) if given else ()
    return ClaimFacts("ns", "c", owners, devices, ((GPU.key, 0),), shared=True)


ORDERS: dict[str, tuple[ClaimFacts | None, ...]] = {
    # Two pods end in one moment: one leaves its reservation, which is nothing that is kept, then all goes.
    "both end at once": (shared("u-1", "u-2"), shared("u-1", "u-2"), None),
    "both end, released before it is deleted": (
        shared("u-1", "u-2"),
        shared("u-1", "u-2"),
        shared("u-1", "u-2", given=False),
        None,
    ),
    "one after the other": (shared("u-1", "u-2"), shared("u-2"), shared("u-2", given=False), None),
    "the own Job first": (shared("u-1", "u-2"), shared("u-2"), shared("u-2"), None),
    "told often without news": (shared("u-1"), shared("u-1"), shared("u-1"), shared("u-1"), None),
    "of the other agent's Jobs": (shared("u-3"), shared("u-3"), None),
    "its owners go before it does": (shared("u-1"), shared(), shared(), None),
    "made anew under the same name": (shared("u-1"), shared("u-1"), None, shared("u-3"), shared("u-3"), None),
}


@pytest.mark.parametrize("told", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("often", [True, False], ids=["reported after each", "reported at the end"])
def test_a_device_is_free_once_its_claim_is_gone_in_whatever_order_that_is_told(
    told: tuple[ClaimFacts | None, ...], often: bool
) -> None:
    found = inventory()
    found.reports()
    for each in told:
        found.claims._keep("ns/c", each)
        if often:
            found.reports()
    assert foreign(found) == []


def test_a_device_of_two_claims_is_taken_until_both_are_gone() -> None:
    found = inventory()
    found.claims._keep("elsewhere/a", claim("elsewhere", "u-1", index=0))
    found.claims._keep("elsewhere/b", claim("elsewhere", "u-1", index=0))
    found.claims._keep("elsewhere/b", None)
    assert foreign(found) == [0]
    found.claims._keep("elsewhere/a", None)
    assert foreign(found) == []


def test_the_index_of_a_device_outlasts_what_others_claims_say_of_it() -> None:
    found = inventory()
    found.claims._keep("ns/c", claim("ns", "u-1", index=5))
    found.claims._keep("elsewhere/c", claim("elsewhere", "u-9", index=7))
    found.claims._keep("elsewhere/c", None)
    found.reports()
    assert {device.index: device.published for device in found._devices["n"]}[5] == GPU


def test_a_device_that_is_taken_though_no_pod_has_it_is_told() -> None:
    found = inventory()

    def problem() -> str:
        _, (node,) = found.reports()
        return node.problem

    found.claims._keep("elsewhere/c", claim("elsewhere", "u-9", index=0))
    assert problem() == ""
    found.claims._keep("elsewhere/c", replace(claim("elsewhere", "u-9", index=0), used=False))
    assert problem() == (
        "GPU 0 is allocated to a claim that no pod uses: kubectl delete resourceclaim c -n elsewhere frees it."
    )
    found.claims._keep("elsewhere/c", None)
    found.claims._keep("ns/c", replace(claim("ns", "u-1", index=0), used=False))
    assert problem() == ""
    refusing = SliceFacts(DRIVER, "n", 2, 1, (("n", replace(GPU, refuses=True)), ("n", OTHER)), ())
    found.slices._keep("n-1", refusing)
    assert problem() == "GPU 0 is tainted by its driver: no claim gets it."


def test_that_a_claim_of_chambers_was_deleted_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "agentlink.agent.backends.native.inventory")
    found = inventory()
    for each in (shared("u-1"), shared("u-1", given=False), None):
        found.claims._keep("ns/c", each)
    assert caplog.messages == ["ResourceClaim ns/c was deleted."]
