"""The list: what it shows to whom, filters, order, pages, and how many queries it makes."""

import html
import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import bind, make_team, member
from workloads.listing import Filters, order_of
from workloads.models import Workload
from workloads.tests.factories import finish, make_workload, start

URL = "/workloads/"


@pytest.fixture
def signed_in(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


def names(client: Client, **query: Any) -> list[str]:
    """Return the names on a page in their order."""
    response = client.get(URL, query)
    assert response.status_code == 200
    return [workload.name for workload in response.context["page"].rows]


def test_without_any_it_says_what_to_do_next(signed_in: Client, org: Team) -> None:
    assert b"Submit a workload" in signed_in.get(URL).content
    viewer = Client()
    viewer.force_login(member(org, Role.VIEWER))
    assert b"What your teams submit is shown here" in viewer.get(URL).content


def test_one_sees_only_ones_teams(signed_in: Client, team: Team, other_team: Team, owner: User) -> None:
    make_workload(team, owner, name="mine")
    make_workload(make_team(team, "Below"), owner, name="below")
    make_workload(other_team, owner, name="theirs")
    assert set(names(signed_in)) == {"mine", "below"}
    outsider = Client()
    outsider.force_login(member(other_team, Role.VIEWER))
    assert names(outsider) == ["theirs"]


def test_who_is_not_signed_in_is_asked_to(client: Client, db: None) -> None:
    assert client.get(URL).headers["Location"].startswith("/sign-in/")


@pytest.fixture
def several(team: Team, other_team: Team, owner: User, org: Team, pool: Pool) -> Client:
    """Four workloads, seen by somebody who sees all."""
    now = timezone.now()
    below = make_team(team, "Below")
    start(make_workload(team, owner, name="running", submitted_at=now - timedelta(days=2)), pool)
    finish(start(make_workload(below, owner, name="done", priority=100), pool))
    make_workload(team, owner, name="held", held=True, job_class="serving")
    make_workload(other_team, member(other_team, Role.RESEARCHER, "bob"), name="bobs", priority=25)
    client = Client()
    client.force_login(member(org, Role.VIEWER, "eve"))
    return client


FILTERS = {
    "a team and those below": ({"team": "nlp"}, {"running", "done", "held"}),
    "a team below": ({"team": "below"}, {"done"}),
    "open": ({"status": "open"}, {"running", "held", "bobs"}),
    "ended": ({"status": "ended"}, {"done"}),
    "held": ({"status": "held"}, {"held"}),
    "running": ({"status": "running"}, {"running"}),
    "running or completed": ({"status": ["running", "completed"]}, {"running", "done"}),
    "reserved": ({"class": "reserved"}, {"done"}),
    "elastic": ({"class": "elastic"}, {"running", "held", "bobs"}),
    "job class": ({"job_class": "serving"}, {"held"}),
    "an owner": ({"owner": "bob"}, {"bobs"}),
    "me": ({"owner": "me"}, set()),
    "a pool": ({"pool": "main"}, {"running", "done"}),
    "text": ({"q": "BOB"}, {"bobs"}),
    "text with a wildcard": ({"q": "%"}, set()),
    "time": ({"within": "24h"}, {"done", "held", "bobs"}),
    "several": ({"team": "nlp", "status": "open", "class": "elastic"}, {"running", "held"}),
    "nonsense": ({"cursor": "%%%", "q": "\0"}, {"running", "done", "held", "bobs"}),
}


@pytest.mark.parametrize(("query", "found"), FILTERS.values(), ids=FILTERS.keys())
def test_filters(several: Client, query: dict[str, Any], found: set[str]) -> None:
    assert set(names(several, **query)) == found


def test_what_cannot_be_asked_for_is_told_at_the_filters_and_shows_nothing(several: Client) -> None:
    wrong = {
        "status": "sleeping",
        "sort": "colour",
        "within": "1y",
        "team": "nlpp",
        "owner": "bobb",
        "pool": "mian",
    }
    answer = several.get("/workloads/", wrong)
    text = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "status is 'sleeping'; allowed are open, held, ended, idle, " in text
    assert "sort is 'colour'; allowed are submitted, -submitted, " in text
    assert "within is '1y'; allowed are 1h, 24h, 7d, 30d." in text
    for near in ("nlp", "bob", "main"):
        assert f"that you may see. Did you mean '{near}'?" in text
    assert answer.context["page"].rows == []
    assert "Take a filter away" in text
    part = several.get("/workloads/", {"status": "sleeping"}, headers={"X-Chamber-Fragment": "1"})
    assert (part.status_code, part.context["page"].rows) == (200, [])


ORDERS = {
    "": ["bobs", "held", "done", "running"],
    "submitted": ["running", "done", "held", "bobs"],
    "name": ["bobs", "done", "held", "running"],
    "-name": ["running", "held", "done", "bobs"],
    "-priority": ["done", "held", "running", "bobs"],
}


@pytest.mark.parametrize(("sort", "found"), ORDERS.items())
def test_orders(several: Client, sort: str, found: list[str]) -> None:
    assert names(several, sort=sort) == found


@pytest.mark.parametrize("sort", ["-submitted", "submitted", "name", "-name", "priority", "-priority"])
def test_pages_by_cursor_show_each_once_both_ways(
    signed_in: Client, team: Team, owner: User, sort: str
) -> None:
    now = timezone.now()
    for number in range(120):
        # Many have the same time, name and priority: the id decides.
        at = now - timedelta(seconds=number // 40)
        make_workload(team, owner, name=f"w{number % 3}", priority=number % 2, submitted_at=at)
    forwards: list[list[Any]] = []
    cursor = ""
    while cursor is not None:
        page = signed_in.get(URL, {"sort": sort, "cursor": cursor}).context["page"]
        forwards.append([row.pk for row in page.rows])
        cursor, previous = page.following, page.previous
    assert [len(rows) for rows in forwards] == [50, 50, 20]
    assert {pk for rows in forwards for pk in rows} == set(Workload.objects.values_list("pk", flat=True))
    page = signed_in.get(URL, {"sort": sort, "cursor": previous}).context["page"]
    assert [row.pk for row in page.rows] == forwards[1]
    page = signed_in.get(URL, {"sort": sort, "cursor": page.previous}).context["page"]
    assert ([row.pk for row in page.rows], page.previous) == (forwards[0], None)


def test_three_hundred_take_as_few_queries_as_one(
    signed_in: Client, team: Team, owner: User, pool: Pool, django_assert_max_num_queries: Any
) -> None:
    Workload.objects.bulk_create(
        Workload(
            slug=f"w-{number}",
            name="w",
            team=team,
            owner=owner,
            image="x",
            gpu_milli=1000,
            status_since=timezone.now(),
            submitted_at=timezone.now(),
        )
        for number in range(300)
    )
    with django_assert_max_num_queries(12):
        assert len(names(signed_in, team="nlp", status="open", q="w")) == 50


def test_a_live_section_gets_only_itself(signed_in: Client, team: Team, owner: User) -> None:
    make_workload(team, owner, name="bert")
    part = signed_in.get(URL + "?status=open", headers={"X-Chamber-Fragment": "1"}).content.decode()
    assert "<html" not in part
    assert 'id="workload-list"' in part
    assert 'data-live-url="/workloads/?status=open"' in part
    assert "bert" in part


def test_chosen_ones_are_cancelled_and_the_rest_is_told(signed_in: Client, team: Team, owner: User) -> None:
    mine = [make_workload(team, owner) for _ in range(2)]
    theirs = make_workload(team, member(team, Role.RESEARCHER))
    response = signed_in.post(
        "/workloads/bulk/",
        {"act": "cancel", "id": [w.slug for w in [*mine, theirs]], "next": "/workloads/?team=nlp"},
        follow=True,
    )
    assert response.redirect_chain == [("/workloads/?team=nlp", 302)]
    assert b"Cancelled 2 of 3 workloads. 1 was left as it is" in response.content
    assert Workload.objects.filter(status="cancelled").count() == 2


def test_who_only_views_is_offered_nothing_to_do_with_the_chosen(
    client: Client, team: Team, owner: User
) -> None:
    make_workload(team, owner)
    for role, offered in ((Role.VIEWER, False), (Role.RESEARCHER, True)):
        client.force_login(member(team, role))
        page = client.get(URL).content.decode()
        assert ("data-select-all" in page, 'name="act"' in page) == (offered, offered)


def test_an_act_nobody_knows_is_refused(signed_in: Client) -> None:
    assert signed_in.post("/workloads/bulk/", {"act": "explode"}).status_code == 422


def test_it_leads_nowhere_else(signed_in: Client, team: Team) -> None:
    response = signed_in.post("/workloads/bulk/", {"act": "hold", "next": "https://evil.example/"})
    assert response.headers["Location"] == URL


INDEXED: list[dict[str, str]] = [
    {},
    {"status": "ended"},
    {"status": "failed"},
    {"class": "reserved"},
    {"sort": "name"},
    {"sort": "-priority"},
    {"team": "nlp"},
    {"owner": "ada"},
    {"pool": "main"},
]


@pytest.fixture(params=INDEXED, ids=str)
def page_of_list(
    request: pytest.FixtureRequest, team: Team, other_team: Team, owner: User, pool: Pool
) -> "QuerySet[Workload]":
    """Return the first page's rows of a list that owner filtered and sorted, not asked for yet."""
    bind(owner, other_team, Role.VIEWER)
    filters = Filters.read(QueryDict(urlencode(request.param)))
    rows = filters.apply(Workload.objects.visible_to(owner), user=owner, now=timezone.now())
    return rows.order_by(*order_of(filters.sort))[:51]


@pytest.mark.sqlite_only
def test_rows_come_in_the_order_of_an_index(page_of_list: "QuerySet[Workload]") -> None:
    plan = page_of_list.explain()
    assert "TEMP B-TREE FOR ORDER BY" not in plan, plan


@pytest.mark.postgres_only
def test_postgresql_needs_no_sorting_either(page_of_list: "QuerySet[Workload]") -> None:
    with connection.cursor() as cursor:
        # The tables are all but empty: without this, reading and sorting them would be the cheapest.
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off")
    plan = page_of_list.explain()
    # Sorting a few rows that an index brings in nearly that order is fine: it too ends after a page.
    assert not re.search(r"(?<!Incremental )Sort  \(", plan), plan
