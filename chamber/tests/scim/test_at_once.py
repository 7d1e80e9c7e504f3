"""Two requests at once, in real threads with connections of their own."""

import pytest
from django.test import Client

from chamber.models import ProvisionedPerson, User
from chamber.tests.people.test_at_once import at_once
from chamber.tests.scim.conftest import PERSON, Scim
from teams import actions
from teams.actors import Actor
from teams.models import Role, Team

pytestmark = pytest.mark.django_db(transaction=True)
SYSTEM = Actor.system("test")


def test_of_two_who_make_the_same_person_one_does(scim: Scim, acme: Team) -> None:
    values = {"schemas": [PERSON], "userName": "ada"}
    answers = at_once(*(lambda: Scim().ask("POST", "Users", values).status_code for _ in range(3)))
    assert sorted(map(str, answers)) == ["201", "409", "409"]
    assert (User.objects.count(), ProvisionedPerson.objects.count()) == (1, 1)


def test_members_that_are_added_at_once_are_all_in(scim: Scim, nlp: Team) -> None:
    actions.set_provider_role(by=SYSTEM, provider="acme", name="gpu", team=nlp, role=Role.VIEWER)
    people = [scim.person(f"p{number}") for number in range(4)]
    made = scim.group("gpu")

    def added(each: dict[str, str]) -> int:
        add = {"op": "add", "path": "members", "value": [{"value": each["id"]}]}
        return int(Scim().patch(f"Groups/{made['id']}", add).status_code)

    assert at_once(*(lambda each=each: added(each) for each in people)) == [204] * 4
    assert len(scim.get(f"Groups/{made['id']}")["members"]) == 4
    assert User.objects.filter(groups__name="acme:gpu").count() == 4


def test_reading_takes_no_lock(scim: Scim, acme: Team, client: Client) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    scim.person()
    with CaptureQueriesContext(connection) as queries:
        scim.get("Users")
    assert not [each for each in queries if each["sql"].startswith(("BEGIN", "UPDATE", "SAVEPOINT"))]
