"""Runs an agent: connects, converges, reports, and connects again for as long as it lives."""

import asyncio
import logging
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Literal

from agentlink import protocol
from agentlink.agent import use
from agentlink.agent.backends.base import Backend
from agentlink.agent.core import AgentPlan, Core
from agentlink.agent.figures import FIGURES, note_heard, own_version
from agentlink.agent.keeping import LogKeeper
from agentlink.agent.link import Link, LinkLost, open_long_poll, open_websocket
from agentlink.agent.logs import attached
from agentlink.agent.memory import AgentMemory
from agentlink.agent.notes import NoteReader
from agentlink.agent.unreached import next_try
from agentlink.pace import Pace
from agentlink.protocol import (
    Ack,
    Desired,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    Namespaces,
    NodeReport,
    Report,
    ReportedPhase,
    Verdicts,
)
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

Transport = Literal["websocket", "long-poll"]

HEARTBEAT_SECONDS = 10.0
GATHER_SECONDS = 0.02
"""What happens within this time is planned and reported together."""
REPORTS_AT_ONCE = 6
REPORTS_EVERY_SECONDS = 0.2
"""How fast messages with reports follow each other: each is a transaction, however many reports it has."""
PROGRESS_SECONDS = 1.0
"""How long a report may wait that only says that more of the pods of what is starting run: the others come soon."""
QUIET_BEATS = 1.5
"""After how many heartbeats without a fault the server takes messages again: each fault has something said again, at
the latest with the next heartbeat."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
LASTING_SECONDS = 5.0
"""A conversation that lasted this long was none of a series of failures."""
AGAIN_SECONDS = 1.0
"""Hello and inventory are said again at most this often, however many errors ask for it."""
NODES_A_SECOND = 2000
"""How many nodes an agent reports at most: a large cluster whose nodes come and go is told every few seconds."""
DISCOVERED_EVERY_SECONDS = (1.0, 60.0)
"""How soon what was discovered is told again where it changed, and how soon where it did not: the server's rules may
have."""
PATIENCE_SECONDS = 120.0
"""How long the answer to a hello may take."""


async def run_agent(
    url: str,
    token: str | Callable[[], str],
    backend: Backend,
    *,
    transport: Transport = "websocket",
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    on_link: Callable[[bool], None] = lambda _: None,
    memory: AgentMemory | None = None,
) -> None:
    """Run until cancelled. Whatever goes wrong costs a pause, longer each time, and a full resynchronisation.

    A `token` that can be called is asked anew for each connection, so that it may be rotated under a running agent.
    `on_link` is told when the server has answered a hello, and when the conversation is over. Cancelled, the agent
    closes its link; the cluster's pods go on. `memory` is what agents before it remembered.
    """
    failures = 0
    memory = memory or AgentMemory()
    core = Core()
    welcome = asyncio.Event()
    away, faults = Lasting(), Lasting()

    def tell_link(there: bool) -> None:
        if there:
            welcome.set()
            FIGURES.connections += 1
            seconds = away.over()
            lasted = "" if seconds is None else f" again, after {seconds:.0f} s"
            logger.info("Connected to Chamber at %s%s.", url, lasted)
        FIGURES.connected = there
        on_link(there)

    async with _logs(url, token, backend, transport, welcome) as keeper, _notes(backend) as notes:
        while True:
            conversation = _Conversation(
                core,
                memory,
                backend,
                keeper,
                faults,
                notes=notes,
                heartbeat_seconds=heartbeat_seconds,
                on_link=tell_link,
            )
            FIGURES.attempts, FIGURES.unacknowledged = core.phases, core.count_unacknowledged
            began = time.monotonic()
            lost: LinkLost | None = None
            try:
                secret = token if isinstance(token, str) else token()
                async with open_link(url, secret, transport) as link:
                    await conversation.run(link)
            except LinkLost as error:
                lost = error
                if error.code is ErrorCode.NOT_AUTHORISED:
                    welcome.clear()
            except Exception:
                # What the agent remembers may be wrong: the server and the cluster know it all.
                logger.exception("The agent failed and begins again.")
                core = Core()
            was_connected = FIGURES.connected
            tell_link(False)
            failures = 0 if time.monotonic() - began > LASTING_SECONDS else failures + 1
            pause = _pause(failures, lost)
            if lost is not None:
                _tell_lost(url, lost, pause, away, was_connected=was_connected)
            await asyncio.sleep(pause)


def _tell_lost(url: str, lost: LinkLost, pause: float, away: Lasting, *, was_connected: bool) -> None:
    """Count that a connection failed or ended, and log why, once for each cause while there is none."""
    FIGURES.lost[_why(lost, was_connected)] += 1
    if not away.due(str(lost)):
        return
    if lost.code is not None:
        said = f"Chamber at {url} refused this agent ({lost.code.value})"
    elif was_connected:
        said = f"The connection to Chamber at {url} was lost"
    else:
        said = f"There is no connection to Chamber at {url}"
    logger.warning("%s: %s %s", said, lost, next_try(pause))


def _why(lost: LinkLost, was_connected: bool) -> str:
    if lost.code is not None:
        return lost.code.value
    if lost.is_restart:
        return "restart"
    return "lost" if was_connected else "unreachable"


def _pause(failures: int, lost: LinkLost | None) -> float:
    """Return how long to wait before connecting again: up to a bound that doubles, any time being as likely.

    An agent that was sent away with a reason waits long; when the server restarts, all its agents come back soon,
    spread over a second.
    """
    if lost is not None and lost.code is not None:
        return LONGEST_PAUSE_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - guards nothing
    if lost is not None and lost.is_restart and failures <= 1:
        return random.uniform(0.0, 1.0)  # noqa: S311 - guards nothing
    longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures, 16)), LONGEST_PAUSE_SECONDS)
    return random.uniform(0.0, longest)  # noqa: S311 - guards nothing


def open_link(url: str, token: str, transport: Transport) -> AbstractAsyncContextManager[Link]:
    """Return a conversation with the server, to be entered; raises `LinkLost` then."""
    if transport == "websocket":
        return open_websocket(url, token)
    return open_long_poll(url, token)


def _logs(
    url: str,
    token: str | Callable[[], str],
    backend: Backend,
    transport: Transport,
    welcome: asyncio.Event,
) -> AbstractAsyncContextManager[LogKeeper | None]:
    """Return the logs connection, which is a socket: where those are forbidden, there is none."""
    return attached(url, token, backend, welcome) if transport == "websocket" else nullcontext(None)


@asynccontextmanager
async def _notes(backend: Backend) -> AsyncIterator[NoteReader]:
    """Yield what reads notes, for as long as the agent lives."""
    reader = NoteReader(backend)
    try:
        yield reader
    finally:
        await reader.close()


class _Conversation:
    """One connection's life: three tasks that share the core, in one thread."""

    def __init__(
        self,
        core: Core,
        memory: AgentMemory,
        backend: Backend,
        keeper: LogKeeper | None,
        faults: Lasting,
        *,
        notes: NoteReader,
        heartbeat_seconds: float,
        on_link: Callable[[bool], None],
    ) -> None:
        self._connection = uuid.uuid4()
        self._greeted_at = -AGAIN_SECONDS
        self._core, self._backend, self._heartbeat_seconds = core, backend, heartbeat_seconds
        self._memory = memory
        self._keeper, self._notes, self._faults, self._on_link = keeper, notes, faults, on_link
        self._wake = asyncio.Event()
        self._seen = -1
        self._nodes_seen = -1
        self._nodes: Sequence[NodeReport] = ()
        self._fault_pause = FIRST_PAUSE_SECONDS
        self._recovering: asyncio.Task[None] | None = None
        self._inventory = 0
        self._inventory_sent_at = 0.0
        self._inventory_is_known = True
        self._unbound = ""
        self._bound = 0
        self._found_seen = -1
        self._found_told_at = -DISCOVERED_EVERY_SECONDS[1]
        # Newer reports replace older ones while the server is busy with those under way.
        self._outbox: dict[uuid.UUID, Report] = {}
        self._due: dict[uuid.UUID, float] = {}
        """When each report in the outbox is to be sent at the latest."""
        self._starting: set[uuid.UUID] = set()
        """Attempts of which the server was told last that they are starting."""
        self._under_way: set[uuid.UUID] = set()
        self._pace = Pace(at_once=REPORTS_AT_ONCE, every_seconds=REPORTS_EVERY_SECONDS)

    async def run(self, link: Link) -> None:
        """Say hello, then listen, converge and beat until the link is lost; raise `LinkLost`."""
        await self._look()
        self._nodes_seen, nodes = await self._backend.nodes(-1)
        self._nodes = nodes or ()
        await self._hello(link)
        tasks = [
            asyncio.create_task(part)
            for part in (
                self._listen(link),
                self._converge(link),
                self._beat(link),
                self._watch(),
                use.tell(link, self._backend, lambda: self._core.works_by > 0),
                self._notes.tell(link, lambda: self._core.works_by > 0),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            tasks += [self._recovering] if self._recovering is not None else []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hello(self, link: Link) -> None:
        """Begin, or begin again: what answers an earlier hello does not count from now on."""
        await asyncio.sleep(self._greeted_at + AGAIN_SECONDS - time.monotonic())
        self._greeted_at = time.monotonic()
        self._connection = uuid.uuid4()
        self._core.connected(self._connection)
        hello = Hello(
            connection=self._connection,
            agent_version=own_version(),
            cluster_uid=self._backend.uid,
            nodes=len(self._nodes),
            gpus=sum(device.slicing == "whole" for node in self._nodes for device in node.devices),
            epoch=self._memory.epoch,
            at=datetime.now(UTC),
        )
        await link.send([hello, *self._whole_inventory()])

    def _whole_inventory(self) -> Sequence[protocol.Message]:
        self._inventory += 1
        self._inventory_sent_at, self._inventory_is_known = time.monotonic(), False
        return list(protocol.inventory_in_parts(self._nodes, generation=self._inventory))

    async def _listen(self, link: Link) -> None:
        while True:
            message = await link.receive()
            note_heard(FIGURES)
            if not isinstance(message, Error):
                self._fault_pause = FIRST_PAUSE_SECONDS
            if isinstance(message, Desired):
                awaited = self._core.works_by == 0
                if not self._core.desire(message):
                    await self._hello(link)
                elif awaited and self._core.works_by:
                    self._on_link(True)
                    await self._report(link, self._core.unacknowledged())
            elif isinstance(message, Ack):
                if message.inventory is not None:
                    self._inventory_is_known |= message.inventory == self._inventory
                    self._tell_unbound(message.unbound)
                self._core.acknowledge(message)
                if message.epoch is not None:
                    self._memory.learn(message.epoch)
                await self._answered(link, {taken.attempt for taken in message.reports})
            elif isinstance(message, Namespaces):
                self._bound, self._found_seen = message.version, -1
                await self._backend.bind(message)
            elif isinstance(message, Verdicts):
                await self._backend.answer(message.verdicts)
            else:
                await self._hear(link, message)
            self._wake.set()

    def _tell_unbound(self, unbound: str) -> None:
        """Log that labels claim pools which the cluster may not serve, once for as long as they claim the same."""
        if unbound and unbound != self._unbound:
            logger.warning("%s", unbound)
        self._unbound = unbound

    async def _hear(self, link: Link, error: Error) -> None:
        if error.code is not ErrorCode.FAULT:
            logger.warning("The server refused a message (%s): %s", error.code, error.message)
        elif self._faults.due(error.message):
            logger.warning(
                "The server fails on messages of this agent, which says them again: %s", error.message
            )
        if error.about == "hello" and error.code is ErrorCode.INVALID:
            raise LinkLost(f"The server does not take this agent's hello: {error.message}", error.code)
        self._core.refuse(error)
        if error.attempt is not None:
            await self._answered(link, {error.attempt})
        if error.code is ErrorCode.FAULT and (self._recovering is None or self._recovering.done()):
            self._recovering = asyncio.create_task(self._recover(link))
        elif error.code is ErrorCode.NO_HELLO:
            # What was said before the last hello may be refused after it; a heartbeat that is refused says it again.
            if time.monotonic() - self._greeted_at >= min(AGAIN_SECONDS, self._heartbeat_seconds):
                await self._hello(link)
        elif (
            error.code is ErrorCode.INVENTORY_GAP
            and time.monotonic() - self._inventory_sent_at >= AGAIN_SECONDS
        ):
            await link.send(self._whole_inventory())

    async def _recover(self, link: Link) -> None:
        """Say again, after a pause that grows until something is taken, what the server failed on."""
        pause, self._fault_pause = self._fault_pause, min(2 * self._fault_pause, self._heartbeat_seconds)
        await asyncio.sleep(pause)
        with suppress(LinkLost):  # the listening task hears of it too
            if not self._core.works_by:
                await self._hello(link)
                return
            if not self._inventory_is_known:
                await link.send(self._whole_inventory())
            self._under_way.clear()
            self._notes.again()
            await self._report(link, self._core.unacknowledged())

    async def _converge(self, link: Link) -> None:
        """Do what the core says whenever something was heard or seen."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            await self._look()
            # Before the reports: a Job that its owner deleted is no failure.
            await self._tell_discovered(link)
            await self._perform(self._core.plan(), link)
            await self._tell_nodes(link)

    async def _tell_nodes(self, link: Link) -> None:
        """Send all nodes where any changed, or as soon as it may be."""
        pause = self._inventory_sent_at + len(self._nodes) / NODES_A_SECOND - time.monotonic()
        if pause > 0:
            asyncio.get_running_loop().call_later(pause, self._wake.set)
            return
        self._nodes_seen, nodes = await self._backend.nodes(self._nodes_seen)
        if nodes is not None:
            self._nodes = nodes
            await link.send(self._whole_inventory())

    async def _tell_discovered(self, link: Link) -> None:
        """Send what is in the bound namespaces where it changed, and once a minute."""
        if not (self._core.works_by and self._bound):
            return
        soon, late = (self._found_told_at + pause - time.monotonic() for pause in DISCOVERED_EVERY_SECONDS)
        if soon > 0:
            asyncio.get_running_loop().call_later(soon, self._wake.set)
            return
        since = self._found_seen if late > 0 else -1
        self._found_seen, found = await self._backend.discovered(since)
        if found is not None and found.version == self._bound:
            self._found_told_at = time.monotonic()
            await link.send(
                list(protocol.discovered_in_parts(found.jobs, found.namespaces, version=found.version))
            )

    async def _perform(self, plan: AgentPlan, link: Link) -> None:
        """Follow the plan, then report; what the core gave out is done even where the link is lost meanwhile."""
        doing = asyncio.create_task(self._instruct(plan))
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            await doing  # the core says each instruction once, and takes it for followed
            raise
        await self._report(link, plan.reports, news=True)

    async def _instruct(self, plan: AgentPlan) -> None:
        """Have the cluster do what the plan says."""
        expected = self._core.expected()
        if expected is not None:
            await self._backend.expect(expected)
            self._notes.expect(expected)
        if self._keeper is not None:
            await self._keeper.before_stop((stop.attempt, stop.pods) for stop in plan.stops)
        for stop in plan.stops:
            await self._backend.stop(stop.attempt, stop.pods, stop.notice)
        for create in plan.creates:
            await self._backend.create(create.assignment, create.pods)
        forget = self._backend.forget if self._keeper is None else self._keeper.forget
        for attempt in plan.forgets:
            await forget(attempt)

    async def _report(self, link: Link, reports: Sequence[Report], *, news: bool = False) -> None:
        """Send reports: those said again now, and of what is news all but mere progress."""
        now = time.monotonic()
        for report in reports:
            is_progress = news and report.phase is ReportedPhase.STARTING and report.attempt in self._starting
            due = now + PROGRESS_SECONDS if is_progress else now
            self._due[report.attempt] = min(due, self._due.get(report.attempt, due))
            self._outbox[report.attempt] = report
        await self._send_reports(link)

    async def _answered(self, link: Link, attempts: set[uuid.UUID]) -> None:
        self._under_way -= attempts
        await self._send_reports(link)

    async def _send_reports(self, link: Link) -> None:
        """Send what waits, one message at a time; one that is not full no faster than the pace: more may go with it."""
        if self._under_way or not self._outbox:
            return
        now, full = time.monotonic(), len(self._outbox) >= protocol.MAX_REPORTS
        rest = max(self._pace.rest_seconds(), min(self._due.values()) - now)
        if rest > 0 and not full:
            asyncio.get_running_loop().call_later(rest, self._wake.set)
            return
        self._pace.step()
        waiting = [report for attempt, report in self._outbox.items() if full or self._due[attempt] <= now]
        message = next(protocol.observed_in_parts(waiting))
        for report in message.reports:
            del self._outbox[report.attempt], self._due[report.attempt]
            self._under_way.add(report.attempt)
            note = self._starting.add if report.phase is ReportedPhase.STARTING else self._starting.discard
            note(report.attempt)
        # What is said last comes before the end: with its pods the attempt's successor may be let go.
        ended = {report.attempt for report in message.reports if report.frees_devices}
        await link.send([*self._notes.last_words(ended), message])

    async def _look(self) -> None:
        self._seen, observations = await self._backend.observe(self._seen)
        self._core.observe(observations)
        if self._keeper is not None:
            self._keeper.observe(observations)
        self._notes.observe(observations)

    async def _watch(self) -> None:
        while True:
            await self._backend.changed(self._seen)
            self._wake.set()
            await asyncio.sleep(GATHER_SECONDS * 2)

    async def _beat(self, link: Link) -> None:
        """Say that the agent is there; and again what the server has not acknowledged since the last time."""
        before: set[tuple[uuid.UUID, int]] = set()
        knew = True
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            if not self._core.works_by and time.monotonic() - self._greeted_at > PATIENCE_SECONDS:
                raise LinkLost(f"The hello was not answered within {PATIENCE_SECONDS:.0f} s.")
            heartbeat = Heartbeat(
                connection=self._connection,
                generation=self._core.works_by,
                namespaces=self._bound,
                at=datetime.now(UTC),
                epoch=self._memory.epoch,
            )
            await link.send([heartbeat])
            self._wake.set()
            failed = self._faults.over(quiet_seconds=QUIET_BEATS * self._heartbeat_seconds)
            if failed is not None:
                logger.info("The server takes this agent's messages again, after %.0f s.", failed)
            unknown = self._core.unacknowledged()
            late = [report for report in unknown if (report.attempt, report.sequence) in before]
            before = {(report.attempt, report.sequence) for report in unknown}
            if late:  # the server failed on it, or it was lost
                self._under_way.clear()
                await self._report(link, late)
            if not (self._inventory_is_known or knew):
                await link.send(self._whole_inventory())
            knew = self._inventory_is_known
