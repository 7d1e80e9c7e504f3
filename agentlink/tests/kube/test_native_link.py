"""A whole agent between a served Chamber and a real control plane."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.resources import PODS
from agentlink.agent.runner import run_agent
from agentlink.models import Node
from agentlink.tests.agents import admit, cancel, devices_of, in_database, make_token, running, serving, until
from agentlink.tests.conftest import Place
from agentlink.tests.kube.native import Agent, agent_of
from rig.namespaces import Json, Namespace
from workloads.models import Attempt, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]


def is_status(attempt: Attempt, status: Status) -> bool:
    found = Workload.objects.get(pk=attempt.workload_id)
    assert found.status in (status, Status.PENDING, Status.QUEUED, Status.STARTING, Status.RUNNING), (
        found.reason
    )
    return found.status == status


def is_released(attempt: Attempt) -> bool:
    return Attempt.objects.filter(pk=attempt.pk, released_at__isnull=False).exists()


async def submit(place: Place, node: str, *devices: int, **fields: Any) -> Attempt:
    play = {f"CHAMBER_TEST_{key.upper()}": value for key, value in fields.pop("play", {}).items()}

    def work() -> Attempt:
        rows = [devices_of(place.cluster, node)[index] for index in devices]
        return admit(place.team, place.owner, place.pool, place.cluster, rows, environment=play, **fields)

    attempt: Attempt = await in_database(work)
    return attempt


@asynccontextmanager
async def linked(place: Place, namespace: Namespace, node: str) -> AsyncIterator[Agent]:
    """Give the agent of a cluster whose nodes the server knows."""
    secret = await in_database(make_token, place.cluster)
    async with (
        serving() as url,
        agent_of(namespace) as agent,
        running(run_agent(url, secret, agent.cluster)),
    ):
        await until(lambda: Node.objects.filter(cluster=place.cluster, name=node).exists())
        yield agent


@asynccontextmanager
async def comings_and_goings(namespace: Namespace) -> AsyncIterator[list[tuple[str, str]]]:
    """Give what becomes of the namespace's pods, in the order of the API server: what, and of which attempt."""
    found: list[tuple[str, str]] = []

    async def follow(kube: Kube, version: str) -> None:
        async with aclosing(kube.watch(PODS, version, namespace.name)) as events:
            async for kind, body in events:
                if kind in ("ADDED", "DELETED"):
                    found.append((kind, body["metadata"]["labels"]["chamber.internal/attempt"]))

    async with Kube(load(namespace.kubeconfig)) as kube:
        version = (await kube.list(PODS, namespace.name)).version
        async with running(follow(kube, version)):
            yield found


async def test_a_newcomer_is_not_let_go_before_the_slow_pods_before_it_are_gone(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=3)
    async with linked(place, namespace, node), comings_and_goings(namespace) as seen:
        # They would take half an hour, as long as they are given: until this test does as their kubelet then would.
        slow = await submit(place, node, 0, 1, play={"stops_in": "1800"}, grace_seconds=1800)
        await until(partial(is_status, slow, Status.RUNNING))
        await in_database(cancel, slow)
        newcomer = await submit(place, node, 0, 1, play={"run_for": "0s"})
        bystander = await submit(place, node, 2)
        await until(partial(is_status, bystander, Status.RUNNING))  # so the agent has been told of both
        leaving = await asyncio.to_thread(namespace.until, partial(leaving_of, slow), "v1", "pods")
        assert str(newcomer.pk) not in {attempt for _, attempt in seen}
        assert not await in_database(is_released, slow)
        for pod in leaving:
            name = pod["metadata"]["name"]
            await asyncio.to_thread(
                namespace.admin.delete, "v1", "pods", name, namespace.name, gracePeriodSeconds="0"
            )
        await until(partial(is_status, newcomer, Status.COMPLETED))
        await until(partial(is_released, newcomer))
        await until(lambda: ("DELETED", str(newcomer.pk)) in seen)
    gone = max(place for place, each in enumerate(seen) if each == ("DELETED", str(slow.pk)))
    assert seen.count(("DELETED", str(slow.pk))) == len(leaving) == 2
    assert gone < seen.index(("ADDED", str(newcomer.pk)))


def leaving_of(attempt: Attempt, pods: list[Json]) -> list[Json]:
    """Return the pods of an attempt once all of them have been told to end."""
    labelled = [
        pod for pod in pods if pod["metadata"]["labels"]["chamber.internal/attempt"] == str(attempt.pk)
    ]
    return labelled if all("deletionTimestamp" in pod["metadata"] for pod in labelled) else []


async def test_a_failure_reaches_the_workload_with_its_reason_and_frees_its_devices(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=2)
    async with linked(place, namespace, node):
        attempt = await submit(place, node, 0, 1, play={"run_for": "0s", "ends": "3"})
        await until(partial(is_status, attempt, Status.FAILED))
        await until(partial(is_released, attempt))
        await asyncio.to_thread(namespace.until, lambda jobs: not jobs, "batch/v1", "jobs")
    workload = await in_database(lambda: Workload.objects.get(pk=attempt.workload_id))
    assert (workload.reason_code, workload.reason["code"]) == ("exit-code", "exit-code")
    assert workload.reason["message"].endswith(f"on {node} exited with code 3.")
