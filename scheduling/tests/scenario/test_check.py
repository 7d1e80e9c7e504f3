"""Naming each difference between what is expected and what came out."""

# ruff: noqa: E501 - a difference stands on one line of its table

import pytest

from scheduling.scenario.check import differences
from scheduling.scenario.output import as_object

from .plans import PLAN, scenario


def _differences(expect: str) -> list[str]:
    found = scenario(f"expect: {expect}\n")
    return differences(found.expectations, as_object(found.snapshot, found.now, PLAN))


@pytest.mark.parametrize(
    "wanted",
    [
        "{action: start, status: queued, pool: main, pods: 2}",
        "{reason: waiting-for-victims}",
        "{reason: {code: waiting-for-victims, kind: wait}}",
        "{nodes: [n2, n1]}",
        "{nodes: {n1: 2, n2: 2.0}}",
        "{preempts: [shrinks, goes]}",
        "{allocation: [{team: lab, gpus: 3}, {team: acme, gpus: 1}]}",
        "{eta: null, position: null, preempted_by: null}",
        "{started: 1, kept: 0, preempted: 0, waiting: 0}",
    ],
)
def test_what_is_as_expected_is_no_difference(wanted: str) -> None:
    assert _differences(f"{{workloads: {{comes: {wanted}}}}}") == []


@pytest.mark.parametrize(
    ("wanted", "difference"),
    [
        ("{action: keep}", "comes: action keep expected, found start"),
        ("{reason: null}", "comes: reason null expected, found waiting-for-victims"),
        ("{reason: fragmented}", "comes: reason fragmented expected, found waiting-for-victims"),
        ("{reason: {kind: admin}}", "comes: reason {kind: admin} expected, found waiting-for-victims"),
        ("{nodes: [n1]}", "comes: nodes [n1] expected, found {n1: 2, n2: 2}"),
        ("{nodes: [n1, n2, n2]}", "comes: nodes [n1, n2, n2] expected, found {n1: 2, n2: 2}"),
        ("{nodes: {n1: 2}}", "comes: nodes {n1: 2} expected, found {n1: 2, n2: 2}"),
        ("{nodes: {n1: 2, n2: 1.5}}", "comes: nodes {n1: 2, n2: 1.5} expected, found {n1: 2, n2: 2}"),
        ("{preempts: []}", "comes: preempts [] expected, found [goes, shrinks]"),
        ("{allocation: [{team: null, gpus: 4}]}", "comes: allocation [{team: null, gpus: 4}] expected, found [{team: lab, gpus: 3}, {team: acme, gpus: 1}]"),
        ('{pods: "2"}', 'comes: pods "2" expected, found 2'),
        ("{pods: 3}", "comes: pods 3 expected, found 2"),
        ("{position: 1}", "comes: position 1 expected, found null"),
        ("{waiting: 1}", "comes: 1 waiting expected, found 0 of 1"),
    ],
)  # fmt: skip
def test_each_difference_is_a_sentence(wanted: str, difference: str) -> None:
    assert _differences(f"{{workloads: {{comes: {wanted}}}}}") == [f"line 12: {difference}"]


def test_who_has_no_victims_preempts_an_empty_list_or_nothing() -> None:
    assert _differences("{workloads: {waits: {preempts: [], nodes: []}, goes: {nodes: {}, eta: null}}}") == []


def test_a_pattern_counts_what_became_of_those_it_matches() -> None:
    assert _differences('{workloads: {"*s": {kept: 3, preempted: 1, started: 1, waiting: 1}}}') == []
    assert _differences('{workloads: {"*s": {kept: 4, started: 0}}}') == [
        "line 12: *s: 4 kept expected, found 3 of 6",
        "line 12: *s: 0 started expected, found 1 of 6",
    ]


def test_a_value_expected_of_a_pattern_holds_for_each() -> None:
    assert _differences('{workloads: {"s*": {action: shrink}, "[gh]*s": {pool: main}}}') == [
        "line 12: goes: pool main expected, found null"
    ]


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("{teams: {lab: {main: {guarantee: 3, ceiling: null, entitlement: 0.333}}}}", []),
        ("{teams: {lab: {main: {ceiling: 4}}}}", ["line 12: lab in main: ceiling 4 expected, found null"]),
        (
            "{teams: {acme: {main: {ceiling: null}}}}",
            ["line 12: acme in main: ceiling null expected, found 9.5"],
        ),
        ("{pools: {main: {free: 4.75, oversubscribed: true}}}", []),
        (
            "{pools: {main: {oversubscribed: false}}}",
            ["line 12: main: oversubscribed false expected, found true"],
        ),
        ("{pools: {main: {oversubscribed: 1}}}", ["line 12: main: oversubscribed 1 expected, found true"]),
    ],
)
def test_figures_are_compared_as_numbers(expect: str, found: list[str]) -> None:
    assert _differences(expect) == found


def test_differences_come_in_the_order_of_the_file() -> None:
    expect = "\n  teams: {lab: {main: {guarantee: 4}}}\n  workloads: {comes: {action: keep}}\n  pools: {main: {free: 1}}"
    assert [line.split(":")[0] for line in _differences(expect)] == ["line 13", "line 14", "line 15"]
