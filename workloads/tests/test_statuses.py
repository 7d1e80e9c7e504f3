"""The reference of statuses: whole, the same on its page and in the docs."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from teams.models import Role
from teams.tests.factories import make_org, member
from workloads import reasons, statuses
from workloads.models import Status

DOCS = Path(__file__).parents[2] / "docs" / "statuses.md"
ROWS = (*statuses.STATUSES, *statuses.ENDS, *statuses.REFUSALS)


def test_every_status_and_every_known_end_is_in_it() -> None:
    assert [each.code for each in statuses.STATUSES] == list(Status)
    assert {each.code for each in statuses.ENDS} == reasons.NEXT_STEPS.keys()
    assert {each.code for each in statuses.REFUSALS} == reasons.REFUSAL_STEPS.keys()


def test_the_docs_say_the_same() -> None:
    rows = {tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in DOCS.read_text().splitlines()}
    for each in statuses.STATUSES:
        assert (each.code.capitalize(), each.meaning, each.step) in rows
    for each in (*statuses.ENDS, *statuses.REFUSALS):
        assert (f"`{each.code}`", each.meaning, each.step) in rows
    assert all(f"- {text}\n" in DOCS.read_text() for text in statuses.PREEMPTED_OFTEN)


@pytest.mark.django_db
def test_the_page_says_it_and_the_list_of_workloads_leads_there(client: Client) -> None:
    client.force_login(member(make_org("Acme"), Role.VIEWER, "vera"))
    assert 'href="/workloads/statuses/"' in client.get("/workloads/").content.decode()
    page = client.get("/workloads/statuses/").content.decode()
    for each in ROWS:
        assert escape(each.meaning) in page
        assert escape(each.step) in page
