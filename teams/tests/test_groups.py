"""Groups of people: made and filled by organisation admins, given roles like persons, on pages and over the API."""

import pytest
from django.contrib.auth.models import Group

from chamber.errors import Conflict, NotAllowed, Refusal
from teams.actions import (
    add_member,
    add_to_group,
    create_group,
    delete_group,
    remove_from_group,
    require_second_factor,
)
from teams.models import AuditEvent, Binding, Role
from teams.permissions import Permission, may
from teams.tests.conftest import Acme, Api, SignIn
from teams.tests.factories import actor, make_user

PAGE, API = "/settings/groups/", "/api/v1/groups/"


@pytest.fixture
def crew(acme: Acme) -> Group:
    """The group `crew`, with sven in it."""
    group = create_group(by=actor(acme.org_admin), name="crew")
    add_to_group(by=actor(acme.org_admin), group=group, who="sven")
    return group


def test_a_groups_role_is_everybodys_in_it_while_they_are(acme: Acme, crew: Group) -> None:
    binding = add_member(by=actor(acme.lead), team=acme.nlp, who=" group:crew ", role=Role.RESEARCHER)
    assert (binding.group, binding.user) == (crew, None)
    assert may(acme.stranger, Permission.SUBMIT, acme.nlp)
    with pytest.raises(Conflict, match="crew is researcher of NLP already"):
        add_member(by=actor(acme.lead), team=acme.nlp, who="group:crew", role=Role.RESEARCHER)
    remove_from_group(by=actor(acme.org_admin), group=crew, user=acme.stranger)
    again = type(acme.stranger).objects.get(pk=acme.stranger.pk)
    assert not may(again, Permission.SUBMIT, acme.nlp)
    told = [event.action for event in AuditEvent.objects.order_by("at", "id")]
    assert told == ["group.created", "group.person-added", "member.added", "group.person-removed"]


def test_a_group_that_there_is_not_is_told_beside_the_name(acme: Acme) -> None:
    with pytest.raises(Refusal, match="There is no group named 'crew'") as refusal:
        add_member(by=actor(acme.lead), team=acme.nlp, who="group:crew", role=Role.VIEWER)
    assert list(refusal.value.fields) == ["who"]


@pytest.mark.parametrize("name", ["", "Crew", "a b", "-a", "a" * 61, "group:x"])
def test_names_are_words(acme: Acme, name: str) -> None:
    with pytest.raises(Refusal, match="is no name for a group"):
        create_group(by=actor(acme.org_admin), name=name)


def test_nothing_is_made_or_added_twice(acme: Acme, crew: Group) -> None:
    with pytest.raises(Conflict, match="There is a group named 'crew' already"):
        create_group(by=actor(acme.org_admin), name="crew")
    with pytest.raises(Conflict, match="sven is in the group crew already"):
        add_to_group(by=actor(acme.org_admin), group=crew, who="sven@example.org")
    with pytest.raises(Refusal, match="There is no account"):
        add_to_group(by=actor(acme.org_admin), group=crew, who="nobody")


def test_a_group_with_a_role_stays(acme: Acme, crew: Group) -> None:
    binding = add_member(by=actor(acme.org_admin), team=acme.nlp, who="group:crew", role=Role.LEAD)
    with pytest.raises(Conflict, match="The group crew is lead of NLP; take its roles away first"):
        delete_group(by=actor(acme.org_admin), group=crew)
    binding.delete()
    delete_group(by=actor(acme.org_admin), group=crew)
    assert not Group.objects.exists()


def test_the_last_organisation_admin_cannot_be_taken_out(acme: Acme, crew: Group) -> None:
    add_member(by=actor(acme.org_admin), team=acme.root, who="group:crew", role=Role.ORG_ADMIN)
    Binding.objects.filter(user=acme.org_admin).delete()
    by = actor(type(acme.stranger).objects.get(pk=acme.stranger.pk))
    with pytest.raises(Conflict, match="sven is the last organisation admin"):
        remove_from_group(by=by, group=crew, user=acme.stranger)
    assert crew.user_set.count() == 1
    add_to_group(by=by, group=crew, who="adam")
    remove_from_group(by=by, group=crew, user=acme.stranger)
    assert [user.username for user in crew.user_set.all()] == ["adam"]


@pytest.mark.parametrize("who", ["lead", "admin"])
def test_others_change_no_group_whatever_they_lead(acme: Acme, crew: Group, who: str) -> None:
    by = actor(getattr(acme, who))
    for attempt in (
        lambda: create_group(by=by, name="mine"),
        lambda: delete_group(by=by, group=crew),
        lambda: add_to_group(by=by, group=crew, who=who),
        lambda: remove_from_group(by=by, group=crew, user=acme.stranger),
    ):
        with pytest.raises(NotAllowed, match="by organisation admins"):
            attempt()


# Pages


def test_a_group_is_made_filled_and_emptied_on_its_pages(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    assert "No groups yet" in browser.get(PAGE).content.decode()
    page = browser.post(PAGE, {"name": "crew"}, follow=True).content.decode()
    assert "Nobody is in it" in page
    address = f"{PAGE}{Group.objects.get().pk}/"
    page = browser.post(address, {"who": "sven"}, follow=True).content.decode()
    assert "sven is in the group crew." in page
    browser.post("/teams/nlp/members/", {"who": "group:crew", "role": "viewer"})
    assert "Viewer of NLP" in browser.get(PAGE).content.decode().replace("\n", "")
    page = browser.post(f"{address}delete/", follow=True).content.decode()
    assert "take its roles away first" in page
    page = browser.post(f"{address}people/sven/remove/", follow=True).content.decode()
    assert "sven is not in the group crew any more." in page
    assert browser.post(f"{address}people/sven/remove/").status_code == 404


def test_what_cannot_be_is_told_beside_the_field(acme: Acme, crew: Group, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    answer = browser.post(PAGE, {"name": "No"})
    assert (answer.status_code, "is no name for a group" in answer.content.decode()) == (422, True)
    answer = browser.post(f"{PAGE}{crew.pk}/", {"who": "nobody"})
    assert (answer.status_code, 'value="nobody"' in answer.content.decode()) == (422, True)
    assert browser.get(f"{PAGE}999999/").status_code == 404


def test_a_lead_sees_groups_and_of_roles_those_in_sight(acme: Acme, crew: Group, sign_in: SignIn) -> None:
    for team in (acme.nlp, acme.production):
        add_member(by=actor(acme.org_admin), team=team, who="group:crew", role=Role.VIEWER)
    page = sign_in(acme.lead).get(f"{PAGE}{crew.pk}/").content.decode()
    assert ("NLP" in page, "Production" in page, "Add somebody" in page) == (True, False, False)
    assert sign_in(acme.researcher).get(PAGE).status_code == 403


def test_many_groups_cost_as_many_queries_as_one(
    acme: Acme, crew: Group, sign_in: SignIn, django_assert_max_num_queries: object
) -> None:
    for number in range(30):
        group = create_group(by=actor(acme.org_admin), name=f"crew-{number}")
        group.user_set.add(make_user(f"person-{number}"))
        add_member(by=actor(acme.org_admin), team=acme.nlp, who=f"group:{group.name}", role=Role.VIEWER)
    browser = sign_in(acme.org_admin)
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        assert "crew-29" in browser.get(PAGE).content.decode()


# The API


def test_the_api_does_the_same(acme: Acme, api: Api) -> None:
    client = api(acme.org_admin)
    made = client.post(API, {"name": "crew"}, format="json")
    assert (made.status_code, made.json()["people"]) == (201, [])
    address = f"{API}{made.json()['id']}/"
    put = client.post(f"{address}people/", {"who": "sven"}, format="json")
    assert (put.status_code, put.json()["people"], put.json()["size"]) == (201, ["sven"], 1)
    role = client.post("/api/v1/teams/nlp/members/", {"who": "group:crew", "role": "lead"}, format="json")
    assert (role.status_code, role.json()["group"], role.json()["username"]) == (201, "crew", None)
    (listed,) = client.get(API).json()["results"]
    assert listed["roles"] == [{"team": "nlp", "role": "lead"}]
    assert client.delete(address).status_code == 409
    client.delete(f"/api/v1/teams/nlp/members/{role.json()['id']}/")
    assert client.delete(f"{address}people/sven/").status_code == 204
    assert client.delete(f"{address}people/sven/").status_code == 404
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert client.post(API, {"name": "crew", "colour": "red"}, format="json").status_code == 422


def test_whose_role_was_taken_while_a_request_was_under_way_fills_no_group(acme: Acme, crew: Group) -> None:
    by = actor(acme.org_admin)
    assert may(acme.org_admin, Permission.MANAGE_GROUPS, acme.root), "kept with the person from here on"
    Binding.objects.filter(user=acme.org_admin).delete()
    with pytest.raises(NotAllowed, match="by organisation admins"):
        add_to_group(by=by, group=crew, who="rita")
    with pytest.raises(NotAllowed, match="How people sign in is changed by organisation admins"):
        require_second_factor(by=by, version=0, required=True, grace_days=7)
    assert not crew.user_set.filter(username="rita").exists()
