"""What would become of a submission, while it is typed; nothing is written."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import recent
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload

URL = "scheduling:preview"


@pytest.fixture(autouse=True)
def _fresh_picture() -> None:
    recent.forget()


def ask(client: Client, user: User, **fields: str) -> str:
    client.force_login(user)
    before = Workload.objects.count()
    answer = client.post(reverse(URL), {"team": "research", "pods": "1", "gpus": "1", **fields})
    assert answer.status_code == 200
    assert Workload.objects.count() == before
    return answer.content.decode()


def full_of_elastic(acme: Acme, **fields: int) -> None:
    elastic = [make_workload(acme.research, acme.owner, **fields) for _ in range(12)]
    run_cycle()
    run_pods(elastic)


def test_what_fits_starts_now_and_says_where_and_as_what(acme: Acme, client: Client) -> None:
    text = ask(client, acme.owner, gpus="4")

    assert "Starts now with 4 GPUs on n1, of the guarantee of Research." in text


def test_a_reserved_one_says_whom_it_would_preempt(acme: Acme, client: Client) -> None:
    full_of_elastic(acme)

    text = ask(client, acme.outsider, team="production", gpus="2", tier="reserved")

    assert "Would preempt 2 elastic workloads (2 GPUs) of Research. Then it starts with 2 GPUs on n" in text


def test_it_says_what_work_its_victims_would_lose(acme: Acme, client: Client) -> None:
    full_of_elastic(acme)
    began = timezone.now() - timedelta(hours=1)
    Attempt.objects.update(starting_at=began, running_at=began)
    text = ask(client, acme.outsider, team="production", gpus="1", tier="reserved")
    assert "It would lose 1 h of work." in text or "It would lose 1 h 00 min of work." in text
    Attempt.objects.update(checkpointed_at=timezone.now() - timedelta(minutes=12))
    recent.forget()
    text = ask(client, acme.outsider, team="production", gpus="1", tier="reserved")
    assert "It would lose 12 min" in text
    text = ask(client, acme.outsider, team="production", gpus="2", tier="reserved")
    assert re.search(
        "They would lose up to 12 min[^.]* of work each, 24 min[^.]* of GPU time together.", text
    )


def test_what_must_wait_says_how_long_and_why(acme: Acme, client: Client) -> None:
    full_of_elastic(acme, time_limit_seconds=3600, priority=70)

    text = ask(client, acme.owner, gpus="1", tier="low")

    assert "Would wait; it would start in about 60 min" in text
    assert "none is free in the pool Main" in text


def test_what_can_never_run_says_so(acme: Acme, client: Client) -> None:
    text = ask(client, acme.owner, gpus="8")

    assert "Would wait; when it starts is not known." in text
    assert "the largest node it may use has 4" in text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"gpus": "1.25"}, "1.25"),
        ({"pods": "0"}, "at least 1"),
        ({"team": "nowhere"}, "There is no team &#x27;nowhere&#x27;."),
        ({"team": "production"}, "There is no team &#x27;production&#x27;."),
        ({"tier": "other", "priority": "90"}, "outside your range"),
    ],
)
def test_mistakes_are_told_as_sentences(
    acme: Acme, client: Client, fields: dict[str, str], sentence: str
) -> None:
    assert sentence in ask(client, acme.owner, **fields)


def test_name_and_image_need_not_be_typed_yet(acme: Acme, client: Client) -> None:
    assert "Starts now" in ask(client, acme.owner, name="", image="")


def test_a_held_one_waits_for_its_release(acme: Acme, client: Client) -> None:
    assert "It is on hold." in ask(client, acme.owner, hold="on")


def test_a_dependency_is_waited_for(acme: Acme, client: Client) -> None:
    first = make_workload(acme.research, acme.owner, gpu_milli=8000)

    assert "workloads it depends on" in ask(client, acme.owner, depends_on=first.slug)


def test_it_takes_posts_of_signed_in_people_only(acme: Acme, client: Client) -> None:
    assert client.post(reverse(URL), {}).status_code == 302
    client.force_login(acme.owner)
    assert client.get(reverse(URL)).status_code == 405


def test_one_of_more_pods_than_fit_says_with_how_many_it_starts(acme: Acme, client: Client) -> None:
    make_workload(acme.production, acme.outsider, gpu_milli=4000, pods=2, priority=10)
    run_cycle()

    text = ask(client, acme.owner, gpus="4", pods="3", min_pods="1", tier="low")

    assert "with 1 of its 3 pods, 4 GPUs on n" in text
