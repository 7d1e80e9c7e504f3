"""A native cluster on a test's namespace, and what an agent would say to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.protocol import (
    ENDED,
    AssignedPod,
    AssignedShare,
    DesiredAttempt,
    NodeReport,
    ReportedPhase,
    StopNotice,
)
from rig.namespaces import Json, Namespace

SECONDS = 60.0


def pods_on(*places: tuple[str, Iterable[int]], share: int = 1000) -> tuple[AssignedPod, ...]:
    """Return pods 0, 1, ... each on a node's devices."""
    return tuple(
        AssignedPod(
            index=index,
            node=node,
            devices=tuple(AssignedShare(index=device, share_milli=share) for device in devices),
        )
        for index, (node, devices) in enumerate(places)
    )


def work(*pods: AssignedPod, **fields: Any) -> DesiredAttempt:
    """Return an assignment of these pods that is let go; `play` is how they are played."""
    played = {f"CHAMBER_TEST_{key.upper()}": value for key, value in fields.pop("play", {}).items()}
    given: dict[str, Any] = {
        "workload": uuid4(),
        "slug": "train",
        "attempt": uuid4(),
        "number": 1,
        "team": "nlp",
        "let_go": True,
        "image": "registry.test/train:1",
        "command": ("python", "train.py"),
        "environment": played,
        "grace_seconds": 5,
        **fields,
    }
    return DesiredAttempt(pods=pods, **given)


class Agent:
    """Says to a cluster what an agent's core would, and waits for what is observed."""

    def __init__(self, cluster: NativeCluster) -> None:
        self.cluster = cluster
        self.wanted: dict[UUID, DesiredAttempt] = {}

    async def begin(self, *assignments: DesiredAttempt) -> None:
        """Have assignments wanted and their pods created."""
        await self.want(*assignments)
        for assignment in assignments:
            await self.cluster.create(assignment, assignment.pods)

    async def want(self, *assignments: DesiredAttempt) -> None:
        """Have assignments wanted; their pods are there already, or are not to be."""
        self.wanted |= {each.attempt: each for each in assignments}
        await self.cluster.expect(tuple(self.wanted.values()))

    async def stop(self, assignment: DesiredAttempt, notice: StopNotice | None = None) -> None:
        """Have an attempt not wanted any more."""
        self.wanted.pop(assignment.attempt, None)
        await self.cluster.expect(tuple(self.wanted.values()))
        await self.cluster.stop(assignment.attempt, None, notice)

    async def seen(self, attempt: DesiredAttempt) -> Observation | None:
        """Return what is observed of an attempt now; None where nothing is."""
        _, found = await self.cluster.observe(-1)
        return next((each for each in found if each.attempt == attempt.attempt), None)

    async def until(
        self,
        attempt: DesiredAttempt,
        holds: Callable[[Observation], object] | ReportedPhase,
        *,
        seconds: float = SECONDS,
    ) -> Observation:
        """Return the observation that holds, or is of the phase; fail where none comes, or another end."""
        found: Observation | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    version, _ = await self.cluster.observe(-1)
                    found = await self.seen(attempt)
                    if found is not None and (
                        found.phase is holds if isinstance(holds, ReportedPhase) else holds(found)
                    ):
                        return found
                    over = found is not None and isinstance(holds, ReportedPhase) and found.phase in ENDED
                    assert not over, f"It ended otherwise: {found}"
                    await self.cluster.changed(version)
        except TimeoutError:
            raise AssertionError(f"Not within {seconds} s; the last was {found}") from None

    async def forgotten(self, attempt: DesiredAttempt) -> None:
        """Forget an attempt, and return when nothing of it is left."""
        await self.cluster.forget(attempt.attempt)
        async with asyncio.timeout(SECONDS):
            while self.cluster.attempts.get(attempt.attempt) is not None:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def agent_of(namespace: Namespace, **options: Any) -> AsyncIterator[Agent]:
    """Give an agent of a native cluster that has only the namespace's nodes."""
    settings = Settings(node_selector=namespace.selector)
    options = {"own_namespace": namespace.name, "settings": settings, **options}
    async with Kube(load(namespace.kubeconfig)) as kube, NativeCluster(kube, **options) as cluster:
        await cluster.synced()
        yield Agent(cluster)


async def items(namespace: Namespace, version: str, plural: str, **selectors: str) -> Sequence[Json]:
    """Return all objects of a collection."""
    return await asyncio.to_thread(namespace.items, version, plural, **selectors)


async def play(namespace: Namespace, pod: str, **how: str) -> None:
    """Have a pod played otherwise from now on."""
    await asyncio.to_thread(namespace.play, pod, **how)


async def reported(
    agent: Agent, holds: Callable[[dict[str, NodeReport]], bool], seconds: float = SECONDS
) -> dict[str, NodeReport]:
    """Return the inventory by the nodes' names once it holds."""
    async with asyncio.timeout(seconds):
        while True:
            version, _ = await agent.cluster.observe(-1)
            _, nodes = await agent.cluster.nodes(-1)
            found = {node.name: node for node in nodes or ()}
            if holds(found):
                return found
            await agent.cluster.changed(version)


def foreign(node: NodeReport) -> list[int]:
    """Return the indexes that are not Chamber's to give."""
    return [device.index for device in node.devices if device.foreign]
