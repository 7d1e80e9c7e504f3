"""Runs an agent: connects, converges, reports, and connects again for as long as it lives."""

import asyncio
import logging
import random
import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from agentlink import protocol
from agentlink.agent.backends.base import Backend
from agentlink.agent.core import Core, Plan
from agentlink.agent.link import Link, LinkLost, open_long_poll, open_websocket
from agentlink.protocol import Ack, Desired, Error, ErrorCode, Heartbeat, Hello, NodeReport, Report

logger = logging.getLogger(__name__)

Transport = Literal["websocket", "long-poll"]

HEARTBEAT_SECONDS = 10.0
GATHER_SECONDS = 0.02
"""What happens within this time is planned and reported together."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


async def run_agent(
    url: str,
    token: str,
    backend: Backend,
    *,
    transport: Transport = "websocket",
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> None:
    """Run until cancelled. Whatever goes wrong costs a pause, longer each time, and a full resynchronisation."""
    failures = 0
    core = Core()
    while True:
        conversation, sent_away = _Conversation(core, backend, heartbeat_seconds), False
        try:
            async with _open(url, token, conversation.connection, transport) as link:
                await conversation.run(link)
        except LinkLost as lost:
            logger.warning("%s", lost)
            sent_away = lost.code is not None
        except Exception:
            # What the agent remembers may be wrong: the server and the cluster know it all.
            logger.exception("The agent failed and begins again.")
            core = Core()
        failures = 0 if conversation.was_heard else failures + 1
        await asyncio.sleep(LONGEST_PAUSE_SECONDS if sent_away else _pause(failures))


def _pause(failures: int) -> float:
    """Return how long to wait before connecting again, with a part of chance that spreads agents."""
    longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures, 16)), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - guards nothing


def _open(
    url: str, token: str, connection: uuid.UUID, transport: Transport
) -> AbstractAsyncContextManager[Link]:
    if transport == "websocket":
        return open_websocket(url, token)
    return open_long_poll(url, token, connection)


class _Conversation:
    """One connection's life: three tasks that share the core, in one thread."""

    def __init__(self, core: Core, backend: Backend, heartbeat_seconds: float) -> None:
        self.connection = uuid.uuid4()
        self.was_heard = False
        self._core, self._backend, self._heartbeat_seconds = core, backend, heartbeat_seconds
        self._wake = asyncio.Event()
        self._seen = -1
        self._nodes_seen = -1
        self._nodes: Sequence[NodeReport] = ()
        self._inventory = 0
        # Newer reports replace older ones while the server is busy with those under way.
        self._outbox: dict[uuid.UUID, Report] = {}
        self._under_way: set[uuid.UUID] = set()

    async def run(self, link: Link) -> None:
        """Say hello, then listen, converge and beat until the link is lost; raise `LinkLost`."""
        self._core.connected()
        await self._look()
        self._nodes_seen, nodes = await self._backend.nodes(-1)
        self._nodes = nodes or ()
        await self._hello(link)
        tasks = [
            asyncio.create_task(part)
            for part in (self._listen(link), self._converge(link), self._beat(link), self._watch())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hello(self, link: Link) -> None:
        hello = Hello(
            connection=self.connection,
            agent_version=_version(),
            cluster_uid=self._backend.uid,
            nodes=len(self._nodes),
            gpus=sum(len(node.devices) for node in self._nodes),
        )
        await link.send([hello, *self._whole_inventory()])

    def _whole_inventory(self) -> Sequence[protocol.Message]:
        self._inventory += 1
        return list(protocol.inventory_in_parts(self._nodes, generation=self._inventory))

    async def _listen(self, link: Link) -> None:
        while True:
            message = await link.receive()
            self.was_heard = True
            if isinstance(message, Desired):
                if not self._core.desire(message):
                    self._core.connected()
                    await self._hello(link)
                elif message.last and message.base is None:
                    await self._report(link, self._core.unacknowledged())
            elif isinstance(message, Ack):
                self._core.acknowledge(message)
                await self._answered(link, {taken.attempt for taken in message.reports})
            else:
                await self._hear(link, message)
            self._wake.set()

    async def _hear(self, link: Link, error: Error) -> None:
        logger.warning("The server refused a message (%s): %s", error.code, error.message)
        self._core.refuse(error)
        if error.attempt is not None:
            await self._answered(link, {error.attempt})
        if error.code is ErrorCode.INVENTORY_GAP:
            await link.send(self._whole_inventory())
        elif error.code is ErrorCode.NO_HELLO:
            await self._hello(link)

    async def _converge(self, link: Link) -> None:
        """Do what the core says whenever something was heard or seen."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            await self._look()
            await self._perform(self._core.plan(), link)
            self._nodes_seen, nodes = await self._backend.nodes(self._nodes_seen)
            if nodes is not None:
                self._nodes = nodes
                await link.send(self._whole_inventory())

    async def _perform(self, plan: Plan, link: Link) -> None:
        for stop in plan.stops:
            await self._backend.stop(stop.attempt, stop.pods)
        for create in plan.creates:
            await self._backend.create(create.assignment, create.pods)
        for attempt in plan.forgets:
            await self._backend.forget(attempt)
        await self._report(link, plan.reports)

    async def _report(self, link: Link, reports: Sequence[Report]) -> None:
        self._outbox |= {report.attempt: report for report in reports}
        await self._send_reports(link)

    async def _answered(self, link: Link, attempts: set[uuid.UUID]) -> None:
        self._under_way -= attempts
        await self._send_reports(link)

    async def _send_reports(self, link: Link) -> None:
        """Send what waits, one message at a time."""
        if self._under_way or not self._outbox:
            return
        waiting = list(self._outbox.values())
        message = next(protocol.observed_in_parts(waiting, generation=self._core.generation))
        for report in message.reports:
            del self._outbox[report.attempt]
            self._under_way.add(report.attempt)
        await link.send([message])

    async def _look(self) -> None:
        self._seen, observations = await self._backend.observe(self._seen)
        self._core.observe(observations)

    async def _watch(self) -> None:
        while True:
            await self._backend.changed(self._seen)
            self._wake.set()
            await asyncio.sleep(GATHER_SECONDS * 2)

    async def _beat(self, link: Link) -> None:
        """Say that the agent is there; and again what the server has not acknowledged."""
        before: set[uuid.UUID] = set()
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            await link.send([Heartbeat(connection=self.connection, generation=self._core.generation)])
            if self._under_way and self._under_way == before:
                self._under_way.clear()  # the server failed on it, or it was lost
                await self._report(link, self._core.unacknowledged())
            before = set(self._under_way)


def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("chamber")
    return "unknown"
