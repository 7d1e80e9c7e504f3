"""set_many: a draft of edits is saved whole, as one audited change, or not at all."""

from dataclasses import replace

import pytest

from chamber.errors import NotAllowed, Refusal, StaleVersion
from teams.actions import ShareEdit, TeamEdit, set_many
from teams.models import AuditEvent, Share, Team
from teams.tests.conftest import Acme
from teams.tests.factories import actor


def _reserve(acme: Acme, team: Team, milli: int, *, version: int = 1) -> TeamEdit:
    share = ShareEdit(pool=acme.pool, version=version, changes={"reservation_milli": milli})
    return TeamEdit(team=team, version=1, shares=(share,))


def _reservations() -> dict[str, int]:
    return dict(Share.objects.values_list("team__slug", "reservation_milli"))


def test_saves_every_edit_with_one_audit_row(acme: Acme) -> None:
    edits = [_reserve(acme, acme.nlp, 8_000), _reserve(acme, acme.vision, 40_000)]
    set_many(by=actor(acme.admin), edits=edits)
    assert _reservations() | {"nlp": 8_000, "vision": 40_000} == _reservations()
    event = AuditEvent.objects.get()
    assert (event.action, event.target_name) == ("teams.edited", "Research")
    assert event.before["nlp"] == {"main": {"reservation_milli": 20_000}}


def test_what_only_fits_together_is_saved_together(acme: Acme) -> None:
    alone = _reserve(acme, acme.vision, 40_000)
    with pytest.raises(Refusal, match="60 GPUs: 12 GPUs too many"):
        set_many(by=actor(acme.admin), edits=[alone])
    set_many(by=actor(acme.admin), edits=[alone, _reserve(acme, acme.nlp, 8_000)])


def test_a_lead_moves_guarantees_between_children_of_a_team_without_an_envelope(acme: Acme) -> None:
    Share.objects.filter(team=acme.research).update(reservation_milli=0)
    set_many(
        by=actor(acme.lead), edits=[_reserve(acme, acme.nlp, 12_000), _reserve(acme, acme.vision, 18_000)]
    )
    assert _reservations()["vision"] == 18_000


def test_one_refused_edit_undoes_all(acme: Acme) -> None:
    edits = [_reserve(acme, acme.nlp, 1_000), _reserve(acme, acme.vision, 2_000, version=9)]
    with pytest.raises(StaleVersion):
        set_many(by=actor(acme.admin), edits=edits)
    assert _reservations()["nlp"] == 20_000
    assert not AuditEvent.objects.exists()


def test_a_pool_that_an_edit_names_twice_is_refused(acme: Acme) -> None:
    once = _reserve(acme, acme.nlp, 1_000)
    with pytest.raises(Refusal, match="names each pool of NLP once"):
        set_many(by=actor(acme.admin), edits=[replace(once, shares=(*once.shares, *once.shares))])


def test_errors_name_the_team_and_the_pool(acme: Acme) -> None:
    wrong = TeamEdit(team=acme.vision, version=1, changes={"bursting_priority": 99})
    with pytest.raises(Refusal) as refusal:
        set_many(by=actor(acme.admin), edits=[_reserve(acme, acme.nlp, -1), wrong])
    assert set(refusal.value.fields) == {"nlp.main.reservation", "vision.bursting_priority"}


def test_one_team_without_permission_refuses_the_draft(acme: Acme) -> None:
    edits = [_reserve(acme, acme.nlp, 1_000), _reserve(acme, acme.research, 30_000)]
    with pytest.raises(NotAllowed):
        set_many(by=actor(acme.admin), edits=edits)
    assert _reservations()["nlp"] == 20_000


def test_a_team_comes_once(acme: Acme) -> None:
    with pytest.raises(Refusal, match="names each team once"):
        set_many(by=actor(acme.admin), edits=[_reserve(acme, acme.nlp, 1), _reserve(acme, acme.nlp, 2)])


def test_two_teams_do_not_get_the_same_slug(acme: Acme) -> None:
    edits = [TeamEdit(team=team, version=1, changes={"slug": "same"}) for team in (acme.nlp, acme.vision)]
    with pytest.raises(Refusal) as refusal:
        set_many(by=actor(acme.admin), edits=edits)
    assert list(refusal.value.fields) == ["vision.slug"]


def test_a_draft_has_a_bound(acme: Acme) -> None:
    with pytest.raises(Refusal, match="at most 500 edits, not 501"):
        set_many(by=actor(acme.admin), edits=[_reserve(acme, acme.nlp, 1)] * 501)
