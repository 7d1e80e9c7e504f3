"""One pod on its way to the server: bounds, in order, with a note where lines are missing."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from agentlink.agent import streams
from agentlink.agent.backends.base import Backend, LogPiece, NoLogs
from agentlink.agent.streams import MIB, Stream, cluster_bucket
from agentlink.bucket import TokenBucket
from agentlink.protocol.logs import MAX_TEXT, Ask, Chunk, StreamEnd, StreamEndReason

Script = Callable[[], AsyncGenerator[LogPiece]]


class Pods:
    """A backend of one pod; each time it is asked, the next script is played."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.after: list[str] = []

    def logs(self, *_: Any, after: str = "", **__: Any) -> AsyncGenerator[LogPiece]:
        self.after.append(after)
        return self._scripts.pop(0)()


def writes(*pieces: bytes | float | Exception) -> Script:
    """Return a script: bytes are written, a number is waited for."""

    async def script() -> AsyncGenerator[LogPiece]:
        for number, piece in enumerate(pieces):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, bytes):
                yield LogPiece(piece, f"{number + 1:04}")
            else:
                await asyncio.sleep(piece)

    return script


async def played(
    *scripts: Script,
    follow: bool = True,
    tail: int = 0,
    slow: float = 0.0,
    shown: asyncio.Event | None = None,
) -> list[Chunk | StreamEnd]:
    told: list[Chunk | StreamEnd] = []

    async def send(message: Chunk | StreamEnd) -> None:
        await asyncio.sleep(slow)
        told.append(message)
        if shown is not None:
            shown.set()

    ask = Ask(stream=1, attempt=UUID(int=1), pod=0, follow=follow, tail_bytes=tail)
    backend = cast(Backend, Pods(*scripts))
    await asyncio.wait_for(Stream(ask, backend, send, cluster_bucket()).run(), timeout=120)
    return told


def text_of(told: Sequence[Chunk | StreamEnd]) -> str:
    return "".join(each.text for each in told if isinstance(each, Chunk))


def end_of(told: Sequence[Chunk | StreamEnd]) -> StreamEnd:
    assert isinstance(told[-1], StreamEnd)
    return told[-1]


async def test_lines_come_in_order_together_and_then_the_end() -> None:
    began = time.monotonic()
    told = await played(writes(*(f"line {n}\n".encode() for n in range(500))))
    took = time.monotonic() - began
    assert text_of(told) == "".join(f"line {n}\n" for n in range(500))
    assert len(told) <= 4 + took / streams.GATHER_SECONDS
    assert [each.sequence for each in told[:-1] if isinstance(each, Chunk)] == list(range(1, len(told)))
    assert end_of(told).reason is StreamEndReason.ENDED
    assert isinstance(told[-2], Chunk) and told[-2].cursor == "0500"  # noqa: PT018


async def test_a_noisy_pod_is_cut_to_its_rate_and_says_how_many_lines_are_missing() -> None:
    line = b"x" * 99 + b"\n"
    written, began = 60_000, time.monotonic()
    told = await played(writes(*([line * 100] * (written // 100))))
    took = time.monotonic() - began
    shown = text_of(told).count("\n")
    dropped = sum(each.dropped for each in told if isinstance(each, Chunk))
    assert shown + dropped == written
    assert shown * 100 <= (2 + took) * MIB
    cuts = sum(1 for each in told if isinstance(each, Chunk) and each.dropped)
    assert 0 < cuts <= 8 + took / streams.GATHER_SECONDS


async def test_what_was_written_before_is_not_left_out() -> None:
    line = b"x" * 99 + b"\n"
    told = await played(writes(*([line] * 10_000)), tail=MIB)
    assert text_of(told).count("\n") == 10_000


async def test_a_cluster_whose_share_is_used_up_drops_lines_of_the_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "cluster_bucket", lambda: TokenBucket(at_once=0, a_second=1))
    told: list[Chunk | StreamEnd] = []

    async def send(message: Chunk | StreamEnd) -> None:
        told.append(message)

    ask = Ask(stream=1, attempt=UUID(int=1), pod=0, follow=True, tail_bytes=0)
    backend = cast(Backend, Pods(writes(b"one\ntwo\n")))
    await Stream(ask, backend, send, streams.cluster_bucket()).run()
    assert [each.dropped for each in told if isinstance(each, Chunk)] == [2]


async def test_a_server_that_reads_slowly_holds_the_reading_and_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "HELD_CHARACTERS", 1000)
    most = 0
    put = Stream._put

    def watched(self: Stream, lines: list[str], cursor: str) -> None:
        nonlocal most
        put(self, lines, cursor)
        most = max(most, self._size)

    monkeypatch.setattr(Stream, "_put", watched)
    told = await played(writes(*([b"x" * 99 + b"\n"] * 300)), slow=0.02)
    assert text_of(told).count("\n") == 300
    assert most <= 1100


async def test_no_chunk_is_larger_than_a_message_may_be() -> None:
    told = await played(writes((b"x" * 9999 + b"\n") * 60, b"y" * 300_000 + b"\n"), tail=MIB)
    assert all(len(each.text) <= MAX_TEXT for each in told if isinstance(each, Chunk))
    assert len(text_of(told).replace("\n", "")) == 60 * 9999 + 300_000


async def test_a_line_that_gets_no_end_is_shown_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.1)
    shown = asyncio.Event()

    async def asks_and_waits() -> AsyncGenerator[LogPiece]:
        yield LogPiece(b"Password: ", "1")
        await shown.wait()
        yield LogPiece(b"granted\n", "2")

    told = await played(asks_and_waits, shown=shown)
    assert text_of(told) == "Password: \ngranted\n"


async def test_who_follows_a_pod_that_has_not_started_sees_it_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ASK_AGAIN_SECONDS", 0.01)
    waiting = NoLogs("ContainerCreating", not_started=True)
    told = await played(writes(waiting), writes(waiting), writes(b"here\n"))
    assert text_of(told) == "here\n"
    single = await played(writes(waiting), follow=False)
    assert (end_of(single).reason, end_of(single).message) == (
        StreamEndReason.NOT_STARTED,
        "ContainerCreating",
    )


async def test_a_log_that_breaks_off_is_read_on_from_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ASK_AGAIN_SECONDS", 0.01)
    pods = Pods(writes(b"one\n", OSError("reset")), writes(b"two\n"))
    told: list[Chunk | StreamEnd] = []

    async def send(message: Chunk | StreamEnd) -> None:
        told.append(message)

    ask = Ask(stream=1, attempt=UUID(int=1), pod=0, follow=True, tail_bytes=0)
    await Stream(ask, cast(Backend, pods), send, cluster_bucket()).run()
    assert text_of(told) == "one\ntwo\n"
    assert pods.after == ["", "0001"]


async def test_a_log_that_cannot_be_read_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ASK_AGAIN_SECONDS", 0.01)
    told = await played(*[writes(OSError("no route\x00"))] * 6)
    assert end_of(told).reason is StreamEndReason.FAILED
    assert "no route" in end_of(told).message
    gone = await played(writes(NoLogs("It is gone.")))
    assert (end_of(gone).reason, end_of(gone).message) == (StreamEndReason.GONE, "It is gone.")
