"""How workloads end badly on a real control plane: each with the status and the sentence that a researcher needs."""

import asyncio

import pytest

from agentlink.agent.backends.native import reasons
from agentlink.protocol import LIVING, ReportedPhase
from agentlink.tests.kube.native import agent_of, items, play, pods_on, work
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube

ENDS = {
    "3": ("exit-code", "Pod 0 on {node} exited with code 3.", 3),
    "OOMKilled": ("out-of-memory", "used more memory than its 2,048 MiB.", 137),
    "Evicted": ("node-pressure", "Pod 0 on {node} was evicted by its node: ", None),
}


async def test_a_pod_that_fails_by_itself_ends_its_workload_with_the_reason(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    attempts = {
        how: work(
            *pods_on((node, (2 * number,)), (node, (2 * number + 1,))),
            memory_mib=2048,
        )
        for number, how in enumerate(ENDS)
    }
    async with agent_of(namespace) as agent:
        await agent.begin(*attempts.values())
        for how, attempt in attempts.items():
            await agent.until(attempt, ReportedPhase.RUNNING)
            place = agent.cluster.pod_of(attempt.attempt, 0)
            assert place is not None
            await play(namespace, place[1], run_for="0s", ends=how)
        for how, attempt in attempts.items():
            code, sentence, exit_code = ENDS[how]
            failed = await agent.until(
                attempt, lambda seen: seen.phase is ReportedPhase.FAILED and len(seen.pods) == 1
            )
            assert (failed.reason, failed.exit_code) == (code, exit_code)
            assert sentence.format(node=node) in failed.message
            assert failed.created_at is not None
            await agent.forgotten(attempt)
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_what_cannot_begin_is_given_up_after_a_while_with_the_clusters_words(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "IMAGE_SECONDS", 1.0)
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    image = work(*pods_on((node, (0,)), (node, (1,))), play={"waits": "ImagePullBackOff"})
    config = work(*pods_on((node, (2,))), play={"waits": "CreateContainerConfigError"})
    name = work(*pods_on((node, (3,))), play={"waits": "InvalidImageName"})
    async with agent_of(namespace) as agent:
        await agent.begin(image, config, name)
        for attempt, code, sentence in (
            (image, "image-not-pulled", "cannot have its image"),
            (config, "container-not-made", "cannot begin"),
            (name, "image-not-pulled", "cannot have its image"),
        ):
            failed = await agent.until(attempt, ReportedPhase.FAILED)
            assert failed.reason == code
            assert f"on {node} {sentence}: " in failed.message
            assert len(failed.pods) == len(attempt.pods)  # which have their devices still
            await agent.cluster.stop(attempt.attempt, None)
            await agent.until(attempt, lambda seen: seen.phase is ReportedPhase.FAILED and not seen.pods)


async def test_a_pod_that_does_not_come_to_its_node_is_refused_so_that_it_is_planned_anew(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "UNBOUND_SECONDS", 1.0)
    first, second = await asyncio.to_thread(namespace.add_nodes, 2, gpus=2)
    taken = work(*pods_on((second, (0,))))
    planned = work(*pods_on((first, (0,)), (second, (0, 1))))
    async with agent_of(namespace) as agent:
        await agent.begin(taken)
        await agent.until(taken, ReportedPhase.RUNNING)
        await agent.begin(planned)
        failed = await agent.until(planned, ReportedPhase.FAILED)
        assert (failed.reason, failed.created_at) == ("unschedulable", None)
        assert f"Pod 1 was planned on {second}, but did not come there within 1 s: " in failed.message
        assert "Insufficient nvidia.com/gpu" in failed.message
        await agent.cluster.stop(planned.attempt, None)
        await agent.until(planned, lambda seen: not any(pod.state in LIVING for pod in seen.pods))


async def test_what_the_api_server_does_not_take_is_refused_with_its_words(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    place = pods_on((node, (0,)))
    nowhere = work(*place, namespace="no-such-namespace")
    no_device = work(*pods_on((node, (8,))))
    going = work(*place, namespace=f"{namespace.name}-going")
    no_name = work(*place, environment={"": "x"})
    held = {"name": going.namespace, "labels": {namespace.label: "true"}, "finalizers": ["chamber.test/held"]}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": held}
    await asyncio.to_thread(namespace.admin.create, body, "namespaces")
    await asyncio.to_thread(namespace.admin.delete, "v1", "namespaces", going.namespace)
    async with agent_of(namespace) as agent:
        await agent.begin(nowhere, going, no_device, no_name)
        for attempt, code, sentence in (
            (nowhere, "namespace-missing", "The namespace no-such-namespace does not exist in the cluster."),
            (no_device, "unschedulable", f"Node {node} has no GPU 8 any more."),
            (
                going,
                "namespace-terminating",
                f"The namespace {going.namespace} is being deleted in the cluster.",
            ),
            (no_name, "refused", "spec.template.spec.containers[0].env["),
        ):
            failed = await agent.until(attempt, ReportedPhase.FAILED)
            assert (failed.reason, failed.created_at, failed.pods) == (code, None, ())
            assert sentence in failed.message
            await agent.forgotten(attempt)
            assert await agent.seen(attempt) is None
    free = {"metadata": {"finalizers": None}}
    await asyncio.to_thread(namespace.admin.merge, "v1", "namespaces", going.namespace, free)


async def test_a_quota_that_keeps_pods_from_being_made_is_told_and_nothing_is_left(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "UNMADE_SECONDS", 1.0)
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
    }
    await asyncio.to_thread(namespace.admin.create, quota, "resourcequotas", namespace.name)
    gang = work(*pods_on((node, (0,)), (node, (1,))))
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert (failed.reason, failed.created_at) == ("quota-exceeded", None)
        # Two where the other one is not seen yet.
        assert failed.message.startswith(
            ("The cluster does not make a pod", "The cluster does not make 2 pods")
        )
        assert "exceeded quota: gpus" in failed.message
        await agent.cluster.stop(gang.attempt, None)
        await agent.until(gang, lambda seen: not any(pod.state in LIVING for pod in seen.pods))
        await agent.forgotten(gang)
    assert await items(namespace, "batch/v1", "jobs") == []
