"""Slices of GPUs by the device plugin, on a real control plane: told apart, and one to a pod."""

import asyncio

import pytest

from agentlink.protocol import ReportedPhase
from agentlink.tests.kube.native import Agent, agent_of, foreign, pods_on, reported, work
from agentlink.tests.kube.test_inventory import H100
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube

PROFILES = {"1g.10gb": 7, "3g.40gb": 2}


async def limits_of(namespace: Namespace, agent: Agent, node: str) -> list[Json]:
    """Return what the containers of Chamber's pods on a node may have of its devices."""
    pods = await asyncio.to_thread(namespace.items, "v1", "pods")
    return [
        {
            name: count
            for name, count in container["resources"]["limits"].items()
            if name.startswith("nvidia.com/")
        }
        for pod in pods
        for container in pod["spec"]["containers"]
        if pod["spec"].get("nodeName") == node
    ]


async def test_a_node_of_gpus_and_one_of_slices_are_told_apart_and_a_pod_gets_one_slice(
    namespace: Namespace,
) -> None:
    (whole,) = await asyncio.to_thread(namespace.add_nodes, 1)
    (cut,) = await asyncio.to_thread(lambda: namespace.add_nodes(1, gpus=0, profiles=PROFILES))
    async with agent_of(namespace) as agent:
        nodes = await reported(agent, lambda found: len(found) == 2)
        assert {(each.gpu_type, each.slicing, each.share_milli) for each in nodes[whole].devices} == {
            (H100, "whole", 1000)
        }
        assert [(each.gpu_type, each.slicing, each.share_milli) for each in nodes[cut].devices] == [
            *[("mig-1g.10gb", "mig", 143)] * 7,
            *[("mig-3g.40gb", "mig", 429)] * 2,
        ]
        assert (nodes[whole].taints, nodes[cut].taints) == ((), ())
        mine = work(*pods_on((cut, (7,)), share=429))
        await agent.begin(mine)
        await agent.until(mine, ReportedPhase.RUNNING)
        assert await limits_of(namespace, agent, cut) == [{"nvidia.com/mig-3g.40gb": "1"}]
        after = (await reported(agent, lambda found: not foreign(found[cut])))[cut]
        assert len(after.devices) == 9


async def test_a_gang_on_slices_has_one_for_each_pod(namespace: Namespace) -> None:
    (cut,) = await asyncio.to_thread(lambda: namespace.add_nodes(1, gpus=0, profiles=PROFILES))
    sweep = work(*pods_on(*((cut, (index,)) for index in range(4)), share=143))
    async with agent_of(namespace) as agent:
        await agent.begin(sweep)
        await agent.until(sweep, ReportedPhase.RUNNING)
        assert await limits_of(namespace, agent, cut) == [{"nvidia.com/mig-1g.10gb": "1"}] * 4


async def test_what_is_no_whole_slice_is_refused_with_the_reason(namespace: Namespace) -> None:
    (cut,) = await asyncio.to_thread(lambda: namespace.add_nodes(1, gpus=1, profiles=PROFILES))
    several = work(*pods_on((cut, (1, 2)), share=143))
    beside = work(*pods_on((cut, (0, 8)), share=1000))
    as_gpu = work(*pods_on((cut, (1,)), share=1000))
    async with agent_of(namespace) as agent:
        await agent.begin(several, beside, as_gpu)
        for attempt, sentence in (
            (
                several,
                f"A pod on node {cut} can have one slice of a GPU and nothing else; "
                "2 of nvidia.com/mig-1g.10gb are planned.",
            ),
            (
                beside,
                f"Node {cut} gives out nvidia.com/mig-3g.40gb whole, as 0.429 GPUs; 1 of one are planned.",
            ),
            (
                as_gpu,
                f"Node {cut} gives out nvidia.com/mig-1g.10gb whole, as 0.143 GPUs; 1 of one are planned.",
            ),
        ):
            seen = await agent.until(attempt, ReportedPhase.FAILED)
            assert (seen.reason, seen.message, seen.created_at) == ("unschedulable", sentence, None)


async def test_others_who_have_a_slice_take_none_from_another_profile(namespace: Namespace) -> None:
    admin, thread = namespace.admin, asyncio.to_thread
    (cut,) = await thread(lambda: namespace.add_nodes(1, gpus=0, profiles=PROFILES))
    resources = {"limits": {"nvidia.com/mig-1g.10gb": "2"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs"},
        "spec": {
            "nodeName": cut,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "a", "image": "a", "resources": resources}],
        },
    }
    async with agent_of(namespace) as agent:
        await thread(admin.create, pod, "pods", namespace.name)
        used = (await reported(agent, lambda found: cut in found and bool(foreign(found[cut]))))[cut]
        assert foreign(used) == [5, 6]


async def test_slices_that_the_strategy_single_counts_as_gpus_are_slices(namespace: Namespace) -> None:
    labels = {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": f"{H100}-MIG-1g.10gb",
        "nvidia.com/gpu.memory": "9856",
        "nvidia.com/gpu.slices.ci": "1",
    }
    (cut,) = await asyncio.to_thread(lambda: namespace.add_nodes(1, gpus=7, labels=labels))
    mine = work(*pods_on((cut, (0,)), share=143))
    async with agent_of(namespace) as agent:
        node = (await reported(agent, lambda found: cut in found))[cut]
        assert {(each.gpu_type, each.slicing, each.share_milli) for each in node.devices} == {
            (f"{H100}-MIG-1g.10gb", "mig", 143)
        }
        await agent.begin(mine)
        await agent.until(mine, ReportedPhase.RUNNING)
        assert await limits_of(namespace, agent, cut) == [{"nvidia.com/gpu": "1"}]
