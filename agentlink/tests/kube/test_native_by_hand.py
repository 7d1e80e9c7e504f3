"""What others do to Chamber's objects in a cluster: each ends in a report that says so, and nothing runs on unseen."""

import asyncio
from typing import Any

import pytest

from agentlink.agent.backends.native.budgets import Disruption
from agentlink.protocol import LIVING, DesiredAttempt, PodState, ReportedPhase
from agentlink.tests.kube.native import Agent, agent_of, items, pods_on, work
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube


async def admin(namespace: Namespace, act: str, *arguments: Any, **options: Any) -> Any:
    return await asyncio.to_thread(getattr(namespace.admin, act), *arguments, **options)


async def run(agent: Agent, node: str, *, first: int, **play: str) -> DesiredAttempt:
    """Return a running gang of two pods on the node's devices from the first on."""
    gang = work(*pods_on((node, (first,)), (node, (first + 1,))), play=play)
    await agent.begin(gang)
    await agent.until(gang, ReportedPhase.RUNNING)
    return gang


def pod_of(agent: Agent, gang: DesiredAttempt) -> str:
    """Return the name of a gang's pod 1."""
    place = agent.cluster.pod_of(gang.attempt, 1)
    assert place is not None
    return place[1]


def job_of(agent: Agent, gang: DesiredAttempt) -> str:
    """Return the name of a gang's Job."""
    attempt = agent.cluster.attempts.get(gang.attempt)
    assert attempt is not None
    return attempt.jobs[0].name


async def ends(agent: Agent, gang: DesiredAttempt, code: str, sentence: str) -> None:
    """Check how a gang ends, and that it is then stopped as a whole and forgotten."""
    failed = await agent.until(gang, ReportedPhase.FAILED)
    assert failed.reason == code
    assert sentence in failed.message
    assert failed.created_at is not None
    await agent.cluster.stop(gang.attempt, None)
    await agent.until(gang, lambda seen: not any(pod.state in LIVING for pod in seen.pods))
    await agent.forgotten(gang)


async def test_pods_and_jobs_that_somebody_takes_away_end_their_workload(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    name, unprotected = namespace.name, Disruption.of(["none"])
    async with agent_of(namespace, disruption=unprotected) as agent:
        gangs = [await run(agent, node, first=2 * number) for number in range(4)]
        pods = [pod_of(agent, gang) for gang in gangs]
        jobs = [job_of(agent, gang) for gang in gangs]
        await admin(namespace, "delete", "v1", "pods", pods[0], name)
        await ends(agent, gangs[0], "pod-deleted", "was deleted in the cluster, not by Chamber.")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pods[1]}}
        await admin(
            namespace, "request", "POST", f"/api/v1/namespaces/{name}/pods/{pods[1]}/eviction", eviction
        )
        await ends(agent, gangs[1], "drained", f"Pod 1 on {node} was evicted, as when its node is drained.")
        await admin(namespace, "delete", "batch/v1", "jobs", jobs[2], name, propagationPolicy="Background")
        await ends(
            agent,
            gangs[2],
            "job-deleted",
            f"Its Job {jobs[2]} in namespace {name} was deleted in the cluster",
        )
        await admin(namespace, "merge", "batch/v1", "jobs", jobs[3], {"spec": {"suspend": True}}, name)
        await ends(agent, gangs[3], "job-suspended", f"Its Job {jobs[3]} in namespace {name} was suspended")
    assert await items(namespace, "batch/v1", "jobs") == []


async def test_a_job_whose_record_is_torn_away_is_followed_until_its_pods_are_gone(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    async with agent_of(namespace) as agent:
        gang = await run(agent, node, first=0, stops_in="1")
        job = job_of(agent, gang)
        await admin(
            namespace, "merge", "batch/v1", "jobs", job, {"metadata": {"finalizers": None}}, namespace.name
        )
        await admin(namespace, "delete", "batch/v1", "jobs", job, namespace.name, propagationPolicy="Orphan")
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert (failed.reason, len(failed.pods)) == ("job-deleted", 2)
        assert agent.cluster.attempts.use_of(node).held == {0, 1}
        await agent.cluster.stop(gang.attempt, None)
        await agent.until(gang, lambda seen: not seen.pods)
        assert agent.cluster.attempts.use_of(node).held == set()
        await agent.forgotten(gang)


async def test_a_node_that_vanishes_ends_what_ran_there_and_the_rest_is_stopped(namespace: Namespace) -> None:
    first, second = await asyncio.to_thread(namespace.add_nodes, 2)
    gang = work(*pods_on((first, (0,)), (second, (0,))))
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        await admin(namespace, "delete", "v1", "nodes", second)
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert failed.reason == "node-lost"
        assert f"Node {second} was lost" in failed.message
        await agent.cluster.stop(gang.attempt, None)
        # The lost node's pod has its device until the cluster itself gives it up.
        left = await agent.until(gang, lambda seen: len(seen.pods) == 1)
        assert (left.pods[0].node, left.pods[0].state) == (second, PodState.RUNNING)


async def test_a_time_limit_counts_from_when_all_pods_run_and_the_cluster_keeps_it(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,)), (node, (1,))), time_limit_seconds=2, play={"starts_in": "2s"})
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert (failed.reason, failed.message) == ("time-limit", "It ran for its time limit of 2 s.")
        (job,) = await items(namespace, "batch/v1", "jobs")
        assert job["spec"]["activeDeadlineSeconds"] >= 5
        await agent.until(gang, lambda seen: not any(pod.state in LIVING for pod in seen.pods))


async def test_a_job_that_pretends_to_be_chambers_is_nobodys(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    async with agent_of(namespace) as agent:
        gang = await run(agent, node, first=0)
        (job,) = await items(namespace, "batch/v1", "jobs")
        metadata = {key: job["metadata"][key] for key in ("labels", "annotations")} | {"name": "pretender"}
        template = job["spec"]["template"]
        template["spec"] |= {"schedulingGates": [], "nodeName": node}
        spec = {"template": template, "completions": 1, "parallelism": 1, "completionMode": "Indexed"}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        for key in (
            "batch.kubernetes.io/controller-uid",
            "controller-uid",
            "job-name",
            "batch.kubernetes.io/job-name",
        ):
            template["metadata"]["labels"].pop(key, None)
            metadata["labels"].pop(key, None)
        await admin(namespace, "create", body, "jobs", namespace.name)
        await asyncio.to_thread(
            namespace.until,
            lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"] * 3,
            "v1",
            "pods",
        )
        await agent.stop(gang)
        gone = await agent.until(gang, ReportedPhase.GONE)
        assert not any(pod.state in LIVING for pod in gone.pods)
        await agent.forgotten(gang)
        (left,) = await items(namespace, "batch/v1", "jobs")
        assert (left["metadata"]["name"], left["status"]["active"]) == ("pretender", 1)
        use = agent.cluster.attempts.use_of(node)
        assert (len(use.foreign), use.held) == (1, set())


async def test_a_job_that_is_put_in_the_place_of_chambers_own_is_nobodys(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    async with agent_of(namespace) as agent:
        gang = await run(agent, node, first=0)
        (job,) = await items(namespace, "batch/v1", "jobs")
        name = job["metadata"]["name"]
        free = {"metadata": {"finalizers": None}}
        await admin(namespace, "merge", "batch/v1", "jobs", name, free, namespace.name)
        await admin(
            namespace, "delete", "batch/v1", "jobs", name, namespace.name, propagationPolicy="Background"
        )
        await agent.until(gang, ReportedPhase.FAILED)
        # All that can be copied of it, the mark too, with one word more to run.
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["command"].append("--mine")
        job["spec"]["template"]["spec"] |= {"schedulingGates": [], "nodeName": node}
        metadata = {key: job["metadata"][key] for key in ("name", "labels", "annotations")}
        job["spec"]["template"]["metadata"].pop("labels")
        job["spec"].pop("selector")
        copy = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job["spec"]}
        other = (await admin(namespace, "create", copy, "jobs", namespace.name))["metadata"]["uid"]

        def all_run(pods: list[dict[str, Any]]) -> bool:
            owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods]
            return owners == [other] * 2 and all(pod["status"]["phase"] == "Running" for pod in pods)

        await asyncio.to_thread(namespace.until, all_run, "v1", "pods")
        await agent.cluster.stop(gang.attempt, None)
        await agent.until(gang, lambda seen: not seen.pods)
        await agent.forgotten(gang)
    async with agent_of(namespace) as after:  # which remembers nothing of the one before
        assert await after.seen(gang) is None
        use = after.cluster.attempts.use_of(node)
        assert (len(use.foreign), use.held) == (2, set())


async def test_a_name_that_somebody_took_is_left_to_him(namespace: Namespace) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,))))
    container = {"name": "main", "image": "registry.test/main:1"}
    spec = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}, "suspend": True}
    name = f"train-1-{gang.attempt.hex[-8:]}"
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    await admin(namespace, "create", body, "jobs", namespace.name)
    async with agent_of(namespace) as agent:
        await agent.begin(gang)
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert (failed.reason, failed.created_at) == ("name-taken", None)
        await agent.forgotten(gang)
    assert [job["metadata"]["name"] for job in await items(namespace, "batch/v1", "jobs")] == [name]


async def test_a_namespace_that_is_deleted_takes_its_workloads_and_does_not_wait_for_chamber(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    other = f"{namespace.name}-team"
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": other, "labels": {namespace.label: "true"}},
    }
    await admin(namespace, "create", body, "namespaces")
    await admin(namespace, "until", bool, "v1", "serviceaccounts", other)
    async with agent_of(namespace) as agent:
        gang = work(*pods_on((node, (0,)), (node, (1,))), namespace=other)
        await agent.begin(gang)
        await agent.until(gang, ReportedPhase.RUNNING)
        await admin(namespace, "delete", "v1", "namespaces", other)
        failed = await agent.until(gang, ReportedPhase.FAILED)
        assert failed.reason in ("pod-deleted", "job-deleted")  # whichever goes first
        await agent.cluster.stop(gang.attempt, None)
        await agent.until(gang, lambda seen: not any(pod.state in LIVING for pod in seen.pods))
        await agent.forgotten(gang)

    def is_gone(left: list[dict[str, Any]]) -> bool:
        return other not in {each["metadata"]["name"] for each in left}

    assert await admin(namespace, "until", is_gone, "v1", "namespaces", labels=namespace.selector)
