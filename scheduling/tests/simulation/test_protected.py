"""Who would start but for workloads that may not be preempted, and what protects these."""

import io
import json
from pathlib import Path
from typing import Any

from scheduling.engine import Snapshot, WorkloadInfo, schedule
from scheduling.simulation.command import SimulateOptions, run
from scheduling.simulation.protected import protected_from
from scheduling.tests.engine.build import NOW, node, placed, pool, snapshot, team, waiting


def found(*workloads: WorkloadInfo, nodes: int = 1, **policy: Any) -> dict[str, dict[str, str]]:
    """By waiting workload whom it would preempt, and why it may not."""
    rows = snapshot(
        [node(f"n{number}", 1) for number in range(nodes)], [team("a")], workloads, pool(**policy)
    )
    return by_name(rows)


def by_name(rows: Snapshot) -> dict[str, dict[str, str]]:
    told = protected_from(rows, schedule(rows, NOW), NOW)
    return {name: {each.workload: each.why for each in spared} for name, spared in told.items()}


def test_a_minimum_runtime_is_named_with_how_long_the_victim_runs() -> None:
    young = placed("young", "a", on="n0:0", started=3)
    assert found(young, waiting("w", "a", priority=60), min_runtime_ms=600_000) == {
        "w": {"young": "runs for 3 min, min_runtime is 10 min"}
    }


def test_a_limit_of_preemptions_is_named_with_how_many_there_were() -> None:
    tired = placed("tired", "a", on="n0:0", preemptions_24h=1)
    assert found(tired, waiting("w", "a", priority=60), max_preemptions=1) == {
        "w": {"tired": "preempted 1 time in 24 h, max_preemptions is 1"}
    }


def test_reserved_work_is_named_as_such() -> None:
    rows = [
        placed("kept", "a", on="n0:0", priority=100),
        placed("kept-too", "a", on="n1:0", priority=100),
        waiting("w", "a", pods=2, priority=60),
    ]
    assert found(*rows, nodes=2) == {"w": {"kept": "reserved", "kept-too": "reserved"}}


def test_only_protected_ones_are_named() -> None:
    rows = [
        placed("young", "a", on="n0:0", started=3),
        placed("old", "a", on="n1:0"),
        waiting("w", "a", pods=2, priority=60),
    ]
    assert found(*rows, nodes=2, min_runtime_ms=600_000) == {
        "w": {"young": "runs for 3 min, min_runtime is 10 min"}
    }


def test_who_would_preempt_nobody_anyway_has_nobody_named() -> None:
    young = placed("young", "a", on="n0:0", started=3)
    assert found(young, waiting("w", "a", priority=40), min_runtime_ms=600_000) == {}
    assert found(young, waiting("w", "a", priority=60), min_runtime_ms=60_000) == {}
    assert found(placed("x", "a", on="n0:0"), waiting("w", "a", held=True)) == {}


CASE = """\
version: 1
pools: [{name: main, policy: {min_runtime: 10m}, nodes: [{name: n0, gpus: 5}]}]
teams: [{name: a}]
workloads:
  - {count: 5, name: "young-{i}", team: a, status: running, started: -90s}
  - {name: w, team: a, gpus: 5, priority: 60}
"""


def test_table_and_json_name_them(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    out = io.StringIO()
    assert run(str(path), SimulateOptions(), out=out, err=io.StringIO()) == 0
    assert "w      young-0        runs for 1.5 min, min_runtime is 10 min" in out.getvalue()
    assert "w      and 2 more" in out.getvalue()
    out = io.StringIO()
    run(str(path), SimulateOptions(format="json"), out=out, err=io.StringIO())
    (first, *others) = json.loads(out.getvalue())["workloads"]["w"]["protected"]
    assert first == {"workload": "young-0", "why": "runs for 1.5 min, min_runtime is 10 min"}
    assert len(others) == 4
