"""Groups that a provider keeps, and the roles that they give."""

from typing import Any

import pytest

from chamber.models import ProvisionedGroup, User
from chamber.scim import groups
from chamber.tests.scim.conftest import GROUP, Scim
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import bind

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("olga")]
SYSTEM = Actor.system("test")


def mapped(team: Team, role: Role | None = Role.RESEARCHER, name: str = "gpu") -> None:
    actions.set_provider_role(by=SYSTEM, provider="acme", name=name, team=team, role=role)


def roles(username: str = "ada") -> list[tuple[str, str]]:
    rows = Binding.objects.filter(group__user__username=username).order_by("team__path", "role")
    return list(rows.values_list("team__slug", "role"))


def test_a_group_gives_a_role_and_takes_it_away(scim: Scim, nlp: Team) -> None:
    mapped(nlp)
    ada = scim.person()
    made = scim.group("gpu", ada)
    assert roles() == [("nlp", "researcher")]
    [member] = made["members"]
    assert member["$ref"] == f"http://testserver/scim/acme/v2/Users/{ada['id']}"
    assert [each["display"] for each in scim.get(f"Users/{ada['id']}")["groups"]] == ["gpu"]
    out = {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}
    assert scim.patch(f"Groups/{made['id']}", out).status_code == 204
    assert roles() == []
    rows = AuditEvent.objects.filter(action__startswith="group.person-").order_by("at")
    assert [(row.actor, row.action, row.target_name) for row in rows] == [
        ("provider acme", "group.person-added", "acme:gpu"),
        ("provider acme", "group.person-removed", "acme:gpu"),
    ]


@pytest.mark.parametrize("path", ["members", "Members"])
def test_members_are_removed_as_entra_id_names_them(scim: Scim, nlp: Team, path: str) -> None:
    mapped(nlp)
    people = [scim.person(name) for name in ("ada", "bob", "carl")]
    made = scim.group("gpu", *people)
    values = [{"value": each["id"]} for each in people[:2]]
    assert (
        scim.patch(f"Groups/{made['id']}", {"op": "Remove", "path": path, "value": values}).status_code == 204
    )
    assert [each["display"] for each in scim.get(f"Groups/{made['id']}")["members"]] == ["carl"]
    assert (roles("ada"), roles("carl")) == ([], [("nlp", "researcher")])
    add = {"op": "Add", "path": "members", "value": values[:1]}
    assert scim.patch(f"Groups/{made['id']}", add).status_code == 204
    assert roles("ada") == [("nlp", "researcher")]


def test_a_group_is_replaced_renamed_and_deleted(scim: Scim, nlp: Team, acme: Team) -> None:
    mapped(nlp)
    mapped(acme, Role.VIEWER, "all")
    ada, bob = scim.person("ada"), scim.person("bob")
    made = scim.group("gpu", ada)
    values = {"schemas": [GROUP], "displayName": "gpu", "members": [{"value": bob["id"]}]}
    assert scim.ask("PUT", f"Groups/{made['id']}", values).status_code == 200
    assert (roles("ada"), roles("bob")) == ([], [("nlp", "researcher")])
    scim.patch(f"Groups/{made['id']}", {"op": "Replace", "path": "displayName", "value": "all"})
    assert roles("bob") == [("acme", "viewer")]
    assert scim.ask("DELETE", f"Groups/{made['id']}").status_code == 204
    assert roles("bob") == []
    assert scim.ask("GET", f"Groups/{made['id']}").status_code == 404


def test_a_role_that_is_given_later_is_had_by_who_is_in_the_group(scim: Scim, nlp: Team) -> None:
    scim.group("gpu", scim.person("ada"))
    scim.group("other", scim.person("bob"))
    mapped(nlp)
    assert roles() == []
    assert groups.fill() == 1
    assert roles() == [("nlp", "researcher")]
    assert roles("bob") == []
    assert groups.fill() == 0


def test_who_is_deleted_loses_what_groups_gave(scim: Scim, nlp: Team) -> None:
    mapped(nlp)
    ada = scim.person()
    made = scim.group("gpu", ada)
    scim.ask("DELETE", f"Users/{ada['id']}")
    assert roles() == []
    assert "members" not in scim.get(f"Groups/{made['id']}")
    scim.person()
    assert roles() == [], "until the provider says so again"


def test_roles_that_were_given_by_hand_stay(scim: Scim, nlp: Team, acme: Team) -> None:
    mapped(nlp)
    ada = scim.person()
    bind(User.objects.get(username="ada"), acme, Role.VIEWER)
    made = scim.group("gpu", ada)
    scim.ask("DELETE", f"Groups/{made['id']}")
    assert Binding.objects.filter(user__username="ada").count() == 1


def test_groups_are_found_by_filters(scim: Scim) -> None:
    ada = scim.person()
    made = scim.group("gpu", ada)
    scim.group("other")
    for wanted in (
        'displayName eq "GPU"',
        f'id eq "{made["id"]}"',
        f'id eq "{made["id"]}" and members[value eq "{ada["id"]}"]',
    ):
        assert [each["id"] for each in scim.found("Groups", wanted)] == [made["id"]]
    assert scim.found("Groups", 'displayName eq "nothing"') == []
    listed = scim.get("Groups?excludedAttributes=members")["Resources"]
    assert not any("members" in each for each in listed)


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        ({}, 400, "displayName"),
        ({"displayName": "x" * 256}, 400, "displayName"),
        ({"displayName": "a\u0000b"}, 400, "can be seen"),
        ({"displayName": "gpu"}, 409, "already"),
        ({"displayName": "x", "members": [{"value": "nobody"}]}, 400, "'nobody'"),
        (
            {"displayName": "x", "members": [{"value": "01a21a9b-cc6f-7e3c-bfbf-37ef8b69b143"}]},
            400,
            "01a21a9b",
        ),
        ({"displayName": "x", "members": [{}]}, 400, "members"),
    ],
)
def test_what_cannot_be_is_told(scim: Scim, values: dict[str, Any], status: int, words: str) -> None:
    scim.group("gpu")
    answer = scim.ask("POST", "Groups", {"schemas": [GROUP], **values})
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert ProvisionedGroup.objects.count() == 1


def test_many_people_are_one_group(scim: Scim, nlp: Team) -> None:
    mapped(nlp)
    people = [scim.person(f"p{number}") for number in range(60)]
    made = scim.group("gpu", *people)
    assert len(scim.get(f"Groups/{made['id']}")["members"]) == 60
    assert Binding.objects.get(group__isnull=False).group.user_set.count() == 60  # type: ignore[union-attr]
