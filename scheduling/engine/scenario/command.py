"""`chamber simulate FILE`: load a scenario, run one cycle, show the plan or compare it with what is expected.

Exit status: 0, or 1 where `--check` finds a difference, or 2 where the input is refused.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TextIO

from scheduling.engine import schedule
from scheduling.engine.types import Plan

from .check import differences
from .document import MAX_BYTES, Format, ScenarioError
from .loader import Scenario, load
from .output import Object, as_object, as_text
from .table import as_table

OK, DIFFERENT, REFUSED = 0, 1, 2
STDIN = "-"
TABLE, JSON = "table", "json"
SUFFIXES = {".yaml": Format.YAML, ".yml": Format.YAML, ".json": Format.JSON}


def run(path: str, *, check: bool, format: str, out: TextIO, err: TextIO) -> int:  # noqa: A002 - the option's name
    """Simulate one file (`-`: standard input), write to `out` and `err`, and return the exit status.

    The table gives way to the verdict of a check; JSON stays, and the differences go to `err`.
    """
    try:
        content = _read(path)
        scenario = load(content, _form(path, content))
    except ScenarioError as error:
        _write(err, f"{_named(path)}: {error}\n")
        return REFUSED
    plan = schedule(scenario.snapshot, scenario.now)
    result = as_object(scenario.snapshot, scenario.now, plan)
    if format == JSON:
        _write(out, as_text(result))
    elif not check:
        _write(out, _table(scenario, plan, out))
    return _verdict(path, scenario, result, err if format == JSON else out) if check else OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="chamber simulate",
        description="Run the scheduler on a described organisation, without a database.",
    )
    parser.add_argument("file", metavar="FILE", help='a scenario in YAML or JSON; "-" reads standard input')
    parser.add_argument("--check", action="store_true", help="compare with what the scenario expects")
    parser.add_argument("--format", choices=(TABLE, JSON), default=TABLE, help="how to show the plan")
    arguments = parser.parse_args(argv)
    return run(arguments.file, check=arguments.check, format=arguments.format, out=sys.stdout, err=sys.stderr)


def _verdict(path: str, scenario: Scenario, result: Object, to: TextIO) -> int:
    """Write each difference, or that there is none."""
    expectations = scenario.expectations
    found = differences(expectations, result)
    for difference in found:
        _write(to, f"{_named(path)}: {difference}\n")
    if found:
        return DIFFERENT
    count = len(expectations.workloads) + len(expectations.figures)
    _write(to, f"{_named(path)}: {'as expected' if count else 'nothing is expected'}\n")
    return OK


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


def _table(scenario: Scenario, plan: Plan, out: TextIO) -> str:
    """The table as wide as the terminal; a file gets all of it, and no colour."""
    terminal = out.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    colour = terminal and not os.environ.get("NO_COLOR")
    return as_table(scenario.snapshot, scenario.now, plan, width=width, colour=colour)


def _named(path: str) -> str:
    return "standard input" if path == STDIN else path


def _write(to: TextIO, text: str) -> None:
    """Write what the stream's encoding can say, and a question mark for the rest."""
    encoding = to.encoding or "utf-8"
    to.write(text.encode(encoding, "replace").decode(encoding))
