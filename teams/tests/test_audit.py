"""The audit trail: what is written, how it reads, and who may read it."""

import re
from pathlib import Path

import pytest

from teams.actors import Actor, Via
from teams.audit import ACTIONS, record
from teams.models import AuditEvent, Role
from teams.tests.conftest import Acme
from teams.tests.factories import actor, bind


def test_says_who_through_which_door(acme: Acme) -> None:
    by = Actor(name="adam", via=Via.API, user=acme.admin, on_behalf_of="rita")
    event = record(by=by, action="team.edited", target=acme.nlp)
    assert (event.user, event.actor, event.via, event.on_behalf_of) == (acme.admin, "adam", "api", "rita")
    assert (event.target_kind, event.target_id, event.target_name) == ("team", str(acme.nlp.pk), "NLP")


def test_chamber_itself_has_no_account(acme: Acme) -> None:
    assert record(by=Actor.system("scheduler"), action="pool.edited", target=acme.pool).user is None


def test_keeps_only_what_differs(acme: Acme) -> None:
    event = record(
        by=actor(acme.admin),
        action="team.edited",
        target=acme.nlp,
        before={"a": 1, "b": 2, "gone": 3},
        after={"a": 1, "b": 4, "new": 5},
    )
    assert (event.before, event.after) == ({"b": 2, "gone": 3}, {"b": 4, "new": 5})


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            {"priority_classes": {}, "node_selector": {"pool": "x"}},
            {"priority_classes": {"training": 60}, "node_selector": {}},
            "NLP: share changed, node selector pool x → none; priority classes training none → 60",
        ),
        ({}, {}, "NLP: share changed"),
        (
            {"main": {"reservation_milli": 20_000}},
            {"main": {"reservation_milli": 1500}},
            "NLP: share changed, main reservation 20 GPUs → 1.5 GPUs",
        ),
        ({"maximum_milli": None}, {"maximum_milli": 1000}, "NLP: share changed, maximum none → 1 GPU"),
        ({"archived": False}, {"archived": True}, "NLP: share changed, archived no → yes"),
        ({}, {"who": "rita"}, "NLP: share changed, who rita"),
        ({}, dict.fromkeys("abcdef", 1), "NLP: share changed, a 1; b 1; c 1; d 1 and 2 more"),
    ],
)
def test_reads_as_a_sentence(
    acme: Acme, before: dict[str, object], after: dict[str, object], sentence: str
) -> None:
    by = actor(acme.admin)
    event = record(by=by, action="team.share-changed", target=acme.nlp, before=before, after=after)
    assert event.sentence == sentence


def test_what_is_new_is_told_without_its_values(acme: Acme) -> None:
    by, binding = actor(acme.admin), acme.nlp.bindings.get(user=acme.researcher)
    event = record(by=by, action="member.added", target=binding, team=acme.nlp, after={"who": "rita"})
    assert event.sentence == "rita: Researcher of NLP: added"


def test_is_read_where_the_role_reaches(acme: Acme) -> None:
    for target in (acme.root, acme.nlp, acme.production):
        record(by=actor(acme.org_admin), action="team.edited", target=target)
    record(by=actor(acme.org_admin), action="pool.edited", target=acme.pool)
    bind(acme.stranger, acme.root, Role.AUDITOR)
    assert AuditEvent.objects.visible_to(acme.org_admin).count() == 4
    assert AuditEvent.objects.visible_to(acme.stranger).count() == 4
    assert [event.target_name for event in AuditEvent.objects.visible_to(acme.admin)] == ["NLP"]
    for user in (acme.lead, acme.researcher, acme.outsider):
        assert not AuditEvent.objects.visible_to(user).exists()


def test_every_act_that_the_project_records_is_one_that_may_be_asked_for() -> None:
    root = Path(__file__).parents[2]
    found: set[str] = set()
    for app in ("teams", "workloads", "scheduling", "agentlink", "chamber"):
        for path in (root / app).rglob("*.py"):
            if "tests" not in path.parts:
                kinds = "team|pool|cluster|namespace|group|member|organisation|person|service-account|token|workload"
                found |= set(re.findall(rf'"((?:{kinds})\.[a-z]+(?:-[a-z]+)*)"', path.read_text()))
    found -= {name for name in found if name.partition(".")[2] in {"id", "name", "prefix", "slug"}}  # columns
    assert len(found) > 50
    assert found <= ACTIONS
