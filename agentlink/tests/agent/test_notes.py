"""What pods write of checkpoints and progress is read as it comes, bounded, and told the newest of each kind."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from agentlink.agent import notes
from agentlink.agent.backends.base import Backend, LogPiece, NoLogs, Observation
from agentlink.agent.link import Link
from agentlink.agent.notes import NoteReader
from agentlink.protocol import (
    DesiredAttempt,
    Message,
    NoteReport,
    NotesReport,
    PodReport,
    PodState,
    RefusedNotes,
    ReportedPhase,
)
from chamber.notes import NoteKind, NoteProblem

ATTEMPT, OTHER = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)


class Pods:
    """What pods have written; those that ended are read to their end."""

    def __init__(self) -> None:
        self.written: dict[tuple[UUID, int], list[LogPiece]] = {}
        self.ended: set[tuple[UUID, int]] = set()
        self.reads: list[tuple[UUID, int, str]] = []
        self.breaks = 0

    def write(self, *lines: str, attempt: UUID = ATTEMPT, pod: int = 0, at: datetime | None = None) -> None:
        held = self.written.setdefault((attempt, pod), [])
        held += [LogPiece(f"{line}\n".encode(), f"{len(held) + n:06}", at) for n, line in enumerate(lines, 1)]

    async def logs(self, attempt: UUID, pod: int, *, after: str, **_: Any) -> AsyncGenerator[LogPiece]:
        self.reads.append((attempt, pod, after))
        place = int(after or "0")
        if (attempt, pod) not in self.written:
            raise NoLogs("not yet", not_started=True)
        while True:
            for piece in self.written[attempt, pod][place:]:
                place += 1
                yield piece
                if self.breaks:
                    self.breaks -= 1
                    raise OSError("broken")
            if (attempt, pod) in self.ended:
                return
            await asyncio.sleep(0.005)


class Heard:
    """A link that keeps what is sent over it."""

    def __init__(self) -> None:
        self.messages: list[NotesReport] = []

    async def send(self, messages: Sequence[Message]) -> None:
        self.messages += [message for message in messages if isinstance(message, NotesReport)]

    @property
    def notes(self) -> list[NoteReport]:
        return [note for message in self.messages for note in message.notes]

    @property
    def refused(self) -> list[RefusedNotes]:
        return [problem for message in self.messages for problem in message.refused]


@pytest.fixture(autouse=True)
def hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "TELL_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(notes, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(notes, "AGAIN_SECONDS", 0.01)


@pytest.fixture
def pods() -> Pods:
    return Pods()


@pytest.fixture
def heard() -> Heard:
    return Heard()


def asking(attempt: UUID = ATTEMPT, *, read_notes: bool = True) -> DesiredAttempt:
    return DesiredAttempt(
        workload=attempt, slug="w", attempt=attempt, number=1, pods=(), let_go=True, image="i", grace_seconds=1,
        read_notes=read_notes,
    )  # fmt: skip


def seen(attempt: UUID = ATTEMPT, *running: int) -> Observation:
    states = tuple(PodReport(index=index, node="n", state=PodState.RUNNING) for index in running)
    phase = ReportedPhase.RUNNING if running else ReportedPhase.GONE
    return Observation(workload=attempt, attempt=attempt, number=1, phase=phase, pods=states)


def over(*pods: PodReport) -> Observation:
    return Observation(workload=ATTEMPT, attempt=ATTEMPT, number=1, phase=ReportedPhase.SUCCEEDED, pods=pods)


@contextmanager
def telling(reader: NoteReader, heard: Heard, greeted: Callable[[], bool] = lambda: True) -> Iterator[None]:
    task = asyncio.create_task(reader.tell(cast("Link", heard), greeted))
    try:
        yield
    finally:
        task.cancel()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def reader_of(pods: Pods) -> NoteReader:
    return NoteReader(cast("Backend", pods), clock=lambda: NOW)


def steps(heard: Heard) -> list[int | None]:
    return [note.step for note in heard.notes]


async def test_only_those_are_read_that_ask_for_it(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.write("::chamber checkpoint step=1::")
    pods.write("::chamber checkpoint step=2::", attempt=OTHER)
    with telling(reader, heard):
        reader.observe([seen(ATTEMPT, 0), seen(OTHER, 0)])
        reader.expect([asking(), asking(OTHER, read_notes=False)])
        await until(lambda: heard.notes)
    assert [(note.attempt, note.kind, note.step, note.at) for note in heard.notes] == [
        (ATTEMPT, NoteKind.CHECKPOINT, 1, NOW)
    ]
    assert [attempt for attempt, _, _ in pods.reads] == [ATTEMPT]
    await reader.close()


async def test_the_pod_of_the_lowest_index_that_runs_is_read(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    for pod in (1, 2):
        pods.write(f"::chamber checkpoint step={pod}::", pod=pod)
    reader.expect([asking()])
    with telling(reader, heard):
        reader.observe([seen(ATTEMPT, 1, 2)])
        await until(lambda: steps(heard) == [1])
        pods.ended.add((ATTEMPT, 1))
        await until(lambda: steps(heard) == [1, 2])
    await reader.close()


async def test_ten_thousand_lines_are_one_note_and_one_sentence(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.write(*(f"::chamber checkpoint step={number}::" for number in range(10_000)), at=NOW)
    pods.write("::chamber progress 7::")
    pods.ended.add((ATTEMPT, 0))
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    await until(lambda: not reader._reading)
    with telling(reader, heard):
        await until(lambda: heard.refused)
    assert steps(heard) == [9999]
    told = {problem.problem: (problem.count, problem.message) for problem in heard.refused}
    assert told[NoteProblem.TOO_MANY][1].startswith(
        "It wrote more than 100 notes within a second; the newest of each"
    )
    assert told[NoteProblem.PROGRESS] == (
        1,
        "The progress is '7'; it must be a part of 1, from 0 to 1, such as 0.42.",
    )
    assert len(heard.messages) == 2
    await reader.close()


async def test_it_tells_no_faster_than_its_pace(
    pods: Pods, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "TELL_EVERY_SECONDS", 0.2)
    reader = reader_of(pods)
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        for number in range(50):
            pods.write(f"::chamber checkpoint step={number}::")
            await asyncio.sleep(0.01)
        await until(lambda: 49 in steps(heard))
    assert len(heard.messages) <= 8
    await reader.close()


async def test_the_time_of_the_line_counts(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    at = datetime(2026, 3, 2, 11, tzinfo=UTC)
    pods.write("::chamber link tb=https://tb.example/::", "::chamber progress 0.5::", at=at)
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        await until(lambda: len(heard.notes) == 2)
    assert {note.at for note in heard.notes} == {at}
    await reader.close()


async def test_it_goes_on_where_reading_broke_off(pods: Pods, heard: Heard) -> None:
    pods.breaks = 2
    reader = reader_of(pods)
    pods.write("::chamber checkpoint step=1::", "::chamber checkpoint step=2::", "no note")
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        await until(lambda: 2 in steps(heard))
        await until(lambda: len(pods.reads) == 3)
    assert [after for _, _, after in pods.reads] == ["", "000001", "000002"]
    await reader.close()


async def test_a_stopped_attempt_is_read_to_its_end(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.write("running")
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        reader.expect([])  # preempted: it is not wanted any more
        pods.write("::chamber checkpoint step=77::")
        pods.ended.add((ATTEMPT, 0))
        reader.observe([seen(ATTEMPT)])
        await until(lambda: steps(heard) == [77])
    assert not reader._asked
    await reader.close()


async def test_one_that_ended_before_it_was_seen_to_run_is_read_once(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.write("::chamber progress 1::")
    pods.ended.add((ATTEMPT, 0))
    reader.expect([asking()])
    ended = PodReport(index=0, node="n", state=PodState.SUCCEEDED)
    with telling(reader, heard):
        reader.observe([over(ended)])
        await until(lambda: heard.notes)
        reader.observe([over(ended)])
        await asyncio.sleep(0.05)
    assert [note.millionths for note in heard.notes] == [1_000_000]
    assert len(pods.reads) == 1
    await reader.close()


async def test_what_may_not_have_arrived_is_told_by_the_next_conversation(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.write("::chamber checkpoint step=5::")
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        await until(lambda: heard.notes)
    pods.ended.add((ATTEMPT, 0))
    reader.observe([seen(ATTEMPT)])
    await until(lambda: not reader._reading)
    again = Heard()
    greeted = False
    with telling(reader, again, lambda: greeted):
        await asyncio.sleep(0.1)
        assert not again.messages
        greeted = True
        await until(lambda: again.notes)
    assert again.notes == heard.notes
    await reader.close()


async def test_what_it_says_last_comes_with_the_report_of_its_end(pods: Pods) -> None:
    reader = reader_of(pods)
    for attempt in (ATTEMPT, OTHER):
        pods.write("::chamber checkpoint step=5::", attempt=attempt)
        pods.ended.add((attempt, 0))
    reader.expect([asking(), asking(OTHER)])
    reader.observe([seen(ATTEMPT, 0), seen(OTHER, 0)])
    await until(lambda: not reader._reading)
    assert [note.attempt for message in reader.last_words({ATTEMPT}) for note in message.notes] == [ATTEMPT]
    assert reader.last_words({ATTEMPT}) == []
    assert [note.attempt for message in reader.last_words({OTHER}) for note in message.notes] == [OTHER]
    await reader.close()


async def test_what_annotations_say_is_taken_once_and_not_what_another_attempt_said(pods: Pods) -> None:
    reader = reader_of(pods)

    def annotated(*lines: str) -> Observation:
        return replace(seen(ATTEMPT, 0), created_at=NOW, notes=lines)

    def told() -> list[tuple[int | None, int | None]]:
        found = [note for message in reader.last_words({ATTEMPT}) for note in message.notes]
        return [(note.step, note.millionths) for note in found]

    old = "::chamber checkpoint step=3 at=2026-03-02T12:00:29Z::"
    reader.observe([annotated(old, "::chamber progress 0.5::")])
    assert told() == [(None, 500_000)]
    reader.observe([annotated(old, "::chamber progress 0.5::")])
    assert told() == []
    reader.observe([annotated("::chamber checkpoint step=4 at=2026-03-02T12:01:00Z::")])
    assert told() == [(4, None)]
    reader.observe([annotated("::chamber checkpoint step=5::")])
    (problem,) = [each for message in reader.last_words({ATTEMPT}) for each in message.refused]
    assert "has no time; write when it was" in problem.message
    assert pods.reads == []
    await reader.close()


async def test_more_than_it_reads_at_a_time_wait_and_are_told_so(
    pods: Pods, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "MOST_READ", 1)
    reader = reader_of(pods)
    pods.write("one")
    pods.write("::chamber checkpoint step=2::", attempt=OTHER)
    reader.expect([asking(), asking(OTHER)])
    with telling(reader, heard):
        for _ in range(3):
            reader.observe([seen(ATTEMPT, 0), seen(OTHER, 0)])
            await asyncio.sleep(0.02)
        await until(lambda: heard.refused)
        assert [(each.attempt, each.problem, each.count) for each in heard.refused] == [
            (OTHER, NoteProblem.NOT_READ, 1)
        ]
        assert "that of 1 workloads at a time" in heard.refused[0].message
        pods.ended.add((ATTEMPT, 0))
        reader.observe([seen(ATTEMPT)])
        await until(lambda: steps(heard) == [2])
    await reader.close()


async def test_binary_output_and_endless_lines_cost_nothing(pods: Pods, heard: Heard) -> None:
    reader = reader_of(pods)
    pods.written[ATTEMPT, 0] = [
        *(LogPiece(bytes(range(256)) * 64) for _ in range(200)),
        LogPiece(b"\n::cham"),
        LogPiece(b"ber checkpoint step=3"),
        LogPiece(b"::\n"),
    ]
    reader.expect([asking()])
    reader.observe([seen(ATTEMPT, 0)])
    with telling(reader, heard):
        await until(lambda: heard.messages)
    assert steps(heard) == [3]
    await reader.close()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
