"""Effective rules down the tree, and priorities by role."""

import pytest
from pydantic import ValidationError

from teams.models import PriorityRange, Role, TeamRules
from teams.rules import (
    LEADS,
    RESEARCHERS,
    EffectiveRules,
    PriorityLimits,
    effective_rules,
    effective_rules_by_team,
    limits_for,
    merged,
    priority_limits,
)
from teams.tests.conftest import Acme
from teams.tests.factories import set_rules

NOTHING = TeamRules()


def _researchers(elastic: int, reserved: int | None = None) -> TeamRules:
    return TeamRules(researcher_priority=PriorityRange(elastic_max=elastic, reserved_max=reserved))


def test_without_rules_the_built_in_ones_hold() -> None:
    rules = merged([NOTHING, NOTHING, NOTHING])
    assert (rules.researcher_priority, rules.lead_priority) == (RESEARCHERS, LEADS)
    assert (rules.largest_workload_milli, rules.may_be_widened) == (None, False)


def test_a_stricter_value_holds_below() -> None:
    rules = merged([NOTHING, TeamRules(largest_workload_milli=8000), NOTHING])
    assert rules.largest_workload_milli == 8000


def test_a_wider_value_does_not_hold_unasked() -> None:
    strict, wide = TeamRules(largest_workload_milli=8000), TeamRules(largest_workload_milli=16_000)
    assert merged([NOTHING, strict, wide]).largest_workload_milli == 8000


def test_the_root_may_widen_what_is_built_in() -> None:
    assert merged([_researchers(90, 150), NOTHING]).researcher_priority.reserved_max == 150


def test_below_the_root_it_is_widened_only_where_the_root_says_so() -> None:
    wide = _researchers(90, 150)
    assert merged([NOTHING, wide]).researcher_priority == RESEARCHERS
    assert merged([TeamRules(may_be_widened=True), wide]).researcher_priority == wide.researcher_priority


def test_no_by_a_team_between_holds_for_all_below_it() -> None:
    yes, no = TeamRules(may_be_widened=True), TeamRules(may_be_widened=False)
    assert merged([yes, no, yes, _researchers(99, 199)]).researcher_priority == RESEARCHERS


def test_the_two_parts_of_a_range_are_narrowed_apart() -> None:
    rules = merged([_researchers(50, 150), _researchers(75, 120)])
    assert rules.researcher_priority == PriorityRange(elastic_max=50, reserved_max=120)
    assert merged([NOTHING, _researchers(75)]).researcher_priority.reserved_max is None


@pytest.mark.parametrize(
    ("roles", "limits"),
    [
        (set(), (-1, None)),
        ({Role.VIEWER}, (-1, None)),
        ({Role.OPERATOR, Role.AUDITOR}, (-1, None)),
        ({Role.RESEARCHER}, (75, 100)),
        ({Role.LEAD}, (99, 199)),
        ({Role.RESEARCHER, Role.LEAD}, (99, 199)),
        ({Role.ADMIN}, (99, 1_000_000)),
        ({Role.ORG_ADMIN, Role.VIEWER}, (99, 1_000_000)),
    ],
)
def test_the_best_role_counts(roles: set[Role], limits: tuple[int, int | None]) -> None:
    assert tuple(limits_for(roles, EffectiveRules())) == limits


@pytest.mark.parametrize(
    ("priority", "allowed"),
    [(0, True), (75, True), (76, False), (99, False), (100, True), (101, False), (-1, False)],
)
def test_a_researchers_priorities(priority: int, allowed: bool) -> None:
    assert PriorityLimits(75, 100).allow(priority) is allowed


def test_rules_are_read_down_the_tree_in_one_query(
    acme: Acme, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    set_rules(acme.research, researcher_priority={"elastic_max": 40, "reserved_max": None})
    set_rules(acme.production, largest_workload_milli=1)
    with django_assert_num_queries(1):  # type: ignore[operator]
        rules = effective_rules(acme.nlp)
    assert rules.researcher_priority.elastic_max == 40
    assert rules.largest_workload_milli is None
    assert effective_rules_by_team([acme.nlp])[acme.nlp.pk] == rules


def test_limits_of_people_follow_the_rules_of_the_team(acme: Acme) -> None:
    set_rules(acme.research, researcher_priority={"elastic_max": 40, "reserved_max": None})
    assert priority_limits(acme.researcher, acme.nlp) == (40, None)
    assert priority_limits(acme.lead, acme.nlp) == (99, 199)
    assert priority_limits(acme.admin, acme.nlp) == (99, 1_000_000)
    assert priority_limits(acme.outsider, acme.nlp) == (-1, None)


def test_a_key_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValidationError):
        TeamRules.model_validate({"largest": 1})


def test_what_jobs_by_kubectl_may_name_is_narrowed_below_and_widened_where_it_may_be() -> None:
    assert merged([NOTHING]).service_accounts == ("default",)
    assert "csi" not in merged([NOTHING]).volumes
    own = TeamRules(service_accounts=("trainer", "default"), volumes=("nfs", "secret"))
    narrowed = merged([NOTHING, own])
    assert (narrowed.service_accounts, narrowed.volumes) == (("default",), ("secret",))
    widened = merged([TeamRules(may_be_widened=True), own])
    assert (widened.service_accounts, widened.volumes) == (("default", "trainer"), ("nfs", "secret"))
    assert merged([NOTHING, TeamRules(volumes=())]).volumes == ()


def test_which_secrets_and_config_maps_jobs_may_read_is_narrowed_below_by_name() -> None:
    built_in = merged([NOTHING])
    assert (built_in.secrets, built_in.config_maps) == ((), ("*",))
    assert merged([NOTHING, TeamRules(secrets=("db",))]).secrets == ()
    named = TeamRules(secrets=("db", "wandb"), config_maps=("shared",))
    assert merged([named, TeamRules(secrets=("*",), config_maps=("*",))]) == merged([named])
    every = merged([TeamRules(secrets=("*",)), TeamRules(secrets=("db",))])
    assert every.secrets == ("db",)


@pytest.mark.parametrize(
    "wrong", [{"secrets": ["a*"]}, {"volumes": ["hostPath"]}, {"service_accounts": ["A b"]}]
)
def test_a_path_of_the_node_and_what_is_no_name_can_be_allowed_by_nobody(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(ValidationError, match=r"is no name|is none of"):
        TeamRules.model_validate(wrong)


@pytest.mark.parametrize(
    ("limits", "asked", "given"),
    [
        ((75, 100), 50, 50),
        ((75, 100), 99, 75),
        ((75, 100), 500, 100),
        ((75, None), 500, 75),
        ((75, 200), 150, 150),
    ],
)
def test_a_priority_is_capped_within_its_class_where_there_is_one(
    limits: tuple[int, int | None], asked: int, given: int
) -> None:
    assert PriorityLimits(*limits).cap(asked) == given
