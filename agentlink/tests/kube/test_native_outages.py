"""What an agent and its API server may go through meanwhile: nothing is lost, and nothing runs twice."""

import asyncio
from pathlib import Path

import pytest

from agentlink.agent.backends.native import reasons
from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.protocol import DesiredAttempt, ReportedPhase
from agentlink.tests.kube.native import Agent, agent_of, items, play, pods_on, work
from agentlink.tests.kube.wires import wired
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube


async def pods_made(namespace: Namespace, assignment: DesiredAttempt) -> int:
    """Return how many pods there are of an attempt, whatever became of them."""
    pods = await items(namespace, "v1", "pods", labels=f"chamber.internal/attempt={assignment.attempt}")
    return len(pods)


def have_failed(jobs: list[Json]) -> bool:
    """Return whether all of these Jobs failed."""
    conditions = [job.get("status", {}).get("conditions", ()) for job in jobs]
    return all(any(each["type"] == "Failed" for each in found) for found in conditions)


async def test_an_api_server_that_goes_away_and_comes_back_costs_time_and_nothing_else(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after a long time away: whether its Jobs or their pods are heard of first, no cause is waited for.
    monkeypatch.setattr(reasons, "DELETED_SECONDS", 0.0)
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    runs, begins = work(*pods_on((node, (0,)), (node, (1,)))), work(*pods_on((node, (2,)), (node, (3,))))
    settings = Settings(node_selector=namespace.selector)
    async with (
        wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig),
        Kube(load(kubeconfig)) as kube,
        NativeCluster(kube, own_namespace=namespace.name, settings=settings) as cluster,
    ):
        agent = Agent(cluster)
        await agent.begin(runs)
        await agent.until(runs, ReportedPhase.RUNNING)
        wire.cut()
        await agent.begin(begins)
        for pod in await items(namespace, "v1", "pods"):
            await play(namespace, pod["metadata"]["name"], run_for="0s", ends="3")
        await asyncio.to_thread(namespace.until, have_failed, "batch/v1", "jobs")
        assert await pods_made(namespace, begins) == 0
        seen = await agent.seen(runs)
        assert seen is not None
        assert seen.phase is ReportedPhase.RUNNING
        wire.mend()
        ended = await agent.until(runs, ReportedPhase.FAILED)
        assert (ended.reason, ended.exit_code) == ("exit-code", 3)
        await agent.until(begins, ReportedPhase.RUNNING)
        assert await pods_made(namespace, begins) == 2


@pytest.mark.parametrize("cut_after", [1, 3, 6])
async def test_wherever_the_connection_breaks_while_a_gang_is_made_it_is_made_once(
    namespace: Namespace, tmp_path: Path, cut_after: int
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on(*((node, (index,)) for index in range(4))))
    settings = Settings(node_selector=namespace.selector)
    async with (
        wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig),
        Kube(load(kubeconfig)) as kube,
        NativeCluster(kube, own_namespace=namespace.name, settings=settings) as cluster,
    ):
        agent = Agent(cluster)
        await cluster.synced()
        before = kube.requests
        await agent.begin(gang)
        async with asyncio.timeout(60):
            while kube.requests < before + cut_after:
                await asyncio.sleep(0.001)
        wire.cut()
        await asyncio.sleep(0.2)
        wire.mend()
        running = await agent.until(gang, ReportedPhase.RUNNING)
        assert [pod.index for pod in running.pods] == [0, 1, 2, 3]
        assert await pods_made(namespace, gang) == 4
        assert len(await items(namespace, "batch/v1", "jobs")) == 1


async def test_an_agent_that_begins_again_goes_on_with_what_its_predecessor_began(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,))))
    async with agent_of(namespace) as first:
        await first.cluster.create(gang, gang.pods)
        await first.until(gang, lambda seen: len(seen.pods) == 2)
    async with agent_of(namespace) as second:
        seen = await second.seen(gang)
        assert seen is not None
        assert (seen.phase, seen.number) == (ReportedPhase.STARTING, gang.number)
        await second.begin(gang)
        await second.until(gang, ReportedPhase.RUNNING)
        assert await pods_made(namespace, gang) == 2
        await second.stop(gang)
    async with agent_of(namespace) as third:
        await third.stop(gang)
        await third.until(gang, ReportedPhase.GONE)
        await third.forgotten(gang)
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_two_agents_that_both_believe_to_lead_make_pods_once(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,))))
    async with agent_of(namespace) as one, agent_of(namespace) as other:
        await asyncio.gather(one.begin(gang), other.begin(gang))
        for agent in (one, other):
            await agent.until(gang, ReportedPhase.RUNNING)
        assert await pods_made(namespace, gang) == 2
        assert len(await items(namespace, "batch/v1", "jobs")) == 1
        await asyncio.gather(one.stop(gang), other.stop(gang))
        for agent in (one, other):
            await agent.until(gang, ReportedPhase.GONE)
