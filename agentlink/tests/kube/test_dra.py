"""Dynamic Resource Allocation on a real control plane: its scheduler gives pods the very devices of their plan."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import pytest

from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import NamespaceBinding, Namespaces, ReportedPhase
from agentlink.tests.kube.native import agent_of, foreign, items, pods_on, reported, work
from rig.namespaces import Namespace
from rig.namespaces import namespace as another

pytestmark = pytest.mark.kube

DRIVER = "gpu.nvidia.com"


def gpu(number: int) -> JsonObject:
    """Return a device as NVIDIA's driver publishes it; the numbers of uuids run against those of names."""
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{99 - number}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def publish(namespace: Namespace, node: str, numbers: Iterable[int], *, generation: int = 1) -> None:
    """Have a node's driver publish these GPUs in place of those before."""
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}", "labels": {namespace.label: "true"}},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [gpu(number) for number in numbers],
        },
    }
    namespace.admin.create(body, "resourceslices")


def prepare(namespace: Namespace, nodes: int) -> tuple[list[str], Settings]:
    """Add nodes with four GPUs each, and a device class of the test's own; return the nodes, and settings."""
    names = namespace.add_nodes(nodes, gpus=0)
    for name in names:
        publish(namespace, name, range(4))
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    metadata = {"name": f"gpus-{namespace.name}", "labels": {namespace.label: "true"}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata}
    namespace.admin.create({**body, "spec": {"selectors": selectors}}, "deviceclasses")
    return names, Settings(
        node_selector=namespace.selector, device_classes={DRIVER: f"gpus-{namespace.name}"}
    )


async def devices_of(namespace: Namespace) -> dict[str, dict[str, set[str]]]:
    """Return which devices each pod has, by the label of its index, then by node."""
    claims = await items(namespace, "resource.k8s.io/v1", "resourceclaims")
    found: dict[str, dict[str, set[str]]] = {}
    for pod in await items(namespace, "v1", "pods"):
        has = found.setdefault(pod["metadata"]["labels"]["chamber.internal/pod"], {})
        for claim in claims:
            if any(user["uid"] == pod["metadata"]["uid"] for user in claim["status"].get("reservedFor", ())):
                for each in claim["status"]["allocation"]["devices"]["results"]:
                    has.setdefault(each["pool"], set()).add(each["device"])
    return found


async def no_claims(namespace: Namespace) -> bool:
    """Return once no claim is left."""
    return await asyncio.to_thread(
        lambda: namespace.until(lambda left: not left, "resource.k8s.io/v1", "resourceclaims")
    )


async def test_pods_are_given_exactly_the_devices_of_their_plan(namespace: Namespace) -> None:
    (first, second), settings = await asyncio.to_thread(prepare, namespace, 2)
    gang = work(*pods_on((first, (1, 3)), (second, (0, 2)), (second, (3, 1))))
    async with agent_of(namespace, settings=settings) as agent:
        inventory = await reported(agent, lambda nodes: len(nodes) == 2)
        assert [(each.index, each.gpu_type, each.memory_mib) for each in inventory[first].devices] == [
            (index, "NVIDIA-H100-80GB-HBM3", 81559) for index in range(4)
        ]
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        assert await devices_of(namespace) == {
            "0": {first: {"gpu-1", "gpu-3"}},
            "1": {second: {"gpu-0", "gpu-2"}},
            "2": {second: {"gpu-1", "gpu-3"}},
        }
        inventory = await reported(agent, lambda nodes: len(nodes) == 2)
        assert [foreign(inventory[name]) for name in (first, second)] == [[], []]
        await agent.stop(gang)
        await agent.until(gang, ReportedPhase.GONE)
        await agent.forgotten(gang)
    assert await no_claims(namespace)


async def test_two_workloads_share_a_device_and_the_last_one_takes_the_claim_along(
    namespace: Namespace,
) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    small, large = work(*pods_on((node, (2,)), share=250)), work(*pods_on((node, (2,)), share=750))
    async with agent_of(namespace, settings=settings) as agent:
        assert (await reported(agent, bool))[node].sharing
        await agent.begin(small, large)
        for each in (small, large):
            await agent.until(each, ReportedPhase.RUNNING)
        (claim,) = await items(namespace, "resource.k8s.io/v1", "resourceclaims")
        assert len(claim["metadata"]["ownerReferences"]) == len(claim["status"]["reservedFor"]) == 2
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["pool"], result["device"]) == (node, "gpu-2")
        for each in (small, large):
            (kept,) = await items(namespace, "resource.k8s.io/v1", "resourceclaims")
            assert kept["metadata"]["uid"] == claim["metadata"]["uid"]
            await agent.stop(each)
            await agent.until(each, ReportedPhase.GONE)
            await agent.forgotten(each)
    assert await no_claims(namespace)


async def test_a_device_is_free_again_when_all_that_share_it_end_at_once(namespace: Namespace) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    both = [work(*pods_on((node, (2,)), share=500)) for _ in range(2)]
    async with agent_of(namespace, settings=settings) as agent:
        await reported(agent, bool)
        await agent.begin(*both)
        for each in both:
            await agent.until(each, ReportedPhase.RUNNING)
        await asyncio.gather(*(agent.stop(each) for each in both))
        for each in both:
            await agent.until(each, ReportedPhase.GONE)
        await asyncio.gather(*(agent.forgotten(each) for each in both))
        assert await no_claims(namespace)
        await reported(agent, lambda nodes: foreign(nodes[node]) == [], 10)


async def test_a_share_of_a_device_that_another_namespace_has_is_refused_with_the_reason(
    namespace: Namespace, control_plane: Path
) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    with another(control_plane) as elsewhere:
        mine = work(*pods_on((node, (0,)), share=500))
        theirs = work(*pods_on((node, (0,)), share=500), namespace=elsewhere.name)
        bound = NamespaceBinding(id=uuid4(), namespace=elsewhere.name, team="nlp")
        labels = {"metadata": {"labels": {"chamber.internal/team": "nlp"}}}
        await asyncio.to_thread(namespace.admin.merge, "v1", "namespaces", elsewhere.name, labels)
        async with agent_of(namespace, settings=settings) as agent:
            await agent.cluster.bind(Namespaces(version=1, bound=(bound,)))
            assert (await reported(agent, bool))[node].sharing
            await agent.begin(mine)
            await agent.until(mine, ReportedPhase.RUNNING)
            await agent.begin(theirs)
            refused = await agent.until(theirs, ReportedPhase.FAILED)
            assert (refused.reason, refused.message) == (
                "unschedulable",
                f"GPU 0 of node {node} is shared by pods of namespace {namespace.name}; "
                f"Kubernetes cannot share it with pods of {elsewhere.name}.",
            )


def bound(pods: list[JsonObject]) -> bool:
    """Whether every pod has its node."""
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


async def test_devices_that_others_claimed_are_theirs_until_they_let_go_of_them(namespace: Namespace) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    device_class = settings.device_classes[DRIVER]
    uuid = f'device.attributes["{DRIVER}"].uuid == "GPU-98"'
    request = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": uuid}}]}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "theirs", "labels": {"chamber.internal/cluster": "pretended"}},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": request}]}},
    }
    spec = {
        "containers": [{"name": "a", "image": "a", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "theirs"}],
        "nodeSelector": {namespace.label: "true"},  # other tests' nodes have such a device, too
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"}, "spec": spec}
    async with agent_of(namespace, settings=settings) as agent:
        await asyncio.to_thread(namespace.admin.create, body, "resourceclaims", namespace.name)
        await asyncio.to_thread(namespace.admin.create, pod, "pods", namespace.name)
        await reported(agent, lambda nodes: foreign(nodes[node]) == [1])
        # Deleted before it is bound, a pod leaves its claim allocated: its devices stay taken.
        await asyncio.to_thread(namespace.until, bound, "v1", "pods")
        await asyncio.to_thread(namespace.admin.delete, "v1", "pods", "theirs", namespace.name)
        await reported(agent, lambda nodes: foreign(nodes[node]) == [])


async def test_a_device_that_is_withdrawn_moves_no_index_of_what_runs_also_over_a_restart_of_the_agent(
    namespace: Namespace,
) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    runs = work(*pods_on((node, (2,))))
    async with agent_of(namespace, settings=settings) as agent:
        await agent.begin(runs)
        await agent.until(runs, ReportedPhase.RUNNING)
    await asyncio.to_thread(publish, namespace, node, (1, 2, 3), generation=2)
    async with agent_of(namespace, settings=settings) as agent:
        (report,) = (await reported(agent, bool)).values()
        assert [device.index for device in report.devices] == [0, 1, 2]
        assert foreign(report) == []
        device = agent.cluster.inventory.device(node, 2)
        assert device is not None
        assert device.published is not None
        assert device.published.name == "gpu-2"
        seen = await agent.seen(runs)
        assert seen is not None
        assert seen.phase is ReportedPhase.RUNNING
