"""What attempts say of themselves is stored once, bounded, and what cannot be so is said."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.models import User
from chamber.notes import BadNote, Note, NoteKind, NoteProblem
from teams.models import Pool, Team
from workloads import noting
from workloads.lifecycle.reports import AGENT
from workloads.models import Attempt, AttemptNotes, Checkpoint, EventKind, Workload
from workloads.noting import HeardNote, SaidNotes
from workloads.tests.factories import make_workload, preempt, start

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def attempt(team: Team, owner: User, pool: Pool) -> Attempt:
    """Return an attempt that has run for an hour."""
    then = NOW - timedelta(hours=1)
    return start(make_workload(team, owner, submitted_at=then), pool, at=then)


def take(
    attempt: Attempt, *notes: Note, heard: datetime = NOW, at: datetime = NOW, **more: object
) -> list[BadNote]:
    said = SaidNotes([HeardNote(note, heard) for note in notes], **more)  # type: ignore[arg-type]
    with transaction.atomic():
        return noting.take_notes({attempt.pk: said}, by=AGENT, at=at).get(attempt.pk, [])


def step(number: int, **more: object) -> Note:
    return Note(NoteKind.CHECKPOINT, step=number, **more)  # type: ignore[arg-type]


def part(millionths: int) -> Note:
    return Note(NoteKind.PROGRESS, millionths=millionths)


def told(attempt: Attempt) -> list[str]:
    events = Workload.objects.get(attempts=attempt).events.filter(kind=EventKind.NOTE)
    return list(events.order_by("sequence").values_list("message", flat=True))


def test_the_latest_of_each_kind_is_kept(attempt: Attempt) -> None:
    earlier = NOW - timedelta(minutes=10)
    assert take(attempt, step(100), part(100_000), heard=earlier) == []
    assert (
        take(attempt, step(200), part(150_000), Note(NoteKind.LINK, name="tb", url="https://tb.example"))
        == []
    )
    attempt.refresh_from_db()
    stored = attempt.notes
    assert (attempt.checkpointed_at, stored.step, stored.checkpoints) == (NOW, 200, 2)
    assert (stored.progress_millionths, stored.progress_at) == (150_000, NOW)
    assert (stored.first_progress_millionths, stored.first_progress_at) == (100_000, earlier)
    assert stored.links == {"tb": "https://tb.example"}
    assert list(attempt.checkpoints.values_list("at", "step")) == [(earlier, 100), (NOW, 200)]


def test_what_comes_twice_or_late_changes_nothing(attempt: Attempt) -> None:
    take(attempt, step(200), part(500_000))
    before = AttemptNotes.objects.values().get()
    take(attempt, step(200), part(500_000))
    take(attempt, step(100), part(100_000), heard=NOW - timedelta(minutes=1))
    assert AttemptNotes.objects.values().get() == before
    assert Checkpoint.objects.count() == 1


def test_a_note_of_the_future_by_the_clusters_clock_counts_from_now(attempt: Attempt) -> None:
    take(attempt, step(1), part(1), heard=NOW + timedelta(hours=1))
    attempt.refresh_from_db()
    assert attempt.checkpointed_at == attempt.notes.progress_at == NOW


@pytest.mark.parametrize(
    ("note", "problem", "said"),
    [
        (step(7, at=NOW + timedelta(seconds=90)), "future", "90 s in the future; at most 60 s are allowed."),
        (step(7, at=NOW - timedelta(hours=2)), "other-attempt", "before attempt 1 began at"),
        (step(7, attempt=3), "other-attempt", "is said to be of attempt 3; this is attempt 1."),
    ],
)
def test_a_checkpoint_of_the_future_or_of_another_attempt_is_told_once(
    attempt: Attempt, note: Note, problem: str, said: str
) -> None:
    for _ in range(3):
        (bad,) = take(attempt, note)
        assert (bad.problem, said in bad.message) == (problem, True)
    attempt.refresh_from_db()
    assert attempt.checkpointed_at is None
    assert not Checkpoint.objects.exists()
    assert (attempt.notes.refused, attempt.notes.problems) == (3, [problem])
    (message,) = told(attempt)
    assert said in message


def test_a_time_that_is_a_little_ahead_is_now(attempt: Attempt) -> None:
    assert take(attempt, step(7, at=NOW + timedelta(seconds=30), attempt=1)) == []
    attempt.refresh_from_db()
    assert attempt.checkpointed_at == NOW


def test_what_the_agent_could_not_read_is_counted_and_told(attempt: Attempt) -> None:
    bad = BadNote(NoteProblem.PROGRESS, "The progress is '3'; it must be a part of 1.")
    for _ in range(5):
        take(attempt, bad=[bad], refused=1000)
    assert attempt.notes.refused == 5000
    assert told(attempt) == [
        "A note was not taken. The progress is '3'; it must be a part of 1. Further ones like it are only counted."
    ]


def test_events_tell_of_checkpoints_now_and_then(attempt: Attempt) -> None:
    for minute in range(31):
        moment = NOW + timedelta(minutes=minute)
        take(attempt, step(minute), heard=moment, at=moment)
    assert told(attempt) == [f"Checkpoint at step {minute}." for minute in (0, 10, 20, 30)]
    row = Workload.objects.get(attempts=attempt)
    assert sorted(row.events.values_list("sequence", flat=True)) == list(range(1, row.last_event + 1))


def test_of_many_checkpoints_a_bounded_number_is_kept(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noting, "MOST_CHECKPOINTS", 16)
    for second in range(200):
        moment = NOW + timedelta(seconds=second)
        take(attempt, step(second), heard=moment, at=moment)
    steps = list(Checkpoint.objects.order_by("at").values_list("step", flat=True))
    assert len(steps) <= 20
    assert (steps[0], steps[-1]) == (0, 199)
    assert attempt.notes.checkpoints == 200


def test_links_are_bounded(attempt: Attempt) -> None:
    for number in range(noting.MOST_LINKS):
        assert not take(attempt, Note(NoteKind.LINK, name=f"l{number}", url="https://x.example"))
    (bad,) = take(attempt, Note(NoteKind.LINK, name="more", url="https://x.example"))
    assert bad.message == "The link 'more' is one too many: an attempt has at most 10."
    assert not take(attempt, Note(NoteKind.LINK, name="l3", url="https://y.example"))
    assert AttemptNotes.objects.get().links["l3"] == "https://y.example"


def test_a_stopped_attempt_may_save_until_its_pods_are_gone(attempt: Attempt) -> None:
    preempt(Workload.objects.get(attempts=attempt))
    take(attempt, step(9))
    attempt.refresh_from_db()
    assert attempt.checkpointed_at == NOW
    Attempt.objects.update(released_at=NOW)
    take(attempt, step(9), at=NOW + timedelta(seconds=90), heard=NOW + timedelta(seconds=1))
    assert AttemptNotes.objects.get().checkpoints == 2
    with transaction.atomic():
        said = {attempt.pk: SaidNotes([HeardNote(step(10), NOW + timedelta(1))]), uuid4(): SaidNotes()}
        assert noting.take_notes(said, by=AGENT, at=NOW + timedelta(1)) == {}
    assert AttemptNotes.objects.get().step == 9


def test_the_queries_do_not_grow_with_the_attempts(team: Team, owner: User, pool: Pool) -> None:
    def queries(count: int) -> int:
        said: dict[UUID, SaidNotes] = {}
        for _ in range(count):
            attempt = start(make_workload(team, owner), pool)
            said[attempt.pk] = SaidNotes([HeardNote(step(5), NOW), HeardNote(part(5), NOW)])
        with transaction.atomic(), CaptureQueriesContext(connection) as seen:
            noting.take_notes(said, by=AGENT, at=timezone.now())
        return len(seen)

    assert queries(2) == queries(9) <= 11


def test_the_pages_of_the_workload_hear_of_it_and_lists_do_not(
    attempt: Attempt, rung: list[str], django_capture_on_commit_callbacks: object
) -> None:
    take(attempt, step(1))  # with an event
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        take(attempt, part(5), heard=NOW, at=NOW)
    assert set(rung) == {f"workload:{attempt.workload_id}"}
