"""Reading logs through a real API server, from a kubelet that the test plays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agentlink.agent.backends.base import LogPiece, NoLogs
from agentlink.agent.backends.native import logs
from agentlink.agent.backends.native.logs import _moment
from agentlink.agent.keeping import LogKeeper
from agentlink.agent.notes import NoteReader
from agentlink.protocol import LIVING, NoteReport, ReportedPhase
from agentlink.protocol import logs as messages
from agentlink.tests.kube.kubelet import kubelet_of
from agentlink.tests.kube.native import Agent, agent_of, pods_on, work
from rig.namespaces import Namespace


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        (b"2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789Z"),
        (b"2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100000000Z"),
        (b"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000000Z"),
        (b"2026-01-02T05:04:05.000000001+02:00", "2026-01-02T03:04:05.000000001Z"),
        (b"2026-01-01T22:34:05.5-04:30", "2026-01-02T03:04:05.500000000Z"),
        (b"unable", ""),
        (b"", ""),
        (b"\xff", ""),
    ],
)
def test_a_time_is_told_in_utc_and_always_as_long(stamp: bytes, moment: str) -> None:
    assert _moment(stamp) == moment


async def read(agent: Agent, attempt: Any, **how: Any) -> tuple[str, str]:
    """Return what is read until it ends, and the last cursor."""
    how = {"follow": False, "tail_bytes": 1000} | how
    text, cursor = b"", ""
    async with aclosing(agent.cluster.logs(attempt, 0, **how)) as pieces:
        async for piece in pieces:
            text += piece.data
            cursor = piece.cursor or cursor
    return text.decode(), cursor


@pytest.mark.kube
async def test_a_pod_is_read_followed_and_gone_on_with_through_the_api_server(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "AGAIN_SECONDS", 0.05)
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    gang = work(*pods_on((node, (0,))), play={"starts_in": "1s"})
    async with agent_of(namespace) as agent, kubelet_of(namespace, node) as kubelet:
        with pytest.raises(NoLogs, match="not there"):
            await read(agent, gang.attempt)
        await agent.begin(gang)
        await agent.until(gang, lambda seen: bool(seen.pods))
        await _not_started(agent, gang.attempt)
        await agent.until(gang, ReportedPhase.RUNNING)
        kubelet.say(*(f"line {number}" for number in range(20)))
        text, cursor = await read(agent, gang.attempt, tail_bytes=40)
        assert text == "".join(f"line {number}\n" for number in range(15, 20))
        kubelet.say("after", b"x" * 100_000)
        assert (await read(agent, gang.attempt, after=cursor))[0] == f"after\n{'x' * 100_000}\n"

        following: asyncio.Queue[LogPiece | None] = asyncio.Queue()
        task = asyncio.create_task(_follow(agent, gang.attempt, following))
        while (await following.get()).data[-2:] != b"x\n":  # type: ignore[union-attr]
            pass
        kubelet.say("live")
        assert (await following.get()).data == b"live\n"  # type: ignore[union-attr]
        kubelet.cut()
        kubelet.say("after the break")
        assert (await following.get()).data == b"after the break\n"  # type: ignore[union-attr]
        pod = agent.cluster.pod_of(gang.attempt, 0)
        assert pod is not None
        await asyncio.to_thread(namespace.play, pod[1], run_for="0s", ends="3")
        await agent.until(gang, ReportedPhase.FAILED)
        kubelet.end()
        assert await asyncio.wait_for(following.get(), 60) is None
        await task
        assert (await read(agent, gang.attempt, tail_bytes=300))[0].endswith("live\nafter the break\n")
    assert kubelet.asked[0]["path"].startswith(f"/containerLogs/{namespace.name}/")


@pytest.mark.kube
async def test_notes_are_read_with_the_time_of_their_line_and_once_however_often_a_reader_begins(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    noting = work(*pods_on((node, (0,))), read_notes=True)

    async def told(reader: NoteReader, count: int) -> list[NoteReport]:
        reader.expect([noting])
        found: list[NoteReport] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                reader.observe((await agent.cluster.observe(-1))[1])
                await asyncio.sleep(0.05)
                found += [note for part in reader.last_words({noting.attempt}) for note in part.notes]
        return sorted(found, key=lambda note: note.kind)

    async with agent_of(namespace) as agent, kubelet_of(namespace, node) as kubelet:
        await agent.begin(noting)
        await agent.until(noting, ReportedPhase.RUNNING)
        kubelet.say("step 1", "::chamber checkpoint step=5::", "::chamber progress 0.5::", "step 2")
        first, second = (NoteReader(agent.cluster) for _ in range(2))
        checkpoint, progress = notes = await told(first, 2)
        assert (checkpoint.step, progress.millionths) == (5, 500_000)
        # The played kubelet's clock begins with the year.
        assert (
            datetime(2026, 1, 1, tzinfo=UTC)
            <= checkpoint.at
            <= progress.at
            < datetime(2026, 1, 2, tzinfo=UTC)
        )
        await first.close()
        assert await told(second, 2) == notes  # as another agent would read it, later
        kubelet.say("::chamber checkpoint step=6::")
        (live,) = await told(second, 1)
        assert live.step == 6
        assert checkpoint.at <= live.at < datetime(2026, 1, 2, tzinfo=UTC)
        await second.close()


async def _not_started(agent: Agent, attempt: Any) -> None:
    with pytest.raises(NoLogs, match="has not started") as refused:
        await read(agent, attempt)
    assert refused.value.not_started


async def _follow(agent: Agent, attempt: Any, told: "asyncio.Queue[LogPiece | None]") -> None:
    while True:
        try:
            after = ""
            async with aclosing(
                agent.cluster.logs(attempt, 0, follow=True, tail_bytes=200_000, after=after)
            ) as pieces:
                async for piece in pieces:
                    told.put_nowait(piece)
        finally:
            told.put_nowait(None)
        return


@pytest.mark.kube
async def test_the_last_words_of_a_gang_are_kept_when_one_fails_and_when_it_is_stopped(
    namespace: Namespace,
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    fails = work(*pods_on((node, (0,)), (node, (1,))), play={"stops_in": "8"})
    stops = work(*pods_on((node, (2,))), play={"stops_in": "8"})
    async with agent_of(namespace) as agent, kubelet_of(namespace, node) as kubelet, kept_of(agent) as kept:
        for each in (fails, stops):
            await agent.begin(each)
            await agent.until(each, ReportedPhase.RUNNING)
        kubelet.say("working")
        failing = agent.cluster.pod_of(fails.attempt, 1)
        assert failing is not None
        await asyncio.to_thread(namespace.play, failing[1], run_for="0s", ends="1")
        # Pod 0 is stopped by the Job's controller, without a word from Chamber.
        await agent.until(fails, lambda seen: any(pod.reason == "terminating" for pod in seen.pods))
        await kept.keeper.before_stop([(stops.attempt, None)])
        await agent.stop(stops)
        kubelet.say("last words")
        kubelet.end()
        await agent.until(fails, lambda seen: not any(pod.state in LIVING for pod in seen.pods))
        await agent.until(stops, ReportedPhase.GONE)
        for each in (fails, stops):
            await kept.keeper.forget(each.attempt)
        async with asyncio.timeout(60):
            while agent.cluster.attempts.get(fails.attempt) or agent.cluster.attempts.get(stops.attempt):
                await asyncio.sleep(0.02)
    # The pod that failed by itself may have been read before the others' last words.
    assert kept.texts.pop((fails.attempt, 1)) in {"working\n", "working\nlast words\n"}
    told = "working\nlast words\n"
    assert kept.texts == {(fails.attempt, 0): told, (stops.attempt, 0): told}


class Kept:
    """Stores what a keeper sends."""

    def __init__(self, keeper: LogKeeper) -> None:
        self.keeper = keeper
        self.texts: dict[tuple[UUID, int], str] = {}

    async def take(self, message: messages.KeptLogs) -> None:
        for item in message.items:
            self.texts[item.attempt, item.pod] = item.text
        self.keeper.stored(self.texts)


@asynccontextmanager
async def kept_of(agent: Agent) -> AsyncIterator[Kept]:
    """Keep what an agent's pods have written, as its runner does."""
    kept = Kept(LogKeeper(agent.cluster))
    tasks = [
        asyncio.create_task(kept.keeper.send(kept.take)),
        asyncio.create_task(_observe(agent, kept.keeper)),
    ]
    try:
        yield kept
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await kept.keeper.close()


async def _observe(agent: Agent, keeper: LogKeeper) -> None:
    version = -1
    while True:
        version, seen = await agent.cluster.observe(version)
        keeper.observe(seen)
        await agent.cluster.changed(version)
