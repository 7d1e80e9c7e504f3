"""`chamber simulate FILE`: what it reads, what it writes where, and its exit status."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduling.engine import schedule
from scheduling.simulation import command
from scheduling.simulation.command import SimulateOptions, run

CASES = Path(__file__).parents[1] / "scenario" / "cases"
SCENARIO = """\
version: 1
pools: [{name: main, nodes: [{name: n0, gpus: 1}]}]
teams: [{name: a}]
workloads: [{name: x, team: a}]
"""
EXPECTED = SCENARIO + "expect: {workloads: {x: {action: start}}}\n"
DIFFERENT = SCENARIO + "expect: {workloads: {x: {action: wait}}}\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(SCENARIO)
    return path


def _run(path: object, **options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = run(str(path), SimulateOptions(**options), out=out, err=err)
    return status, out.getvalue(), err.getvalue()


def test_a_table_is_the_default(file: Path) -> None:
    status, out, err = _run(file)
    assert (status, err) == (0, "")
    assert "x         a     start   queued" in out


def test_json_is_the_plan_and_nothing_else(file: Path) -> None:
    status, out, err = _run(file, format="json")
    assert (status, err) == (0, "")
    assert json.loads(out)["workloads"]["x"]["nodes"] == {"n0": 1.0}


def test_the_same_file_gives_the_same_bytes_in_every_process() -> None:
    case = CASES / "everybody-wants-more.yaml"
    arguments = [
        sys.executable,
        "-m",
        "chamber.cli",
        "simulate",
        str(case),
        "--format",
        "json",
        "--until",
        "2h",
    ]
    once, again = (
        subprocess.run(arguments, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    )
    assert once.stdout == again.stdout
    assert json.loads(once.stdout)["now"] == "2026-01-01T02:00:00Z"


@pytest.mark.parametrize(
    ("content", "status", "verdict"),
    [
        (EXPECTED, 0, "as expected"),
        (SCENARIO, 0, "nothing is expected"),
        (DIFFERENT, 1, "line 5: x: action wait expected, found start"),
    ],
)
def test_a_check_writes_its_verdict_in_place_of_the_table(
    file: Path, content: str, status: int, verdict: str
) -> None:
    file.write_text(content)
    assert _run(file, check=True) == (status, f"{file}: {verdict}\n", "")


def test_a_check_beside_json_writes_its_verdict_apart(file: Path) -> None:
    file.write_text(DIFFERENT)
    status, out, err = _run(file, check=True, format="json")
    assert (status, err) == (1, f"{file}: line 5: x: action wait expected, found start\n")
    assert json.loads(out)["workloads"]["x"]["action"] == "start"


def test_a_refused_file_is_named_with_its_line(file: Path) -> None:
    file.write_text(SCENARIO.replace("gpus: 1", "gpus: 0.5"))
    allowed = "allowed are whole numbers from 0 to 1,024"
    assert _run(file) == (2, "", f'{file}: line 2: node "n0": gpus is 0.5; {allowed}\n')


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    status, out, err = _run(tmp_path / name)
    assert (status, out) == (2, "")
    assert err.startswith(f"{tmp_path / name}: cannot be read: ")


def test_an_endless_file_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_BYTES", 100)
    monkeypatch.setattr("scheduling.scenario.document.MAX_BYTES", 100)
    status, _, err = _run("/dev/zero")
    assert (status, err) == (2, "/dev/zero: the file has more than 100 bytes, which is the most allowed\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_standard_input_may_be_yaml_or_json(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    content = '{"version": 1,\t"teams": [{"name": "\\ud83d\\ude00"}]}' if as_json else EXPECTED
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    status, out, _ = _run("-", format="json")
    assert status == 0
    assert json.loads(out)["teams"].keys() == {"😀" if as_json else "a"}


def test_standard_input_is_named_in_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"version: 2")))
    assert _run("-") == (2, "", "standard input: line 1: the file: version is 2; allowed is 1\n")


@pytest.mark.parametrize("suffix", [".json", ".JSON", ""])
def test_json_is_known_by_its_extension_or_its_content(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"case{suffix}"
    path.write_text('{"version": 1,\t"pools": []}')
    assert _run(path)[0] == 0


def test_yaml_by_extension_is_not_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(SCENARIO)
    assert _run(path) == (2, "", f"{path}: line 1: not JSON: Expecting value\n")


def test_a_screen_gets_colour_and_its_width_but_a_file_neither(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, err = Terminal(), io.StringIO()
    assert run(str(file), SimulateOptions(), out=screen, err=err) == 0
    assert "\x1b[32mstart\x1b[0m" in screen.getvalue()
    assert "start   queued     1  main  n0" in _run(file)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    run(str(file), SimulateOptions(), out=plain, err=err)
    assert "\x1b" not in plain.getvalue()
    assert max(map(len, plain.getvalue().splitlines())) <= 30


def test_a_name_the_terminal_cannot_write_is_no_failure(file: Path) -> None:
    file.write_text(SCENARIO.replace("name: a", "name: ä").replace("team: a", "team: ä"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert run(str(file), SimulateOptions(), out=out, err=out) == 0
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    assert b"x         ?     start" in out.buffer.getvalue()


RUNNING = """\
version: 1
pools: [{name: main, nodes: [{name: n0, gpus: 1}]}]
teams: [{name: a}]
workloads: [{name: x, team: a, submitted: 10m, duration: 30m}]
"""
VICTIM = """\
version: 1
pools: [{name: main, nodes: [{name: n0, gpus: 1}]}]
teams: [{name: a}, {name: r, reservations: {main: 1}}]
workloads: [{name: x, team: a, status: running}, {name: y, team: r, priority: 100}]
expect: {workloads: {x: {action: wait}, y: {action: keep}}}
"""


def test_a_clock_that_runs_adds_a_summary(file: Path) -> None:
    file.write_text(RUNNING)
    status, out, err = _run(file, format="json", until_ms=3_600_000, interval_ms=30_000)
    result = json.loads(out)
    assert (status, err, result["now"]) == (0, "", "2026-01-01T01:00:00Z")
    assert result["summary"]["teams"]["a"]["utilisation"] == 0.5
    assert re.search(r"^everything +1 +1 +1 +50.0% +0 s", _run(file, until_ms=3_600_000)[1], re.MULTILINE)


def test_later_submissions_are_for_a_clock_that_runs(file: Path) -> None:
    file.write_text(RUNNING)
    assert _run(file)[::2] == (
        2,
        f'{file}: line 4: workload "x": submitted is 10m; allowed are times from ten years ago to now\n',
    )


def test_cycles_in_a_row_show_the_last_plan(file: Path) -> None:
    file.write_text(VICTIM)
    assert _run(file, check=True)[0] == 1
    assert _run(file, check=True, cycles=2)[:2] == (0, f"{file}: as expected\n")


def test_the_checker_tells_that_all_is_well_or_what_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(VICTIM)
    assert _run(file, verify=True, cycles=3)[:2] == (0, f"{file}: no rule is broken in 3 plans\n")
    assert _run(file, verify=True, until_ms=60_000)[:2] == (0, f"{file}: no rule is broken in 3 plans\n")
    monkeypatch.setattr(
        "scheduling.simulation.command.schedule",
        lambda snapshot, now, **how: replace(schedule(snapshot, now, **how), keeps=()),
    )
    status, out, _ = _run(file, verify=True, cycles=2)
    assert status == 1
    assert out.startswith(f"{file}: 2026-01-01T00:00:00Z: ")
    status, out, err = _run(file, verify=True, check=True, cycles=2, format="json")
    assert (status, json.loads(out)["now"]) == (1, "2026-01-01T00:00:00Z")
    assert "as expected" not in err


@pytest.mark.parametrize("options", [{}, {"cycles": 2}, {"until_ms": 60_000}])
def test_plain_gives_the_same_bytes_without_acceleration(
    file: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    file.write_text(VICTIM)
    fast = _run(file, format="json", **options)
    monkeypatch.setattr("scheduling.acceleration.decide.decide", None)
    assert _run(file, format="json", plain=True, **options) == fast


def test_a_trace_adds_workloads_and_is_named_where_it_is_refused(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv.gz"
    trace.write_bytes(gzip.compress(b"name,team,submitted,duration\njob,a,5m,1h\n"))
    status, out, _ = _run(file, format="json", until_ms=600_000, trace=str(trace))
    assert (status, json.loads(out)["workloads"].keys()) == (0, {"x", "job"})
    trace.write_bytes(gzip.compress(b"name,team\njob,b\n"))
    assert _run(file, trace=str(trace))[::2] == (
        2,
        f'{trace}: line 2: workload "job": team names the unknown team "b"; known are a\n',
    )
    trace.unlink()
    assert _run(file, trace=str(trace))[2] == f"{trace}: cannot be read: No such file or directory\n"
    assert _run(file, trace="")[2].startswith("'': cannot be read: ")


def test_a_terminal_sees_progress_and_a_file_none(file: Path) -> None:
    err = Terminal()
    run(str(file), SimulateOptions(until_ms=1000, format="json"), out=io.StringIO(), err=err)
    assert "Simulating" in err.getvalue()
    assert _run(file, until_ms=1000)[2] == ""
