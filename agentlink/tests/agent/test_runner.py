"""How an agent comes back: pauses that spread and grow, what it says again, and a server that misses something."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest

from agentlink.agent import runner, use
from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.link import Link, LinkLost
from agentlink.agent.runner import LONGEST_PAUSE_SECONDS, _pause, run_agent
from agentlink.protocol import (
    Ack,
    AssignedPod,
    AssignedShare,
    Desired,
    DesiredAttempt,
    Discovered,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    Inventory,
    Message,
    NamespaceBinding,
    Namespaces,
    Observed,
    PodReport,
    PodState,
    ReportedPhase,
    StopNotice,
    Taken,
    ToAgent,
    UsageFigure,
    UsageReport,
    Verdict,
    Verdicts,
)
from agentlink.tests.agents import nodes, running

RESTART = LinkLost("The server stops.", is_restart=True)
SENT_AWAY = LinkLost("Only the newest is heard.", ErrorCode.SUPERSEDED)


class Script:
    """A link whose server's side the test plays."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Message] = asyncio.Queue()
        self.answers: asyncio.Queue[ToAgent | LinkLost] = asyncio.Queue()
        self.opened = 0

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.said.put_nowait(message)

    async def receive(self) -> ToAgent:
        answer = await self.answers.get()
        if isinstance(answer, LinkLost):
            raise answer
        return answer

    async def hears(self, kind: type[Message]) -> Message:
        """Return the agent's next message of a kind."""
        async with asyncio.timeout(60):
            while not isinstance(message := await self.said.get(), kind):
                pass
            return message

    async def heard_until_beats(self, count: int) -> list[Message]:
        """Return all that the agent says from now on until it has sent so many heartbeats."""
        while not self.said.empty():
            self.said.get_nowait()
        heard: list[Message] = []
        async with asyncio.timeout(60):
            while sum(isinstance(message, Heartbeat) for message in heard) < count:
                heard.append(await self.said.get())
        return heard

    async def greeted(self, *assignments: DesiredAttempt, generation: int = 1) -> Hello:
        """Answer the next hello with a full set."""
        hello = await self.hears(Hello)
        assert isinstance(hello, Hello)
        self.answers.put_nowait(full(hello.connection, *assignments, generation=generation))
        return hello


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    found = Script()

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Link]:
        found.opened += 1
        yield found

    monkeypatch.setattr(runner, "open_link", opened)
    monkeypatch.setattr(runner, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(runner, "_pause", lambda *_: 0.0)
    return found


def full(connection: uuid.UUID, *assignments: DesiredAttempt, generation: int = 1) -> Desired:
    return Desired(
        connection=connection, generation=generation, base=None, part=0, last=True, assignments=assignments
    )


def work(number: int = 1) -> DesiredAttempt:
    return DesiredAttempt(
        workload=uuid.UUID(int=number), slug="w", attempt=uuid.UUID(int=100 + number), number=1, let_go=True,
        image="i", command=("sleep 60",), grace_seconds=1,
        pods=(AssignedPod(index=0, node="n1", devices=(AssignedShare(index=0, share_milli=1000),)),),
    )  # fmt: skip


def agent(cluster: SimulatedCluster | None = None) -> Coroutine[None, None, None]:
    return run_agent("http://x", "t", cluster or SimulatedCluster(nodes(2)), heartbeat_seconds=0.2)


async def test_hello_brings_the_inventory_and_a_heartbeat_says_what_is_worked_by(script: Script) -> None:
    async with running(agent()):
        await script.greeted(generation=7)
        inventory = await script.hears(Inventory)
        assert isinstance(inventory, Inventory)
        assert [node.name for node in inventory.nodes] == ["n1", "n2"]
        beat = await script.hears(Heartbeat)
        assert isinstance(beat, Heartbeat)
        assert beat.generation == 7


async def test_a_report_that_is_not_acknowledged_is_said_again_and_one_that_is_not(script: Script) -> None:
    async with running(agent()):
        await script.greeted(work())
        first, again = [await script.hears(Observed) for _ in range(2)]
        assert isinstance(first, Observed)
        assert isinstance(again, Observed)
        assert [each.attempt for each in again.reports] == [each.attempt for each in first.reports]
        last = first
        while last.reports[0].phase is not ReportedPhase.RUNNING:
            last = await script.hears(Observed)  # type: ignore[assignment]  # of that kind
        script.answers.put_nowait(
            Ack(reports=tuple(Taken(attempt=each.attempt, sequence=each.sequence) for each in last.reports))
        )
        await script.heard_until_beats(2)  # by then it has taken the acknowledgement
        later = await script.heard_until_beats(3)
        assert not any(isinstance(message, Observed) for message in later)


async def test_what_changes_fast_is_reported_at_the_pace_many_in_a_message(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "REPORTS_AT_ONCE", 1)
    monkeypatch.setattr(runner, "REPORTS_EVERY_SECONDS", 0.5)
    reported: list[set[uuid.UUID]] = []

    async def acknowledge() -> None:
        while len(set().union(*reported)) < 10:
            message = await script.hears(Observed)
            assert isinstance(message, Observed)
            reported.append({report.attempt for report in message.reports})
            script.answers.put_nowait(_taken(message))

    async with running(agent()):
        hello = await script.greeted()
        began = time.monotonic()
        acknowledging = asyncio.create_task(acknowledge())
        for number in range(1, 11):
            news = full(hello.connection, work(number), generation=number + 1)
            script.answers.put_nowait(news.model_copy(update={"base": number}))
            await asyncio.sleep(0.06)
        await acknowledging
        took = time.monotonic() - began

    assert len(reported) <= 2 + took / 0.5


class Slow(SimulatedCluster):
    """Begins a stop and carries it out once it may."""

    def __init__(self) -> None:
        super().__init__(nodes(2))
        self.begun, self.may = asyncio.Event(), asyncio.Event()

    async def stop(
        self, attempt: uuid.UUID, pods: Collection[int] | None, notice: StopNotice | None = None
    ) -> None:
        self.begun.set()
        await self.may.wait()
        await super().stop(attempt, pods, notice)


async def test_an_instruction_under_way_is_followed_though_the_link_is_lost(script: Script) -> None:
    cluster = Slow()
    async with running(agent(cluster)), asyncio.timeout(60):
        hello = await script.greeted(work())
        while not cluster.living_attempts():
            await asyncio.sleep(0.01)
        script.answers.put_nowait(full(hello.connection, generation=2))
        await cluster.begun.wait()
        script.answers.put_nowait(RESTART)
        await asyncio.sleep(0.1)
        cluster.may.set()
        await script.greeted(generation=2)
        while cluster.living_attempts():
            await asyncio.sleep(0.01)
    assert script.opened == 2, "the link was not lost"


class Starting(SimulatedCluster):
    """A cluster of which the test says what is seen of an attempt."""

    def __init__(self) -> None:
        super().__init__(nodes(2))
        self.seen = asyncio.Event()
        self.says(ReportedPhase.STARTING)

    def says(self, phase: ReportedPhase, **pod: Any) -> None:
        self.seen.clear()
        pods = (PodReport(index=0, node="n1", **{"state": PodState.PENDING, **pod}),)
        self.what = Observation(work().workload, work().attempt, 1, phase, pods)

    async def observe(self, _: int) -> tuple[int, Sequence[Observation]]:
        self.seen.set()
        return 1, [self.what]

    async def changed(self, _: int) -> None:
        await asyncio.sleep(0.01)


async def test_mere_progress_of_what_is_starting_waits_and_its_phase_does_not(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PROGRESS_SECONDS", 600.0)
    cluster = Starting()
    async with running(run_agent("http://x", "t", cluster, heartbeat_seconds=600)):
        await script.greeted(work())
        first = await script.hears(Observed)
        assert isinstance(first, Observed)
        script.answers.put_nowait(_taken(first))
        for state in (PodState.PENDING, PodState.RUNNING):
            cluster.says(ReportedPhase.STARTING, state=state, reason="ContainerCreating")
            await asyncio.wait_for(cluster.seen.wait(), 60)
        cluster.says(ReportedPhase.RUNNING, state=PodState.RUNNING)
        news = await script.hears(Observed)
    assert isinstance(news, Observed)
    assert [report.phase for report in (*first.reports, *news.reports)] == [
        ReportedPhase.STARTING,
        ReportedPhase.RUNNING,
    ]


async def test_a_message_that_is_full_does_not_wait_for_more(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "REPORTS_AT_ONCE", 1)
    monkeypatch.setattr(runner, "REPORTS_EVERY_SECONDS", 60.0)
    monkeypatch.setattr("agentlink.protocol.MAX_REPORTS", 2)
    monkeypatch.setattr("agentlink.protocol.wire.MAX_REPORTS", 2)
    async with running(agent()):
        await script.greeted(*(work(number) for number in range(1, 7)))
        for _ in range(3):
            message = await script.hears(Observed)
            assert isinstance(message, Observed)
            assert len(message.reports) == 2
            script.answers.put_nowait(_taken(message))


def _taken(message: Observed) -> Ack:
    return Ack(reports=tuple(Taken(attempt=each.attempt, sequence=each.sequence) for each in message.reports))


async def test_an_inventory_that_is_not_acknowledged_is_said_again(script: Script) -> None:
    async with running(agent()):
        await script.greeted()
        first, again = [await script.hears(Inventory) for _ in range(2)]
        assert isinstance(first, Inventory)
        assert isinstance(again, Inventory)
        assert again.generation > first.generation
        script.answers.put_nowait(Ack(inventory=again.generation))


async def test_an_agent_that_is_told_to_say_hello_again_counts_only_what_answers_that(script: Script) -> None:
    cluster = SimulatedCluster(nodes(2))
    async with running(agent(cluster)):
        old = await script.greeted(generation=9)
        await script.hears(Heartbeat)
        script.answers.put_nowait(Error(code=ErrorCode.NO_HELLO, message="Say hello.", about="heartbeat"))
        new = await script.hears(Hello)
        assert isinstance(new, Hello)
        assert new.connection != old.connection
        script.answers.put_nowait(full(old.connection, work(1), generation=10))
        script.answers.put_nowait(full(new.connection, work(2), generation=3))
        await script.hears(Observed)
        assert set(cluster.living_attempts()) == {work(2).workload}


async def test_what_the_server_failed_on_is_said_again_soon_and_then_ever_later(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "FIRST_PAUSE_SECONDS", 0.02)
    fault = Error(code=ErrorCode.FAULT, message="Send it again.", about="observed")
    async with running(run_agent("http://x", "t", SimulatedCluster(nodes(2)), heartbeat_seconds=60)):
        await script.greeted(work())
        times = []
        for _ in range(5):
            await script.hears(Observed)
            times.append(asyncio.get_running_loop().time())
            script.answers.put_nowait(fault)
    waits = [after - before for before, after in pairwise(times)]
    assert waits[-1] > 0.1  # the heartbeat, which says it again too, is a minute away


async def test_a_hello_that_the_server_failed_on_is_said_again(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "FIRST_PAUSE_SECONDS", 0.02)
    async with running(agent()):
        first = await script.hears(Hello)
        script.answers.put_nowait(Error(code=ErrorCode.FAULT, message="Send it again.", about="hello"))
        again = await script.greeted()
    assert again != first


async def test_a_hello_that_is_refused_ends_the_conversation_with_a_sentence(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(agent()):
        await script.hears(Hello)
        text = "Protocol 1 is not spoken here, only 2."
        script.answers.put_nowait(Error(code=ErrorCode.INVALID, message=text, about="hello"))
        await script.hears(Hello)
    assert script.opened == 2
    assert f"does not take this agent's hello: {text}" in caplog.text


async def test_a_rotated_token_is_used_for_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[str] = []
    ask = Mock(side_effect=["old", LinkLost("The file is not there."), "new", asyncio.CancelledError])

    @asynccontextmanager
    async def opened(_: str, token: str, __: str) -> AsyncIterator[Link]:
        tokens.append(token)
        raise LinkLost("gone")
        yield

    monkeypatch.setattr(runner, "open_link", opened)
    monkeypatch.setattr(runner, "_pause", lambda *_: 0.0)
    with pytest.raises(asyncio.CancelledError):
        await run_agent("http://x", ask, SimulatedCluster([]))
    assert tokens == ["old", "new"]


def test_pauses_grow_to_a_cap_and_use_the_whole_range() -> None:
    for failures in range(40):
        longest = min(0.5 * 2**failures, LONGEST_PAUSE_SECONDS)
        found = [_pause(failures, None) for _ in range(300)]
        assert max(found) <= longest
        assert min(found) < longest * 0.1
        assert max(found) > longest * 0.8


def test_a_server_that_restarts_is_met_again_at_once_but_not_for_ever() -> None:
    assert max(_pause(1, RESTART) for _ in range(100)) <= 1.0
    assert max(_pause(12, RESTART) for _ in range(100)) > 1.0
    assert min(_pause(0, SENT_AWAY) for _ in range(100)) >= LONGEST_PAUSE_SECONDS / 2


async def test_ten_thousand_nodes_that_come_and_go_are_told_every_few_seconds(
    script: Script, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    monkeypatch.setattr(runner, "NODES_A_SECOND", 10)
    cluster = SimulatedCluster(nodes(4))
    async with running(agent(cluster)):
        await script.greeted()
        first = await script.hears(Inventory)
        assert isinstance(first, Inventory)
        script.answers.put_nowait(Ack(inventory=first.generation))
        began = time.monotonic()
        for _ in range(10):
            cluster.set_down("n1")
            cluster.set_up("n1")
            await asyncio.sleep(0.02)
        cluster.set_down("n2")
        told = first
        while [node.ready for node in told.nodes] != [True, False, True, True]:
            told = await script.hears(Inventory)  # type: ignore[assignment]  # of that kind
            script.answers.put_nowait(Ack(inventory=told.generation))
        pause = len(told.nodes) / runner.NODES_A_SECOND
        assert told.generation - first.generation <= 1 + (time.monotonic() - began) / pause


async def test_what_workloads_make_of_their_gpus_is_told_once_for_several_measurements(
    script: Script, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(use, "MEASURE_SECONDS", 0.02)
    cluster, workload, percents = SimulatedCluster(nodes(1)), uuid.uuid4(), [20, 80] * 10

    async def usage() -> Sequence[UsageFigure]:
        now = datetime.now(UTC)
        return [UsageFigure(workload=workload, at=now, utilisation_percent=percents.pop(), memory_mib=1)]

    monkeypatch.setattr(cluster, "usage", usage)
    async with running(agent(cluster)):
        await script.greeted()
        await script.hears(UsageReport)  # of one measurement, where another came before the server's answer
        told = await script.hears(UsageReport)
        assert isinstance(told, UsageReport)
        assert [(figure.workload, figure.utilisation_percent) for figure in told.figures] == [(workload, 50)]
        while percents:
            await script.hears(UsageReport)
        # A cluster that cannot be measured any more costs its figures and nothing else.
        while "could not be measured" not in caplog.text:
            await script.hears(Heartbeat)
        await script.hears(Heartbeat)
    assert script.opened == 1


async def test_what_is_bound_is_kept_told_about_and_answered_for(script: Script) -> None:
    class Cluster(SimulatedCluster):
        expected: list[uuid.UUID] | None = None
        answers: Sequence[Verdict] = ()

        async def expect(self, assignments: Collection[DesiredAttempt]) -> None:
            self.expected = [each.attempt for each in assignments]

        async def answer(self, verdicts: Sequence[Verdict]) -> None:
            self.answers = verdicts

    cluster, waits = Cluster(nodes(1)), work(2).model_copy(update={"let_go": False})
    bound = NamespaceBinding(id=uuid.uuid4(), namespace="nlp-jobs", team="nlp")
    async with running(agent(cluster)):
        await script.greeted(work(), waits)
        script.answers.put_nowait(Namespaces(version=3, bound=(bound,)))
        found = await script.hears(Discovered)
        assert isinstance(found, Discovered)
        assert (found.version, [each.namespace for each in found.namespaces]) == (3, ["nlp-jobs"])
        beat = await script.hears(Heartbeat)
        assert isinstance(beat, Heartbeat)
        assert beat.namespaces == 3
        script.answers.put_nowait(Verdicts(verdicts=(Verdict(uid="u", refused="No."),)))
        async with asyncio.timeout(60):
            while not cluster.answers:
                await asyncio.sleep(0.01)
        assert cluster.expected == [work().attempt]


async def test_without_bindings_nothing_is_discovered(script: Script) -> None:
    async with running(agent()):
        await script.greeted()
        assert not any(isinstance(message, Discovered) for message in await script.heard_until_beats(3))
