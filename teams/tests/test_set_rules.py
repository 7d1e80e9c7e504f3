"""set_rules: what a team's members may ask for."""

import pytest

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal, StaleVersion
from teams.actions import archive_team, set_rules
from teams.models import AuditEvent, PriorityRange, TeamRules
from teams.rules import effective_rules
from teams.tests.conftest import Acme
from teams.tests.factories import actor
from teams.tests.factories import set_rules as given

NARROW = TeamRules(largest_workload_milli=8000)


def test_replaces_the_rules_and_tells_the_trail(acme: Acme) -> None:
    set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=NARROW)
    policy = set_rules(
        by=actor(acme.admin), team=acme.nlp, version=1, rules=TeamRules(longest_time_limit_seconds=3600)
    )
    assert policy.version == 2
    assert effective_rules(acme.nlp).largest_workload_milli is None
    event = AuditEvent.objects.first()
    assert event is not None
    assert event.before == {"largest_workload_milli": 8000}
    assert event.after == {"longest_time_limit_seconds": 3600}


def test_what_is_wider_than_above_is_refused_with_both(acme: Acme) -> None:
    given(acme.research, largest_workload_milli=8000)
    wide = TeamRules(
        largest_workload_milli=16_000, researcher_priority=PriorityRange(elastic_max=99, reserved_max=None)
    )
    with pytest.raises(Refusal, match="16000 is wider than 8000, which NLP inherits") as refusal:
        set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=wide)
    assert set(refusal.value.fields) == {"largest_workload_milli", "researcher_priority"}


def test_the_organisation_may_widen(acme: Acme) -> None:
    wide = TeamRules(researcher_priority=PriorityRange(elastic_max=99, reserved_max=150), may_be_widened=True)
    set_rules(by=actor(acme.org_admin), team=acme.root, version=0, rules=wide)
    assert effective_rules(acme.nlp).researcher_priority.reserved_max == 150
    assert effective_rules(acme.nlp).may_be_widened


def test_an_older_version_is_refused(acme: Acme) -> None:
    set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=NARROW)
    with pytest.raises(StaleVersion):
        set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=TeamRules())


def test_the_same_again_changes_nothing(acme: Acme) -> None:
    set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=NARROW)
    assert set_rules(by=actor(acme.admin), team=acme.nlp, version=1, rules=NARROW).version == 1


def test_an_archived_team_keeps_its_rules(acme: Acme) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    with pytest.raises(Conflict):
        set_rules(by=actor(acme.admin), team=acme.nlp, version=0, rules=NARROW)


@pytest.mark.parametrize("who", ["lead", "researcher", "viewer"])
def test_rules_are_an_admins(acme: Acme, who: str) -> None:
    with pytest.raises(NotAllowed):
        set_rules(by=actor(getattr(acme, who)), team=acme.nlp, version=0, rules=NARROW)


def test_for_an_outsider_there_is_no_such_team(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        set_rules(by=actor(acme.outsider), team=acme.nlp, version=0, rules=NARROW)
