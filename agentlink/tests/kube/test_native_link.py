"""A whole agent between a served Chamber and a real control plane."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from agentlink.agent.runner import run_agent
from agentlink.models import Device, Node
from agentlink.tests.agents import admit, cancel, devices_of, in_database, make_token, running, serving, until
from agentlink.tests.conftest import Place
from agentlink.tests.kube.native import Agent, agent_of, items
from rig.namespaces import Namespace
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


async def test_a_newcomer_is_not_let_go_before_the_slow_pod_before_it_is_gone(
    place: Place, namespace: Namespace
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1, gpus=2)
    async with linked(place, namespace, node):
        slow = await submit(place, node, 0, 1, play={"stops_in": "3"}, grace_seconds=30)
        await until(partial(is_status, slow, Status.RUNNING))
        await in_database(cancel, slow)
        newcomer = await submit(place, node, 0, 1, play={"run_for": "0s"})
        while not await in_database(is_released, slow):
            pods = await items(namespace, "v1", "pods")
            assert {pod["metadata"]["labels"]["chamber.internal/attempt"] for pod in pods} <= {str(slow.pk)}
            await asyncio.sleep(0.1)
        await until(partial(is_status, newcomer, Status.COMPLETED))
        await until(partial(is_released, newcomer))
        await asyncio.to_thread(namespace.until, lambda jobs: not jobs, "batch/v1", "jobs")
    first, second = [await in_database(lambda a=a: Attempt.objects.get(pk=a.pk)) for a in (slow, newcomer)]
    # The cluster tells whole seconds.
    assert (second.starting_at - first.ended_at).total_seconds() >= 2
    assert first.released_at.replace(microsecond=0) <= second.starting_at
    assert not await in_database(lambda: Device.objects.filter(occupied_milli__gt=0).exists())


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
