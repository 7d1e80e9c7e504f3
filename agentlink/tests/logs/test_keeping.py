"""What pods have written outlives them: read in time, held within bounds, sent until it is stored."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast
from uuid import UUID

import pytest

from agentlink.agent import keeping
from agentlink.agent.backends.base import Backend, LogPiece, NoLogs, Observation
from agentlink.agent.keeping import LogKeeper, Tail
from agentlink.protocol import PodReport, PodState, ReportedPhase
from agentlink.protocol.logs import KEPT_BYTES, KeptLogs

ATTEMPT, OTHER = UUID(int=1), UUID(int=2)


class Pods:
    """A cluster's pods: what each has written, and which of them are still there."""

    def __init__(self) -> None:
        self.written: dict[int, list[bytes]] = {}
        self.there: set[int] = set()
        self.forgotten: list[UUID] = []
        self.reads: list[tuple[int, bool]] = []

    async def logs(self, _: UUID, pod: int, *, follow: bool, **__: Any) -> AsyncGenerator[LogPiece]:
        if pod not in self.there:
            raise NoLogs("gone")
        self.reads.append((pod, follow))
        place = 0
        while True:
            for data in self.written.get(pod, [])[place:]:
                place += 1
                yield LogPiece(data)
            if not follow or pod not in self.there:
                return
            await asyncio.sleep(0.005)

    async def forget(self, attempt: UUID) -> None:
        self.forgotten.append(attempt)


def seen(
    attempt: UUID = ATTEMPT, phase: ReportedPhase = ReportedPhase.RUNNING, **states: PodState
) -> Observation:
    pods = tuple(PodReport(index=int(name[1:]), node="n", state=state) for name, state in states.items())
    return Observation(workload=attempt, attempt=attempt, number=1, phase=phase, pods=pods)


class Server:
    """Takes what is sent, and says that it is stored unless it is told not to."""

    def __init__(self, keeper: LogKeeper) -> None:
        self.keeper, self.stores = keeper, True
        self.texts: dict[tuple[UUID, int], str] = {}
        self.cut: set[tuple[UUID, int]] = set()
        self.messages = 0

    async def send(self, message: KeptLogs) -> None:
        self.messages += 1
        for item in message.items:
            key = (item.attempt, item.pod)
            self.texts[key] = item.text if item.part == 0 else self.texts[key] + item.text
            if item.cut:
                self.cut.add(key)
            if item.last and self.stores:
                self.keeper.stored([key])


@contextlib.asynccontextmanager
async def keeping_for(pods: Pods, *, connected: bool = True) -> AsyncIterator[tuple[LogKeeper, Server]]:
    keeper = LogKeeper(cast(Backend, pods))
    server = Server(keeper)
    sending = asyncio.create_task(keeper.send(server.send)) if connected else None
    try:
        yield keeper, server
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await keeper.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "GATHER_SECONDS", 0.01)


async def until(condition: Any, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_pod_that_ended_is_stored_before_its_attempt_is_forgotten() -> None:
    pods = Pods()
    pods.there, pods.written = {0, 1}, {0: [b"one\n"], 1: [b"two"]}
    async with keeping_for(pods) as (keeper, server):
        server.stores = False
        keeper.observe([seen(phase=ReportedPhase.SUCCEEDED, p0=PodState.SUCCEEDED, p1=PodState.SUCCEEDED)])
        await keeper.forget(ATTEMPT)
        await until(lambda: len(server.texts) == 2)
        assert pods.forgotten == []
        keeper.stored([(ATTEMPT, 0), (ATTEMPT, 1)])
        await until(lambda: pods.forgotten == [ATTEMPT])
    assert server.texts == {(ATTEMPT, 0): "one\n", (ATTEMPT, 1): "two\n"}
    assert server.messages == 1


async def test_a_pod_that_is_stopped_is_read_until_it_is_gone() -> None:
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"working\n"]}
    async with keeping_for(pods) as (keeper, server):
        keeper.observe([seen(p0=PodState.RUNNING)])
        await keeper.before_stop([(ATTEMPT, None)])
        assert pods.reads == [(0, True)]
        pods.written[0] += [b"checkpoint written\n"]
        await asyncio.sleep(0.02)
        pods.there = set()
        keeper.observe([seen(phase=ReportedPhase.GONE)])
        await keeper.forget(ATTEMPT)
        await until(lambda: pods.forgotten == [ATTEMPT])
    assert server.texts == {(ATTEMPT, 0): "working\ncheckpoint written\n"}


async def test_a_pod_that_goes_by_another_hand_is_read_when_that_is_seen() -> None:
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"evicted\n"]}
    async with keeping_for(pods) as (keeper, server):
        going = PodReport(index=0, node="n", state=PodState.RUNNING, reason="terminating")
        observation = Observation(
            workload=ATTEMPT, attempt=ATTEMPT, number=1, phase=ReportedPhase.RUNNING, pods=(going,)
        )
        keeper.observe([observation, observation])
        await until(lambda: pods.reads == [(0, True)])
        pods.there = set()
        await until(lambda: server.texts == {(ATTEMPT, 0): "evicted\n"})


async def test_only_pods_that_run_and_are_meant_are_read_before_a_stop() -> None:
    pods = Pods()
    pods.there = {0, 1, 2}
    async with keeping_for(pods) as (keeper, _):
        keeper.observe([seen(p0=PodState.RUNNING, p1=PodState.RUNNING, p2=PodState.PENDING)])
        await keeper.before_stop([(ATTEMPT, frozenset({1, 2})), (OTHER, None)])
        assert pods.reads == [(1, True)]


async def test_a_pod_that_was_taken_away_and_came_back_is_read_again_at_its_end() -> None:
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"first life\n"]}
    async with keeping_for(pods) as (keeper, server):
        keeper.observe([seen(p0=PodState.RUNNING)])
        await keeper.before_stop([(ATTEMPT, frozenset({0}))])
        pods.there = set()
        await until(lambda: server.texts == {(ATTEMPT, 0): "first life\n"})
        pods.there, pods.written = {0}, {0: [b"second life\n"]}
        keeper.observe([seen(p0=PodState.RUNNING)])
        keeper.observe([seen(phase=ReportedPhase.SUCCEEDED, p0=PodState.SUCCEEDED)])
        await until(lambda: server.texts == {(ATTEMPT, 0): "second life\n"})


async def test_a_stop_waits_no_longer_than_its_bound_for_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "OPEN_SECONDS", 0.05)
    pods = Pods()
    pods.there, pods.written = {0}, {}
    async with keeping_for(pods) as (keeper, _):
        keeper.observe([seen(p0=PodState.RUNNING)])
        async with asyncio.timeout(60):
            await keeper.before_stop([(ATTEMPT, None)])
        assert pods.reads == [(0, True)]


async def test_without_a_server_an_attempt_is_forgotten_after_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping, "STORE_SECONDS", 0.1)
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"one\n"]}
    async with keeping_for(pods, connected=False) as (keeper, _):
        keeper.observe([seen(phase=ReportedPhase.FAILED, p0=PodState.FAILED)])
        await keeper.forget(ATTEMPT)
        await keeper.forget(ATTEMPT)
        assert pods.forgotten == []
        await until(lambda: pods.forgotten == [ATTEMPT])
        assert "not all its logs are stored" in caplog.text
        assert keeper._unsettled == {}
        assert keeper._pods == {}


async def test_what_a_server_did_not_store_is_sent_again_also_by_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.05)
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"one\n"]}
    async with keeping_for(pods) as (keeper, server):
        server.stores = False
        keeper.observe([seen(phase=ReportedPhase.FAILED, p0=PodState.FAILED)])
        await until(lambda: server.messages >= 2)
        second = Server(keeper)
        sending = asyncio.create_task(keeper.send(second.send))
        await until(lambda: keeper._unsettled == {})
        assert second.texts == {(ATTEMPT, 0): "one\n"}
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_an_attempt_that_wrote_nothing_is_forgotten_at_once() -> None:
    pods = Pods()
    pods.there = {0}
    async with keeping_for(pods) as (keeper, server):
        await keeper.forget(OTHER)
        assert pods.forgotten == [OTHER]
        keeper.observe([seen(phase=ReportedPhase.SUCCEEDED, p0=PodState.SUCCEEDED)])
        await keeper.forget(ATTEMPT)
        await until(lambda: pods.forgotten == [OTHER, ATTEMPT])
        assert server.messages == 0


async def test_pods_that_are_stopped_together_share_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "SHARED_BYTES", 40_000)
    monkeypatch.setattr(keeping, "LEAST_BYTES", 1_000)
    monkeypatch.setattr(keeping, "MOST_READ", 10)
    pods = Pods()
    pods.there = set(range(12))
    pods.written = {pod: [b"x" * 99 + b"\n"] * 100 for pod in pods.there}
    async with keeping_for(pods, connected=False) as (keeper, _):
        states = {f"p{pod}": PodState.RUNNING for pod in pods.there}
        keeper.observe([seen(ATTEMPT, ReportedPhase.RUNNING, **states)])
        await keeper.before_stop([(ATTEMPT, None)])
        await until(lambda: len(keeper._reading) == 10 and len(pods.reads) == 10)
        await asyncio.sleep(0.1)
        held = [pod.tail for pod in keeper._reading]
        assert len(held) == 10
        assert sum(len("".join(tail.lines())) for tail in held if tail is not None) <= 40_000


async def test_a_long_log_is_cut_to_its_last_mebibyte_and_comes_in_parts() -> None:
    pods = Pods()
    pods.there, pods.written = {0}, {0: [b"%06d " % n + b"x" * 92 + b"\n" for n in range(15_000)]}
    async with keeping_for(pods) as (keeper, server):
        keeper.observe([seen(phase=ReportedPhase.FAILED, p0=PodState.FAILED)])
        await until(lambda: keeper._unsettled == {})
    text = server.texts[ATTEMPT, 0]
    assert len(text) <= KEPT_BYTES < len(text) + 200
    assert text.endswith("014999 " + "x" * 92 + "\n")
    assert server.cut == {(ATTEMPT, 0)}
    assert server.messages > 4


def test_a_tail_keeps_whole_lines_that_fit() -> None:
    tail = Tail(lambda: 10)
    tail.add(["abc\n", "défg\n", "h\n"])
    assert tail.lines() == ["défg\n", "h\n"]
    assert tail.cut
