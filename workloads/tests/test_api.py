"""The API of workloads: shapes, problems, keys, permission and lists."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chamber.models import User
from teams.models import Binding, Pool, Role, Team
from teams.tests.factories import make_user, member
from workloads.models import Workload
from workloads.tests.factories import finish, make_workload, preempt, start

URL = "/api/v1/workloads/"
BODY = {"name": "bert", "team": "nlp", "image": "train:1"}


@pytest.fixture
def signed_in(client: Client, owner: User, pool: Pool) -> Client:
    client.force_login(owner)
    return client


def post(client: Client, body: object, **headers: str) -> Any:
    return client.post(URL, json.dumps(body), content_type="application/json", headers=headers)


def test_submitted_it_is_shown_as_it_is_read(signed_in: Client) -> None:
    answer = post(signed_in, BODY | {"gpus": 0.25, "cpu": 1.5, "pools": ["main"], "time_limit": "4h"})
    assert answer.status_code == 201, answer.json()
    shown = answer.json()
    [warning] = shown.pop("warnings")
    assert "The pool Main has no node that takes workloads." in warning
    assert (shown["status"], shown["gpus"], shown["cpu"], shown["pools"]) == ("pending", 0.25, 1.5, ["main"])
    assert (shown["team"], shown["owner"], shown["priority_class"]) == ("nlp", "ada", "elastic")
    assert shown["time_limit_seconds"] == 14400
    again = signed_in.get(f"{URL}{shown['slug']}/")
    assert (again.json(), again.headers["ETag"]) == (shown, '"1"')
    assert Workload.objects.get().events.get().via == "api"


def test_several_are_taken_all_or_none(signed_in: Client) -> None:
    answer = post(signed_in, {"workloads": [BODY, BODY]})
    assert (answer.status_code, len(answer.json()["workloads"])) == (201, 2)
    answer = post(signed_in, {"workloads": [BODY, BODY | {"pods": 0}, BODY | {"gpuss": 1}]})
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"workloads[1].pods", "workloads[2].gpuss"}
    assert Workload.objects.count() == 2


def test_a_key_gives_the_first_answer_again_and_refuses_another_body(signed_in: Client) -> None:
    first = post(signed_in, BODY, **{"Idempotency-Key": "k"})
    reordered = dict(reversed(BODY.items()))
    assert post(signed_in, reordered, **{"Idempotency-Key": "k"}).json() == first.json()
    other = post(signed_in, BODY | {"pods": 2}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-key-used")
    assert Workload.objects.count() == 1


BAD: dict[str, tuple[Any, int, str]] = {
    "1.25 GPUs": (BODY | {"gpus": 1.25}, 422, "nearest legal values are 1 and 2"),
    "no pods": (BODY | {"pods": 0}, 422, "at least 1"),
    "an unknown key": (BODY | {"gpu": 1}, 422, "did you mean 'gpus'"),
    "an unknown team": (BODY | {"team": "mars"}, 404, "There is no team 'mars'"),
    "a team I do not see": (BODY | {"team": "vision"}, 404, "There is no team 'vision'"),
    "a priority beyond me": (BODY | {"priority": 150}, 422, "outside your range in NLP"),
    "a list": ([BODY], 422, "is an object"),
    "no workloads": ({"workloads": []}, 422, "at least one"),
    "workloads of another kind": ({"workloads": {"a": 1}}, 422, "must be a list"),
    "a list of nothing": ({"workloads": [None]}, 422, "is an object"),
}


@pytest.mark.parametrize(("body", "status", "sentence"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_a_problem(
    signed_in: Client, other_team: Team, body: object, status: int, sentence: str
) -> None:
    answer = post(signed_in, body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert sentence in answer.json()["detail"]
    assert not Workload.objects.exists()


def test_a_body_beyond_a_mebibyte_is_too_large(signed_in: Client) -> None:
    assert post(signed_in, BODY | {"command": ["x" * 1024 * 1024]}).status_code == 413


def test_who_only_views_may_not_submit(client: Client, team: Team, pool: Pool) -> None:
    client.force_login(member(team, Role.VIEWER))
    assert post(client, BODY).status_code == 403


def test_a_list_has_cursors_and_filters(signed_in: Client, team: Team, owner: User) -> None:
    made = [make_workload(team, owner) for _ in range(5)]
    query: dict[str, Any] = {"limit": 2, "status": ["pending", "running"], "owner": "me"}
    first = signed_in.get(URL, query).json()
    assert [row["slug"] for row in first["results"]] == [made[4].slug, made[3].slug]
    assert first["previous"] is None
    second = signed_in.get(first["next"]).json()
    assert [row["slug"] for row in second["results"]] == [made[2].slug, made[1].slug]
    assert [r["slug"] for r in signed_in.get(second["previous"]).json()["results"]] == [
        made[4].slug,
        made[3].slug,
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"status": "sleeping"},
        {"class": "gold"},
        {"sort": "colour"},
        {"limit": "0"},
        {"limit": "x"},
        {"cursor": "xx"},
        {"statu": "x"},
    ],
)
def test_a_filter_nobody_knows_is_refused(signed_in: Client, query: dict[str, str]) -> None:
    answer = signed_in.get(URL, query)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, list(query))


def test_a_filter_by_an_owner_tells_of_nobody_whom_the_reader_cannot_know(
    signed_in: Client, org: Team, team: Team, other_team: Team
) -> None:
    group = Group.objects.create(name="interns")
    Binding.objects.create(team=team, group=group, role=Role.VIEWER)
    make_user("grouped").groups.add(group)
    member(team, Role.VIEWER, "mate")
    make_workload(team, make_user("former"))
    for name in ("ada", "grouped", "mate", "former"):
        assert signed_in.get(URL, {"owner": name}).status_code == 200, name

    make_user("secret-ceo")
    member(org, Role.ORG_ADMIN, "olga")
    make_workload(other_team, member(other_team, Role.RESEARCHER, "visioner"))
    for name in ("secret-ceo", "secret-ce", "olga", "visioner", "nobody"):
        answer = signed_in.get(URL, {"owner": name})
        told = answer.json()["errors"]["owner"]
        assert (answer.status_code, told) == (404, f"There is no user {name!r} that you may see.")
    assert "Did you mean 'former'?" in signed_in.get(URL, {"owner": "forme"}).content.decode()


def test_search_is_by_name(signed_in: Client, team: Team, owner: User) -> None:
    make_workload(team, owner, name="bert")
    make_workload(team, owner, name="gpt")
    assert [row["name"] for row in signed_in.get(URL, {"search": "ber"}).json()["results"]] == ["bert"]


def test_attempts_and_events_tell_its_life(signed_in: Client, team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(team, owner)
    start(workload, pool)
    preempt(workload)
    (attempt,) = signed_in.get(f"{URL}{workload.slug}/attempts/").json()["results"]
    assert (attempt["number"], attempt["end_reason"], attempt["gpus"]) == (1, "preempted", 1)
    assert attempt["allocation"] == [{"team": "nlp", "gpus": 1.0}]
    events = signed_in.get(f"{URL}{workload.slug}/events/", {"limit": 2}).json()
    assert [event["sequence"] for event in events["results"]] == [1, 2]
    rest = signed_in.get(events["next"], {}).json()["results"]
    assert [event["sequence"] for event in rest] == [3, 4]


def test_an_act_answers_with_the_workload_or_a_conflict(
    signed_in: Client, team: Team, owner: User, pool: Pool
) -> None:
    workload = make_workload(team, owner)
    for act, field, value in (
        ("hold", "held", True),
        ("release", "held", False),
        ("cancel", "status", "cancelled"),
    ):
        answer = signed_in.post(f"{URL}{workload.slug}/{act}/")
        assert (answer.status_code, answer.json()[field]) == (200, value)
    answer = signed_in.post(f"{URL}{workload.slug}/cancel/")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert signed_in.post(f"{URL}{workload.slug}/requeue/").json()["status"] == "pending"


def test_what_one_may_not_see_is_not_there(signed_in: Client, other_team: Team, pool: Pool) -> None:
    theirs = make_workload(other_team, member(other_team, Role.RESEARCHER))
    finish(start(theirs, pool))
    for part in ("", "attempts/", "events/", "watch/"):
        assert signed_in.get(f"{URL}{theirs.slug}/{part}").status_code == 404
    for act in ("cancel", "hold", "release", "requeue"):
        assert signed_in.post(f"{URL}{theirs.slug}/{act}/").status_code == 404
    assert signed_in.get(URL).json()["results"] == []


def test_who_gives_a_name_for_a_slug_is_told_the_newest_of_that_name(
    signed_in: Client, team: Team, other_team: Team, owner: User
) -> None:
    make_workload(team, owner, name="train", slug="train-a")
    make_workload(team, owner, name="train", slug="train-b")
    make_workload(other_team, member(other_team, Role.RESEARCHER), name="train", slug="train-hidden")
    answer = signed_in.post(f"{URL}train/cancel/")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "There is no workload 'train' that you may see. Did you mean 'train-b', the newest of that name?",
    )


def test_without_signing_in_nothing_is_told(client: Client, db: None) -> None:
    assert client.get(URL).status_code == 401
