"""What an agent's end leaves: the cluster's objects are the record, and the next agent goes on by them."""

import asyncio
from dataclasses import replace

import pytest

from agentlink.agent.backends.native.manifests import Wave
from agentlink.protocol import LIVING, ReportedPhase
from agentlink.tests.kube.native import agent_of, items, play, pods_on, work
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube


async def test_the_final_report_survives_agent_pods_and_node(namespace: Namespace) -> None:
    first, second = await asyncio.to_thread(namespace.add_nodes, 2)
    failing, done = work(*pods_on((first, (0,)), (first, (1,)))), work(*pods_on((second, (0,))))
    async with agent_of(namespace) as agent:
        await agent.begin(failing, done)
        for attempt, how in ((failing, {"ends": "7"}), (done, {})):
            await agent.until(attempt, ReportedPhase.RUNNING)
            place = agent.cluster.pod_of(attempt.attempt, 0)
            assert place is not None
            await play(namespace, place[1], run_for="0s", **how)
        told = await agent.until(
            failing, lambda seen: seen.phase is ReportedPhase.FAILED and len(seen.pods) == 1
        )
        await agent.until(done, ReportedPhase.SUCCEEDED)
    await asyncio.to_thread(namespace.admin.delete_all, "v1", "pods", namespace.name)
    await asyncio.to_thread(namespace.admin.delete, "v1", "nodes", first)
    await asyncio.to_thread(namespace.until, lambda pods: not pods, "v1", "pods")
    async with agent_of(namespace) as agent:
        again = await agent.seen(failing)
        assert again is not None
        assert replace(again, pods=told.pods, running_at=told.running_at) == told
        assert (again.pods, again.exit_code) == ((), 7)
        succeeded = await agent.seen(done)
        assert succeeded is not None
        assert (succeeded.phase, succeeded.exit_code) == (ReportedPhase.SUCCEEDED, 0)
        for attempt in (failing, done):
            await agent.forgotten(attempt)
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_a_gang_that_was_made_in_part_is_completed_and_let_go_as_a_whole(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,)), (node, (2,))))
    async with agent_of(namespace) as agent:
        # As an agent does that ends between two Jobs of a wave.
        await agent.cluster._care._maker.jobs(Wave(gang, gang.pods[:2], namespace.name, size=3))
        await agent.want(gang)
        await agent.until(gang, lambda seen: len(seen.pods) == 2)
    async with agent_of(namespace) as agent:
        await agent.want(gang)
        seen = await agent.until(gang, lambda seen: len(seen.pods) == 2)
        assert seen.phase is ReportedPhase.STARTING
        await asyncio.to_thread(
            namespace.until,
            lambda pods: len(pods) == 2 and all("schedulingGates" in pod["spec"] for pod in pods),
            "v1",
            "pods",
        )
        await agent.cluster.create(gang, gang.pods[2:])
        running = await agent.until(gang, ReportedPhase.RUNNING)
        assert [pod.index for pod in running.pods] == [0, 1, 2]
        await agent.stop(gang)
        await agent.until(gang, ReportedPhase.GONE)


async def test_a_stop_that_the_agent_before_began_goes_on_and_is_not_taken_for_a_failure(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,))), play={"stops_in": "5"})
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        await agent.stop(gang)
        await agent.until(gang, ReportedPhase.STOPPING)
    async with agent_of(namespace) as agent:
        gone = await agent.until(gang, ReportedPhase.GONE)
        assert (gone.reason, gone.message) == ("", "")
        assert not any(pod.state in LIVING for pod in gone.pods)
        await agent.forgotten(gang)
