"""Notes of a cluster's agent: taken for its own attempts, and refused for those of others."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from agentlink import noted
from agentlink.protocol import ErrorCode, NoteReport, NotesReport, RefusedNotes
from agentlink.tests.agents import Hand, admit, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.notes import NoteKind, NoteProblem
from workloads.models import Attempt, AttemptNotes, EventKind, Workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(place: Place) -> Attempt:
    found = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    began = timezone.now() - timedelta(hours=1)
    Attempt.objects.filter(pk=found.pk).update(queued_at=began)
    return found


def note(attempt: Attempt, step: int, *, ago: float = 0) -> NoteReport:
    at = timezone.now() - timedelta(seconds=ago)
    return NoteReport(attempt=attempt.pk, at=at, kind=NoteKind.CHECKPOINT, step=step)


def test_what_its_agent_says_is_taken_in_the_order_of_its_times(place: Place, attempt: Attempt) -> None:
    hand = Hand(place.cluster)
    refused = RefusedNotes(attempt=attempt.pk, problem=NoteProblem.STEP, message="The step is 'x'.", count=40)
    told = NotesReport(notes=(note(attempt, 2), note(attempt, 1, ago=60)), refused=(refused,))
    assert hand.say(told).messages == []
    stored = AttemptNotes.objects.get(attempt=attempt.pk)
    assert (stored.step, stored.checkpoints, stored.refused) == (2, 2, 40)
    events = Workload.objects.get(attempts=attempt).events.filter(kind=EventKind.NOTE)
    assert [(event.message, event.actor, event.via) for event in events] == [
        ("Checkpoint at step 2.", "agent of east", "agent"),
        (
            "A note was not taken. The step is 'x'. Further ones like it are only counted.",
            "agent of east",
            "agent",
        ),
    ]


def test_notes_of_other_clusters_attempts_are_refused_and_the_rest_is_taken(
    place: Place, attempt: Attempt
) -> None:
    west = make_cluster("west")
    make_node(west, "n1", gpus=1, pool=place.pool)
    foreign = admit(place.team, place.owner, place.pool, west, devices_of(west, "n1"))
    unknown = NoteReport(attempt=uuid.uuid4(), at=timezone.now(), kind=NoteKind.PROGRESS, millionths=3)
    told = NotesReport(notes=(note(foreign, 5), unknown, note(attempt, 6)))
    (error,) = noted.take(place.cluster, told, now=timezone.now())
    assert error.code is ErrorCode.UNKNOWN_ATTEMPT
    assert "and 1 more" in error.message
    assert list(AttemptNotes.objects.values_list("attempt", "step")) == [(attempt.pk, 6)]
