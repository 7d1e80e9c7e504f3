"""A whole scenario: version, times, and what becomes of rows."""

# ruff: noqa: E501 - a file stands on one line

import pytest

from scheduling.engine import OpenStatus
from scheduling.scenario.document import Format
from scheduling.scenario.loader import NOW_MS, load

from .builder import by_id, loaded, refusal

SECOND = 1000
MINUTE = 60 * SECOND


def test_yaml_and_json_give_the_same_scenario() -> None:
    as_yaml = b"version: 1\npools: [{name: p, nodes: [{name: n, gpus: 2}]}]\nteams: [{name: a}]\nworkloads: [{name: x, team: a, gpus: 0.5}]\n"
    as_json = b'{"version": 1, "pools": [{"name": "p", "nodes": [{"name": "n", "gpus": 2}]}], "teams": [{"name": "a"}],\n "workloads": [{"name": "x", "team": "a", "gpus": 0.5}]}'
    assert load(as_yaml, Format.YAML) == load(as_json, Format.JSON)


def test_the_version_alone_is_a_scenario() -> None:
    scenario = load(b"version: 1", Format.YAML)
    assert (scenario.snapshot.pools, scenario.snapshot.workloads, scenario.now) == ((), (), 1_767_225_600_000)


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        ("[]", 1, "the file is []; allowed is a mapping of keys"),
        ("pools: []", 1, "the file has no version; one is required"),
        ("version: 2", 1, "the file: version is 2; allowed is 1"),
        ("version: 1\nteam: []", 2, 'the file has the unknown key "team"; allowed are expect, now, pools, teams, version, workloads'),
        ("version: 1\nteams: {a: {}}", 2, "the file: teams is a mapping; allowed is a list"),
        ("version: 1\nteams: [a]", 2, "a team is a; allowed is a mapping of keys"),
    ],
)  # fmt: skip
def test_what_is_no_scenario_is_refused(content: str, line: int, sentence: str) -> None:
    error = refusal(content)
    assert (error.line, error.message) == (line, sentence)
    assert str(error) == f"line {line}: {sentence}"


def test_workloads_were_submitted_in_the_order_of_the_file_a_second_apart() -> None:
    found = by_id(
        loaded('name: x, team: a\nname: "y-{i}", count: 2, team: a\nname: z, team: a, submitted: -10m')
    )
    submitted = {name: each.submitted_at - NOW_MS for name, each in found.items()}
    assert submitted == {"x": -4 * SECOND, "y-0": -3 * SECOND, "y-1": -2 * SECOND, "z": -10 * MINUTE}


@pytest.mark.parametrize(
    ("facts", "started", "checkpointed"),
    [
        ("status: running", -5 * MINUTE, None),
        ("status: running, started: -1m", -MINUTE, None),
        ("status: running, checkpointed: -9m", -9 * MINUTE, -9 * MINUTE),
        ("status: running, checkpointed: -1m", -5 * MINUTE, -MINUTE),
        ("status: stopping", -5 * MINUTE, None),
        ("status: starting", None, None),
        ("status: queued", None, None),
        ("status: pending, checkpointed: -1m", None, -MINUTE),
    ],
)
def test_what_runs_has_run_long_enough_for_its_pool(
    facts: str, started: int | None, checkpointed: int | None
) -> None:
    pools = "pools: [{name: main, policy: {min_runtime: 5m}, nodes: [{name: n0, gpus: 4}]}]\n"
    found = loaded(f"name: x, team: a, {facts}", pools=pools).snapshot.workloads[0]
    assert found.started_at == (None if started is None else NOW_MS + started)
    assert found.checkpointed_at == (None if checkpointed is None else NOW_MS + checkpointed)


@pytest.mark.parametrize("facts", ["pods: 2", "pods: 2, nodes: [n0], started: -1m"])
def test_pending_workloads_lie_nowhere_and_have_not_started(facts: str) -> None:
    found = loaded(f"name: x, team: a, {facts}").snapshot.workloads[0]
    assert (found.status, found.pool, found.placements, found.started_at) == (
        OpenStatus.PENDING,
        None,
        (),
        None,
    )


def test_ten_thousand_workloads_of_one_row_are_loaded() -> None:
    pools = 'pools: [{name: main, nodes: [{count: 1250, name: "n{i}", gpus: 8}]}]\n'
    scenario = loaded('name: "x-{i}", count: 10000, team: a, status: running', pools=pools)
    assert by_id(scenario)["x-9999"].placements[0].node == "n1249"
