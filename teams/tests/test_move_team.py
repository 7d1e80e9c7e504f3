"""move_team: the subtree goes along, and its reservations must fit where it goes."""

import pytest
from django.test.utils import CaptureQueriesContext

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal, StaleVersion
from teams.actions import archive_team, move_team
from teams.models import AuditEvent, Role, Team
from teams.tests.conftest import Acme
from teams.tests.factories import actor, bind, make_team, set_share


def test_paths_and_depths_of_the_subtree_follow(acme: Acme) -> None:
    speech = make_team(acme.nlp, "Speech")
    set_share(acme.production, acme.pool, gpus=0)
    moved = move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.production)
    speech.refresh_from_db()
    assert moved.path == f"{acme.production.path}{acme.nlp.pk.hex}/"
    assert speech.path == f"{moved.path}{speech.pk.hex}/"
    assert (moved.depth, speech.depth, moved.parent_id) == (2, 3, acme.production.pk)
    assert set(Team.objects.within(acme.production)) == {acme.production, moved, speech}


def test_to_another_level(acme: Acme) -> None:
    speech = make_team(acme.nlp, "Speech")
    moved = move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.root)
    speech.refresh_from_db()
    assert (moved.depth, speech.depth) == (1, 2)
    assert speech.path.startswith(moved.path)


def test_takes_as_many_statements_for_a_hundred_teams_as_for_one(
    acme: Acme, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    for _ in range(100):
        make_team(acme.nlp)
    with django_assert_num_queries(15) as queries:  # type: ignore[operator]
        move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.root)
    assert isinstance(queries, CaptureQueriesContext)
    assert sum(query["sql"].startswith("UPDATE") for query in queries.captured_queries) == 2


def test_is_told_in_the_trail(acme: Acme) -> None:
    move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.root)
    event = AuditEvent.objects.get()
    assert (event.action, event.before, event.after) == (
        "team.moved",
        {"parent": "research"},
        {"parent": "acme"},
    )


def test_the_trail_of_a_moved_team_stays_with_it(acme: Acme) -> None:
    move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.root)
    move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.research)
    nlp_admin = acme.stranger
    bind(nlp_admin, Team.objects.get(pk=acme.nlp.pk), Role.ADMIN)
    assert AuditEvent.objects.visible_to(nlp_admin).about(acme.nlp).count() == 2


@pytest.mark.parametrize("where", ["nlp", "speech"])
def test_not_under_itself_nor_below(acme: Acme, where: str) -> None:
    places = {"nlp": acme.nlp, "speech": make_team(acme.nlp, "Speech")}
    with pytest.raises(Refusal, match="cannot be moved under"):
        move_team(by=actor(acme.org_admin), team=acme.nlp, parent=places[where])


def test_not_under_an_archived_team(acme: Acme) -> None:
    archive_team(by=actor(acme.org_admin), team=acme.production)
    with pytest.raises(Conflict, match="Production is archived"):
        move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.production)


def test_the_organisation_stays_where_it_is(acme: Acme) -> None:
    with pytest.raises(Refusal, match="cannot be moved"):
        move_team(by=actor(acme.org_admin), team=acme.root, parent=acme.nlp)


def test_its_reservation_must_fit_into_the_new_parents(acme: Acme) -> None:
    set_share(acme.production, acme.pool, gpus=15)
    with pytest.raises(
        Refusal, match=r"Production has a reservation of 15 GPUs in Main.*20 GPUs: 5 GPUs too"
    ):
        move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.production)
    acme.nlp.refresh_from_db()
    assert acme.nlp.parent_id == acme.research.pk


def test_needs_an_admin_of_both_places(acme: Acme) -> None:
    bind(acme.admin, acme.production, Role.VIEWER)
    with pytest.raises(NotAllowed, match="admin of Production"):
        move_team(by=actor(acme.admin), team=acme.nlp, parent=acme.production)


def test_within_the_own_part_an_admin_moves_freely(acme: Acme) -> None:
    assert move_team(by=actor(acme.admin), team=acme.vision, parent=acme.nlp).depth == 3


def test_for_an_outsider_there_is_nothing_to_move(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        move_team(by=actor(acme.outsider), team=acme.nlp, parent=acme.production)


def test_an_older_version_is_refused(acme: Acme) -> None:
    with pytest.raises(StaleVersion):
        move_team(by=actor(acme.org_admin), team=acme.nlp, parent=acme.root, version=9)


def test_where_it_is_already_nothing_happens(acme: Acme) -> None:
    assert move_team(by=actor(acme.admin), team=acme.nlp, parent=acme.research).version == 1
    assert not AuditEvent.objects.exists()
