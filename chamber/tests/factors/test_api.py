"""Second factors over the API: the door from a password to a token, listing, and removing."""

from typing import Any

import pytest
from django.test import Client

from chamber.factors.reading import has_factor
from chamber.models import ApiToken, Scope, User
from chamber.tests.factors.conftest import PHRASE, SECRET, with_app
from chamber.tests.factors.devices import code_of
from chamber.tokens import create_token
from teams.models import AuditEvent

LOGIN = "/api/v1/login/"


def login(client: Client, **more: Any) -> Any:
    body = {"username": "ada", "password": PHRASE, **more}
    return client.post(LOGIN, body, content_type="application/json")


def as_admin(user: User) -> Client:
    _, secret = create_token(user=user, name="test", scope=Scope.ADMIN, days=1)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_a_password_alone_makes_no_token_of_who_has_a_factor(client: Client, ada: User) -> None:
    with_app(ada)
    without, wrong = login(client), login(client, code="000000")
    for answer in (without, wrong):
        assert answer.status_code == 401
        assert answer.json()["code"] == "second-factor"
    assert "send a code" in without.json()["detail"]
    assert "This code is wrong" in wrong.json()["detail"]
    assert login(client, password="wrong").json()["code"] == "authentication_failed"
    assert not ApiToken.objects.exists()
    assert login(client, code=code_of(SECRET)).status_code == 201
    assert login(client, code=code_of(SECRET)).status_code == 401, "used already"
    [row] = AuditEvent.objects.filter(action="person.signed-in")
    assert (row.via, row.after) == ("api", {"factor": "authenticator app"})
    assert AuditEvent.objects.filter(action="person.factor-refused").count() == 2


def test_who_has_none_needs_no_code(client: Client, ada: User) -> None:
    assert login(client).status_code == 201


def test_codes_cannot_be_guessed_over_the_api(client: Client, ada: User) -> None:
    with_app(ada)
    for _ in range(10):
        assert login(client, code="000000").status_code == 401
    answer = login(client, code=code_of(SECRET))
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 300


def test_a_code_is_a_text_of_some_length(client: Client, ada: User) -> None:
    with_app(ada)
    for code in ("x" * 33, ["1"], {"a": 1}):
        assert login(client, code=code).status_code == 422
    assert login(client, code=None).status_code == 422


def test_one_lists_ones_own_and_an_admin_anybodys(client: Client, ada: User, olga: User) -> None:
    with_app(ada)
    client.force_login(ada)
    mine = client.get("/api/v1/people/ada/factors/").json()["results"]
    assert [(each["kind"], each["codes_left"]) for each in mine] == [("app", None), ("recovery-codes", 10)]
    assert client.get("/api/v1/people/olga/factors/").status_code == 403
    admin = as_admin(olga)
    assert admin.get("/api/v1/people/ada/factors/").json()["results"] == mine
    assert admin.get("/api/v1/people/ada/").json()["second_factor"] is True
    assert admin.get("/api/v1/people/olga/").json()["second_factor"] is False


@pytest.mark.parametrize(("asked", "found"), [("true", ["ada"]), ("false", ["olga"])])
def test_an_admin_asks_who_lacks_one(ada: User, olga: User, asked: str, found: list[str]) -> None:
    with_app(ada)
    rows = as_admin(olga).get(f"/api/v1/people/?second_factor={asked}").json()["results"]
    assert [row["username"] for row in rows] == found


def test_what_is_asked_of_factors_is_true_or_false(ada: User, olga: User) -> None:
    assert as_admin(olga).get("/api/v1/people/?second_factor=maybe").status_code == 422


def test_an_admin_removes_the_factors_of_somebody_else(client: Client, ada: User, olga: User) -> None:
    with_app(ada)
    client.force_login(ada)
    admin = as_admin(olga)
    assert admin.delete("/api/v1/people/ada/factors/").status_code == 204
    assert not has_factor(ada)
    assert client.get("/api/v1/me/").status_code == 401
    assert admin.delete("/api/v1/people/ada/factors/").status_code == 409
    with_app(olga)
    assert admin.delete("/api/v1/people/olga/factors/").status_code == 409, "one's own on the page only"
