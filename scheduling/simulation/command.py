"""`chamber simulate FILE`: load a scenario, run a cycle, several or a clock, show the plan or check it.

Exit status: 0, or 1 where `--check` finds a difference or `--verify` a broken rule, or 2 where the input is refused.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TextIO

from scheduling.engine import Plan, Snapshot, schedule
from scheduling.scenario.check import differences
from scheduling.scenario.document import MAX_BYTES, Format, ScenarioError
from scheduling.scenario.loader import Scenario, load
from scheduling.scenario.output import Object, as_object, as_text
from scheduling.scenario.table import as_table
from scheduling.scenario.trace import unpacked

from .clock import SimulationClock
from .outcome import carried_out
from .progress import ProgressBar
from .protected import ByWaiting, protected_from, section
from .summary import Summary, summary_of
from .verify import CheckerVerdict

OK, DIFFERENT, REFUSED = 0, 1, 2
STDIN = "-"
TABLE, JSON = "table", "json"
SUFFIXES = {".yaml": Format.YAML, ".yml": Format.YAML, ".json": Format.JSON}
MOST_CYCLES = 1000


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What is asked for. `cycles` run at one moment; with `until_ms` the clock runs instead. `plain`: by the rules
    alone, without acceleration."""

    check: bool = False
    verify: bool = False
    format: str = TABLE
    cycles: int = 1
    until_ms: int | None = None
    interval_ms: int = 0
    trace: str | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The last plan, what it was made for and when; `summary` of a clock that ran."""

    snapshot: Snapshot
    now: int
    plan: Plan
    summary: Summary | None = None


def run(path: str, options: SimulateOptions, *, out: TextIO, err: TextIO) -> int:
    """Simulate one file (`-`: standard input), write to `out` and `err`, and return the exit status.

    The table gives way to the verdicts of `check` and `verify`; JSON stays, and they go to `err`.
    """
    try:
        scenario = _scenario(path, options)
    except ScenarioError as error:
        source = options.trace if error.in_trace and options.trace is not None else path
        _write(err, f"{_named(source)}: {error}\n")
        return REFUSED
    verdict = CheckerVerdict() if options.verify else None
    result = _simulated(scenario, options, verdict, err)
    shown = as_object(result.snapshot, result.now, result.plan)
    spared = protected_from(result.snapshot, result.plan, result.now, accelerate=not options.plain)
    _add(shown, spared)
    if result.summary is not None:
        shown["summary"] = result.summary.as_object()
    if options.format == JSON:
        _write(out, as_text(shown))
    elif not options.check and not options.verify:
        _write(out, _table(result, spared, out))
    to = err if options.format == JSON else out
    status = OK
    if verdict is not None:
        status = _tell(path, verdict.sentences(), verdict.well(), to)
    if options.check:
        expectations = scenario.expectations
        count = len(expectations.workloads) + len(expectations.figures)
        well = "as expected" if count else "nothing is expected"
        status = max(status, _tell(path, differences(expectations, shown), well, to))
    return status


def _add(shown: Object, spared: ByWaiting) -> None:
    """Add to each waiting workload the protected workloads that it would preempt."""
    workloads = shown["workloads"]
    assert isinstance(workloads, dict)  # noqa: S101 - `as_object` makes one
    for name, found in spared.items():
        row = workloads[name]
        assert isinstance(row, dict)  # noqa: S101 - likewise
        row["protected"] = [{"workload": each.workload, "why": each.why} for each in found]


def _scenario(path: str, options: SimulateOptions) -> Scenario:
    content = _read(path)
    trace = None
    if options.trace is not None:
        try:
            trace = unpacked(_read(options.trace), options.trace)
        except ScenarioError as error:
            raise ScenarioError(error.message, error.line, in_trace=True) from None
    return load(content, _form(path, content), trace=trace, future=options.until_ms is not None)


def _simulated(
    scenario: Scenario, options: SimulateOptions, verdict: CheckerVerdict | None, err: TextIO
) -> SimulationResult:
    if options.until_ms is None:
        return _in_a_row(scenario, options, verdict)
    watches = [] if verdict is None else [verdict.look]
    with ProgressBar(err, scenario.now, options.until_ms) as progress:
        ending = SimulationClock(scenario, watches, accelerate=not options.plain).run(
            options.until_ms, options.interval_ms, progress.tell
        )
    if verdict is not None:
        verdict.look(ending.snapshot, ending.plan, ending.now)
    summary = summary_of(ending.snapshot, ending.tally, ending.now)
    return SimulationResult(ending.snapshot, ending.now, ending.plan, summary)


def _in_a_row(
    scenario: Scenario, options: SimulateOptions, verdict: CheckerVerdict | None
) -> SimulationResult:
    """So many cycles at one moment, each plan but the last carried out at once."""
    snapshot, now = scenario.snapshot, scenario.now
    for number in range(options.cycles):
        plan = schedule(snapshot, now, accelerate=not options.plain)
        if verdict is not None:
            verdict.look(snapshot, plan, now)
        if number < options.cycles - 1:
            snapshot = carried_out(snapshot, plan, now)
    return SimulationResult(snapshot, now, plan)


def _tell(path: str, findings: list[str], well: str, to: TextIO) -> int:
    """Write each finding, or that all is well; returns the status that follows."""
    for finding in findings or [well]:
        _write(to, f"{_named(path)}: {finding}\n")
    return DIFFERENT if findings else OK


def _read(path: str) -> bytes:
    """The bytes of a file or of standard input; one more than allowed is enough to refuse it."""
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ScenarioError(f"cannot be read: {error}") from error


def _form(path: str, content: bytes) -> Format:
    """YAML or JSON by the extension; where there is none, what the content can be read as."""
    form = SUFFIXES.get(PurePath(path).suffix.lower())
    if form is not None:
        return form
    try:
        json.loads(content)
    except RecursionError:
        return Format.JSON
    except ValueError:
        return Format.YAML
    return Format.JSON


def _table(result: SimulationResult, spared: ByWaiting, out: TextIO) -> str:
    """The table as wide as the terminal; a file gets all of it, and no colour."""
    terminal = out.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    colour = terminal and not os.environ.get("NO_COLOR")
    more = (section(spared),) if result.summary is None else (section(spared), result.summary.section())
    return as_table(result.snapshot, result.now, result.plan, width=width, colour=colour, more=more)


def _named(path: str) -> str:
    return "standard input" if path == STDIN else path or "''"


def _write(to: TextIO, text: str) -> None:
    """Write what the stream's encoding can say, and a question mark for the rest."""
    encoding = to.encoding or "utf-8"
    to.write(text.encode(encoding, "replace").decode(encoding))
