"""The native cluster on a real control plane: workloads run where they were planned, and end with their reasons."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from agentlink.agent.backends.native import manifests
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.marks import digest
from agentlink.agent.backends.native.names import DomainNames
from agentlink.protocol import LIVING, PodState, ReportedPhase, StopNotice
from agentlink.tests.kube.native import agent_of, items, play, pods_on, work
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube

GPU = ContainerRequest(limits=(("nvidia.com/gpu", "1"),))


async def test_a_gang_is_gated_until_whole_then_each_pod_runs_on_its_own_node(namespace: Namespace) -> None:
    first, second = await asyncio.to_thread(namespace.add_nodes, 2)
    gang = work(*pods_on((second, (0, 1)), (first, (0, 1)), (second, (2, 3))), play={"run_for": "0s"})
    async with agent_of(namespace) as agent:
        await agent.cluster.create(gang, gang.pods)
        gated = await agent.until(gang, lambda seen: len(seen.pods) == 3)
        assert (gated.phase, {pod.state for pod in gated.pods}) == (
            ReportedPhase.STARTING,
            {PodState.PENDING},
        )
        await agent.want(gang)
        ended = await agent.until(gang, ReportedPhase.SUCCEEDED)
        assert [(pod.index, pod.node) for pod in ended.pods] == [(0, second), (1, first), (2, second)]
        assert ended.running_at is not None
        pods = await items(namespace, "v1", "pods")
        assert {pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods} == {
            "2"
        }
        assert len(await items(namespace, "v1", "services")) == 1
        await agent.forgotten(gang)
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_pods_that_come_and_go_while_a_gang_runs_leave_the_others_alone(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,)), (node, (2,))), most_pods=4)
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        await agent.cluster.stop(gang.attempt, {1})
        shrunk = await agent.until(gang, lambda seen: len(seen.pods) == 2)
        assert (shrunk.phase, [pod.index for pod in shrunk.pods]) == (ReportedPhase.RUNNING, [0, 2])
        more = pods_on((node, (0,)), (node, (3,)))[1:]
        grown = gang.model_copy(update={"pods": (gang.pods[0], *more, gang.pods[2])})
        await agent.want(grown)
        await agent.cluster.create(grown, more)
        regrown = await agent.until(
            gang, lambda seen: [pod.state for pod in seen.pods] == [PodState.RUNNING] * 3
        )
        assert (regrown.phase, [pod.index for pod in regrown.pods]) == (ReportedPhase.RUNNING, [0, 1, 2])
        for pod in await items(namespace, "v1", "pods"):
            if "deletionTimestamp" not in pod["metadata"]:
                await play(namespace, pod["metadata"]["name"], run_for="0s")
        ended = await agent.until(gang, ReportedPhase.SUCCEEDED)
        assert [pod.state for pod in ended.pods] == [PodState.SUCCEEDED] * 3
        await agent.forgotten(gang)
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_stopping_takes_the_pods_as_long_as_they_need_and_leaves_nothing(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    slow = work(*pods_on((node, (0,)), (node, (1,))), play={"stops_in": "5"})
    async with agent_of(namespace) as agent:
        await agent.begin(slow)
        await agent.until(slow, ReportedPhase.RUNNING)
        await agent.stop(slow)
        stopping = await agent.until(slow, ReportedPhase.STOPPING)
        assert {(pod.state, pod.reason) for pod in stopping.pods} <= {
            (PodState.RUNNING, "terminating"),
            (PodState.RUNNING, ""),
        }
        gone = await agent.until(slow, ReportedPhase.GONE)
        assert not any(pod.state in LIVING for pod in gone.pods)
        assert gone.reason == ""
        assert len(await items(namespace, "batch/v1", "jobs")) == 1
        await agent.forgotten(slow)
    for version, plural in (("batch/v1", "jobs"), ("v1", "services")):
        assert await asyncio.to_thread(namespace.until, lambda left: not left, version, plural)


async def test_a_pod_that_is_preempted_has_its_notice_before_its_signal_within_what_it_was_granted(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    warned = work(*pods_on((node, (0,))), grace_seconds=125, play={"stops_in": "2"})
    async with agent_of(namespace) as agent:
        await agent.begin(warned)
        await agent.until(warned, ReportedPhase.RUNNING)
        (pod,) = await items(namespace, "v1", "pods")
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "notice"]
        assert volume["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == (
            "metadata.annotations['chamber.internal/notice']"
        )
        signal_at = datetime.now(UTC) + timedelta(seconds=3)
        await agent.stop(
            warned, StopNotice(why="Its GPUs were reclaimed.", signal_at=signal_at, grace_seconds=65)
        )

        def told(found: list[Json]) -> bool:
            return any("chamber.internal/notice" in pod["metadata"]["annotations"] for pod in found)

        assert await asyncio.to_thread(namespace.until, told, "v1", "pods")
        (pod,) = await items(namespace, "v1", "pods")
        said = json.loads(pod["metadata"]["annotations"]["chamber.internal/notice"])
        assert said == {
            "why": "Its GPUs were reclaimed.",
            "signal_at": signal_at.isoformat(),
            "ends_at": (signal_at + timedelta(seconds=65)).isoformat(),
        }
        assert "deletionTimestamp" not in pod["metadata"]
        assert datetime.now(UTC) < signal_at

        def leaving(found: list[Json]) -> bool:
            return any(pod["metadata"].get("deletionGracePeriodSeconds") == 65 for pod in found)

        assert await asyncio.to_thread(namespace.until, leaving, "v1", "pods")
        assert datetime.now(UTC) > signal_at
        await agent.until(warned, ReportedPhase.GONE)
        await agent.forgotten(warned)


async def test_pods_have_what_they_were_planned_with_and_say_whose_they_are(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    mine = work(
        *pods_on((node, (0,)), (node, (1,))), cpu_milli=1000, memory_mib=2048, name="BERT", owner="ada",
        labels={"cost-centre": "42"}, annotations={"example.org/note": "Ask Ada."},
    )  # fmt: skip
    async with agent_of(namespace) as agent:
        await agent.begin(mine)
        await agent.until(mine, ReportedPhase.RUNNING)
        (job,) = await items(namespace, "batch/v1", "jobs")
        pods = await items(namespace, "v1", "pods")
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}
    assert {pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] for pod in pods} == {"1Gi"}
    for each in (job, *pods):
        labels, annotations = each["metadata"]["labels"], each["metadata"]["annotations"]
        assert (labels["app.kubernetes.io/name"], labels["chamber.internal/owner"]) == ("BERT", "ada")
        assert (labels["cost-centre"], annotations["example.org/note"]) == ("42", "Ask Ada.")
    # It bears the mark of what was asked for, however the API server writes the amounts.
    (asked,) = manifests.parts(Wave(mine, mine.pods, namespace.name), dict.fromkeys((0, 1), GPU))
    body = manifests.job(asked, Wave(mine, mine.pods, namespace.name), DomainNames(), cluster="c")
    assert digest(job["spec"]["template"]["spec"]) == digest(body["spec"]["template"]["spec"])
