"""Ids in a list are one parameter on PostgreSQL, and mean the same everywhere."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chamber.ids import new_id
from teams.models import Team
from teams.tests.factories import make_org, make_team

pytestmark = pytest.mark.django_db


def test_ids_and_references_in_a_list_find_their_rows() -> None:
    org = make_org()
    one, other = make_team(org, "One"), make_team(org, "Other")
    below = make_team(one, "Below")
    found = Team.objects.filter(pk__in=[one.pk, str(other.pk), new_id()])
    assert set(found) == {one, other}
    assert set(Team.objects.filter(parent__in=[one, other.pk])) == {below}
    assert set(Team.objects.filter(children__in={below.pk})) == {one}


def test_the_other_forms_of_a_list_mean_what_they_did() -> None:
    org = make_org()
    one, other = make_team(org, "One"), make_team(org, "Other")
    assert list(Team.objects.filter(pk__in=[])) == []
    assert set(Team.objects.filter(depth=1).exclude(pk__in=[one.pk, None])) == {other}
    assert set(Team.objects.filter(pk__in=Team.objects.filter(name="One").values("pk"))) == {one}
    assert set(Team.objects.filter(parent__in=Team.objects.filter(depth=0))) == {one, other}


def test_a_list_of_ids_is_one_parameter_where_the_database_has_arrays() -> None:
    with CaptureQueriesContext(connection) as seen:
        list(Team.objects.filter(pk__in=[new_id(), new_id()], parent__in=[new_id()]))
    arrays = 2 if connection.vendor == "postgresql" else 0
    assert seen.captured_queries[0]["sql"].count("= ANY(") == arrays
