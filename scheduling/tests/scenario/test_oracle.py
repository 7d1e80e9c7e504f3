"""The oracle notices: a good result that is spoilt in one place breaks just the rule that it should."""

# ruff: noqa: E501 - a spoilt result stands on one line

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from scheduling.engine import schedule
from scheduling.scenario.loader import Scenario
from scheduling.scenario.output import as_object, as_text

from .builder import loaded
from .oracle import broken_rules

POOLS = 'pools: [{name: main, policy: {min_runtime: 1m}, nodes: [{count: 2, name: "n{i}", gpus: 4, cpu: 8}, {name: vip, gpus: 4, partition: p}]}]\n'
TEAMS = "teams: [{name: top, burst_limit: 100}, {name: a, parent: top, reservations: {main: 4}}, {name: b, maximum: 6}]\n"
ROWS = """\
name: firm, team: a, priority: 100, gpus: 2, cpu: 4, status: running, nodes: [n0]
name: loose, team: b, priority: 50, pods: 3, min_pods: 2, gpus: 2, cpu: 2, status: running, nodes: [n0, n1, n1]
name: comes, team: a, priority: 100, gpus: 2, cpu: 2
name: waits, team: b, priority: 40, gpus: 1"""

Result = dict[str, Any]


@cache
def _scenario() -> Scenario:
    return loaded(ROWS, pools=POOLS, teams=TEAMS)


def _result() -> Result:
    scenario = _scenario()
    plan = schedule(scenario.snapshot, scenario.now)
    found: Result = json.loads(as_text(as_object(scenario.snapshot, scenario.now, plan)))
    return found


def _broken(result: Result) -> list[str]:
    scenario = _scenario()
    return broken_rules(scenario.snapshot, scenario.now, result)


def _row(result: Result, name: str) -> Result:
    row: Result = result["workloads"][name]
    return row


def test_a_good_result_breaks_no_rule() -> None:
    result = _result()
    assert _row(result, "comes")["preempts"] == ["loose"]
    assert _broken(result) == []


SPOILS: list[tuple[str, Callable[[Result], object], str]] = [
    ("a lost workload", lambda r: r["workloads"].pop("waits"), "not every workload stands in the result once"),
    ("a pending one that is kept", lambda r: _row(r, "waits").update(action="keep"), "waits: keep is nothing for a pending"),
    ("a node over its GPUs", lambda r: _row(r, "firm")["nodes"].update(n0=6.0), "node n0 is over its capacity"),
    ("half a pod", lambda r: _row(r, "firm")["nodes"].update(n0=3.0), "firm: 3000 on n0 is no whole number of pods"),
    ("a node of a partition", lambda r: _row(r, "comes").update(nodes={"vip": 2.0}), "comes: node vip does not take it"),
    ("too many pods", lambda r: _row(r, "comes").update(pods=2), "comes: has 2 pods, of 1 to 1"),
    ("a reserved victim", lambda r: _row(r, "firm").update(action="preempt"), "firm: reserved, but made to preempt"),
    ("a victim nobody names", lambda r: _row(r, "comes").update(preempts=[]), "loose: yields to comes, but is named by []"),
    ("a victim that stays", lambda r: _row(r, "comes").update(preempts=["firm", "loose"]), "firm: stays, but is preempted by"),
    ("a minimum undercut", lambda r: _row(r, "loose").update(pods=1), "loose: shrunk below its minimum"),
    ("a burst of reserved work", lambda r: _row(r, "comes")["allocation"][0].update(team=None), "comes: reserved, but charged to [None]"),
    ("a charge that is too small", lambda r: _row(r, "comes")["allocation"][0].update(gpus=1.0), "comes: its allocation is not its size"),
    ("a part charged twice", lambda r: _row(r, "comes")["allocation"][0].update(team="top"), "top: 2000 charged to its own part of 0 in main"),
    ("a wrong sum", lambda r: r["teams"]["a"]["main"].update(in_use=1.0), "a in main: "),
    ("a wrong capacity", lambda r: r["pools"]["main"].update(capacity=1.0), "pool main: "),
    ("an entitlement above demand", lambda r: r["teams"]["a"]["main"].update(entitlement=5.0), "a is entitled to 5000, but wants 4000"),
    ("children with more than their parent", lambda r: r["teams"]["top"]["main"].update(entitlement=1.0), "the children of top are entitled"),
    ("a hole in the queue", lambda r: _row(r, "waits").update(position=2), "the positions in main are [2]"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in SPOILS])
def test_each_spoilt_result_breaks_its_rule(spoil: Callable[[Result], object], sentence: str) -> None:
    result = _result()
    spoil(result)
    assert [each for each in _broken(result) if each.startswith(sentence)]


def test_going_above_a_ceiling_is_noticed() -> None:
    result = _result()
    _row(result, "waits").update(action="start", pool="main", pods=1, preempts=[], nodes={"vip": 1.0})
    _row(result, "waits").update(allocation=[{"team": None, "gpus": 1.0}])
    _row(result, "loose").update(action="grow", nodes={"n0": 2.0, "n1": 4.0}, pods=3)
    assert "b: 7000 in main is above its ceiling of 6000" in _broken(result)


def test_growing_before_it_is_let_go_is_noticed() -> None:
    rows = (
        "name: goes, team: a, status: stopping, nodes: [n0]\n"
        "name: gang, team: a, pods: 2, min_pods: 1, status: queued, nodes: [n0]"
    )
    scenario = loaded(rows, pools='pools: [{name: main, nodes: [{count: 2, name: "n{i}", gpus: 1}]}]\n')
    result: Result = as_object(scenario.snapshot, scenario.now, schedule(scenario.snapshot, scenario.now))
    assert broken_rules(scenario.snapshot, scenario.now, result) == []
    _row(result, "gang").update(action="grow", nodes={"n0": 1.0, "n1": 1.0}, pods=2)
    sentence = "gang: grows, but waits for somebody who is stopping"
    assert sentence in broken_rules(scenario.snapshot, scenario.now, result)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("{elastic_preemption: never}", "comes: elastic, and preempts under `never`"),
        ("{min_runtime: 2h}", "comes: preempts goes, which ran too short"),
        ("{max_preemptions: 1}", "comes: preempts goes, which was preempted too often"),
        ("{}", "comes: preempts goes of priority 70"),
    ],
)
def test_elastic_work_without_the_right_to_preempt_is_noticed(policy: str, sentence: str) -> None:
    pools = f"pools: [{{name: main, policy: {policy}, nodes: [{{name: n0, gpus: 1}}]}}]\n"
    rows = (
        "name: goes, team: a, priority: 70, status: running, started: -1h, preemptions: 1\n"
        "name: comes, team: a, priority: 60"
    )
    scenario = loaded(rows, pools=pools)
    result: Result = as_object(scenario.snapshot, scenario.now, schedule(scenario.snapshot, scenario.now))
    _row(result, "goes").update(action="preempt", preempted_by="comes", nodes={}, allocation=[])
    _row(result, "comes").update(action="start", preempts=["goes"], nodes={"n0": 1.0}, pods=1)
    assert sentence in broken_rules(scenario.snapshot, scenario.now, result)
