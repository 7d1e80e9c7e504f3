"""Bound namespaces and their quotas, on a cluster that has nothing and a keeper that is told what to say."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, cast
from uuid import uuid4

import pytest

from agentlink.agent.backends.native import spaces as module
from agentlink.agent.backends.native.attempts import CountedPod
from agentlink.agent.backends.native.marks import Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import NamespaceKeeper
from agentlink.agent.backends.native.spaces import Spaces
from agentlink.agent.kube.client import Kube, Listing, WatchEvent
from agentlink.protocol import AssignedPod, NamespaceBinding, NamespaceReport, Namespaces
from agentlink.tests.agents import running
from agentlink.tests.kube.made import assigned
from agentlink.tests.kube.native import work

SECONDS = 60.0


class Nothing:
    """An API server that has no objects, and never will."""

    async def pages(self, *_: object) -> AsyncGenerator[Listing]:
        yield Listing([], "1")

    async def watch(self, *_: object) -> AsyncGenerator[WatchEvent]:
        await asyncio.Event().wait()
        yield WatchEvent("", {})


class Told:
    """Keeps namespaces: says of quotas what it is told, once it may."""

    def __init__(self) -> None:
        self.problem = self.closed = ""
        self.may = asyncio.Event()
        self.coming: list[int] = []
        self.there: list[CountedPod] = []

    async def keep(self, *_: object) -> str:
        return self.closed

    def forget(self, _: str) -> None:
        return None

    async def set_quota(self, _: str, coming: Iterable[AssignedPod], there: Iterable[CountedPod]) -> str:
        self.coming, self.there = [pod.index for pod in coming], list(there)
        await self.may.wait()
        return self.problem


class World:
    """Spaces with one bound namespace."""

    def __init__(self) -> None:
        self.keeper, self.changes = Told(), asyncio.Event()
        self.counted: list[CountedPod] = []
        bound = NamespaceBinding(id=uuid4(), namespace="nlp-jobs", team="nlp")
        self.namespaces = Namespaces(version=1, bound=(bound,))
        self.spaces = Spaces(
            cast(Kube, Nothing()),
            Marks(b"k" * 32),
            cast(NamespaceKeeper, self.keeper),
            DomainNames(),
            resources=(),
            counted=lambda: iter(self.counted),
            on_change=self.changes.set,
        )

    async def until(self, **fields: Any) -> NamespaceReport:
        """Return the report on the namespace that says so."""
        async with asyncio.timeout(SECONDS):
            while True:
                self.changes.clear()
                _, found = await self.spaces.discovered(-1)
                if found is not None:
                    (report,) = found.namespaces
                    if all(getattr(report, name) == value for name, value in fields.items()):
                        return report
                await self.changes.wait()


async def test_a_namespace_whose_quota_cannot_be_written_is_not_ready_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN_SECONDS", 0.01)
    world = World()
    world.keeper.may.set()
    world.keeper.problem = "Its quota cannot be written: you may not."
    async with running(world.spaces.run()):
        await world.spaces.expect([])
        await world.spaces.bind(world.namespaces)
        refused = await world.until(ready=False, problem=world.keeper.problem)
        assert refused.namespace == "nlp-jobs"
        world.keeper.problem = ""
        await world.until(ready=True, problem="")


async def test_a_quota_that_takes_its_time_keeps_only_those_pods_waiting_that_need_its_room() -> None:
    world = World()
    mine = work(*assigned(0, 1), namespace="nlp-jobs")
    async with running(world.spaces.run()):
        world.keeper.may.set()
        await world.spaces.expect([])
        await world.spaces.bind(world.namespaces)
        await world.until(ready=True)
        world.keeper.may.clear()
        await world.spaces.expect([mine])  # returns, though the quota is not written yet
        assert not world.spaces.has_room(mine)
        assert world.spaces.has_room(work(*assigned(0), namespace="elsewhere"))
        world.keeper.may.set()
        async with asyncio.timeout(SECONDS):
            while not world.spaces.has_room(mine):
                await asyncio.sleep(0.01)
        grown = mine.model_copy(update={"pods": assigned(0, 1, 2)})
        assert not world.spaces.has_room(grown)


async def test_nothing_is_made_in_a_namespace_that_is_not_kept() -> None:
    world = World()
    mine = work(*assigned(0), namespace="nlp-jobs")
    world.keeper.closed = "It has no Pod Security level."
    async with running(world.spaces.run()):
        await world.spaces.bind(world.namespaces)
        assert world.spaces.why_closed(mine) == ""  # nobody has looked at it yet
        await world.until(ready=False, problem=world.keeper.closed)
        assert world.spaces.why_closed(mine) == world.keeper.closed
        assert world.spaces.why_closed(work(*assigned(0), namespace="elsewhere")) == ""


async def test_a_quota_has_no_room_in_the_place_of_pods_of_an_attempt_that_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RECOUNT_SECONDS", 0.0)
    world = World()
    world.keeper.may.set()
    mine = work(*assigned(0, 1), namespace="nlp-jobs")
    there = [CountedPod("nlp-jobs", mine.attempt, pod, ()) for pod in mine.pods]
    world.counted = list(there)
    async with running(world.spaces.run()):
        await world.spaces.expect([mine])
        await world.spaces.bind(world.namespaces)
        await world.until(ready=True)
        world.spaces.end([mine.attempt])
        for count in (1, 0):  # pod 1 goes first, and the server wants both still
            world.counted = there[:count]
            world.spaces.changed(mine.attempt)
            async with asyncio.timeout(SECONDS):
                while world.keeper.there != there[:count]:
                    await asyncio.sleep(0)
            assert world.keeper.coming == []


async def test_a_quota_has_room_for_pods_that_are_there_beside_those_that_are_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RECOUNT_SECONDS", 0.0)
    world = World()
    world.keeper.may.set()
    mine = work(*assigned(0, 1), namespace="nlp-jobs")
    stays, goes = (
        CountedPod("nlp-jobs", mine.attempt, pod, (), leaving=leaving)
        for pod, leaving in zip(mine.pods, (False, True), strict=True)
    )
    world.counted = [stays, goes]
    async with running(world.spaces.run()):
        await world.spaces.expect([mine])
        await world.spaces.bind(world.namespaces)
        await world.until(ready=True)
        # Pod 1 was taken away and comes again: until the first one is gone there are two of it.
        assert (world.keeper.coming, world.keeper.there) == ([1], [stays, goes])
        world.counted = [stays]
        world.spaces.changed(mine.attempt)
        async with asyncio.timeout(SECONDS):
            while world.keeper.there != [stays]:
                await asyncio.sleep(0)
        assert world.keeper.coming == [1]
