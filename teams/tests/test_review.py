"""review_many and review_pool: what saving would change, or would be refused with; nothing is written."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chamber.errors import NotAllowed, NotVisible, Refusal, StaleVersion
from teams.actions import PoolChanges, ShareEdit, TeamEdit, review_many, review_pool
from teams.models import AuditEvent, Pool, Share, Team
from teams.tests.conftest import Acme
from teams.tests.factories import actor


def edit(acme: Acme, team: Team, milli: int, *, version: int = 1) -> TeamEdit:
    share = ShareEdit(pool=acme.pool, version=1, changes={"reservation_milli": milli})
    return TeamEdit(team=team, version=version, changes={"bursting_priority": 2}, shares=(share,))


def test_what_is_stored_already_is_left_out(acme: Acme) -> None:
    (found,) = review_many(by=actor(acme.admin), edits=[edit(acme, acme.nlp, 15_000)])

    assert found.team == acme.nlp
    assert found.changes == {}
    assert found.shares[0].changes == {"reservation_milli": 15_000}
    assert review_many(by=actor(acme.admin), edits=[edit(acme, acme.nlp, 20_000)]) == []


def test_nothing_is_written_or_locked(acme: Acme) -> None:
    with CaptureQueriesContext(connection) as queries:
        review_many(by=actor(acme.admin), edits=[edit(acme, acme.nlp, 15_000)])
        review_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"paused": True})

    assert all(query["sql"].startswith("SELECT") and "FOR " not in query["sql"] for query in queries)
    assert Share.objects.get(team=acme.nlp).reservation_milli == 20_000
    assert not Pool.objects.get().paused
    assert not AuditEvent.objects.exists()


def test_a_draft_is_refused_as_saving_it_would_be(acme: Acme) -> None:
    with pytest.raises(Refusal, match="2 GPUs too many"):
        review_many(by=actor(acme.admin), edits=[edit(acme, acme.nlp, 40_000)])
    with pytest.raises(StaleVersion):
        review_many(by=actor(acme.admin), edits=[edit(acme, acme.nlp, 1000, version=3)])
    with pytest.raises(NotAllowed):
        review_many(by=actor(acme.researcher), edits=[edit(acme, acme.nlp, 1000)])
    with pytest.raises(NotVisible):
        review_many(by=actor(acme.outsider), edits=[edit(acme, acme.nlp, 1000)])


def test_a_pool_s_changes_are_complete_and_refused_as_saving_them_would_be(acme: Acme) -> None:
    changes: PoolChanges = {"paused": False, "policy": {"queueing": "strict-fifo"}}

    found = review_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes=changes)

    assert set(found) == {"policy"}
    assert found["policy"]["queueing"] == "strict-fifo"
    assert found["policy"]["min_runtime_seconds"] == 0
    with pytest.raises(StaleVersion):
        review_pool(by=actor(acme.org_admin), pool=acme.pool, version=2, changes=changes)
    with pytest.raises(NotAllowed):
        review_pool(by=actor(acme.admin), pool=acme.pool, version=1, changes=changes)
    with pytest.raises(Refusal, match="queueing"):
        review_pool(
            by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"policy": {"queueing": "x"}}
        )
