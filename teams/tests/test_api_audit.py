"""The audit trail over the API."""

import pytest

from teams.audit import record
from teams.models import Role
from teams.tests.conftest import Acme, Api
from teams.tests.factories import actor, bind

URL = "/api/v1/audit/"


@pytest.fixture
def trail(acme: Acme) -> Acme:
    for team in (acme.root, acme.nlp, acme.production):
        record(by=actor(acme.org_admin), action="team.edited", target=team, after={"name": "X"})
    record(by=actor(acme.admin), action="team.moved", target=acme.nlp)
    return acme


def _names(api: Api, user: object, query: str = "") -> list[str]:
    body = api(user).get(URL + query).json()  # type: ignore[arg-type]
    return [event["target_name"] for event in body["results"]]


def test_newest_first_where_the_role_reaches(trail: Acme, api: Api) -> None:
    bind(trail.stranger, trail.root, Role.AUDITOR)
    assert _names(api, trail.stranger) == ["NLP", "Production", "NLP", "Acme"]
    assert _names(api, trail.admin) == ["NLP", "NLP"]


@pytest.mark.parametrize("name", ["target_id", "since"])
def test_a_filter_that_is_too_long_is_refused(trail: Acme, api: Api, name: str) -> None:
    answer = api(trail.org_admin).get(URL, {name: "x" * 201})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {name: f"{name} has 201 characters; at most 200 are allowed."}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?team=nlp", ["NLP", "NLP"]),
        ("?action=team.moved", ["NLP"]),
        ("?actor=olga&team=nlp", ["NLP"]),
        ("?target_kind=pool", []),
        ("?limit=1", ["NLP"]),
    ],
)
def test_filters(trail: Acme, api: Api, query: str, names: list[str]) -> None:
    assert _names(api, trail.org_admin, query) == names


def test_tells_what_it_was_before_and_after(trail: Acme, api: Api) -> None:
    event = api(trail.org_admin).get(f"{URL}?team=production").json()["results"][0]
    assert (event["actor"], event["via"], event["before"], event["after"]) == (
        "olga",
        "page",
        {},
        {"name": "X"},
    )


@pytest.mark.parametrize("who", ["viewer", "researcher", "lead", "stranger"])
def test_others_do_not_read_it(trail: Acme, api: Api, who: str) -> None:
    assert api(getattr(trail, who)).get(URL).status_code == 403


def test_of_a_team_that_is_not_visible_there_is_none(trail: Acme, api: Api) -> None:
    assert api(trail.admin).get(f"{URL}?team=production").status_code == 404
