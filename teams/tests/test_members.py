"""add_member, change_role and remove_member: who may give and take which role where."""

import pytest
from django.contrib.auth.models import Group

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams.actions import add_member, change_role, remove_member
from teams.models import AuditEvent, Binding, Role
from teams.permissions import Permission, may
from teams.tests.conftest import Acme
from teams.tests.factories import actor, bind, make_user


def test_a_lead_gives_roles_in_the_own_part_of_the_tree(acme: Acme) -> None:
    binding = add_member(by=actor(acme.lead), team=acme.nlp, who="sven", role=Role.RESEARCHER)
    assert may(acme.stranger, Permission.SUBMIT, acme.nlp)
    event = AuditEvent.objects.get()
    assert (event.action, event.after) == ("member.added", {"who": "sven", "role": "researcher"})
    assert event.team_path == acme.nlp.path
    assert binding.user == acme.stranger


@pytest.mark.parametrize("who", ["sven", " sven ", "sven@example.org", "SVEN@example.org"])
def test_people_are_found_by_name_or_address(acme: Acme, who: str) -> None:
    assert add_member(by=actor(acme.lead), team=acme.nlp, who=who, role=Role.VIEWER).user == acme.stranger


@pytest.mark.parametrize("who", ["nobody", "nobody@example.org", ""])
def test_nobody_else_is(acme: Acme, who: str) -> None:
    with pytest.raises(Refusal, match="There is no account") as refusal:
        add_member(by=actor(acme.lead), team=acme.nlp, who=who, role=Role.VIEWER)
    assert list(refusal.value.fields) == ["who"]


def test_nobody_who_is_locked_out_is(acme: Acme) -> None:
    make_user("gone", is_active=False)
    with pytest.raises(Refusal, match="'gone'"):
        add_member(by=actor(acme.lead), team=acme.nlp, who="gone", role=Role.VIEWER)


@pytest.mark.parametrize(
    ("who", "most", "first_refused"),
    [("lead", Role.LEAD, Role.ADMIN), ("admin", Role.ADMIN, None), ("org_admin", Role.ADMIN, None)],
)
def test_roles_are_given_up_to_the_own(acme: Acme, who: str, most: Role, first_refused: Role | None) -> None:
    by = actor(getattr(acme, who))
    assert add_member(by=by, team=acme.nlp, who="sven", role=most).role == most
    if first_refused:
        with pytest.raises(NotAllowed, match="you may give and take the roles viewer, researcher, lead"):
            add_member(by=by, team=acme.nlp, who="sven", role=first_refused)


@pytest.mark.parametrize("role", [Role.ORG_ADMIN, Role.OPERATOR, Role.AUDITOR])
def test_roles_of_the_organisation_are_given_at_the_root_by_its_admins(acme: Acme, role: Role) -> None:
    with pytest.raises(Refusal, match="role of the whole organisation") as refusal:
        add_member(by=actor(acme.org_admin), team=acme.research, who="sven", role=role)
    assert list(refusal.value.fields) == ["role"]
    bind(acme.admin, acme.root, Role.ADMIN)
    with pytest.raises(NotAllowed):
        add_member(by=actor(acme.admin), team=acme.root, who="sven", role=role)
    assert add_member(by=actor(acme.org_admin), team=acme.root, who="sven", role=role).role == role


@pytest.mark.parametrize("who", ["viewer", "researcher"])
def test_other_members_give_none(acme: Acme, who: str) -> None:
    with pytest.raises(NotAllowed):
        add_member(by=actor(getattr(acme, who)), team=acme.nlp, who="sven", role=Role.VIEWER)


def test_for_an_outsider_there_is_no_such_team(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        add_member(by=actor(acme.outsider), team=acme.nlp, who="sven", role=Role.VIEWER)


def test_the_same_role_is_not_given_twice(acme: Acme) -> None:
    with pytest.raises(Conflict, match="rita is researcher of NLP already"):
        add_member(by=actor(acme.lead), team=acme.nlp, who="rita", role=Role.RESEARCHER)


def test_a_role_is_taken_away(acme: Acme) -> None:
    binding = Binding.objects.get(user=acme.researcher)
    remove_member(by=actor(acme.lead), binding=binding)
    assert not Binding.objects.filter(user=acme.researcher).exists()
    assert AuditEvent.objects.get().before == {"who": "rita", "role": "researcher"}


def test_a_lead_takes_no_role_above_the_own(acme: Acme) -> None:
    with pytest.raises(NotAllowed):
        remove_member(by=actor(acme.lead), binding=Binding.objects.get(user=acme.admin))


def test_what_is_gone_cannot_be_taken(acme: Acme) -> None:
    binding, gone = (Binding.objects.get(user=acme.researcher) for _ in "ab")
    remove_member(by=actor(acme.lead), binding=binding)
    with pytest.raises(Conflict, match="took this role away"):
        remove_member(by=actor(acme.lead), binding=gone)


def test_the_last_org_admin_stays(acme: Acme) -> None:
    binding = Binding.objects.get(role=Role.ORG_ADMIN)
    for act in (
        lambda: remove_member(by=actor(acme.org_admin), binding=binding),
        lambda: change_role(by=actor(acme.org_admin), binding=binding, role=Role.VIEWER),
    ):
        with pytest.raises(Conflict, match="olga is the last organisation admin"):
            act()


def test_one_who_cannot_sign_in_does_not_count_as_another(acme: Acme) -> None:
    bind(make_user("gone", is_active=False), acme.root, Role.ORG_ADMIN)
    with pytest.raises(Conflict):
        remove_member(
            by=actor(acme.org_admin), binding=Binding.objects.get(user=acme.org_admin, role=Role.ORG_ADMIN)
        )


def test_one_of_two_may_go_also_where_the_other_is_one_by_a_group(acme: Acme) -> None:
    group = Group.objects.create(name="platform")
    acme.stranger.groups.add(group)
    Binding.objects.create(team=acme.root, group=group, role=Role.ORG_ADMIN)
    remove_member(by=actor(acme.org_admin), binding=Binding.objects.get(user=acme.org_admin))
    assert may(acme.stranger, Permission.MANAGE_POOLS, acme.root)


def test_a_role_becomes_another(acme: Acme) -> None:
    binding = Binding.objects.get(user=acme.researcher)
    assert change_role(by=actor(acme.lead), binding=binding, role=Role.LEAD).role == Role.LEAD
    event = AuditEvent.objects.get()
    assert (event.before, event.after) == ({"role": "researcher"}, {"role": "lead"})


def test_not_one_that_is_held_already(acme: Acme) -> None:
    bind(acme.researcher, acme.nlp, Role.VIEWER)
    binding = Binding.objects.get(user=acme.researcher, role=Role.RESEARCHER)
    with pytest.raises(Conflict, match="rita is viewer of NLP already"):
        change_role(by=actor(acme.lead), binding=binding, role=Role.VIEWER)


def test_roles_that_were_taken_while_a_request_was_under_way_give_and_take_none(acme: Acme) -> None:
    other = make_user("other")
    binding = Binding.objects.get(user=acme.researcher)
    by = actor(acme.lead)
    assert may(acme.lead, Permission.MANAGE_MEMBERS, acme.nlp), "kept with the person from here on"
    Binding.objects.filter(user=acme.lead).delete()
    for act in (
        lambda: add_member(by=by, team=acme.nlp, who=other.username, role=Role.LEAD),
        lambda: change_role(by=by, binding=binding, role=Role.LEAD),
        lambda: remove_member(by=by, binding=binding),
    ):
        with pytest.raises(NotVisible):
            act()
    assert list(Binding.objects.filter(user=acme.researcher)) == [binding]
