"""archive_team and unarchive_team."""

import pytest
from django.utils import timezone

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams.actions import archive_team, unarchive_team
from teams.models import AuditEvent, Team
from teams.tests.conftest import Acme
from teams.tests.factories import actor, make_team, set_share


def _workload(acme: Acme, team: Team, status: str = "pending") -> None:
    """Give the team a workload, through the relation: workloads are a higher room."""
    now = timezone.now()
    ended = now if status in {"completed", "failed"} else None
    team.workloads.create(
        slug=f"w-{status}",
        name="w",
        owner=acme.researcher,
        image="busybox",
        gpu_milli=1000,
        status=status,
        status_since=now,
        submitted_at=now,
        finished_at=ended,
    )


def test_takes_all_below_along(acme: Acme) -> None:
    archive_team(by=actor(acme.org_admin), team=acme.research)
    assert set(Team.objects.active()) == {acme.root, acme.production}
    assert AuditEvent.objects.get().action == "team.archived"


def test_is_refused_while_anything_below_waits_or_runs(acme: Acme) -> None:
    _workload(acme, acme.nlp)
    with pytest.raises(Conflict, match="Research has 1 workload waiting or running, in NLP") as refusal:
        archive_team(by=actor(acme.org_admin), team=acme.research)
    assert refusal.value.code == "team-busy"
    assert Team.objects.active().count() == 5


def test_what_is_over_does_not_matter(acme: Acme) -> None:
    _workload(acme, acme.nlp, "completed")
    _workload(acme, acme.production)
    assert archive_team(by=actor(acme.admin), team=acme.nlp).is_archived


def test_the_organisation_is_not_archived(acme: Acme) -> None:
    with pytest.raises(Refusal, match="cannot be archived"):
        archive_team(by=actor(acme.org_admin), team=acme.root)


@pytest.mark.parametrize("who", ["admin", "lead", "viewer"])
def test_only_by_an_admin_above_it(acme: Acme, who: str) -> None:
    with pytest.raises(NotAllowed, match="an admin above"):
        archive_team(by=actor(getattr(acme, who)), team=acme.research)


def test_for_an_outsider_there_is_no_such_team(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        archive_team(by=actor(acme.outsider), team=acme.nlp)


def test_restoring_brings_back_what_went_with_it_and_no_more(acme: Acme) -> None:
    old = make_team(acme.research, "Old")
    archive_team(by=actor(acme.admin), team=old)
    archive_team(by=actor(acme.org_admin), team=acme.research)
    unarchive_team(by=actor(acme.org_admin), team=acme.research)
    assert set(Team.objects.exclude(archived_at=None)) == {old}


def test_not_below_an_archived_team(acme: Acme) -> None:
    archive_team(by=actor(acme.org_admin), team=acme.research)
    with pytest.raises(Conflict, match="Research, above NLP, is archived"):
        unarchive_team(by=actor(acme.org_admin), team=acme.nlp)


def test_its_reservation_must_still_fit(acme: Acme) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    set_share(acme.vision, acme.pool, gpus=40)
    with pytest.raises(Refusal, match="60 GPUs: 12 GPUs too many"):
        unarchive_team(by=actor(acme.admin), team=acme.nlp)


def test_twice_is_once(acme: Acme) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    archive_team(by=actor(acme.admin), team=acme.nlp)
    unarchive_team(by=actor(acme.admin), team=acme.nlp)
    unarchive_team(by=actor(acme.admin), team=acme.nlp)
    assert AuditEvent.objects.count() == 2
