"""Who would be next if GPUs were freed: a part of the queue's page, and a page of its own without scripts."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import recent
from scheduling.tests.conftest import Acme
from scheduling.whatif import freed
from scheduling.whatif.desk import TooMany
from teams.tests.factories import make_pool
from workloads.tests.factories import make_workload

URL = "scheduling:queue-next"


def ask(
    client: Client, user: User, gpus: object, *, slug: str = "main", status: int = 200, page: bool = False
) -> str:
    recent.forget()
    freed.forget()
    client.force_login(user)
    url = f"{reverse(URL, args=[slug])}?gpus={gpus}"
    answer = client.get(url, headers={} if page else {"HX-Request": "true"})
    assert answer.status_code == status, answer.content
    return " ".join(answer.content.decode().split())


@pytest.fixture
def waiting(acme: Acme) -> Acme:
    """Return Acme with its pool full of reserved work, and three that wait."""
    for team, owner, count in ((acme.research, acme.owner, 2), (acme.production, acme.outsider, 1)):
        for _ in range(count):
            make_workload(team, owner, gpu_milli=4000, priority=100)
    make_workload(acme.research, acme.owner, slug="own-first", gpu_milli=2000, priority=60)
    make_workload(acme.production, acme.outsider, slug="their-second", gpu_milli=1000, priority=40)
    make_workload(acme.research, acme.owner, slug="own-third", gpu_milli=1000, priority=30)
    run_cycle()
    return acme


def test_they_come_in_the_order_of_the_queue(waiting: Acme, client: Client) -> None:
    text = ask(client, waiting.admin, 3)

    assert text.index("own-first") < text.index("their-second")
    assert "own-third" not in text


def test_more_gpus_than_wanted_stay_idle(waiting: Acme, client: Client) -> None:
    text = ask(client, waiting.admin, 8)

    assert "own-third" in text
    assert "4 GPUs would stay idle." in text


def test_of_others_only_what_anybody_may_know_is_shown(waiting: Acme, client: Client) -> None:
    text = ask(client, waiting.owner, 3)

    assert "own-first" in text
    assert "their-second" not in text
    row = text[text.index("Another team’s") :]
    assert "Production" in row
    assert ">40<" in row


@pytest.fixture
def behind(acme: Acme) -> Acme:
    """Return Acme with its pool full of reserved work: a gang is first, and one that is smaller is behind it."""
    for team, owner, count in ((acme.research, acme.owner, 2), (acme.production, acme.outsider, 1)):
        for _ in range(count):
            make_workload(team, owner, gpu_milli=4000, priority=100)
    make_workload(
        acme.production, acme.outsider, slug="their-gang", gpu_milli=2000, pods=2, min_pods=2, priority=60
    )
    make_workload(acme.production, acme.outsider, slug="their-small", gpu_milli=1000, priority=60)
    run_cycle()
    return acme


def test_where_what_is_freed_is_kept_for_somebody_that_one_is_named(behind: Acme, client: Client) -> None:
    text = ask(client, behind.admin, 2)

    assert "Nobody would start" in text
    assert "their-gang</a> is first and needs 4 GPUs; others may not take what would delay it." in text
    told = api(behind.owner, "?pool=main&gpus=2")
    assert told["results"] == []
    assert (told["kept_for"]["workload"], told["kept_for"]["team"], told["kept_for"]["gpus"]) == (
        None,
        "Production",
        4,
    )


def test_enough_for_it_keeps_nothing_for_it(behind: Acme, client: Client) -> None:
    assert "is first" not in ask(client, behind.admin, 8)
    assert api(behind.owner, "?pool=main&gpus=8")["kept_for"] is None


def test_where_nobody_waits_nobody_would_start(acme: Acme, client: Client) -> None:
    assert "Nobody would start" in ask(client, acme.owner, 8)


def test_a_pool_without_nodes_starts_nobody(waiting: Acme, client: Client) -> None:
    make_pool("Lab", order=1)

    assert "Nobody would start" in ask(client, waiting.owner, 8, slug="lab")


@pytest.mark.parametrize("gpus", ["", "0", "-1", "1025", "1.5", "many", "9" * 30, "²"])
def test_what_is_no_number_of_gpus_is_told_with_what_is_allowed(
    acme: Acme, client: Client, gpus: str
) -> None:
    assert "a whole number from 1 to 1,024, not" in ask(client, acme.owner, gpus, status=422)


def test_without_scripts_it_is_a_page_with_the_form(waiting: Acme, client: Client) -> None:
    text = ask(client, waiting.owner, 3, page=True)

    assert "<h1>Who would be next</h1>" in text
    assert 'name="gpus" min="1" max="1024" value="3"' in text
    assert "own-first" in text


def test_the_queue_s_page_offers_it_and_asks_nothing_by_itself(
    waiting: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freed, "who_is_next", Mock(side_effect=AssertionError))
    client.force_login(waiting.owner)

    text = client.get(reverse("scheduling:queue-pool", args=["main"])).content.decode()

    assert f'hx-get="{reverse(URL, args=["main"])}"' in text


def test_while_it_is_worked_out_it_asks_again(
    acme: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freed, "who_is_next", Mock(return_value=None))

    assert f'hx-get="{reverse(URL, args=["main"])}?gpus=8" hx-trigger="load delay:1s"' in ask(
        client, acme.owner, 8
    )


def test_one_too_many_is_told_and_asks_again(
    acme: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freed, "who_is_next", Mock(side_effect=TooMany))

    text = ask(client, acme.owner, 8)

    assert "other questions wait" in text
    assert 'hx-trigger="load delay:1s"' in text


def test_it_is_for_who_may_see_the_queue(acme: Acme, client: Client) -> None:
    ask(client, acme.stranger, 8, status=404)
    ask(client, acme.owner, 8, slug="nowhere", status=404)
    client.logout()
    assert client.get(reverse(URL, args=["main"])).status_code == 302


def test_it_takes_as_many_queries_for_a_long_queue_as_for_a_short_one(waiting: Acme, client: Client) -> None:
    counts = []
    for _ in range(2):
        ask(client, waiting.owner, 1)
        recent.forget()
        freed.forget()
        with CaptureQueriesContext(connection) as queries:
            client.get(f"{reverse(URL, args=['main'])}?gpus=30", headers={"HX-Request": "true"})
        counts.append(len(queries))
        for _ in range(25):
            make_workload(waiting.research, waiting.owner, gpu_milli=1000, priority=20)
        run_cycle()

    assert counts[0] == counts[1] <= 26


def api(user: User, query: str, status: int = 200) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    answer = client.get(f"/api/v1/queue/next/{query}")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_the_api_tells_the_same(waiting: Acme) -> None:
    told = api(waiting.owner, "?pool=main&gpus=5")

    assert (told["gpus"], told["idle"], told["more"]) == (5, 1, 0)
    own, other, last = told["results"]
    assert (own["position"], own["workload"], own["owner"], own["gpus"]) == (1, "own-first", "rita", 2)
    assert (other["workload"], other["owner"], other["team"], other["priority"]) == (
        None,
        None,
        "Production",
        40,
    )
    assert last["workload"] == "own-third"


def test_the_api_refuses_what_is_no_number_and_who_may_not_see_the_queue(acme: Acme) -> None:
    assert "from 1 to 1,024, not 'x'" in api(acme.owner, "?gpus=x", 422)["detail"]
    api(acme.stranger, "?gpus=1", 404)
    api(acme.owner, "?gpus=1&pool=nowhere", 404)


def test_the_api_says_when_to_ask_again(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed, "who_is_next", Mock(return_value=None))
    assert "ask the same again" in api(acme.owner, "?gpus=1", 202)["detail"]
    monkeypatch.setattr(freed, "who_is_next", Mock(side_effect=TooMany))
    assert "other questions" in api(acme.owner, "?gpus=1", 429)["detail"]
