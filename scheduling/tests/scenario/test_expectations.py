"""What a scenario expects, read and checked for names."""

# ruff: noqa: E501 - a refusal stands on one line of its table

import pytest

from scheduling.scenario.document import Scalar
from scheduling.scenario.expectations import FigureExpectation, WorkloadExpectation

from .builder import loaded, refusal, text

ROWS = 'name: x-0, team: a\nname: x-1, team: a\nname: "[x]", team: a'


def test_a_pattern_stands_for_all_it_matches() -> None:
    expect = 'expect:\n  workloads:\n    "x-*": {kept: 2, action: keep}\n'
    expected = loaded(ROWS, expect=expect).expectations
    assert expected.workloads == (
        WorkloadExpectation(
            10, "x-*", ("x-0", "x-1"), (("kept", 2),), (("action", Scalar(10, "keep", False)),)
        ),
    )


def test_a_name_that_looks_like_a_pattern_is_that_workload() -> None:
    expected = loaded(ROWS, expect='expect: {workloads: {"[x]": {action: start}}}\n').expectations
    assert expected.workloads[0].workloads == ("[x]",)


def test_figures_of_teams_and_pools_are_read() -> None:
    expect = "expect: {teams: {a: {main: {ceiling: null}}}, pools: {main: {free: 4}}}\n"
    assert loaded(ROWS, expect=expect).expectations.figures == (
        FigureExpectation(8, "a", "main", (("ceiling", Scalar(8, "null", False)),)),
        FigureExpectation(8, None, "main", (("free", Scalar(8, "4", False)),)),
    )


def test_expecting_nothing_of_a_workload_or_a_pool_is_allowed() -> None:
    expect = "expect: {workloads: {x-0: null}, teams: {a: null}, pools: {main: null}}\n"
    expected = loaded(ROWS, expect=expect).expectations
    assert (expected.workloads[0].values, expected.figures[0].values) == ((), ())


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ("{jobs: {}}", 'expect has the unknown key "jobs"; allowed are pools, teams, workloads'),
        ("{workloads: {y: {kept: 1}}}", 'expect: workloads names "y"; allowed are workloads and patterns of some'),
        ('{workloads: {"y*": {kept: 0}}}', 'expect: workloads names "y*"; allowed are workloads and patterns of some'),
        ("{workloads: {x-0: {actoin: keep}}}", 'expect: workloads: x-0 has the unknown key "actoin"; allowed are action, allocation, eta, kept, nodes, pods, pool, position, preempted, preempted_by, preempts, reason, started, status, waiting'),
        ("{workloads: {x-0: {action: go}}}", "expect: workloads: x-0: action is go; allowed are start, keep, grow, shrink, preempt, wait, end"),
        ("{workloads: {x-0: {kept: -1}}}", "expect: workloads: x-0: kept is -1; allowed are whole numbers from 0 to 1,000,000"),
        ("{teams: {b: {main: {in_use: 1}}}}", 'expect: teams names the unknown team "b"; known are a'),
        ("{teams: {a: {moon: {in_use: 1}}}}", 'expect: teams: a names the unknown pool "moon"; known are main'),
        ("{teams: {a: {main: {used: 1}}}}", 'expect: teams: a: main has the unknown key "used"; allowed are ceiling, demand, entitlement, guarantee, in_use, reserved_in_use'),
        ("{pools: {moon: {free: 1}}}", 'expect: pools names the unknown pool "moon"; known are main'),
    ],
)  # fmt: skip
def test_what_cannot_be_expected_is_refused(expect: str, sentence: str) -> None:
    error = refusal(text(ROWS, expect=f"expect:\n  {expect}\n"))
    assert (error.line, error.message) == (9, sentence)


def test_an_unknown_reason_is_refused() -> None:
    error = refusal(text(ROWS, expect="expect: {workloads: {x-0: {reason: because}}}\n"))
    assert error.message.startswith(
        "expect: workloads: x-0: reason is because; allowed are held, not-before, peak-hours,"
    )
