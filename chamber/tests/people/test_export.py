"""What is kept about a person, exported: all of it, no secret, to them and organisation admins only, and noted."""

import json
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import Group
from django.test import AsyncClient, Client
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from chamber import tokens
from chamber.models import ApiToken, Scope, User
from chamber.people import actions, export
from chamber.people.export import begin_export
from chamber.tests.factors.conftest import SECRET, with_app
from teams import actions as team_actions
from teams.actors import Actor, Via
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, make_org, make_team, member
from workloads.credentials.actions import create_credential
from workloads.models import CredentialKind
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"
API = "/api/v1/people/ada/export/"


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)


@pytest.fixture
def ada(nlp: Team, olga: User, settings: Settings) -> User:
    """A researcher of whom there is something of every kind."""
    settings.CREDENTIALS_KEYS = ["a-key-for-credentials-of-tests-0123456789"]
    ada = member(nlp, Role.RESEARCHER, "ada", password=PHRASE, first_name="Ada", last_name="Lovelace")
    EmailAddress.objects.create(user=ada, email=ada.email, verified=True, primary=True)
    team_actions.add_to_group(by=actor(olga), group=Group.objects.create(name="crew"), who="ada")
    lena = team_actions.add_member(by=actor(olga), team=nlp, who="group:crew", role=Role.VIEWER)
    assert lena.group is not None
    actions.new_link(by=actor(olga), user=ada)
    Client(headers={"user-agent": "Firefox"}).force_login(ada)
    tokens.create_token(user=ada, name="laptop", scope=Scope.READ, days=1)
    content = {"variable": "WANDB_API_KEY", "token": "hunter2-as-well"}
    create_credential(by=actor(ada), name="wandb", kind=CredentialKind.TOKEN, content=content)
    make_workload(nlp, ada, name="train", environment={"API_KEY": "hunter2-hunter2"})
    return ada


def text_of(user: User, by: User | None = None) -> str:
    written = begin_export(by=Actor.person(by or user, Via.PAGE), user=user)
    text = written.begin()
    while part := written.go_on():
        text += part
    return text


def document(user: User, by: User | None = None) -> Any:
    return json.loads(text_of(user, by))


def test_it_tells_all_that_is_kept(ada: User) -> None:
    told = document(ada)
    assert (told["form"], told["complete"]) == ("chamber-person-1", True)
    assert told["profile"]["name"] == "Ada Lovelace"
    assert told["emails"] == [{"email": "ada@example.org", "verified": True, "primary": True}]
    assert {(role["team"], role["role"], role["group"]) for role in told["roles"]} == {
        ("nlp", "researcher", None),
        ("nlp", "viewer", "crew"),
    }
    assert told["groups"] == ["crew"]
    assert [(token["name"], token["scope"]) for token in told["tokens"]] == [("laptop", "read")]
    assert [(link["for"], link["made_by"]) for link in told["links"]] == [("ada", "olga")]
    assert [(row["name"], row["parts"]) for row in told["credentials"]] == [("wandb", ["token"])]
    [workload] = told["workloads"]
    assert (workload["name"], workload["team"], workload["variables"]) == ("train", "nlp", ["API_KEY"])
    assert [row["action"] for row in told["audit_by"]] == [
        "person.exported",
        "credential.created",
        "token.created",
    ]
    assert {row["action"] for row in told["audit_about"]} == {"group.person-added", "person.reset-begun"}


def _texts(data: Any) -> list[str]:
    if isinstance(data, dict | list):
        inner = data.values() if isinstance(data, dict) else data
        return [text for each in inner for text in _texts(each)]
    return [str(data)]


def test_no_secret_is_in_it(ada: User) -> None:
    codes = with_app(ada)
    UserSession.objects.create(user=ada, session_key="k" * 32, ip="192.0.2.7", user_agent="x")
    ada.refresh_from_db()
    text = text_of(ada)
    assert "Authenticator app" in text
    secrets = [
        ada.password,
        *ada.links.values_list("token_hash", flat=True),
        *ApiToken.objects.values_list("token_hash", flat=True),
        *ApiToken.objects.values_list("prefix", flat=True),
        *UserSession.objects.values_list("session_key", flat=True),
        *codes,
        SECRET,
        *(
            each
            for each in _texts(list(Authenticator.objects.values_list("data", flat=True)))
            if len(each) > 9
        ),
        "hunter2",
        PHRASE,
        "argon2",
        "token_hash",
    ]
    assert len(secrets) >= 8
    assert [secret for secret in secrets if secret in text] == []


def test_what_others_did_is_told_without_their_addresses_to_oneself_and_with_them_to_an_admin(
    ada: User, olga: User
) -> None:
    Client(REMOTE_ADDR="192.0.2.66", headers={"user-agent": "Olga's"}).force_login(olga)
    page = Client(REMOTE_ADDR="192.0.2.66")
    page.force_login(olga)
    page.post("/people/ada/link/", {"show": "1"})
    assert "192.0.2.66" not in json.dumps(document(ada)["audit_about"])
    assert "192.0.2.66" in json.dumps(document(ada, by=olga)["audit_about"])


def test_of_somebody_else_nothing_is_in_it(ada: User, olga: User, nlp: Team) -> None:
    bob = member(nlp, Role.RESEARCHER, "bob")
    make_workload(nlp, bob, name="bobs")
    tokens.create_token(user=bob, name="bobs token", scope=Scope.READ, days=1)
    assert "bob" not in text_of(ada)


def test_every_table_that_names_a_person_is_told_or_left_out_by_name() -> None:
    """A new one goes into the document, or into the list of `docs/people.md` and here."""
    told = {
        *("mfa.authenticator", "socialaccount.socialaccount"),
        *("account.emailaddress", "usersessions.usersession", "chamber.apitoken", "chamber.accountlink"),
        *("teams.binding", "teams.auditevent", "workloads.workload", "chamber.user", "auth.group"),
        *("chamber.provisionedperson", "workloads.credential"),
    }
    left_out = {
        "workloads.event",  # of their workloads, and of others'
        "workloads.submissionkey",  # a day
        "workloads.workloadarray",  # its members are told, as workloads
        "workloads.environmentversion",  # of a team; that somebody made it is in the trail
        "agentlink.boundnamespace",  # an account of Chamber's own
        "agentlink.adoptedjob",  # the workload is told
        "auth.permission",  # nobody has any
        "chamber.serviceaccount",  # of a team; that somebody made it is in the trail
        "chamber.servicetoken",  # the same
    }
    found = {
        model._meta.label_lower
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.related_model is User and (field.concrete or field.many_to_many)
    }
    assert found <= told | left_out
    assert left_out <= found


def test_many_rows_come_in_parts(ada: User, nlp: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    for number in range(4):
        make_workload(nlp, ada, name=f"more {number}")
        tokens.create_token(user=ada, name=f"token {number}", scope=Scope.READ, days=1)
    told = document(ada)
    names = [row["name"] for row in told["workloads"]]
    assert names == ["more 3", "more 2", "more 1", "more 0", "train"]
    assert len(told["audit_by"]) == 7


def test_who_may(ada: User, olga: User, nlp: Team) -> None:
    lena = member(nlp, Role.LEAD, "lena")
    alma = member(nlp.parent, Role.AUDITOR, "alma")  # type: ignore[arg-type]
    for user, path, status in (
        (ada, API, 200),
        (olga, API, 200),
        (lena, API, 403),
        (alma, API, 403),
        (ada, "/api/v1/people/olga/export/", 403),
        (olga, "/api/v1/people/nobody/export/", 404),
    ):
        client = APIClient()
        client.force_authenticate(user)
        answer = client.post(path)
        assert answer.status_code == status, (user, path)
        if status == 200:
            assert json.loads(answer.getvalue())["complete"]
    noted = AuditEvent.objects.filter(action="person.exported").values_list("actor", "target_name")
    assert sorted(noted) == [("ada", "ada"), ("olga", "ada")]


def test_a_token_that_only_reads_exports_nothing(ada: User) -> None:
    _, secret = tokens.create_token(user=ada, name="reads", scope=Scope.READ, days=1)
    client = APIClient(headers={"Authorization": f"Bearer {secret}"})
    assert client.post(API).status_code == 403


def test_the_pages_send_it_as_a_file(ada: User, olga: User, client: Client) -> None:
    client.force_login(ada)
    assert 'action="/settings/export/"' in client.get("/settings/").content.decode()
    answer = client.post("/settings/export/")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="ada.json"'
    assert json.loads(answer.getvalue())["profile"]["username"] == "ada"
    assert client.get("/settings/export/").status_code == 405
    client.force_login(olga)
    assert 'action="/people/ada/export/"' in client.get("/people/ada/").content.decode()
    assert client.post("/people/ada/export/").status_code == 200


@pytest.mark.django_db(transaction=True)
async def test_it_is_sent_from_the_event_loop_too(ada: User) -> None:
    client = AsyncClient()
    await sync_to_async(client.force_login)(ada)
    answer: Any = await client.post("/settings/export/")
    parts = [part async for part in answer.streaming_content]
    assert json.loads(b"".join(parts))["complete"]
