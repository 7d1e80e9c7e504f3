"""The first organisation of a new database, and which migrations it has."""

import pytest
from django.db import connection

from chamber.cli.status import Exit
from chamber.models import User
from chamber.serving import database, surroundings
from chamber.serving.start import CannotStart
from teams.models import Binding, Role, Team

pytestmark = pytest.mark.django_db

ASKED = {
    "organisation": "Acme",
    "username": "olga",
    "password": "a long enough phrase",
    "email": " Olga@Acme.example",
}


def refused(**changes: str) -> CannotStart:
    with pytest.raises(CannotStart) as caught:
        database.set_up(**{**ASKED, **changes})
    return caught.value


def test_the_organisation_gets_an_admin_who_can_sign_in() -> None:
    team = database.set_up(**ASKED)

    assert (team.name, team.depth) == ("Acme", 0)
    olga = User.objects.get(username="olga")
    assert olga.check_password("a long enough phrase")
    assert olga.email == "olga@acme.example"
    assert not olga.is_superuser
    assert list(Binding.objects.values_list("team", "user", "role")) == [(team.pk, olga.pk, Role.ORG_ADMIN)]


def test_a_second_organisation_is_refused_as_a_conflict_and_leaves_nobody_behind() -> None:
    database.set_up(**ASKED)

    error = refused(username="otto", email="otto@acme.example")

    assert (error.status, str(error)) == (
        Exit.CONFLICT,
        "There is an organisation already; its admin adds people.",
    )
    assert not User.objects.filter(username="otto").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"organisation": "Quantum Robotics", "password": "Quantum-Robotics-2026!x"},
            "5 characters of the password are left",
        ),
        ({"password": "short"}, "too short"),
        ({"password": "password1234"}, "very common password"),
        ({"username": "ol ga"}, "valid username"),
        ({"username": ""}, "blank"),
        ({"email": "nowhere"}, "valid email"),
        ({"organisation": " "}, "name"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence_and_leaves_nothing_behind(
    changes: dict[str, str], said: str
) -> None:
    error = refused(**changes)

    assert error.status == Exit.REJECTED
    assert said in str(error)
    assert not User.objects.exists()
    assert not Team.objects.exists()


def test_a_migrated_database_lacks_nothing_and_has_nothing_unknown() -> None:
    assert surroundings.compare_migrations(connection) == ([], [])


def test_what_another_version_applied_is_unknown_and_what_was_not_applied_is_missing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'teams' AND name LIKE '0001%%'")
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('teams', '0999_newer', CURRENT_TIMESTAMP), "
            "('somebody_elses', '0001_initial', CURRENT_TIMESTAMP)"
        )
    assert surroundings.compare_migrations(connection) == (["teams.0001_initial"], ["teams.0999_newer"])


def test_looking_around_opens_no_pool() -> None:
    """A process that forks after it would share the pool's connections with its children."""
    alone = surroundings.connection_without_pool()
    assert "pool" not in alone.settings_dict.get("OPTIONS", {})
    assert alone is not connection
