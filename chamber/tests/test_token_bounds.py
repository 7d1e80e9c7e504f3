"""What a token leaves of its owner's roles: a team and all below it, and what its scope may change."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from chamber.models import ApiToken, Scope, User
from chamber.tokens import create_token
from teams.models import AuditEvent, Binding, Role, Team
from teams.permissions import OF_SCOPE
from teams.tests.factories import bind, make_org, make_pool, make_team, make_user, member
from workloads.models import Workload
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.stores

API = "/api/v1/"
IF_ANY = {"If-Match": "*"}


class World:
    """acme
    ├── research
    │   ├── nlp        speech below it
    │   └── vision
    └── production
    """

    def __init__(self) -> None:
        self.acme = make_org("Acme")
        self.research, self.production = make_team(self.acme, "Research"), make_team(self.acme, "Production")
        self.nlp, self.vision = make_team(self.research, "NLP"), make_team(self.research, "Vision")
        self.speech = make_team(self.nlp, "Speech")
        self.pool = make_pool("Main")
        self.olga = member(self.acme, Role.ORG_ADMIN, "olga", password="difference engine")
        for team in (self.nlp, self.vision, self.speech):
            make_workload(team, self.olga, slug=f"{team.slug}-1")


@pytest.fixture
def world(db: None) -> World:
    return World()


class Bearer:
    """A client with a token."""

    def __init__(self, user: User, scope: Scope = Scope.ADMIN, team: Team | None = None) -> None:
        self.token, secret = create_token(user=user, name="test", scope=scope, days=9, team=team)
        self._headers = {"Authorization": f"Bearer {secret}"}

    def get(self, path: str) -> Any:
        return Client().get(API + path, headers=self._headers)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a body of JSON."""
        ask = getattr(Client(), method)
        return ask(API + path, body or {}, "application/json", headers={**self._headers, **IF_ANY})

    def slugs(self, path: str) -> set[str]:
        return {row["slug"] for row in self.get(path).json()["results"]}


def test_a_token_of_a_team_sees_that_team_and_those_below_it(world: World) -> None:
    bearer = Bearer(world.olga, team=world.nlp)

    assert bearer.slugs("teams/") == {"nlp", "speech"}
    assert bearer.slugs("workloads/") == {"nlp-1", "speech-1"}
    assert bearer.get("workloads/vision-1/").status_code == 404
    assert bearer.get("teams/vision/").status_code == 404
    assert bearer.get("audit/?team=vision").status_code == 404


def test_what_a_role_gives_further_down_a_token_of_the_team_above_it_reaches(world: World) -> None:
    rita = member(world.speech, Role.RESEARCHER, "rita")
    bind(rita, world.vision, Role.RESEARCHER)

    bearer = Bearer(rita, team=world.speech)

    assert bearer.slugs("workloads/") == {"speech-1"}
    assert Bearer(rita).slugs("workloads/") == {"speech-1", "vision-1"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "pools/", {"name": "Spare", "slug": "spare"}),
        ("patch", "pools/main/", {"paused": True}),
        ("post", "clusters/", {"name": "west"}),
        ("post", "groups/", {"name": "night-shift"}),
        ("post", "people/", {"username": "ivy"}),
        ("post", "people/", {"username": "ivy", "team": "acme", "role": "org-admin"}),
        ("post", "people/", {"username": "ivy", "team": "vision", "role": "viewer"}),
        ("post", "people/rita/disable/", {}),
        ("post", "teams/", {"parent": "acme", "name": "More"}),
        ("post", "teams/", {"parent": "vision", "name": "More"}),
        ("post", "teams/nlp/members/", {"who": "rita", "role": "org-admin"}),
        ("patch", "teams/nlp/", {"maximum": 4}),
        ("post", "workloads/", {"name": "x", "team": "vision", "image": "x"}),
        ("post", "workloads/vision-1/cancel/", {}),
        ("post", "tokens/", {"name": "more", "scope": "admin"}),
        ("delete", "people/olga/sessions/", {}),
    ],
)
def test_what_is_outside_its_team_a_token_of_an_organisation_admin_does_not_reach(
    world: World, method: str, path: str, body: dict[str, Any]
) -> None:
    member(world.nlp, Role.VIEWER, "rita")

    answer = Bearer(world.olga, team=world.nlp).send(method, path, body)

    assert answer.status_code in {403, 404, 422}, answer.content
    assert Bearer(world.olga).send(method, path, body).status_code < 400 or body == {
        "who": "rita",
        "role": "org-admin",
    }


def test_within_its_team_a_token_of_an_organisation_admin_does_what_an_admin_of_it_may(world: World) -> None:
    bearer = Bearer(world.olga, team=world.nlp)
    make_user("rita")

    assert bearer.send("post", "teams/nlp/members/", {"who": "rita", "role": "admin"}).status_code == 201
    assert bearer.send("post", "teams/", {"parent": "nlp", "name": "More"}).status_code == 201
    assert bearer.send("patch", "teams/speech/", {"maximum": 4}).status_code == 200
    assert bearer.send("post", "workloads/nlp-1/cancel/").status_code == 200


def test_it_says_what_it_reaches(world: World) -> None:
    me = Bearer(world.olga, team=world.nlp).get("me/").json()

    assert me["token"]["team"] == "nlp"
    assert me["roles"] == [{"team": "nlp", "team_name": "NLP", "role": "admin"}]
    assert [place["team"] for place in me["may_submit_to"]] == ["nlp", "speech"]


def test_what_is_about_the_whole_account_takes_no_token_of_a_team(world: World) -> None:
    bearer = Bearer(world.olga, team=world.nlp)
    other = Bearer(world.olga)

    for path in ("tokens/", "people/olga/sessions/"):
        refused = bearer.get(path)
        assert (refused.status_code, "reaches only NLP" in refused.json()["detail"]) == (403, True)
    refused = bearer.send("delete", f"tokens/{other.token.pk}/")
    assert refused.json()["detail"] == "A token that reaches only NLP can revoke only itself."
    assert bearer.send("delete", f"tokens/{bearer.token.pk}/").status_code == 204


def test_an_answer_that_a_key_gives_again_is_one_of_its_team(world: World) -> None:
    body = {"name": "x", "team": "vision", "image": "x"}
    headers = {"Idempotency-Key": "again"}
    wide, narrow = Bearer(world.olga), Bearer(world.olga, team=world.nlp)
    for bearer, status in ((wide, 201), (wide, 201), (narrow, 404)):
        answer = Client().post(
            f"{API}workloads/", body, "application/json", headers={**bearer._headers, **headers}
        )
        assert answer.status_code == status
    assert Workload.objects.filter(name="x").count() == 1


def test_no_token_is_made_for_a_team_that_its_owner_does_not_see(world: World) -> None:
    rita = member(world.vision, Role.LEAD, "rita")

    answer = Bearer(rita).send("post", "tokens/", {"name": "x", "scope": "read", "team": "nlp"})

    assert (answer.status_code, list(answer.json()["errors"])) == (404, ["team"])


def test_no_token_is_made_for_a_team_that_was_archived(world: World) -> None:
    Team.objects.filter(pk=world.nlp.pk).update(archived_at="2026-01-01T00:00:00Z")

    answer = Bearer(world.olga).send("post", "tokens/", {"name": "x", "scope": "read", "team": "nlp"})

    assert (answer.status_code, "was archived" in answer.json()["detail"]) == (409, True)


def test_a_token_goes_with_its_team(world: World) -> None:
    team = make_team(world.research, "Gone")
    bearer = Bearer(world.olga, team=team)
    assert bearer.get("me/").status_code == 200

    assert Bearer(world.olga).send("delete", "teams/gone/").status_code == 204

    assert bearer.get("me/").status_code == 401, "it does not reach everything instead"


def test_the_page_makes_a_token_of_a_team(world: World) -> None:
    client = Client()
    client.force_login(world.olga)

    made = client.post(
        "/tokens/", {"name": "ci", "scope": "submit", "expires_in_days": "9", "team": "speech"}
    )

    assert made.status_code == 200
    token = ApiToken.objects.get()
    assert (token.team, token.scope) == (world.speech, "submit")
    assert "Speech</a>" in client.get("/tokens/").content.decode()
    row = AuditEvent.objects.get(action="token.created")
    assert (row.after["scope"], row.after["team"]) == ("submit", "speech")


def test_a_login_makes_a_token_of_a_team(world: World) -> None:
    login = {"username": "olga", "password": "difference engine", "team": "nlp"}
    made = Client().post(f"{API}login/", login, "application/json").json()

    assert (made["team"], made["scope"]) == ("nlp", "admin")


def test_from_where_it_was_last_used_is_shown(world: World) -> None:
    bearer = Bearer(world.olga)
    Client(REMOTE_ADDR="192.0.2.9").get(f"{API}me/", headers=bearer._headers)

    assert bearer.get("tokens/").json()["results"][0]["last_address"] == "192.0.2.9"
    client = Client()
    client.force_login(world.olga)
    assert "from 192.0.2.9" in client.get("/tokens/").content.decode()


# Scopes

ADMINS = [
    ("post", "teams/", {"parent": "nlp", "name": "More"}),
    ("delete", "teams/speech/", {}),
    ("post", "pools/", {"name": "Spare", "slug": "spare"}),
    ("post", "clusters/", {"name": "west"}),
    ("post", "groups/", {"name": "night-shift"}),
    ("post", "people/rita/disable/", {}),
    ("put", "teams/nlp/rules/", {"largest_workload": 4}),
    ("post", "tokens/", {"name": "more", "scope": "read"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMINS)
def test_a_scope_below_admin_does_not_do_what_admins_do(
    world: World, method: str, path: str, body: dict[str, Any]
) -> None:
    member(world.nlp, Role.VIEWER, "rita")
    for scope in (Scope.READ, Scope.SUBMIT, Scope.MANAGE):
        answer = Bearer(world.olga, scope).send(method, path, body)
        assert answer.status_code == 403
        assert f"The token's scope is '{scope}'; this needs 'admin'." in answer.json()["detail"]


def test_a_managing_token_of_an_admin_does_what_a_lead_may_and_no_more(world: World) -> None:
    rita = member(world.nlp, Role.VIEWER, "rita")
    binding = Binding.objects.get(user=rita)
    bearer = Bearer(world.olga, Scope.MANAGE)
    as_lead = f"teams/nlp/members/{binding.pk}/"

    assert bearer.send("patch", as_lead, {"role": "lead"}).status_code == 200
    refused = bearer.send("patch", as_lead, {"role": "admin"})
    assert refused.status_code == 403
    assert refused.json()["detail"] == (
        "In NLP you may give and take the roles viewer, researcher, lead; not admin. The token's scope is 'manage'."
    )
    assert bearer.send("patch", "teams/nlp/", {"bursting_priority": 4}).status_code == 200
    refused = bearer.send("patch", "teams/nlp/", {"maximum": 4})
    assert (refused.status_code, refused.json()["detail"].endswith("The token's scope is 'manage'.")) == (
        403,
        True,
    )
    assert bearer.send("patch", "teams/acme/", {"maximum": 4}).status_code == 403
    assert bearer.send("post", "people/", {"username": "ivy"}).status_code == 403
    assert (
        bearer.send("post", "people/", {"username": "ivy", "team": "nlp", "role": "lead"}).status_code == 201
    )
    assert bearer.send("post", "workloads/nlp-1/cancel/").status_code == 200


def test_reading_is_not_bounded_by_the_scope(world: World) -> None:
    bearer = Bearer(world.olga, Scope.READ)

    for path in ("people/", "groups/", "audit/", "teams/", "clusters/"):
        assert bearer.get(path).status_code == 200, path


def test_a_scope_names_permissions_for_each_that_there_is() -> None:
    assert set(OF_SCOPE) == set(Scope.values)
    steps = [OF_SCOPE[scope] for scope in Scope.values]
    assert all(before < after for before, after in pairwise(steps))


def test_what_releases_before_made_to_manage_does_all_still(world: World) -> None:
    bearer = Bearer(world.olga, Scope.ADMIN)
    with connection.cursor() as cursor:
        cursor.execute("SELECT scope FROM chamber_apitoken")
        assert cursor.fetchall() == [("manage",)], "and theirs read what is made now"
    assert ApiToken.objects.get().scope == "admin"
    assert ApiToken.objects.filter(scope=Scope.ADMIN).exists()
    assert bearer.send("post", "groups/", {"name": "night-shift"}).status_code == 201
