"""Maintenance of a real cluster: nothing that it takes away fails, or costs a retry."""

import asyncio
from functools import partial
from typing import Any

import pytest

from agentlink.agent.backends.native.budgets import Disruption
from agentlink.models import Node
from agentlink.protocol import ReportedPhase
from agentlink.tests.agents import in_database, until
from agentlink.tests.conftest import Place
from agentlink.tests.kube.native import agent_of, items, pods_on, work
from agentlink.tests.kube.test_native_link import is_released, is_status, linked, submit
from rig import kubernetes
from rig.namespaces import Json, Namespace, Refused, suppress_missing
from workloads.models import Attempt, EndReason, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

KINDS = [(50, 0), (50, 1), (100, 0), (100, 1)]
"""Priority and retries: elastic and reserved, with and without."""


async def submitted(place: Place, node: str) -> list[Attempt]:
    """Return running attempts of each kind, each on a GPU of the node."""
    attempts = [
        await submit(place, node, index, priority=priority, max_retries=retries, max_requeues=0)
        for index, (priority, retries) in enumerate(KINDS)
    ]
    for attempt in attempts:
        await until(partial(is_status, attempt, Status.RUNNING))
    return attempts


async def pods_of(namespace: Namespace, node: str) -> list[str]:
    pods = await asyncio.to_thread(namespace.items, "v1", "pods")
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]


async def check(attempts: list[Attempt], code: str, *words: str) -> None:
    """Check that all are back in the queue as they were, and that what took them away is told."""
    for attempt in attempts:
        await until(partial(is_status, attempt, Status.PENDING))
        await until(partial(is_released, attempt))
        row = await in_database(partial(Workload.objects.get, pk=attempt.workload_id))
        ended = await in_database(partial(Attempt.objects.get, pk=attempt.pk))
        assert (row.failures, row.requeues, row.finished_at) == (0, 0, None)
        assert (ended.end_reason, ended.end_detail["code"]) == (EndReason.DISPLACED, code)
        for word in words:
            assert word in ended.end_detail["message"]


async def test_a_node_that_is_drained_sends_its_work_back_to_the_queue(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=4)
    async with linked(place, namespace, node):
        attempts = await submitted(place, node)
        cordon = {"spec": {"unschedulable": True}}
        await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, cordon)
        pods = await pods_of(namespace, node)
        evicted = [await evict(namespace, pod) for pod in pods]
        assert evicted.count(True) == 2  # elastic ones of a single pod; the others have a budget
        elastic, reserved = attempts[:2], attempts[2:]
        await check(elastic, "drained", f"on {node} was evicted, as when its node is drained (cordoned")
        for pod in pods:  # as `kubectl drain --disable-eviction` does
            with suppress_missing():
                await asyncio.to_thread(namespace.admin.delete, "v1", "pods", pod, namespace.name)
        await check(reserved, "drained", "was deleted while its node is being emptied (cordoned")


async def evict(namespace: Namespace, pod: str) -> bool:
    """Ask for a pod's eviction; return whether that was granted."""
    eviction: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/eviction"
    try:
        await asyncio.to_thread(namespace.admin.request, "POST", path, eviction)
    except Refused as refused:
        if refused.status != 429:
            raise
        return False
    return True


async def test_a_node_that_is_deleted_sends_its_work_back_once_its_pods_are_known_to_be_gone(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=4)
    async with linked(place, namespace, node):
        attempts = await submitted(place, node)
        await asyncio.to_thread(namespace.admin.delete, "v1", "nodes", node)

        def noted() -> bool:
            return Attempt.objects.filter(end_reason=EndReason.DISPLACED, ended_at=None).count() == len(KINDS)

        await until(noted)  # Chamber knows; the cluster has not given the pods up yet
        statuses = await in_database(lambda: set(Workload.objects.values_list("status", flat=True)))
        assert statuses == {Status.RUNNING}
        await forget_pods(namespace, node)
        await check(attempts, "node-lost", f"Node {node} was lost: it is not in the cluster any more.")


async def forget_pods(namespace: Namespace, node: str) -> None:
    """Give up the pods of a node that is gone, as the cluster's garbage collector does some time later."""
    for pod in await pods_of(namespace, node):
        await asyncio.to_thread(
            namespace.admin.delete, "v1", "pods", pod, namespace.name, gracePeriodSeconds="0"
        )


@pytest.mark.parametrize("cordoned", [True, False])
async def test_a_pod_that_is_deleted_by_hand_is_displaced_and_a_cordon_says_why(
    namespace: Namespace, cordoned: bool
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    alone = work(*pods_on((node, (0,))))
    async with agent_of(namespace) as agent:
        await agent.begin(alone)
        await agent.until(alone, ReportedPhase.RUNNING)
        if cordoned:
            change = {"spec": {"unschedulable": True}}
            await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, change)
            await wait_for(agent, node)
        (pod,) = await pods_of(namespace, node)
        await asyncio.to_thread(namespace.admin.delete, "v1", "pods", pod, namespace.name)
        failed = await agent.until(alone, ReportedPhase.FAILED)
        assert failed.reason == ("drained" if cordoned else "pod-deleted")


async def wait_for(agent: Any, node: str) -> None:
    """Return once the agent knows that the node is cordoned."""
    async with asyncio.timeout(60):
        while not agent.cluster.inventory.nodes.items[node].cordoned:
            await asyncio.sleep(0.02)


async def test_a_pod_that_ends_well_because_it_was_evicted_has_not_completed(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    alone = work(*pods_on((node, (0,))), play={"stops_in": "30"}, grace_seconds=60)
    async with agent_of(namespace) as agent:
        await agent.begin(alone)
        await agent.until(alone, ReportedPhase.RUNNING)
        (pod,) = await pods_of(namespace, node)
        assert await evict(namespace, pod)
        seen = await agent.until(alone, ReportedPhase.FAILED)
        assert (seen.reason, seen.exit_code) == ("drained", None)
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}
        status = {"phase": "Succeeded", "containerStatuses": [terminated(ended)]}
        await asyncio.to_thread(
            namespace.admin.merge, "v1", "pods", pod, {"status": status}, namespace.name, part="status"
        )
        seen = await agent.until(alone, lambda one: not any(each.state == "running" for each in one.pods))
        assert (seen.phase, seen.reason) == (ReportedPhase.FAILED, "drained")


def terminated(state: Json) -> Json:
    return {
        "name": "main", "image": "registry.test/train:1", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"terminated": state},
    }  # fmt: skip


async def test_a_registry_that_is_away_is_no_failure_and_a_wrong_name_is(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentlink.agent.backends.native.reasons.REGISTRY_SECONDS", 1.0)
    monkeypatch.setattr("agentlink.agent.backends.native.reasons.IMAGE_SECONDS", 1.0)
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    away = work(*pods_on((node, (0,))), play={"waits": "RegistryUnavailable"})
    wrong = work(*pods_on((node, (1,))), play={"waits": "ErrImagePull"})
    async with agent_of(namespace) as agent:
        await agent.begin(away, wrong)
        for attempt, code in ((away, "registry-unreachable"), (wrong, "image-not-pulled")):
            assert (await agent.until(attempt, ReportedPhase.FAILED)).reason == code


AUTOSCALERS = {"cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"}


@pytest.mark.parametrize(
    ("disruption", "kept"),
    [
        (Disruption(), {"gang", "reserved"}),
        (Disruption.of(["single"], ["single"]), {"single"}),
        (Disruption.of(["none"], ["none"]), set()),
    ],
)
async def test_pods_have_budgets_and_annotations_by_class_for_as_long_as_their_job(
    namespace: Namespace, disruption: Disruption, kept: set[str]
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    works = {
        "single": work(*pods_on((node, (0,)))),
        "reserved": work(*pods_on((node, (1,))), reserved=True),
        "gang": work(*pods_on((node, (2,)), (node, (3,)))),
    }
    async with agent_of(namespace, disruption=disruption) as agent:
        await agent.begin(*works.values())
        for name, each in works.items():
            await agent.until(each, ReportedPhase.RUNNING)
            place = agent.cluster.pod_of(each.attempt, 0)
            assert place is not None
            pods = await items(namespace, "v1", "pods")
            (pod,) = [pod for pod in pods if pod["metadata"]["name"] == place[1]]
            assert (pod["metadata"]["annotations"].keys() >= AUTOSCALERS) is (name in kept)
        budgets = await items(namespace, "policy/v1", "poddisruptionbudgets")
        of = {budget["metadata"]["labels"]["chamber.internal/attempt"]: budget["spec"] for budget in budgets}
        assert of.keys() == {str(works[name].attempt) for name in kept}
        if "gang" in kept:
            assert of[str(works["gang"].attempt)]["minAvailable"] == 2
        for each in works.values():
            await agent.stop(each)
            await agent.until(each, ReportedPhase.GONE)
            await agent.forgotten(each)
    await asyncio.to_thread(namespace.until, lambda found: not found, "policy/v1", "poddisruptionbudgets")


async def test_kubectl_drain_waits_for_reserved_work_and_takes_it_without_eviction(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=4)
    async with linked(place, namespace, node):
        attempts = await submitted(place, node)
        assert await drain(namespace, node, "--timeout=5s") != 0  # the budgets of the reserved ones
        await check(attempts[:2], "drained", "(cordoned by kubectl")
        assert await in_database(partial(is_status, attempts[2], Status.RUNNING))
        assert await drain(namespace, node, "--timeout=60s", "--disable-eviction") == 0
        await check(attempts[2:], "drained", "(cordoned by kubectl")


async def drain(namespace: Namespace, node: str, *options: str) -> int:
    """Drain a node as an operator does; return kubectl's status."""
    run = await asyncio.create_subprocess_exec(
        kubernetes.program("kubectl"), "--kubeconfig", str(namespace.kubeconfig), "drain", node,
        "--ignore-daemonsets", "--delete-emptydir-data", *options, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return await run.wait()


async def test_a_drain_that_a_node_is_annotated_with_takes_each_class_at_its_time(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=4)
    async with linked(place, namespace, node):
        attempts = await submitted(place, node)
        elastic, reserved = attempts[:2], attempts[2:]
        await annotate(namespace, node, **{"drain-elastic-at": "tomorrow"})
        await until(lambda: "'tomorrow', which is no time" in Node.objects.get(name=node).problem)
        assert "'tomorrow', which is no time" in await said_of(namespace, node)
        for attempt in attempts:
            assert await in_database(partial(is_status, attempt, Status.RUNNING))
        await annotate(
            namespace, node, **{"drain-elastic-at": "now", "drain-reserved-at": "2099-01-01T00:00:00Z"}
        )
        await check(elastic, "drained", f"on {node} was asked to end: an operator drains its node.")
        await until(lambda: Node.objects.filter(name=node, cordoned=True, drained=True).exists())
        for attempt in reserved:
            assert await in_database(partial(is_status, attempt, Status.RUNNING))
        await annotate(namespace, node, **{"drain-reserved-at": "now"})
        await check(reserved, "drained", f"on {node} was asked to end: an operator drains its node.")
        await annotate(namespace, node, **{"drain-elastic-at": None, "drain-reserved-at": None})
        await until(lambda: Node.objects.filter(name=node, cordoned=False, drained=False).exists())


async def said_of(namespace: Namespace, node: str) -> str:
    """Return the message of the Event on a node that tells of its drain, as `kubectl describe node` finds it."""

    def found(events: list[Json]) -> str:
        about = (event for event in events if event["involvedObject"].get("name") == node)
        mine = (event for event in about if event["reason"] == "DrainNotRead")
        return next((event["message"] for event in mine if not event["involvedObject"].get("namespace")), "")

    message: str = await asyncio.to_thread(namespace.admin.until, found, "v1", "events", "default")
    return message


async def annotate(namespace: Namespace, node: str, **annotations: str | None) -> None:
    """Set annotations of Chamber's on a node, or take them off."""
    change = {"metadata": {"annotations": {f"chamber.internal/{key}": at for key, at in annotations.items()}}}
    await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, change)
