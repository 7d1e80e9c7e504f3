"""edit_team: names and limits of one team."""

import pytest

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal, StaleVersion
from teams.actions import archive_team, edit_team
from teams.models import AuditEvent
from teams.tests.conftest import Acme
from teams.tests.factories import actor


def test_changes_what_is_named_and_raises_the_version(acme: Acme) -> None:
    team = edit_team(
        by=actor(acme.admin),
        team=acme.nlp,
        version=1,
        changes={"bursting_priority": 5, "burst_limit_percent": 50, "maximum_milli": 60_000},
    )
    assert (team.bursting_priority, team.burst_limit_percent, team.maximum_milli) == (5, 50, 60_000)
    assert (team.name, team.version) == ("NLP", 2)


def test_the_trail_keeps_only_what_changed(acme: Acme) -> None:
    edit_team(by=actor(acme.admin), team=acme.nlp, version=1, changes={"name": "NLP", "bursting_priority": 5})
    event = AuditEvent.objects.get()
    assert (event.before, event.after) == ({"bursting_priority": 2}, {"bursting_priority": 5})
    assert event.sentence == "NLP: edited, bursting priority 2 → 5"


def test_the_second_of_two_admins_is_told(acme: Acme) -> None:
    edit_team(by=actor(acme.admin), team=acme.nlp, version=1, changes={"bursting_priority": 5})
    with pytest.raises(StaleVersion, match="Somebody changed NLP"):
        edit_team(by=actor(acme.org_admin), team=acme.nlp, version=1, changes={"bursting_priority": 9})
    acme.nlp.refresh_from_db()
    assert acme.nlp.bursting_priority == 5


def test_all_wrong_values_are_told_at_once(acme: Acme) -> None:
    with pytest.raises(Refusal) as refusal:
        edit_team(
            by=actor(acme.admin),
            team=acme.nlp,
            version=1,
            changes={"bursting_priority": 0, "burst_limit_percent": -1, "slug": "a b"},
        )
    assert set(refusal.value.fields) == {"bursting_priority", "burst_limit_percent", "slug"}
    assert "from 1 to 10, not 0" in refusal.value.fields["bursting_priority"]


def test_a_taken_slug_is_refused(acme: Acme) -> None:
    with pytest.raises(Refusal, match="'vision' is taken"):
        edit_team(by=actor(acme.admin), team=acme.nlp, version=1, changes={"slug": "vision"})


def test_a_maximum_below_the_reservation_is_refused(acme: Acme) -> None:
    with pytest.raises(Refusal, match="reservation of 20 GPUs in Main is above its maximum of 10 GPUs"):
        edit_team(by=actor(acme.admin), team=acme.nlp, version=1, changes={"maximum_milli": 10_000})


def test_an_admin_renames_the_own_team_but_does_not_limit_it(acme: Acme) -> None:
    edit_team(by=actor(acme.admin), team=acme.research, version=1, changes={"name": "R & D"})
    with pytest.raises(NotAllowed, match="changed by an admin above R & D"):
        edit_team(by=actor(acme.admin), team=acme.research, version=2, changes={"burst_limit_percent": None})


def test_a_lead_sets_priorities_among_the_children_and_no_limits(acme: Acme) -> None:
    edit_team(by=actor(acme.lead), team=acme.nlp, version=1, changes={"bursting_priority": 7})
    for changes in ({"burst_limit_percent": 10}, {"maximum_milli": 90_000}, {"name": "X"}):
        with pytest.raises(NotAllowed):
            edit_team(by=actor(acme.lead), team=acme.nlp, version=2, changes=changes)  # type: ignore[arg-type]


def test_a_leads_own_team_is_not_the_leads_to_set(acme: Acme) -> None:
    with pytest.raises(NotAllowed):
        edit_team(by=actor(acme.lead), team=acme.research, version=1, changes={"bursting_priority": 9})


def test_the_organisations_limits_are_an_org_admins(acme: Acme) -> None:
    team = edit_team(by=actor(acme.org_admin), team=acme.root, version=1, changes={"maximum_milli": 80_000})
    assert team.maximum_milli == 80_000


@pytest.mark.parametrize("who", ["viewer", "researcher"])
def test_other_members_may_not(acme: Acme, who: str) -> None:
    with pytest.raises(NotAllowed):
        edit_team(by=actor(getattr(acme, who)), team=acme.nlp, version=1, changes={"bursting_priority": 9})


def test_for_an_outsider_there_is_no_such_team(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        edit_team(by=actor(acme.outsider), team=acme.nlp, version=1, changes={"bursting_priority": 9})


def test_an_archived_team_is_not_edited(acme: Acme) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    with pytest.raises(Conflict, match="archived"):
        edit_team(by=actor(acme.admin), team=acme.nlp, version=2, changes={"name": "X"})
