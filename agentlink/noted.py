"""Taking in what agents read of attempts' notes. What becomes of a note is in `workloads.noting`."""

from collections import defaultdict
from datetime import datetime
from uuid import UUID

from django.db import transaction

from agentlink.models import Assignment, Cluster
from agentlink.protocol import Error, ErrorCode, NoteReport, NotesReport, RefusedNotes
from chamber.notes import BadNote, Note
from teams.actors import Actor
from workloads import noting
from workloads.noting import HeardNote, SaidNotes


def take(cluster: Cluster, message: NotesReport, *, now: datetime) -> list[Error]:
    """Take in notes of a cluster's attempts; return what was wrong with the message.

    Those of attempts whose pods are gone, and those that are known, change nothing.
    """
    notes: dict[UUID, list[NoteReport]] = defaultdict(list)
    refused: dict[UUID, list[RefusedNotes]] = defaultdict(list)
    for note in message.notes:
        notes[note.attempt].append(note)
    for problem in message.refused:
        refused[problem.attempt].append(problem)
    told = notes.keys() | refused.keys()
    ours = Assignment.objects.filter(cluster=cluster.pk, attempt__in=told)
    known = set(ours.values_list("attempt", flat=True))
    said = {attempt: _said(notes[attempt], refused[attempt]) for attempt in sorted(known)}
    if said:
        with transaction.atomic():
            noting.take_notes(said, by=Actor.agent(cluster.name), at=now)
    foreign = sorted(map(str, told - known))
    return [_not_ours(foreign)] if foreign else []


def _said(notes: list[NoteReport], refused: list[RefusedNotes]) -> SaidNotes:
    heard = [HeardNote(_note(note), note.at) for note in sorted(notes, key=lambda note: note.at)]
    bad = [BadNote(each.problem, each.message) for each in refused]
    return SaidNotes(heard, bad, sum(each.count for each in refused))


def _note(told: NoteReport) -> Note:
    return Note(
        told.kind,
        step=told.step,
        millionths=told.millionths,
        name=told.name,
        url=told.url,
        at=told.said_at,
        attempt=told.of_attempt,
    )


def _not_ours(attempts: list[str]) -> Error:
    others = f" and {len(attempts) - 1} more" if len(attempts) > 1 else ""
    return Error(
        code=ErrorCode.UNKNOWN_ATTEMPT,
        message=f"Notes of attempts that were never assigned here: {attempts[0]}{others}.",
        about="notes",
    )
