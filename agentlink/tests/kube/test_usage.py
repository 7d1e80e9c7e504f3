"""What is made of GPUs, from exporters' pods of a real control plane to figures of workloads."""

import asyncio
from typing import Any

import pytest

from agentlink.agent.backends.native.usage import EXPORTERS
from agentlink.protocol import ReportedPhase, UsageFigure
from agentlink.tests.agent.exporters import MEMORY, POWER, SM, gpu, page
from agentlink.tests.agent.test_native_usage import answering, http
from agentlink.tests.kube.native import Agent, agent_of, pods_on, work
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube


def exporter_on(node: str, namespace: Namespace) -> dict[str, Any]:
    """Return a pod as a DaemonSet of the exporter makes it, but for the exporter's label."""
    labels = {namespace.label: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "dcgm-exporter-", "labels": labels},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "exporter", "image": "registry.test/dcgm-exporter:4"}],
        },
    }


async def figures(agent: Agent, *, count: int = 1) -> list[UsageFigure]:
    """Return what is told of workloads, once it is of so many."""
    async with asyncio.timeout(60):
        while len(found := list(await agent.cluster.usage())) < count:
            await asyncio.sleep(0.05)
        return found


async def run_exporter(namespace: Namespace, where: str, node: str) -> str:
    """Have an exporter's pod run at this test's own address; return its name."""

    def run() -> str:
        made = namespace.admin.create(exporter_on(node, namespace), "pods", where)
        name = str(made["metadata"]["name"])

        def runs(pods: list[dict[str, Any]]) -> bool:
            return any(pod["metadata"]["name"] == name and pod["status"].get("podIP") for pod in pods)

        namespace.admin.until(runs, "v1", "pods", where, labels=namespace.selector)
        address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        namespace.admin.merge("v1", "pods", name, {"status": address}, where, part="status")
        labels = dict([EXPORTERS[0].split("=")])  # not before: nobody is to ask at the address that is played
        namespace.admin.merge("v1", "pods", name, {"metadata": {"labels": labels}}, where)
        return name

    return await asyncio.to_thread(run)


async def test_an_exporters_figures_reach_the_workload_and_a_pretenders_do_not(namespace: Namespace) -> None:
    [node] = await asyncio.to_thread(namespace.add_nodes, 1, gpus=2)
    told = [page((gpu(0, "nobody"), {SM: 0.1}))]
    only_mine = (f"{EXPORTERS[0]},{namespace.selector}",)
    async with (
        answering(lambda: http(told[0])) as port,
        agent_of(namespace, exporters=only_mine, exporter_port=port) as agent,
    ):
        assignment = work(*pods_on((node, (0, 1))))
        await agent.begin(assignment)
        await agent.until(assignment, ReportedPhase.RUNNING)
        where = agent.cluster.pod_of(assignment.attempt, 0)
        assert where is not None
        labels = {"namespace": where[0]}
        told[0] = page(
            (gpu(0, where[1], **labels), {SM: 0.9, MEMORY: 70_000, POWER: 500}),
            (gpu(1, where[1], **labels), {SM: 0.02, MEMORY: 1_000, POWER: 80}),
        )
        await run_exporter(namespace, namespace.name, node)
        exporter = await run_exporter(namespace, "default", node)
        try:
            [figure] = await figures(agent)
        finally:
            delete = namespace.admin.delete
            await asyncio.to_thread(delete, "v1", "pods", exporter, "default", gracePeriodSeconds="0")
        assert figure.workload == assignment.workload
        assert (figure.utilisation_percent, figure.memory_mib, figure.power_watts) == (46, 71_000, 580)
        assert sorted(figure.devices.values()) == [2, 90]
        # The pretender is all that is left.
        async with asyncio.timeout(60):
            while await agent.cluster.usage():
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(namespace.items, "v1", "pods", labels=only_mine[0])
