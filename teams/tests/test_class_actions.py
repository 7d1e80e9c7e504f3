"""Job classes and tiers as organisation admins change them: what is stored, refused, kept and told."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from chamber.errors import Conflict, NotAllowed, Refusal, StaleVersion
from teams import actions
from teams.actors import Actor
from teams.job_classes import OrganisationClasses, may_use
from teams.models import AuditEvent, ClassNarrowing, JobClass, PriorityTier, Role, TeamPolicy
from teams.tests.conftest import Acme
from teams.tests.factories import actor
from teams.usual_classes import USUAL_CLASSES, USUAL_TIERS

SYSTEM = Actor.system("test")


def tier(slug: str) -> PriorityTier:
    return PriorityTier.objects.get(slug=slug)


def job_class(slug: str) -> JobClass:
    return JobClass.objects.select_related("tier").get(slug=slug)


def test_a_new_organisation_has_the_usual_ones(db: None) -> None:
    actions.create_organisation(by=SYSTEM, name="Acme")
    assert dict(PriorityTier.objects.values_list("slug", "priority")) == USUAL_TIERS
    assert list(JobClass.objects.values_list("slug", flat=True)) == list(USUAL_CLASSES)
    assert job_class("serving").tier.slug == "reserved"
    assert JobClass.objects.get(is_default=True).slug == "experiment"


def test_an_organisation_that_is_upgraded_gets_them_and_its_table_of_priority_classes(acme: Acme) -> None:
    JobClass.objects.all().delete()
    PriorityTier.objects.all().delete()
    table = {"training-high": 75, "gold": 75, "High": 60, "high": 61, "a.b": 1000}
    TeamPolicy.objects.create(team=acme.root, priority_classes=table)
    module: Any = import_module("teams.migrations.0012_job_classes")
    module.fill(apps, connection.schema_editor())
    known = OrganisationClasses.read()
    assert {slug: each.tier.priority for slug, each in known.classes.items()} == {
        slug: USUAL_TIERS[said["tier"]] for slug, said in USUAL_CLASSES.items()
    }
    assert {each.slug: each.priority_classes for each in known.tiers if each.priority_classes} == {
        "high": ["gold", "training-high"],
        "high-2": ["High"],
        "high-3": ["high"],
        "a-b": ["a.b"],
    }
    for name, priority in table.items():
        found = known.for_priority_class(name)
        assert found is not None
        assert found.priority == priority


def test_a_class_is_made_changed_and_told(acme: Acme) -> None:
    by = actor(acme.org_admin)
    made = actions.create_class(by=by, slug="sweep", values={"tier": "low", "time_limit_seconds": "2h"})
    assert (made.name, made.time_limit_seconds, made.sharing) == ("Sweep", 7200, "elastic")
    changed = actions.edit_class(by=by, job_class=made, version=1, changes={"tier": "high", "name": "Sweeps"})
    assert (changed.tier.slug, changed.name, changed.time_limit_seconds, changed.version) == (
        "high",
        "Sweeps",
        7200,
        2,
    )
    event = AuditEvent.objects.get(action="job-class.edited")
    assert (event.before, event.after) == (
        {"tier": "low", "name": "Sweep"},
        {"tier": "high", "name": "Sweeps"},
    )
    same = actions.edit_class(by=by, job_class=changed, version=2, changes={"tier": "high"})
    assert same.version == 2
    with pytest.raises(StaleVersion, match="Somebody changed the job class Sweeps"):
        actions.edit_class(by=by, job_class=changed, version=1, changes={"order": 3})


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown tier": ({"tier": "hgih"}, "tier", "There is no tier 'hgih'. Did you mean 'high'?"),
    "too many retries": ({"max_retries": 101}, "max_retries", "max_retries is 101; at most 100 is allowed."),
    "no time": ({"time_limit_seconds": 0}, "time_limit_seconds", "A time limit is from 1s to 3650d, not 0s."),
    "ages": ({"time_limit_seconds": "4000d"}, "time_limit_seconds", "from 1s to 3650d, not 4000d."),
    "words": ({"time_limit_seconds": "soon"}, "time_limit_seconds", "'soon' is not a duration"),
    "an unknown end": ({"on_preemption": "cry"}, "on_preemption", "'requeue' or 'stop'"),
    "an unknown sharing": ({"sharing": "some"}, "sharing", "'always', 'elastic' or 'never'"),
    "no name": ({"name": "  "}, "name", "A name has 1 to 60 characters, not 0."),
    "a name that misleads": ({"name": "Tr\u0430ining"}, "name", "Use letters of one script."),
    "what there is not": ({"idle_rule": 3}, "idle_rule", "There is no field 'idle_rule'"),
}


@pytest.mark.parametrize(("changes", "field", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_of_a_class_has_a_sentence(
    acme: Acme, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Refusal) as refused:
        actions.edit_class(by=SYSTEM, job_class=job_class("training"), version=1, changes=changes)
    assert words in refused.value.fields[field]
    assert job_class("training").version == 1


@pytest.mark.parametrize("slug", ["", "Big", "a" * 17, "new", "42", "a--b", "\u00e4", "a_b"])
def test_what_submissions_cannot_call_a_class_is_refused(acme: Acme, slug: str) -> None:
    with pytest.raises(Refusal) as refused:
        actions.create_class(by=SYSTEM, slug=slug, values={"tier": "low"})
    assert "slug" in refused.value.fields
    with pytest.raises(Conflict, match="There is a job class 'training' already"):
        actions.create_class(by=SYSTEM, slug="training", values={"tier": "low"})


def test_a_class_is_retired_and_restored_or_deleted(acme: Acme) -> None:
    training = job_class("training")
    assert actions.retire_class(by=SYSTEM, job_class=training, retired=True).is_retired
    assert [each.slug for each in OrganisationClasses.read().taken] == [
        slug for slug in USUAL_CLASSES if slug != "training"
    ]
    assert not actions.retire_class(by=SYSTEM, job_class=training, retired=False).is_retired
    actions.delete_class(by=SYSTEM, job_class=job_class("interactive"))
    assert not JobClass.objects.filter(slug="interactive").exists()
    assert set(AuditEvent.objects.values_list("action", flat=True)) == {
        "job-class.retired",
        "job-class.restored",
        "job-class.deleted",
    }


def test_there_is_always_one_default(acme: Acme) -> None:
    experiment = job_class("experiment")
    for act in (
        lambda: actions.retire_class(by=SYSTEM, job_class=experiment, retired=True),
        lambda: actions.delete_class(by=SYSTEM, job_class=experiment),
        lambda: actions.edit_class(by=SYSTEM, job_class=experiment, version=1, changes={"is_default": False}),
    ):
        with pytest.raises(Conflict, match="is the class of submissions that name none"):
            act()
    actions.edit_class(by=SYSTEM, job_class=job_class("training"), version=1, changes={"is_default": True})
    assert [each.slug for each in JobClass.objects.filter(is_default=True)] == ["training"]
    assert actions.retire_class(by=SYSTEM, job_class=experiment, retired=True).is_retired
    with pytest.raises(IntegrityError), transaction.atomic():
        JobClass.objects.filter(slug="serving").update(is_default=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobClass.objects.filter(slug="training").update(retired_at="2026-01-01T00:00Z")


def test_tiers_have_numbers_and_priority_classes_of_their_own(acme: Acme) -> None:
    made = actions.create_tier(by=SYSTEM, slug="urgent", values={"priority": 90, "priority_classes": ["a"]})
    for changes, field, words in (
        ({"priority": 75}, "priority", "High has the priority 75 already."),
        ({"priority": 1_000_001}, "priority", "at most 1,000,000"),
        ({"priority_classes": ["b", "b"]}, "priority_classes", "comes twice"),
        ({"priority_classes": ["B!"]}, "priority_classes[0]", "no name of a PriorityClass"),
        ({"least_role": "viewer"}, "least_role", "'researcher', 'lead' or 'admin'"),
    ):
        with pytest.raises(Refusal) as refused:
            actions.edit_tier(by=SYSTEM, tier=made, version=1, changes=changes)
        assert words in refused.value.fields[field], changes
    with pytest.raises(Refusal, match="Urgent has the PriorityClass a already"):
        actions.edit_tier(by=SYSTEM, tier=tier("low"), version=1, changes={"priority_classes": ["a"]})
    with pytest.raises(IntegrityError), transaction.atomic():
        PriorityTier.objects.filter(slug="low").update(priority=90)


def test_a_tier_that_a_class_has_is_neither_retired_nor_deleted(acme: Acme) -> None:
    with pytest.raises(Conflict, match="Normal is the tier of the job class Training"):
        actions.retire_tier(by=SYSTEM, tier=tier("normal"), retired=True)
    with pytest.raises(Conflict, match="Normal is the tier of Training"):
        actions.delete_tier(by=SYSTEM, tier=tier("normal"))
    actions.narrow_class(by=SYSTEM, team=acme.nlp, slug="serving", version=0, values={"tier": "high"})
    with pytest.raises(Conflict, match="High is the tier of Serving in NLP"):
        actions.delete_tier(by=SYSTEM, tier=tier("high"))
    assert actions.retire_tier(by=SYSTEM, tier=tier("high"), retired=True).is_retired
    assert "high" not in OrganisationClasses.read().named


@pytest.mark.parametrize("who", ["admin", "lead", "researcher", "viewer"])
def test_only_organisation_admins_change_them(acme: Acme, who: str) -> None:
    by = actor(getattr(acme, who))
    training, low = job_class("training"), tier("low")
    for act in (
        lambda: actions.create_class(by=by, slug="x", values={"tier": "low"}),
        lambda: actions.edit_class(by=by, job_class=training, version=1, changes={}),
        lambda: actions.retire_class(by=by, job_class=training, retired=True),
        lambda: actions.delete_class(by=by, job_class=training),
        lambda: actions.create_tier(by=by, slug="x", values={"priority": 3}),
        lambda: actions.edit_tier(by=by, tier=low, version=1, changes={}),
        lambda: actions.retire_tier(by=by, tier=low, retired=True),
        lambda: actions.delete_tier(by=by, tier=low),
    ):
        with pytest.raises(NotAllowed, match="changed by organisation admins"):
            act()


def test_a_tier_covers_the_priorities_up_to_the_next(acme: Acme) -> None:
    known = OrganisationClasses.read()
    covered = {
        number: found and found.slug
        for number in (0, 25, 49, 50, 99, 100, 5000)
        if (found := known.covering(number)) or True
    }
    assert covered == {
        0: None,
        25: "low",
        49: "low",
        50: "normal",
        99: "high",
        100: "reserved",
        5000: "reserved",
    }
    assert [known.range_of(each) for each in known.tiers] == [
        "25 to 49",
        "50 to 74",
        "75 to 99",
        "100 to 1,000,000",
    ]
    actions.retire_tier(by=SYSTEM, tier=tier("high"), retired=True)
    assert OrganisationClasses.read().covering(99) == tier("normal")


@pytest.mark.parametrize(
    ("least", "allowed"),
    [
        (Role.RESEARCHER, {Role.RESEARCHER, Role.LEAD, Role.ADMIN, Role.ORG_ADMIN}),
        (Role.LEAD, {Role.LEAD, Role.ADMIN, Role.ORG_ADMIN}),
        (Role.ADMIN, {Role.ADMIN, Role.ORG_ADMIN}),
    ],
)
def test_who_may_use_a_tier(least: Role, allowed: set[Role]) -> None:
    row = PriorityTier(slug="x", name="X", priority=1, least_role=least)
    assert {role for role in Role if may_use(row, {role})} == allowed


@pytest.mark.parametrize(("asked", "given"), [(10, 10), (60, 60), (75, 74), (99, 74), (100, 74), (300, 74)])
def test_a_priority_is_lowered_to_one_that_a_role_may_use(acme: Acme, asked: int, given: int) -> None:
    PriorityTier.objects.filter(priority__gte=75).update(least_role=Role.LEAD)
    known = OrganisationClasses.read()
    assert known.cap(asked, {Role.RESEARCHER}) == given
    assert known.cap(asked, {Role.LEAD}) == asked


NARROW = {"tier": "low", "time_limit_seconds": "1h", "max_retries": 0, "sharing": "never"}


def test_a_team_narrows_a_class_for_itself_and_below_and_takes_it_back(acme: Acme) -> None:
    by = actor(acme.lead)
    made = actions.narrow_class(by=by, team=acme.research, slug="training", version=0, values=NARROW)
    assert made is not None
    known = OrganisationClasses.read([acme.nlp, acme.production])
    found = known.of(acme.nlp, "training")
    assert found is not None
    assert (found.tier.slug, found.time_limit_seconds, found.max_retries, found.sharing) == (
        "low",
        3600,
        0,
        "never",
    )
    assert known.of(acme.production, "training") == known.classes["training"]
    event = AuditEvent.objects.get(action="team.class-narrowed")
    assert (event.target_name, event.before) == ("Training in Research", {})
    assert event.after == {"tier": "low", "time_limit_seconds": 3600, "max_retries": 0, "sharing": "never"}
    with pytest.raises(StaleVersion):
        actions.narrow_class(by=by, team=acme.research, slug="training", version=0, values={})
    assert actions.narrow_class(by=by, team=acme.research, slug="training", version=1, values={}) is None
    assert not ClassNarrowing.objects.exists()


WIDER: dict[str, tuple[dict[str, Any], str]] = {
    "tier": ({"tier": "high"}, "High (75) is higher than Low (25), which NLP has from above for Training."),
    "time_limit_seconds": (
        {"time_limit_seconds": "2h"},
        "2h is longer than 1h, which NLP has from above for Training.",
    ),
    "max_retries": ({"max_retries": 1}, "1 retry is more than 0, which NLP has from above for Training."),
    "sharing": (
        {"sharing": "always"},
        "'Elastic and reserved work' lets more share a GPU than 'None', which NLP has from above for Training.",
    ),
}


@pytest.mark.parametrize("field", WIDER)
def test_nothing_is_wider_than_above(acme: Acme, field: str) -> None:
    actions.narrow_class(by=SYSTEM, team=acme.research, slug="training", version=0, values=NARROW)
    values, sentence = WIDER[field]
    with pytest.raises(Refusal) as refused:
        actions.narrow_class(by=actor(acme.lead), team=acme.nlp, slug="training", version=0, values=values)
    assert refused.value.fields == {field: sentence}
    assert not ClassNarrowing.objects.filter(team=acme.nlp).exists()


def test_what_became_wider_than_above_counts_no_more_than_that(acme: Acme) -> None:
    actions.narrow_class(
        by=SYSTEM, team=acme.nlp, slug="training", version=0, values={"time_limit_seconds": "8h"}
    )
    actions.narrow_class(
        by=SYSTEM, team=acme.research, slug="training", version=0, values={"time_limit_seconds": "1h"}
    )
    found = OrganisationClasses.read([acme.nlp]).of(acme.nlp, "training")
    assert found is not None
    assert found.time_limit_seconds == 3600


def test_who_may_narrow_what(acme: Acme) -> None:
    for who, team, words in (
        ("researcher", acme.nlp, "Your role does not let you narrow job classes in NLP"),
        ("viewer", acme.nlp, "Your role does not let you narrow job classes in NLP"),
        ("lead", acme.production, "There is no team 'production'"),
        ("org_admin", acme.root, "Acme is the organisation"),
    ):
        with pytest.raises(Refusal, match=words):
            actions.narrow_class(
                by=actor(getattr(acme, who)), team=team, slug="training", version=0, values=NARROW
            )
    with pytest.raises(
        Refusal, match=r"There is no job class 'trianing' that you may see\. Did you mean 'training'"
    ):
        actions.narrow_class(by=SYSTEM, team=acme.nlp, slug="trianing", version=0, values=NARROW)


def test_all_classes_of_many_teams_are_read_in_three_queries(
    acme: Acme, django_assert_num_queries: Any
) -> None:
    for team in (acme.nlp, acme.vision, acme.research):
        actions.narrow_class(by=SYSTEM, team=team, slug="training", version=0, values={"max_retries": 0})
    with django_assert_num_queries(3):
        known = OrganisationClasses.read([acme.nlp, acme.vision, acme.production])
        for team in (acme.nlp, acme.vision, acme.production):
            assert known.of(team, "training") is not None
