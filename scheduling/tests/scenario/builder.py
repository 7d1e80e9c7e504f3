"""Scenarios for tests, as short as what they are about."""

import pytest

from scheduling.engine import WorkloadInfo
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import Scenario, load

POOLS = """\
pools: [{name: main, topology: [rack], nodes: [{name: n0, gpus: 4, cpu: 8, memory_mib: 100, gpu_memory_mib: 1000}]}]
"""
TEAMS = "teams: [{name: a}]\n"


def text(workloads: str = "", *, pools: str = POOLS, teams: str = TEAMS, expect: str = "") -> str:
    """Return a scenario of four lines; workloads are flow mappings, from line 5 on, one a line."""
    rows = "".join(f"  - {{{row}}}\n" for row in workloads.splitlines())
    return f"version: 1\n{pools}{teams}workloads:\n{rows}{expect}"


def loaded(workloads: str = "", *, pools: str = POOLS, teams: str = TEAMS, expect: str = "") -> Scenario:
    return load(text(workloads, pools=pools, teams=teams, expect=expect).encode(), Format.YAML)


def workload(row: str, *, pools: str = POOLS, teams: str = TEAMS) -> WorkloadInfo:
    """Return the one workload of a row that names neither itself nor its team."""
    return loaded(f"name: x, team: a, {row}", pools=pools, teams=teams).snapshot.workloads[0]


def by_id(scenario: Scenario) -> dict[str, WorkloadInfo]:
    return {each.id: each for each in scenario.snapshot.workloads}


def refusal(content: str, form: Format = Format.YAML) -> ScenarioError:
    """Return the refusal of a document; fails where there is none."""
    with pytest.raises(ScenarioError) as caught:
        load(content.encode(), form)
    return caught.value
