"""Reads notes (`chamber.notes`) in the output of the attempts that ask for it, and tells the server the newest of each
kind, twice a second.

Of an attempt the running pod of the lowest index is read: as a rule the first process of a gang. It is read no faster
than `READ_A_SECOND`; however many notes a pod writes, the server is told one of each kind. An agent that begins reads
the last 1 MiB that a pod wrote: what the server has already, it knows by the time.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from agentlink import protocol
from agentlink.agent.backends.base import Backend, LogPiece, NoLogs, Observation
from agentlink.agent.lines import LineSplitter
from agentlink.agent.link import Link
from agentlink.bucket import TokenBucket
from agentlink.protocol import DesiredAttempt, NoteReport, NotesReport, PodState, RefusedNotes, ReportedPhase
from agentlink.protocol.logs import KEPT_BYTES
from chamber.notes import MARK, BadNote, Note, NoteKind, NoteProblem, Read, read_line

logger = logging.getLogger(__name__)

TELL_EVERY_SECONDS = 0.5
"""With the pace at which pages hear of changes, a second, a note is seen within two."""
GATHER_SECONDS = 0.2
READ_A_SECOND = 4 * 1024 * 1024
MOST_READ = 400
"""Attempts whose output is read at a time, each over a connection."""
MOST_A_SECOND = 100
"""Notes of one attempt: of more it is told that they are too many."""
AGAIN_SECONDS = 1.0
MOST_FAILURES = 5
MOST_ENDED = 500
"""Attempts that are over of which it is known what they said last: it may have to be told again."""
ENDED_PODS = frozenset({PodState.SUCCEEDED, PodState.FAILED})
WITHOUT_TIME = (
    "The annotation of a checkpoint has no time; write when it was, such as "
    "step=1200 at=2026-01-31T12:00:00Z."
)
_MARK = MARK.encode()


class NoteKey(NamedTuple):
    """What newer notes replace."""

    attempt: UUID
    kind: str
    name: str = ""


class _Heard:
    """What an attempt said: the newest of each kind, and what was wrong."""

    def __init__(self, attempt: UUID) -> None:
        self.attempt = attempt
        self.newest: dict[NoteKey, NoteReport] = {}
        self.refused: dict[NoteProblem, RefusedNotes] = {}
        self.pods: set[int] = set()
        """Which of its pods were read, or are."""
        self.waits = False
        """Whether it was told that others are read in its place."""
        self._second, self._in_second = 0, 0

    def take(self, read: Read, at: datetime) -> NoteKey | None:
        """Take in what a line held; return the key of a note that is new."""
        self._count(at)
        if isinstance(read, BadNote):
            self.refuse(read.problem, read.message)
            return None
        report = _report(self.attempt, read, at)
        key = NoteKey(self.attempt, read.kind, read.name)
        self.newest[key] = report
        return key

    def refuse(self, problem: NoteProblem, message: str) -> None:
        """Count what was wrong; the latest is told."""
        before = self.refused.get(problem)
        count = 1 if before is None else before.count + 1
        self.refused[problem] = RefusedNotes(
            attempt=self.attempt, problem=problem, message=message, count=count
        )

    def _count(self, at: datetime) -> None:
        second = int(at.timestamp())
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second == MOST_A_SECOND + 1:
            text = (
                f"It wrote more than {MOST_A_SECOND} notes within a second; the newest of each kind is taken, twice a "
                "second."
            )
            self.refuse(NoteProblem.TOO_MANY, text)


def _report(attempt: UUID, note: Note, at: datetime) -> NoteReport:
    return NoteReport(
        attempt=attempt,
        at=at,
        kind=note.kind,
        step=note.step,
        millionths=note.millionths,
        name=note.name,
        url=note.url,
        said_at=note.at,
        of_attempt=note.attempt,
    )


class NoteReader:
    """What is read of one cluster's attempts. Lives as long as the agent; connections come and go."""

    def __init__(
        self, backend: Backend, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._backend, self._clock = backend, clock
        self._asked: set[UUID] = set()
        self._running: dict[UUID, list[int]] = {}
        self._heard: dict[UUID, _Heard] = {}
        self._reading: dict[UUID, asyncio.Task[None]] = {}
        self._ended: OrderedDict[UUID, _Heard] = OrderedDict()
        self._untold: set[NoteKey] = set()
        self._written: dict[UUID, tuple[str, ...]] = {}
        self._news = asyncio.Event()

    async def close(self) -> None:
        """Stop reading."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What the agent is told and sees

    def expect(self, assignments: Iterable[DesiredAttempt]) -> None:
        """Take in which attempts ask to be read. One that is being stopped is read until its pods have ended."""
        asking = {wanted.attempt for wanted in assignments if wanted.read_notes}
        self._asked = asking | (self._asked & self._running.keys())
        for attempt in asking:
            self._begin(attempt)

    def observe(self, observations: Iterable[Observation]) -> None:
        """Take in what the cluster has of some attempts."""
        for seen in observations:
            self._take_written(seen)
            running = sorted(pod.index for pod in seen.pods if pod.state is PodState.RUNNING)
            if running:
                self._running[seen.attempt] = running
                self._begin(seen.attempt)
                continue
            # One that ended before it was seen to run is read as well.
            ended = sorted(pod.index for pod in seen.pods if pod.state in ENDED_PODS)
            known = seen.attempt in self._heard or seen.attempt in self._ended
            if ended and seen.attempt in self._asked and not known:
                self._begin_with(seen.attempt, ended[0])
            if self._running.pop(seen.attempt, None) is not None:
                self._leave(seen.attempt)

    def _take_written(self, seen: Observation) -> None:
        """Take in what is written on objects, once each. What was written for an attempt before this one is none of its
        notes; a checkpoint must say when it was, for what was read before a restart is read again.
        """
        new = [line for line in seen.notes if line not in self._written.get(seen.attempt, ())]
        if seen.notes:
            self._written[seen.attempt] = seen.notes
        elif seen.phase is ReportedPhase.GONE:
            self._written.pop(seen.attempt, None)
        now = self._clock()
        for line in new:
            read = read_line(line)
            if isinstance(read, Note) and read.kind is NoteKind.CHECKPOINT:
                if read.at is None:
                    read = BadNote(NoteProblem.TIME, WITHOUT_TIME)
                elif seen.created_at is None or read.at < seen.created_at:
                    continue
            if read is not None:
                heard = self._heard.setdefault(seen.attempt, _Heard(seen.attempt))
                key = heard.take(read, now)
                self._take([key] if key is not None else [])

    def _begin(self, attempt: UUID) -> None:
        """Begin to read an attempt that runs, asks for it, and has a pod that was not read yet."""
        pod = self._next_pod(attempt)
        if attempt in self._asked and attempt not in self._reading and pod is not None:
            self._begin_with(attempt, pod)

    def _next_pod(self, attempt: UUID) -> int | None:
        heard = self._heard.get(attempt)
        read = heard.pods if heard is not None else ()
        return next((index for index in self._running.get(attempt, ()) if index not in read), None)

    def _begin_with(self, attempt: UUID, pod: int) -> None:
        heard = self._heard.setdefault(attempt, _Heard(attempt))
        if len(self._reading) < MOST_READ:
            self._reading[attempt] = asyncio.create_task(self._read(heard, pod))
        elif not heard.waits:
            heard.waits = True
            text = f"Its output is not read for notes now: the agent reads that of {MOST_READ} workloads at a time."
            heard.refuse(NoteProblem.NOT_READ, text)
            self._news.set()

    def _leave(self, attempt: UUID) -> None:
        """Set aside what an attempt said that is over and read to its end."""
        if attempt in self._running or attempt in self._reading:
            return
        self._asked.discard(attempt)
        heard = self._heard.pop(attempt, None)
        if heard is not None:
            self._ended[attempt] = heard
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)

    # Reading

    async def _read(self, heard: _Heard, first: int) -> None:
        """Read the attempt's pods, one after the other, for as long as one runs."""
        attempt = heard.attempt
        pod: int | None = first
        try:
            while pod is not None:
                heard.pods.add(pod)
                await self._read_pod(heard, pod)
                pod = self._next_pod(attempt)
        finally:
            del self._reading[attempt]
            self._leave(attempt)
        waiting = [heard.attempt for heard in self._heard.values() if heard.waits]
        for other in waiting:
            self._begin(other)

    async def _read_pod(self, heard: _Heard, pod: int) -> None:
        """Read until the pod has ended; from where it was, where reading breaks off."""
        reading = _NotedPod(heard, self._clock)
        failures = 0
        while failures <= MOST_FAILURES:
            pieces = self._backend.logs(
                heard.attempt, pod, follow=True, tail_bytes=KEPT_BYTES, after=reading.cursor
            )
            try:
                async with aclosing(pieces):
                    async for piece in pieces:
                        self._take(reading.take(piece))
                        await reading.rest()
                self._take(reading.end())
                return
            except NoLogs as none:
                if not none.not_started:
                    return
            except Exception as error:
                failures += 1
                logger.warning(
                    "The notes of pod %d of %s are not read further: %s", pod, heard.attempt, error
                )
            await asyncio.sleep(AGAIN_SECONDS * (1 + failures))

    def _take(self, keys: Collection[NoteKey] | None) -> None:
        if keys is not None:
            self._untold.update(keys)
            self._news.set()

    # Telling

    def again(self) -> None:
        """Have all that is known told anew: what was told before may not have arrived."""
        for heard in self._all():
            self._untold.update(heard.newest)
        if self._untold:
            self._news.set()

    async def tell(self, link: Link, is_greeted: Callable[[], bool]) -> None:
        """Tell what is new, until cancelled."""
        self.again()
        while True:
            await self._news.wait()
            began = time.monotonic()
            await asyncio.sleep(GATHER_SECONDS)
            if is_greeted():
                self._news.clear()
                for message in protocol.notes_in_parts(*self._to_tell()):
                    await link.send([message])
            await asyncio.sleep(began + TELL_EVERY_SECONDS - time.monotonic())

    def last_words(self, attempts: Collection[UUID]) -> list[NotesReport]:
        """Return what these attempts, which are over, said and is not told yet; it counts as told."""
        return list(protocol.notes_in_parts(*self._to_tell(attempts))) if attempts else []

    def _to_tell(self, of: Collection[UUID] | None = None) -> tuple[list[NoteReport], list[RefusedNotes]]:
        """Return what was not told yet: of all, or of these attempts."""
        untold = {key for key in self._untold if of is None or key.attempt in of}
        self._untold -= untold
        every = [heard for heard in self._all() if of is None or heard.attempt in of]
        notes = [note for heard in every for key, note in heard.newest.items() if key in untold]
        refused = [each for heard in every for each in heard.refused.values()]
        for heard in every:
            heard.refused = {}
        return sorted(notes, key=lambda note: note.at), refused

    def _all(self) -> list[_Heard]:
        return [*self._ended.values(), *self._heard.values()]


class _NotedPod:
    """One pod's output, from its pieces to notes."""

    def __init__(self, heard: _Heard, clock: Callable[[], datetime]) -> None:
        self.cursor = ""
        self._heard, self._clock = heard, clock
        self._lines = LineSplitter()
        self._pace = TokenBucket(at_once=READ_A_SECOND, a_second=READ_A_SECOND)
        self._owed = 0.0

    def take(self, piece: LogPiece) -> list[NoteKey] | None:
        """Return the keys of the notes in what is whole by now; None where nothing was meant as one."""
        self.cursor = piece.cursor or self.cursor
        self._owed = self._pace.owe(len(piece.data))
        data = piece.data
        if _MARK not in data and not self._lines.unfinished:
            data = data[data.rfind(b"\n") + 1 :]  # most lines are none, and need not be taken apart
            if not data:
                return None
        return self._notes(self._lines.feed(data), piece.at)

    def end(self) -> list[NoteKey] | None:
        """Return the keys of the notes in a last line without an end."""
        return self._notes(self._lines.flush(), None)

    def _notes(self, lines: Iterable[str], at: datetime | None) -> list[NoteKey] | None:
        found = [read for line in lines if (read := read_line(line)) is not None]
        if not found:
            return None
        moment = at or self._clock()
        keys = [self._heard.take(read, moment) for read in found]
        return [key for key in keys if key is not None]

    async def rest(self) -> None:
        """Wait as long as it takes until more may be read; let others have their turn."""
        await asyncio.sleep(self._owed)
