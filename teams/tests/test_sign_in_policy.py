"""What the organisation asks of whoever signs in: set by organisation admins, by page, API and file."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from chamber.errors import NotAllowed, Refusal, StaleVersion
from chamber.models import User
from teams import actions
from teams.models import AuditEvent, Role, SignInPolicy, Team
from teams.tests.factories import actor, make_org, make_team, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga")


def required(by: User, version: int = 0, days: int = 14, required: bool = True) -> SignInPolicy:
    return actions.require_second_factor(by=actor(by), version=version, required=required, grace_days=days)


def told() -> list[tuple[object, object]]:
    rows = AuditEvent.objects.filter(action="organisation.sign-in-changed").order_by("at")
    return list(rows.values_list("before", "after"))


@pytest.mark.parametrize(
    ("role", "at_root", "shown"),
    [
        (Role.AUDITOR, True, True),
        (Role.ADMIN, True, True),
        (Role.ADMIN, False, False),
        (Role.LEAD, True, False),
        (Role.OPERATOR, True, False),
    ],
)
def test_the_menu_leads_whoever_may_see_it_there_and_to_groups_of_providers(
    acme: Team, role: Role, at_root: bool, shown: bool
) -> None:
    reader = member(acme if at_root else make_team(acme, "NLP"), role, "reader")
    client = Client()
    client.force_login(reader)
    menu = client.get("/settings/").content.decode()
    for address in ("/settings/sign-in/", "/settings/provider-groups/"):
        assert (f'class="menu-item" href="{address}"' in menu) == shown
        assert (client.get(address).status_code == 200) == shown


def test_days_count_from_when_it_began(olga: User) -> None:
    first = required(olga)
    assert first.required_since is not None
    later = required(olga, version=1, days=30)
    assert later.required_since == first.required_since
    assert later.required_from == first.required_since + timedelta(days=30)
    assert required(olga, version=2, days=30).version == 2, "nothing changed"
    assert required(olga, version=2, required=False).required_from is None
    assert told() == [
        (
            {"second_factor_required": False, "grace_days": None},
            {"second_factor_required": True, "grace_days": 14},
        ),
        ({"grace_days": 14}, {"grace_days": 30}),
        (
            {"second_factor_required": True, "grace_days": 30},
            {"second_factor_required": False, "grace_days": None},
        ),
    ]


def test_of_two_who_change_it_the_second_is_told(olga: User) -> None:
    required(olga)
    with pytest.raises(StaleVersion):
        required(olga, days=3)


@pytest.mark.parametrize("days", [-1, 91])
def test_days_are_bounded_in_words_and_in_the_database(olga: User, acme: Team, days: int) -> None:
    with pytest.raises(Refusal, match="0 to 90 days"):
        required(olga, days=days)
    with pytest.raises(IntegrityError), transaction.atomic():
        SignInPolicy.objects.create(team=acme, grace_days=91)


@pytest.mark.parametrize("role", [Role.ADMIN, Role.OPERATOR, Role.AUDITOR, Role.LEAD])
def test_only_an_organisation_admin_changes_it(acme: Team, role: Role) -> None:
    with pytest.raises(NotAllowed, match="organisation admins"):
        required(member(acme, role))


def put(client: Client, rule: Any, version: int | str = 0) -> Any:
    return client.put(
        "/api/v1/sign-in/",
        {"second_factor": rule},
        content_type="application/json",
        headers={"If-Match": f'"{version}"'},
    )


def test_the_api_reads_and_replaces_it(client: Client, olga: User) -> None:
    client.force_login(olga)
    assert client.get("/api/v1/sign-in/").json() == {
        "second_factor": {"required": False, "grace_days": 14, "required_from": None},
        "providers": [],
        "version": 0,
    }
    answer = put(client, {"required": True, "grace_days": 7})
    assert answer.status_code == 200
    assert answer.headers["ETag"] == '"1"'
    assert answer.json()["second_factor"]["required_from"] is not None
    assert put(client, {"required": True}).status_code == 412
    without = client.put("/api/v1/sign-in/", {}, content_type="application/json")
    assert without.status_code == 428
    for rule in ({"required": True, "grace_days": 91}, {"required": "maybe"}, {"grace_days": 1}, {"x": 1}, 3):
        assert put(client, rule, 1).status_code == 422, rule


def test_an_auditor_reads_it_and_an_admin_below_does_not(client: Client, acme: Team) -> None:
    client.force_login(member(acme, Role.AUDITOR))
    assert client.get("/api/v1/sign-in/").status_code == 200
    assert put(client, {"required": True}).status_code == 403
    client.force_login(member(make_team(acme, "NLP"), Role.ADMIN))
    assert client.get("/api/v1/sign-in/").status_code == 403


def test_the_page_shows_who_lacks_one_and_changes_it(client: Client, olga: User, acme: Team) -> None:
    member(acme, Role.VIEWER, "vera")
    client.force_login(olga)
    text = client.get("/settings/sign-in/").content.decode()
    assert "2 people have none" in text
    answer = client.post("/settings/sign-in/", {"version": "0", "required": "on", "grace_days": "91"})
    assert answer.status_code == 422
    assert "91" in answer.content.decode()
    sent = {"version": "0", "required": "on", "grace_days": "7"}
    assert client.post("/settings/sign-in/", sent).status_code == 302
    assert SignInPolicy.objects.get().grace_days == 7
    assert client.post("/settings/sign-in/", sent).status_code == 422, "an older version"
