"""The table of roles, and where a role reaches."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group

from chamber.errors import NotAllowed, NotVisible
from teams.actors import Actor
from teams.models import Binding, Role, Team
from teams.permissions import (
    PERMISSIONS,
    Permission,
    grantable,
    may,
    may_anywhere,
    paths_where,
    require,
    roles_on,
)
from teams.tests.conftest import Acme
from teams.tests.factories import actor, bind, make_user


def test_every_role_has_its_permissions() -> None:
    assert set(PERMISSIONS) == set(Role)


@pytest.mark.parametrize(
    ("role", "permission", "given"),
    [
        (Role.VIEWER, Permission.VIEW_WORKLOADS, True),
        (Role.VIEWER, Permission.SUBMIT, False),
        (Role.RESEARCHER, Permission.SUBMIT, True),
        (Role.RESEARCHER, Permission.MANAGE_WORKLOADS, False),
        (Role.LEAD, Permission.MANAGE_WORKLOADS, True),
        (Role.LEAD, Permission.MANAGE_MEMBERS, True),
        (Role.LEAD, Permission.SPLIT_AMONG_CHILDREN, True),
        (Role.LEAD, Permission.MANAGE_TEAM, False),
        (Role.ADMIN, Permission.MANAGE_TEAM, True),
        (Role.ADMIN, Permission.MANAGE_POOLS, False),
        (Role.OPERATOR, Permission.OPERATE_CLUSTERS, True),
        (Role.OPERATOR, Permission.MANAGE_TEAM, False),
        (Role.AUDITOR, Permission.VIEW_AUDIT, True),
        (Role.AUDITOR, Permission.SUBMIT, False),
    ],
)
def test_what_roles_give(role: Role, permission: Permission, given: bool) -> None:
    assert (permission in PERMISSIONS[role]) is given


def test_an_org_admin_may_everything() -> None:
    assert PERMISSIONS[Role.ORG_ADMIN] == set(Permission)


def test_a_role_reaches_its_team_and_all_below_and_nothing_else(acme: Acme) -> None:
    assert may(acme.viewer, Permission.VIEW_TEAM, acme.research)
    assert may(acme.viewer, Permission.VIEW_TEAM, acme.nlp)
    assert not may(acme.viewer, Permission.VIEW_TEAM, acme.root)
    assert not may(acme.viewer, Permission.VIEW_TEAM, acme.production)


def test_what_is_visible_is_one_filter(acme: Acme) -> None:
    assert set(Team.objects.visible_to(acme.lead)) == {acme.research, acme.nlp, acme.vision}
    assert set(Team.objects.visible_to(acme.researcher)) == {acme.nlp}
    assert not Team.objects.visible_to(acme.stranger).exists()
    assert not Team.objects.visible_to(AnonymousUser()).exists()


def test_only_the_outermost_paths_are_named(acme: Acme) -> None:
    assert paths_where(acme.lead, Permission.SUBMIT) == [acme.research.path]


def test_roles_of_groups_count(acme: Acme) -> None:
    group = Group.objects.create(name="nlp people")
    acme.stranger.groups.add(group)
    Binding.objects.create(team=acme.nlp, group=group, role=Role.LEAD)
    assert roles_on(acme.stranger, acme.nlp) == {Role.LEAD}


def test_roles_are_asked_for_once(acme: Acme, django_assert_num_queries: pytest.FixtureRequest) -> None:
    with django_assert_num_queries(1):  # type: ignore[operator]
        for team in (acme.root, acme.research, acme.nlp):
            may(acme.lead, Permission.SUBMIT, team)
        may_anywhere(acme.lead, Permission.VIEW_AUDIT)


def test_what_may_not_be_seen_does_not_exist_what_may_be_is_not_allowed(acme: Acme) -> None:
    require(actor(acme.lead), Permission.MANAGE_MEMBERS, acme.nlp)
    with pytest.raises(NotAllowed, match="does not let you manage members in NLP"):
        require(actor(acme.viewer), Permission.MANAGE_MEMBERS, acme.nlp)
    with pytest.raises(NotVisible, match="There is no team 'nlp'"):
        require(actor(acme.outsider), Permission.MANAGE_MEMBERS, acme.nlp)
    require(Actor.system("scheduler"), Permission.MANAGE_POOLS, acme.root)


def test_what_somebody_may_grant(acme: Acme) -> None:
    assert grantable(acme.researcher, acme.nlp) == []
    assert grantable(acme.lead, acme.nlp) == [Role.VIEWER, Role.RESEARCHER, Role.LEAD]
    assert Role.ADMIN in grantable(acme.admin, acme.nlp)
    assert Role.ORG_ADMIN not in grantable(acme.org_admin, acme.nlp)
    assert grantable(acme.org_admin, acme.root) == list(Role)
    operator = make_user()
    bind(operator, acme.root, Role.OPERATOR)
    assert grantable(operator, acme.root) == []
