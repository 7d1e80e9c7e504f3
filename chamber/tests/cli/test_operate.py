"""`chamber simulate` and the operators' commands: options go where they belong."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentlink.agent.command import LogForm
from chamber.cli import main
from chamber.demo import command as demo_command

SCENARIO = """
version: 1
pools: [{name: main, nodes: [{name: n1, gpus: 8}]}]
teams: [{name: acme, reservations: {main: 8}}]
workloads: [{name: train, team: acme, gpus: 4}]
expect: {workloads: {train: {action: ACTION}}}
"""


def simulate(tmp_path: Path, *options: str, action: str = "start") -> Result:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("ACTION", action))
    return CliRunner().invoke(main, ["simulate", str(file), *options])


def test_simulate_shows_a_plan(tmp_path: Path) -> None:
    result = simulate(tmp_path)

    assert result.exit_code == 0
    assert "train" in result.stdout


def test_simulate_checks_what_is_expected(tmp_path: Path) -> None:
    assert simulate(tmp_path, "--check").exit_code == 0
    assert simulate(tmp_path, "--check", action="wait").exit_code == 1


def test_simulate_refuses_what_is_no_scenario(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text("version: 99")

    result = CliRunner().invoke(main, ["simulate", str(file)])

    assert result.exit_code == 2
    assert "99" in result.stderr


def test_simulate_lets_a_clock_run(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("name,team,submitted,duration\njob,acme,10m,30m\n")

    result = simulate(
        tmp_path, "--until", "1h", "--interval", "30s", "--trace", str(trace), "--verify", "--format", "json"
    )

    assert result.exit_code == 0
    assert json.loads(result.stdout)["summary"]["finished"] == 1
    assert "no rule is broken in 3 plans" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--interval", "30s"),
        ("--until", "1h", "--cycles", "2"),
        ("--until", "1y"),
        ("--until=-5m",),
        ("--cycles", "0"),
    ],
)
def test_simulate_refuses_options_that_make_no_sense(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert simulate(tmp_path, *options).exit_code == 2


def test_simulate_reads_standard_input_once() -> None:
    result = CliRunner().invoke(main, ["simulate", "-", "--trace", "-"], input=SCENARIO)

    assert result.exit_code == 2
    assert "Standard input is FILE or --trace, not both." in result.stderr


def test_simulate_runs_cycles_in_a_row(tmp_path: Path) -> None:
    assert simulate(tmp_path, "--check", "--cycles", "2", action="keep").exit_code == 0


def test_the_demo_gets_its_options_and_its_status_is_the_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def run(**options: Any) -> int:
        given.update(options)
        return 1

    monkeypatch.setattr(demo_command, "run", run)

    result = CliRunner().invoke(main, ["demo", "--port", "8123", "--reset"])

    assert result.exit_code == 1
    assert (given["port"], given["reset"], given["host"], given["data"]) == (8123, True, "127.0.0.1", None)


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_outside_the_range_is_a_usage_error(port: str) -> None:
    assert CliRunner().invoke(main, ["demo", "--port", port]).exit_code == 2


def test_agent_passes_on_what_was_said_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, Any]] = []

    def run(**options: Any) -> int:
        said.append(options)
        return 0

    monkeypatch.setattr("agentlink.agent.command.main_native", run)
    monkeypatch.setenv("CHAMBER_WORKLOADS_ROLE", "workers")
    monkeypatch.setenv("CHAMBER_WORKLOAD_NAMESPACE", "work")
    selectors = ["--node-selector", "a=b", "--node-selector", "c"]

    result = CliRunner().invoke(
        main,
        ["agent", "--url", "http://x", "--token-file", "t", "--in-cluster", "--health-port", "0", *selectors],
    )

    assert result.exit_code == 0
    assert said == [
        {
            "url": "http://x",
            "token_file": Path("t"),
            "kubeconfig": None,
            "transport": "websocket",
            "namespace": "work",
            "node_selectors": ("a=b", "c"),
            "health_port": 0,
            "role": "workers",
            "cluster": "",
            "log": LogForm("line", "INFO"),
        }
    ]
