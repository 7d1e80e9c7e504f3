"""What an agent tells of nodes with a device plugin, on a real control plane."""

import asyncio

import pytest

from agentlink.agent.backends.native.inventory import Settings
from agentlink.protocol import DeviceReport, NodeReport, ReportedPhase
from agentlink.tests.kube.native import agent_of, foreign, pods_on, reported, work
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube

H100 = "NVIDIA-H100-80GB-HBM3"


def stranger(name: str, node: str, gpus: int, **asks: str) -> Json:
    """Return a pod that somebody else put on a node."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": asks}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"chamber.internal/cluster": "pretended"}},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "a", "image": "a", "resources": resources}],
        },
    }


async def test_nodes_are_told_with_what_they_have_and_how_they_are(namespace: Namespace) -> None:
    admin, thread = namespace.admin, asyncio.to_thread
    taint = {"key": "team", "value": "nlp", "effect": "NoSchedule"}
    facts = {
        "gpus": 2,
        "taints": [taint],
        "labels": {"rack": "r1", "room": "blue"},
        "cpu": "64",
        "memory": "512Gi",
    }
    (whole,) = await thread(lambda: namespace.add_nodes(1, **facts))
    label = {"nvidia.com/mig-1g.10gb.product": f"{H100}-MIG-1g.10gb", "nvidia.com/mig-1g.10gb.memory": "9856"}
    (parted,) = await thread(lambda: namespace.add_nodes(1, gpus=1, profiles={"1g.10gb": 3}, labels=label))
    await thread(namespace.add_nodes, 1, gpus=0)
    settings = Settings(node_selector=namespace.selector, partition_label="room")
    async with agent_of(namespace, settings=settings) as agent:
        nodes = await reported(agent, lambda found: len(found) == 2)
        assert nodes[whole].model_copy(update={"labels": {}}) == NodeReport(
            name=whole,
            cpu_milli=64_000,
            memory_mib=512 * 1024,
            taints=("team=nlp:NoSchedule",),
            partition="blue",
            sharing=False,
            devices=tuple(DeviceReport(index=index, gpu_type=H100, memory_mib=81559) for index in (0, 1)),
        )
        assert nodes[whole].labels["rack"] == "r1"
        assert [(device.gpu_type, device.memory_mib) for device in nodes[parted].devices] == [
            (H100, 81559),
            *[(f"{H100}-MIG-1g.10gb", 9856)] * 3,
        ]
        await thread(admin.merge, "v1", "nodes", whole, {"spec": {"unschedulable": True}})
        cordoned = await reported(agent, lambda found: found[whole].cordoned)
        assert cordoned[whole].taints == ("team=nlp:NoSchedule",)
        note = {"metadata": {"annotations": {"chamber.test/not-ready": "Unknown"}}}
        await thread(admin.merge, "v1", "nodes", parted, note)
        await reported(agent, lambda found: not found[parted].ready)
        await thread(admin.delete, "v1", "nodes", whole)
        await reported(agent, lambda found: list(found) == [parted])


async def test_what_others_use_is_not_chambers_and_what_its_own_pods_hold_is(namespace: Namespace) -> None:
    admin, thread = namespace.admin, asyncio.to_thread
    (node,) = await thread(lambda: namespace.add_nodes(1, gpus=4, cpu="10", memory="10Gi"))
    mine = work(*pods_on((node, (3,))), cpu_milli=1000)
    async with agent_of(namespace) as agent:
        await agent.begin(mine)
        await agent.until(mine, ReportedPhase.RUNNING)
        theirs = stranger("theirs", node, 2, cpu="1500m", memory="1.5Gi")
        await thread(admin.create, theirs, "pods", namespace.name)
        used = (await reported(agent, lambda found: bool(foreign(found[node]))))[node]
        assert foreign(used) == [1, 2]
        assert (used.cpu_milli, used.memory_mib) == (8_500, 10 * 1024 - 1536)
        sick = {"status": {"allocatable": {"nvidia.com/gpu": "3"}}}
        await thread(lambda: admin.merge("v1", "nodes", node, sick, part="status"))
        await reported(agent, lambda found: foreign(found[node]) == [0, 1, 2])
        await thread(lambda: namespace.play("theirs", run_for="0s", ends="0"))
        healed = await reported(agent, lambda found: len(foreign(found[node])) == 1)
        assert (healed[node].cpu_milli, len(healed[node].devices)) == (10_000, 4)
        seen = await agent.seen(mine)
        assert seen is not None
        assert seen.phase is ReportedPhase.RUNNING


async def test_what_the_device_plugin_cannot_hold_is_refused_with_the_reason(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    half = work(*pods_on((node, (0,)), share=500))
    beyond = work(*pods_on((node, (8,))))
    nowhere = work(*pods_on(("no-such-node", (0,))))
    async with agent_of(namespace) as agent:
        await agent.begin(half, beyond, nowhere)
        for attempt, sentence in (
            (half, f"Node {node} gives out nvidia.com/gpu whole; it cannot hold 0.5 of one."),
            (beyond, f"Node {node} has no GPU 8 any more."),
            (nowhere, "Node no-such-node is not there any more."),
        ):
            seen = await agent.until(attempt, ReportedPhase.FAILED)
            assert (seen.reason, seen.message, seen.created_at) == ("unschedulable", sentence, None)
