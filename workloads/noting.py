"""Taking in what attempts say of themselves: checkpoints, progress and links.

Every note may come twice or late: an older one than the stored changes nothing. An attempt may say something until its
pods are gone, which is after its end where it is stopped, and be heard a little later: what it saves last is what the
next one goes on from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from chamber import live
from chamber.bulk import update_each
from chamber.notes import BadNote, Note, NoteKind, NoteProblem, shown
from chamber.words import clock_time
from teams.actors import Actor
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import lock
from workloads.models import Attempt, AttemptNotes, Checkpoint, EventKind, Workload

MOST_AHEAD = timedelta(seconds=60)
"""How far in the future a time may be that a workload names: clocks differ."""
LATEST = timedelta(minutes=2)
"""How long after its pods are gone an agent may tell what an attempt said last."""
MOST_LINKS = 10
EVENT_EVERY = timedelta(minutes=10)
"""How often an event tells of a checkpoint at most; each is on the chart."""
MOST_CHECKPOINTS = 400
"""Checkpoints of one attempt that are kept: of more, every other one of the older half is let go of."""


@dataclass(frozen=True, slots=True)
class HeardNote:
    """A note, and when it was heard: by the clock of the cluster, or of the server."""

    note: Note
    at: datetime


@dataclass(frozen=True, slots=True)
class SaidNotes:
    """What one attempt said since the last time. `refused` counts also those whose problem is not told."""

    notes: Sequence[HeardNote] = ()
    bad: Sequence[BadNote] = ()
    refused: int = 0


def take_notes(said: Mapping[UUID, SaidNotes], *, by: Actor, at: datetime) -> dict[UUID, list[BadNote]]:
    """Store what attempts said; return what was wrong, by attempt (at most 11 queries).

    Attempts of which no pod is left for long are not in the answer. The caller holds the transaction.
    """
    there = Attempt.objects.filter(
        Q(released_at__isnull=True) | Q(released_at__gt=at - LATEST), pk__in=list(said)
    )
    rows = lock(there.values_list("workload", flat=True))
    attempts = [attempt for attempt in there.order_by("pk") if attempt.workload_id in rows]
    known = AttemptNotes.objects.in_bulk([attempt.pk for attempt in attempts])
    taken = [
        _NoteTaking(
            attempt, rows[attempt.workload_id], known.get(attempt.pk) or AttemptNotes(attempt=attempt), at
        )
        for attempt in attempts
    ]
    journal = Journal(by=by, at=at, rows=rows.values())
    for taking in taken:
        taking.take(said[taking.attempt.pk])
        taking.tell(journal)
    _store([taking for taking in taken if taking.changed])
    journal.write()
    if changed := [taking for taking in taken if taking.changed]:
        live.announce(*(f"workload:{taking.attempt.workload_id}" for taking in changed))
    return {taking.attempt.pk: taking.bad for taking in taken}


@dataclass(slots=True)
class _NoteTaking:
    """What is made of the notes of one attempt, whose workload is locked."""

    attempt: Attempt
    row: Workload
    stored: AttemptNotes
    now: datetime
    changed: bool = False
    saved: list[Checkpoint] = field(default_factory=list)
    bad: list[BadNote] = field(default_factory=list)

    def take(self, said: SaidNotes) -> None:
        """Take in the notes in the order in which they were heard."""
        for heard in said.notes:
            taken = self._take(heard.note, min(heard.at, self.now))
            if isinstance(taken, BadNote):
                self.bad.append(taken)
            else:
                self.changed |= taken
        refused = max(said.refused, len(said.bad)) + len(self.bad)
        self.bad = [*said.bad, *self.bad]
        self.stored.refused += refused
        self.changed |= refused > 0

    def _take(self, note: Note, heard_at: datetime) -> bool | BadNote:
        if note.kind is NoteKind.CHECKPOINT:
            return self._checkpoint(note, heard_at)
        if note.kind is NoteKind.PROGRESS:
            return self._progress(note, heard_at)
        return self._link(note)

    def _checkpoint(self, note: Note, heard_at: datetime) -> bool | BadNote:
        if problem := self._not_its_own(note):
            return problem
        at = min(note.at or heard_at, self.now)
        if self.attempt.checkpointed_at is not None and at <= self.attempt.checkpointed_at:
            return False
        self.attempt.checkpointed_at = at
        self.stored.step, self.stored.checkpoints = note.step, self.stored.checkpoints + 1
        self.saved.append(Checkpoint(attempt=self.attempt, at=at, step=note.step or 0))
        return True

    def _not_its_own(self, note: Note) -> BadNote | None:
        """Return why a checkpoint cannot be one of this attempt."""
        number, began_at = self.attempt.number, self.attempt.starting_at or self.attempt.queued_at
        what = f"The checkpoint at step {note.step}"
        if note.attempt is not None and note.attempt != number:
            text = f"{what} is said to be of attempt {note.attempt}; this is attempt {number}."
            return BadNote(NoteProblem.OTHER_ATTEMPT, text)
        if note.at is None:
            return None
        told = clock_time(note.at, self.now)
        if note.at > self.now + MOST_AHEAD:
            ahead = (note.at - self.now) // timedelta(seconds=1)
            text = (
                f"{what} is of {told}, {ahead:,} s in the future; at most {MOST_AHEAD.seconds} s are allowed."
            )
            return BadNote(NoteProblem.FUTURE, text)
        if note.at < began_at - MOST_AHEAD:
            began = clock_time(began_at, self.now)
            text = f"{what} is of {told}, before attempt {number} began at {began}: it is of another attempt."
            return BadNote(NoteProblem.OTHER_ATTEMPT, text)
        return None

    def _progress(self, note: Note, at: datetime) -> bool:
        stored = self.stored
        if note.millionths == stored.progress_millionths:
            return False
        if stored.progress_at is not None and at <= stored.progress_at:
            return False
        begins_anew = (
            stored.progress_millionths is None or (note.millionths or 0) < stored.progress_millionths
        )
        stored.progress_millionths, stored.progress_at = note.millionths, at
        if begins_anew:  # from here the pace is counted
            stored.first_progress_millionths, stored.first_progress_at = note.millionths, at
        return True

    def _link(self, note: Note) -> bool | BadNote:
        links = self.stored.links
        if links.get(note.name) == note.url:
            return False
        if note.name not in links and len(links) >= MOST_LINKS:
            text = f"The link {shown(note.name)} is one too many: an attempt has at most {MOST_LINKS}."
            return BadNote(NoteProblem.TOO_MANY, text)
        self.stored.links = {**links, note.name: note.url}
        return True

    def tell(self, journal: Journal) -> None:
        """Note events: of checkpoints now and then, of each kind of problem once."""
        stored, number = self.stored, self.attempt.number
        if self.saved and (stored.event_at is None or journal.at - stored.event_at >= EVENT_EVERY):
            stored.event_at, last = journal.at, self.saved[-1]
            data = {"step": last.step, "checkpointed_at": last.at.isoformat()}
            journal.add(
                self.row,
                EventKind.NOTE,
                f"Checkpoint at step {last.step:,}.",
                attempt_number=number,
                data=data,
            )
        for bad in self.bad:
            if bad.problem not in stored.problems:
                stored.problems = [*stored.problems, bad.problem]
                text = f"A note was not taken. {bad.message} Further ones like it are only counted."
                journal.add(
                    self.row, EventKind.NOTE, text, attempt_number=number, data={"problem": bad.problem}
                )


STORED = (
    "step", "checkpoints", "event_at", "progress_millionths", "progress_at", "first_progress_millionths",
    "first_progress_at", "links", "refused", "problems",
)  # fmt: skip


def _store(taken: Sequence[_NoteTaking]) -> None:
    """Write what was taken (nothing where nothing was)."""
    if not taken:
        return
    AttemptNotes.objects.bulk_create(
        [taking.stored for taking in taken],
        update_conflicts=True,
        unique_fields=["attempt"],
        update_fields=STORED,
    )
    saving = [taking for taking in taken if taking.saved]
    update_each([taking.attempt for taking in saving], ["checkpointed_at"])
    Checkpoint.objects.bulk_create(
        [each for taking in saving for each in taking.saved], ignore_conflicts=True
    )
    every = MOST_CHECKPOINTS // 4
    _thin(taking.attempt.pk for taking in saving if taking.stored.checkpoints % every < len(taking.saved))


def _thin(attempts: Iterable[UUID]) -> None:
    """Let go of every other one of the older half of the checkpoints of attempts that have many."""
    for attempt in attempts:
        kept = Checkpoint.objects.filter(attempt=attempt).order_by("at")
        ids = list(kept.values_list("pk", flat=True))
        if len(ids) >= MOST_CHECKPOINTS:
            Checkpoint.objects.filter(pk__in=ids[1 : len(ids) // 2 : 2]).delete()
