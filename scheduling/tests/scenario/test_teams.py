"""The tree of teams as rows."""

# ruff: noqa: E501 - a refusal stands on one line of its table

import pytest

from scheduling.engine import HOUR_MS, TeamInfo, TeamShare

from .builder import loaded, refusal

POOLS = "pools: [{name: main}, {name: two}]\n"


def _team(facts: str) -> TeamInfo:
    return loaded(pools=POOLS, teams=f"teams: [{{name: a, {facts}}}]\n").snapshot.teams[0]


def test_a_team_has_weight_one_and_no_limits() -> None:
    assert _team("parent: null") == TeamInfo("a", "a")


def test_every_fact_of_a_team_is_read() -> None:
    team = _team("bursting_priority: 3, burst_limit: 50, reservations: {main: 4.5}, usage: {two: 1.5}")
    assert (team.weight, team.burst_limit_percent) == (3, 50)
    assert team.shares == (
        TeamShare("main", reservation_milli=4500),
        TeamShare("two", usage_gpu_ms=1500 * HOUR_MS // 1000),
    )


@pytest.mark.parametrize(
    ("facts", "main", "two"),
    [
        ("maximum: 70", 70_000, 70_000),
        ("maximum: 70, maximums: {main: 9}", 9000, 70_000),
        ("maximum: 70, maximums: {main: null}", None, 70_000),
        ("maximum: 70, maximums: {main: -1}", None, 70_000),
        ("maximum: -1, maximums: {main: 0}", 0, None),
        ("maximum: null", None, None),
    ],
)
def test_a_maximum_holds_in_each_pool_but_where_it_differs(
    facts: str, main: int | None, two: int | None
) -> None:
    team = _team(facts)
    maximums = {share.pool: share.maximum_milli for share in team.shares}
    assert team.maximum_milli is None
    assert (maximums.get("main"), maximums.get("two")) == (main, two)


def test_a_parent_may_stand_below_its_children() -> None:
    teams = loaded(teams="teams: [{name: b, parent: a}, {name: a}]\n").snapshot.teams
    assert [(team.id, team.parent) for team in teams] == [("b", "a"), ("a", None)]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{name: b, parent: c}", 'team "b": parent names the unknown team "c"; known are a, b'),
        ("{name: b, parent: b}", 'team "b": parent is "b", its own descendant (b > b); allowed is a tree'),
        ("{name: a}", 'the team "a" is given twice, first in line 4; names are unique'),
        ("{parent: a}", "a team has no name; one is required"),
        ("{name: b, weight: 2}", 'a team has the unknown key "weight"; allowed are burst_limit, bursting_priority, maximum, maximums, name, parent, reservations, usage'),
        ("{name: b, bursting_priority: -1}", 'team "b": bursting_priority is -1; allowed are whole numbers from 0 to 1,000,000'),
        ("{name: b, burst_limit: -1}", 'team "b": burst_limit is -1; allowed are whole numbers from 0 to 1,000,000'),
        ("{name: b, maximum: -2}", 'team "b": maximum is -2; allowed are numbers from -1 to 1,000,000,000, exact to a thousandth'),
        ("{name: b, maximum: -0.5}", 'team "b": maximum is -0.5; allowed are numbers of GPUs from 0, and null or -1 for unlimited'),
        ("{name: b, reservations: {main: -1}}", 'team "b": reservations: main is -1; allowed are numbers from 0 to 1,000,000,000, exact to a thousandth'),
        ("{name: b, reservations: {maim: 1}}", 'team "b": reservations names the unknown pool "maim"; known are main, two'),
        ("{name: b, maximums: {maim: 1}}", 'team "b": maximums names the unknown pool "maim"; known are main, two'),
        ("{name: b, usage: {maim: 1}}", 'team "b": usage names the unknown pool "maim"; known are main, two'),
        ("{name: b, reservations: 4}", 'team "b": reservations is 4; allowed is a mapping of keys'),
    ],
)  # fmt: skip
def test_what_is_no_team_is_refused(row: str, sentence: str) -> None:
    error = refusal(f"version: 1\n{POOLS}teams:\n  - {{name: a}}\n  - {row}\n")
    assert (error.line, error.message) == (5, sentence)


def test_a_longer_circle_is_refused_where_it_closes() -> None:
    rows = "  - {name: leaf, parent: x}\n  - {name: x, parent: y}\n  - {name: y, parent: z}\n  - {name: z, parent: x}\n"
    error = refusal(f"version: 1\nteams:\n{rows}")
    assert (error.line, error.message) == (
        4,
        'team "x": parent is "y", its own descendant (x > y > z > x); allowed is a tree',
    )


def test_a_deep_tree_is_no_circle() -> None:
    rows = "".join(f"  - {{name: t{i + 1}, parent: t{i}}}\n" for i in range(999))
    teams = loaded(teams=f"teams:\n  - {{name: t0}}\n{rows}").snapshot.teams
    assert len(teams) == 1000
