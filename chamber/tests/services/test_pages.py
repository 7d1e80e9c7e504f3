"""The pages and the API of service accounts."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agentlink.models import AgentToken
from agentlink.tests.factories import make_cluster
from chamber.models import Scope, ServiceAccount, ServiceToken, User
from chamber.services import actions
from chamber.tests.services.conftest import API, Program, World
from chamber.tokens import create_token
from teams.models import Role
from teams.tests.factories import actor, member

pytestmark = pytest.mark.django_db

PAGE = "/settings/service-accounts/"
TOKEN = {"name": "runner", "scope": "submit", "expires_in_days": "30", "team": ""}


def on(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_one_is_made_gets_a_token_that_is_shown_once_and_is_disabled(world: World) -> None:
    page = on(world.lena)
    made = page.post(PAGE, {"name": "ci", "team": "nlp", "role": "researcher", "description": "GitLab"})
    assert made["Location"] == f"{PAGE}ci/"

    answer = page.post(f"{PAGE}ci/tokens/", TOKEN)

    secret = re.search(r"chs_[\w-]{43}", text(answer))
    assert secret is not None
    assert answer["Cache-Control"] == "no-store"
    assert secret[0] not in text(page.get(f"{PAGE}ci/"))
    Program(secret[0]).get("me/")
    shown = text(page.get(f"{PAGE}ci/"))
    assert "from 192.0.2.9" in shown
    assert "by lena" in shown
    assert "GitLab" in text(page.get(PAGE))
    assert page.post(f"{PAGE}ci/disable/", {"workloads": "leave"}).status_code == 302
    assert "Disabled" in text(page.get(f"{PAGE}ci/"))
    assert page.post(f"{PAGE}ci/enable/").status_code == 302


def test_what_is_wrong_stands_beside_its_field_and_values_are_kept(world: World) -> None:
    page = on(world.lena)
    answer = page.post(PAGE, {"name": "C I", "team": "nlp", "description": "kept"})
    assert answer.status_code == 422
    assert "is no name for a service account" in text(answer)
    assert 'value="kept"' in text(answer)
    world.service()
    answer = page.post(f"{PAGE}ci/tokens/", {**TOKEN, "expires_in_days": "400"})
    assert (answer.status_code, "at most 365 is allowed" in text(answer)) == (422, True)
    answer = page.post(f"{PAGE}ci/disable/", {"workloads": "hand-over", "to": "nobody"})
    assert (answer.status_code, "There is no account" in text(answer)) == (422, True)
    assert page.get(f"{PAGE}ci/tokens/")["Location"] == f"{PAGE}ci/"


def test_a_token_is_rotated_and_revoked_on_the_page(world: World) -> None:
    token, _ = world.token(world.service(), world.lena)
    page = on(world.lena)
    answer = page.post(f"{PAGE}ci/tokens/{token.pk}/rotate/", {"overlap_minutes": "60"})
    assert re.search(r"chs_[\w-]{43}", text(answer))
    assert page.post(f"{PAGE}ci/tokens/{token.pk}/revoke/").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    answer = page.post(f"{PAGE}ci/tokens/{token.pk}/rotate/", {"overlap_minutes": "60"}, follow=True)
    assert "make a new token" in text(answer)


def test_an_auditor_sees_and_changes_nothing(world: World) -> None:
    world.token(world.service(), world.lena)
    page = on(member(world.acme, Role.AUDITOR, "audrey"))
    shown = text(page.get(f"{PAGE}ci/"))
    assert "runner" in shown
    assert "Create token" not in shown
    assert "Revoke" not in shown
    assert page.post(f"{PAGE}ci/tokens/", TOKEN).status_code in {403, 422}
    assert ServiceToken.objects.count() == 1
    assert page.post(PAGE, {"name": "x", "team": "nlp"}).status_code == 403


def test_a_lead_of_another_team_does_not_see_it(world: World) -> None:
    world.service()
    page = on(world.leo)
    assert page.get(f"{PAGE}ci/").status_code == 404
    assert "ci" not in re.findall(r'accounts/([\w-]+)/"', text(page.get(PAGE)))
    assert on(world.rita).get(PAGE).status_code == 403


def test_its_team_s_page_names_it_to_those_who_manage_it(world: World) -> None:
    world.service()
    assert f"{PAGE}ci/" in text(on(world.lena).get("/teams/nlp/"))
    assert f"{PAGE}ci/" not in text(on(world.rita).get("/teams/nlp/"))


def test_the_list_makes_few_queries_however_many_there_are(world: World) -> None:
    def fill(count: int) -> None:
        for _ in range(count):
            account = world.service(f"ci-{ServiceAccount.objects.count()}")
            world.token(account, world.lena)

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            assert page.get(PAGE).status_code == 200
        return len(made)

    page = on(world.olga)
    fill(2)
    few = queries()
    fill(10)
    assert queries() == few <= 14


# The API


def test_the_api_does_what_the_page_does(world: World) -> None:
    _, secret = create_token(user=world.lena, name="x", scope=Scope.MANAGE, days=60)
    lena = Program(secret)
    made = lena.send("post", "service-accounts/", {"name": "ci", "team": "nlp", "role": "researcher"})
    assert (made.status_code, made.json()["username"]) == (201, "service:ci")
    made = lena.send("post", "service-accounts/ci/tokens/", {"name": "runner", "scope": "submit"})
    assert made.status_code == 201
    token = made.json()
    assert token["token"].startswith("chs_")
    program = Program(token["token"])
    assert program.get("me/").json()["token"]["name"] == "runner"
    [listed] = lena.get("service-accounts/ci/tokens/").json()["results"]
    assert "token" not in listed
    assert (listed["made_by"], listed["last_address"]) == ("lena", "192.0.2.9")
    [shown] = lena.get("service-accounts/").json()["results"]
    assert (shown["tokens"], shown["last_address"], shown["state"]) == (1, "192.0.2.9", "active")
    rotated = lena.send(
        "post", f"service-accounts/ci/tokens/{token['id']}/rotate/", {"overlap_minutes": 0}
    ).json()
    assert program.get("me/").status_code == 401
    gone = f"service-accounts/ci/tokens/{rotated['id']}/"
    assert lena.send("delete", gone).status_code == lena.send("delete", gone).status_code == 204
    changed = lena.send("patch", "service-accounts/ci/", {"description": "nightly"}).json()
    assert changed["description"] == "nightly"
    assert lena.send("post", "service-accounts/ci/disable/").json() == {"tokens": 0, "workloads": 0}
    assert lena.send("post", "service-accounts/ci/enable/").json()["state"] == "active"


def test_other_doors_refuse_it_with_a_sentence(world: World) -> None:
    cluster = make_cluster("east")
    secret = AgentToken.new_secret()
    AgentToken.objects.create(cluster=cluster, token_hash=AgentToken.hash_of(secret), prefix=secret[:12])
    _, of_service = world.token(world.service(), world.lena)
    _, of_person = create_token(user=world.lena, name="x", scope=Scope.READ, days=1)

    refused = Program(secret).get("me/")
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, "Bearer")
    assert "This is the token of a cluster's agent" in refused.json()["detail"]
    for token in (of_service, of_person):
        answer = Client().post(
            "/agent/v1/sync", "[]", "application/json", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 401
        assert "This is a token of the API" in answer.json()[0]["message"]
        page = Client().get("/", headers={"Authorization": f"Bearer {token}"})
        assert page["Location"].startswith("/sign-in/"), "pages take sessions"


def test_nobody_signs_in_as_one(world: World) -> None:
    world.service()
    for login in ("service:ci", "ci"):
        answer = Client().post(f"{API}login/", {"username": login, "password": "x"}, "application/json")
        assert answer.status_code == 401
    assert on(world.olga).post("/people/service:ci/link/").status_code == 404
    assert on(world.olga).get("/people/service:ci/").status_code == 404


def test_a_disabled_one_is_told_why_it_is_refused(world: World) -> None:
    account = world.service()
    _, secret = world.token(account, world.lena)
    actions.disable_service(by=actor(world.lena), account=account)
    ServiceToken.objects.update(revoked_at=None)

    assert Program(secret).get("me/").json()["detail"] == (
        "The service account ci is disabled: its tokens let nobody in."
    )
