"""The number of what somebody may see is another one once that is not the same any more, and only then."""

from collections.abc import Callable

import pytest
from pytest_django import DjangoAssertNumQueries

from chamber import live
from chamber.models import User
from teams import actions
from teams.actors import Actor
from teams.models import Binding, Role
from teams.sight import sight_of
from teams.tests.conftest import Acme
from teams.tests.factories import bind

SYSTEM = Actor.system("test")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.reads_tree]

CHANGES: dict[str, tuple[bool, Callable[[Acme], object]]] = {
    "a role is lost": (True, lambda acme: Binding.objects.filter(user=acme.researcher).delete()),
    "a role is given": (True, lambda acme: bind(acme.researcher, acme.production, Role.VIEWER)),
    "a team goes away": (
        True,
        lambda acme: actions.move_team(
            by=SYSTEM, team=acme.nlp, parent=acme.production, version=acme.nlp.version
        ),
    ),
    "a team of others comes to be": (
        False,
        lambda acme: actions.create_team(by=SYSTEM, parent=acme.production, name="Serving"),
    ),
    "somebody else loses a role": (False, lambda acme: Binding.objects.filter(user=acme.lead).delete()),
}


def sight(user: User) -> int:
    return sight_of(User.objects.get(pk=user.pk))


@pytest.mark.parametrize("change", CHANGES)
def test_changes_with_what_may_be_seen(acme: Acme, change: str) -> None:
    differs, do = CHANGES[change]
    Binding.objects.filter(user=acme.researcher).update(team=acme.nlp.parent)
    before = sight(acme.researcher)
    assert sight(acme.researcher) == before
    do(acme)
    live.flush(60)  # on Redis what is announced arrives a moment later
    assert (sight(acme.researcher) != before) is differs


def test_is_asked_once_for_all_who_see_the_same(
    acme: Acme, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    sight(acme.researcher)
    user = User.objects.get(pk=acme.researcher.pk)
    with django_assert_num_queries(1):  # the roles
        sight_of(user)


def test_whoever_has_no_role_sees_nothing_and_has_a_number(acme: Acme) -> None:
    assert 0 < sight(acme.stranger) < 2**48
