"""An Idempotency-Key: the same request once, another one refused, in a race too."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chamber.errors import Conflict, Refusal
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from workloads.models import SubmissionKey, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

REQUEST = SubmissionRequest(name="bert", team="nlp", image="train:1")


def send(user: User, key: str = "k", body: str = "a") -> list[Workload]:
    return submit(by=actor(user), requests=[REQUEST, REQUEST], key=key, body_sha256=body)


def test_the_same_body_gives_the_first_answer_again(owner: User, pool: Pool, team: Team) -> None:
    first = send(owner)
    team.archived_at = timezone.now()
    team.save()
    assert send(owner) == first
    assert Workload.objects.count() == 2


def test_another_body_is_refused(owner: User, pool: Pool) -> None:
    send(owner)
    with pytest.raises(Conflict, match="was used with another body") as refused:
        send(owner, body="b")
    assert (refused.value.status, Workload.objects.count()) == (409, 2)


def test_a_key_belongs_to_its_person(team: Team, owner: User, pool: Pool) -> None:
    assert send(owner) != send(member(team, Role.RESEARCHER), body="b")


def test_a_key_is_forgotten_after_a_day(owner: User, pool: Pool) -> None:
    first = send(owner)
    SubmissionKey.objects.update(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    assert send(owner, body="b") != first
    assert SubmissionKey.objects.get().body_sha256 == "b"


def test_what_was_refused_may_be_sent_again_under_its_key(owner: User, pool: Pool) -> None:
    wrong = SubmissionRequest(name="bert", team="nlp", image="train:1", priority=99)
    with pytest.raises(Refusal):
        submit(by=actor(owner), requests=[wrong], key="k", body_sha256="a")
    assert send(owner, body="b")


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_has_a_length(owner: User, pool: Pool, key: str) -> None:
    with pytest.raises(Refusal, match="1 to 200"):
        send(owner, key=key)


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Do all at once in threads with connections of their own; return what each gave or raised."""
    barrier = threading.Barrier(len(acts))
    answers: list[Any] = [None] * len(acts)

    def run(index: int) -> None:
        try:
            barrier.wait()
            answers[index] = acts[index]()
        except Exception as error:
            answers[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.django_db(transaction=True)
def test_sent_twice_at_once_it_is_submitted_once() -> None:
    make_pool("Main")
    user = member(make_team(make_org(), "NLP"), Role.RESEARCHER)
    for round_ in range(5):
        answers = together(*[lambda key=f"k{round_}": send(user, key=key)] * 4)
        assert all(answer == answers[0] for answer in answers), answers
        assert Workload.objects.count() == 2 * (round_ + 1)
