"""The page of a pool's queue: order, what others may not see, pages, and who may come in at all."""

import re

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.tests.conftest import Acme
from teams.tests.factories import make_pool
from workloads.tests.factories import make_workload


def body(client: Client, user: User, url: str, **headers: str) -> str:
    client.force_login(user)
    answer = client.get(url, headers=headers)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def fill_and_queue(acme: Acme) -> None:
    """Fill the pool with reserved work, and have one of each team wait."""
    for team, owner, count in ((acme.research, acme.owner, 2), (acme.production, acme.outsider, 1)):
        for _ in range(count):
            make_workload(team, owner, gpu_milli=4000, priority=100)
    make_workload(acme.research, acme.owner, slug="secret-research", gpu_milli=1000, priority=60)
    make_workload(acme.production, acme.outsider, slug="secret-production", gpu_milli=2000, priority=40)
    run_cycle()


def test_it_shows_the_order_with_reason_and_links_to_who_may_see_the_workload(
    acme: Acme, client: Client
) -> None:
    fill_and_queue(acme)
    User.objects.update(first_name="Olga", last_name="Berg")

    text = body(client, acme.admin, reverse("scheduling:queue"))

    assert text.index("secret-research") < text.index("secret-production")
    for owner in (acme.owner, acme.outsider):
        assert f'<span class="sub">{owner.username}</span>' in text, "two may have one name"
    assert reverse("workloads:detail", args=["secret-research"]) in text
    assert "none is free in the pool Main" in text


def test_of_another_team_s_workload_it_shows_team_class_priority_and_gpus_only(
    acme: Acme, client: Client
) -> None:
    fill_and_queue(acme)

    text = body(client, acme.owner, reverse("scheduling:queue-pool", args=["main"]))

    assert "secret-research" in text
    assert "secret-production" not in text
    assert "otto" not in text
    row = text[text.index("Another team’s") :]
    assert "Production" in row
    assert "Elastic" in row
    assert ">40<" in row
    assert ">2<" in row


def test_the_start_that_is_kept_is_told_as_in_the_row(acme: Acme, client: Client) -> None:
    for team, owner, count in ((acme.research, acme.owner, 2), (acme.production, acme.outsider, 1)):
        for _ in range(count):
            make_workload(team, owner, gpu_milli=4000, priority=100, time_limit_seconds=950)
    make_workload(acme.research, acme.owner, slug="first", gpu_milli=4000)
    run_cycle()

    text = body(client, acme.owner, reverse("scheduling:queue"))

    (starts,) = set(re.findall(r"in about \d+ min, at \d\d:\d\d UTC", text))
    assert f"Kept for <b>first</b>, which starts there {starts}:" in text
    assert text.count(starts) == 2


def test_nobody_waits_is_said_with_what_to_do_next(acme: Acme, client: Client) -> None:
    text = body(client, acme.owner, reverse("scheduling:queue"))

    assert "Nothing waits here" in text
    assert reverse("workloads:submit") in text


def test_a_live_part_is_the_section_alone(acme: Acme, client: Client) -> None:
    text = body(client, acme.owner, reverse("scheduling:queue"), X_Chamber_Fragment="1")

    assert text.lstrip().startswith('<section id="queue-main"')
    assert 'data-live="queue:main silence"' in text


def test_fifty_are_shown_and_the_rest_on_the_next_page(acme: Acme, client: Client) -> None:
    for _ in range(53):
        make_workload(acme.research, acme.owner, gpu_milli=8000)
    make_workload(acme.research, acme.owner, slug="the-held-one", held=True)
    run_cycle()

    first = body(client, acme.owner, reverse("scheduling:queue"))
    second = body(client, acme.owner, reverse("scheduling:queue") + "?cursor=50")

    assert first.count("<tr data-key") == 50
    assert second.count("<tr data-key") == 4
    assert "51 to 54 of 54: 53 waiting, 53 of them not in the queue; 1 on hold<" in second.replace("</", "<")
    assert "the-held-one" in first + second


def test_each_pool_has_a_queue_and_an_unknown_one_is_not_found(acme: Acme, client: Client) -> None:
    make_pool("Lab", order=1)

    assert "Queue of Lab" in body(client, acme.owner, reverse("scheduling:queue-pool", args=["lab"]))
    assert client.get(reverse("scheduling:queue-pool", args=["nowhere"])).status_code == 404


def test_who_belongs_to_no_team_sees_no_queue(acme: Acme, client: Client) -> None:
    fill_and_queue(acme)

    text = body(client, acme.stranger, reverse("scheduling:queue"))

    assert "No pools yet" in text
    assert "secret" not in text
    assert client.get(reverse("scheduling:queue-pool", args=["main"])).status_code == 404


def test_who_is_not_signed_in_is_asked_to(acme: Acme, client: Client) -> None:
    assert client.get(reverse("scheduling:queue")).status_code == 302


def test_a_cursor_that_is_none_of_ours_shows_the_first_page(acme: Acme, client: Client) -> None:
    fill_and_queue(acme)

    assert "secret-research" in body(client, acme.owner, reverse("scheduling:queue") + "?cursor=x")


def test_the_page_takes_as_many_queries_for_many_rows_as_for_few(acme: Acme, client: Client) -> None:
    client.force_login(acme.owner)
    counts = []
    for waiting in (2, 40):
        for _ in range(waiting):
            make_workload(acme.research, acme.owner, gpu_milli=8000)
        run_cycle()
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("scheduling:queue"))
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 12
