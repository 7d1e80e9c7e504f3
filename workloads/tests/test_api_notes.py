"""What pods say by a call with their attempt's own token: all of it is taken, or nothing; and the token does nothing
else.
"""

import logging
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.models import User
from teams.models import Pool, Team
from workloads.attempt_tokens import attempt_in, token_of
from workloads.models import Attempt, AttemptNotes, EventKind, Workload
from workloads.tests.factories import make_workload, preempt, start

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(team: Team, owner: User, pool: Pool) -> Attempt:
    then = timezone.now() - timedelta(hours=1)
    return start(make_workload(team, owner, submitted_at=then), pool, at=then)


def say(attempt: Attempt, body: Any, *, token: str | None = None, to: object = None, **headers: str) -> Any:
    if token is None:
        token = token_of(attempt.pk)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    address = f"/api/v1/attempts/{to or attempt.pk}/notes/"
    return Client().post(address, body, content_type="application/json", headers=headers)


def test_all_that_is_said_is_stored_and_answered(attempt: Attempt) -> None:
    at = timezone.now() - timedelta(minutes=3)
    body = {
        "checkpoint": {"step": 1200, "at": at.isoformat(), "attempt": 1},
        "progress": 0.42,
        "links": {"wandb": "https://wandb.example/run"},
    }
    answer = say(attempt, body)
    assert answer.status_code == 200
    told = answer.json()
    assert told.pop("progress_at") is not None
    assert (told.pop("ends_at"), told.pop("unsaved_since")) == (None, told["checkpointed_at"])
    assert told == {
        "checkpointed_at": at.isoformat().replace("+00:00", "Z"),
        "step": 1200,
        "checkpoints": 1,
        "progress": 0.42,
        "links": {"wandb": "https://wandb.example/run"},
        "refused": 0,
    }
    attempt.refresh_from_db()
    assert attempt.checkpointed_at == at
    event = Workload.objects.get(attempts=attempt).events.filter(kind=EventKind.NOTE).get()
    assert (event.message, event.actor, event.via) == ("Checkpoint at step 1,200.", "its pods", "api")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"progress": 1.5, "checkpoint": {"step": 3}}, "progress", "is 1.5; it must be a part of 1"),
        ({"progress": "x"}, "progress", "is 'x'"),
        ({"checkpoint": {"step": -1}}, "checkpoint", "is -1; it must be a whole number"),
        ({"checkpoint": {}}, "checkpoint", "is ''; it must be a whole number"),
        ({"checkpoint": {"step": 3, "at": "noon"}}, "checkpoint", "is 'noon'; it must have its date"),
        ({"checkpoint": {"step": 3, "attempt": 2}}, "checkpoint", "of attempt 2; this is attempt 1."),
        (
            {"checkpoint": {"step": 3, "at": "2999-01-01T00:00:00Z"}},
            "checkpoint",
            "in the future; at most 60 s",
        ),
        ({"links": {"a": "ftp://x"}}, "links", "must begin with https://"),
    ],
)
def test_what_is_wrong_is_said_told_as_an_event_and_nothing_is_stored(
    attempt: Attempt, body: Any, field: str, said: str
) -> None:
    for _ in range(2):
        answer = say(attempt, body)
        assert answer.status_code == 422
        assert said in answer.json()["errors"][field]
    attempt.refresh_from_db()
    stored = attempt.notes
    assert (attempt.checkpointed_at, stored.step, stored.progress_at, stored.links) == (None, None, None, {})
    assert stored.refused == 2
    event = Workload.objects.get(attempts=attempt).events.filter(kind=EventKind.NOTE).get()
    assert said in event.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "says nothing: give one of checkpoint, progress, links."),
        ([], "The body is []"),
        ({"step": 3}, "There is no field 'step'."),
        ({"checkpoint": 3}, "checkpoint is 3"),
        ({"checkpoint": {"steps": 3}}, "There is no field 'steps'. Did you mean 'step'?"),
        (
            {"links": {f"l{n}": "https://x.example" for n in range(11)}},
            "has 11 entries; at most 10 are allowed.",
        ),
    ],
)
def test_a_body_that_is_none_is_refused(attempt: Attempt, body: Any, said: str) -> None:
    answer = say(attempt, body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert not AttemptNotes.objects.exists()


def test_a_token_speaks_for_its_own_attempt_alone(
    attempt: Attempt, team: Team, owner: User, pool: Pool
) -> None:
    other = start(make_workload(team, owner), pool)
    for to in (other.pk, uuid4()):
        answer = say(attempt, {"progress": 1}, to=to)
        assert answer.status_code == 403
        assert (
            answer.json()["detail"] == f"The token is not that of attempt {to}: it speaks for its own alone."
        )
    assert not AttemptNotes.objects.exists()


def test_a_token_opens_nothing_else(attempt: Attempt) -> None:
    headers = {"Authorization": f"Bearer {token_of(attempt.pk)}"}
    for path in ("/api/v1/me/", "/api/v1/workloads/", "/api/v1/teams/"):
        assert Client().get(path, headers=headers).status_code == 401
    assert Client().get("/", headers=headers).status_code == 302


def test_who_has_no_such_token_is_told_which(attempt: Attempt, client: Client, owner: User) -> None:
    assert "CHAMBER_NOTES_TOKEN" in say(attempt, {"progress": 1}, token="").json()["detail"]
    forged = token_of(attempt.pk)[:-1] + ("A" if token_of(attempt.pk)[-1] != "A" else "B")
    for token in (forged, "cht_", f"cht_{attempt.pk.hex}", "chb_x", "cht_" + "a" * 300, "cht_\u00e9"):
        answer = say(attempt, {"progress": 1}, token=token)
        assert answer.status_code == 401
    client.force_login(owner)
    path = f"/api/v1/attempts/{attempt.pk}/notes/"
    assert client.post(path, {"progress": 1}, content_type="application/json").status_code == 401


def test_a_token_ends_when_no_pod_is_left(attempt: Attempt) -> None:
    preempt(Workload.objects.get(attempts=attempt))
    assert say(attempt, {"checkpoint": {"step": 9}}).status_code == 200
    Attempt.objects.update(released_at=timezone.now())
    answer = say(attempt, {"checkpoint": {"step": 10}})
    assert answer.status_code == 401
    assert answer.json()["detail"] == "The token ended with its attempt, of which no pod is left."
    assert AttemptNotes.objects.get().step == 9


def test_tokens_outlive_a_change_of_the_secret_key_where_the_old_one_is_kept(settings: Settings) -> None:
    attempt_id = uuid4()
    token = token_of(attempt_id)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another" * 10
    assert attempt_in(token) == attempt_id
    settings.SECRET_KEY_FALLBACKS = []
    assert attempt_in(token) is None


def test_one_attempt_says_so_much_a_minute(attempt: Attempt, settings: Settings) -> None:
    settings.LIMITS = {**settings.LIMITS, "notes": 3}
    answers = [say(attempt, {"progress": number / 10}).status_code for number in range(5)]
    assert answers == [200, 200, 200, 429, 429]


def test_the_token_is_in_no_log(attempt: Attempt, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for body in ({"progress": 1}, {"progress": 7}, "{"):
        say(attempt, body)
    assert token_of(attempt.pk) not in caplog.text
