"""Two at once: real threads, each with a connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from chamber.errors import Refusal, StaleVersion
from teams.actions import edit_team, move_team, set_share
from teams.actors import Actor
from teams.models import AuditEvent, Share, Team
from teams.tests.factories import make_org, make_pool, make_team
from teams.tests.factories import set_share as given

BY = Actor.system("test")
pytestmark = pytest.mark.django_db(transaction=True)


def _at_once(*acts: Callable[[], object]) -> list[object]:
    """Start all acts together; return what each returned or raised as a refusal."""
    ready = Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        try:
            ready.wait()
            return act()
        except Refusal as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def test_of_two_edits_of_a_team_one_is_saved_and_the_other_told() -> None:
    team = make_team(make_org())
    results = _at_once(
        *(
            lambda weight=weight: edit_team(
                by=BY, team=team, version=1, changes={"bursting_priority": weight}
            )
            for weight in (5, 9)
        )
    )
    assert sorted(type(result).__name__ for result in results) == ["StaleVersion", "Team"]
    [saved] = [result for result in results if isinstance(result, Team)]
    team.refresh_from_db()
    assert (team.bursting_priority, team.version) == (saved.bursting_priority, 2)
    assert AuditEvent.objects.count() == 1


def test_of_two_first_shares_one_is_made() -> None:
    team, pool = make_team(make_org()), make_pool()
    results = _at_once(
        *(
            lambda milli=milli: set_share(
                by=BY, team=team, pool=pool, version=0, changes={"reservation_milli": milli}
            )
            for milli in (1000, 2000)
        )
    )
    assert sum(isinstance(result, StaleVersion) for result in results) == 1
    assert Share.objects.count() == 1


def test_two_children_do_not_overfill_an_envelope_together() -> None:
    parent, pool = make_team(make_org()), make_pool()
    children = [make_team(parent), make_team(parent)]
    given(parent, pool, gpus=10)
    results = _at_once(
        *(
            lambda child=child: set_share(
                by=BY, team=child, pool=pool, version=0, changes={"reservation_milli": 8000}
            )
            for child in children
        )
    )
    assert sum(isinstance(result, Refusal) for result in results) == 1
    assert Share.objects.filter(team__in=children).count() == 1


def test_two_moves_make_no_circle() -> None:
    root = make_org()
    one, other = make_team(root), make_team(root)
    results = _at_once(
        lambda: move_team(by=BY, team=one, parent=other), lambda: move_team(by=BY, team=other, parent=one)
    )
    assert sum(isinstance(result, Refusal) for result in results) == 1
    for team in Team.objects.select_related("parent"):
        assert team.path == Team.path_under(team.parent, team.pk)
