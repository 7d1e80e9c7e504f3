"""Digests of what the engine decides: record them, and later see whether an engine decides the same.

    python -m scheduling.tests.proof.digests record FILE --traces FOLDER
    python -m scheduling.tests.proof.digests compare FILE --traces FOLDER
    python -m scheduling.tests.proof.digests compare FILE --only worlds --count 500
    python -m scheduling.tests.proof.digests show worlds 1234 --given

For changes of the engine that are to change no plan: record before, compare after each step. Sources: `cases` (files
of scenarios), `worlds` (random organisations), `histories` (random organisations to which things happen), `large`
(those of the engine's figures, smaller), and with `--traces` `philly` and `openb` (real clusters). A plan is recorded
in two layers, its decisions with all numbers and its sentences; `--decisions` compares the first only, `--plain` what
the rules decide without acceleration. Exit status 1 where something differs, 2 where there is nothing to compare with.
"""

from __future__ import annotations

import argparse
import difflib
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from scheduling.tests.proof.digests.record import (
    DECISIONS,
    SENTENCES,
    Difference,
    NoRecordError,
    compare,
    record,
    recorded,
)
from scheduling.tests.proof.digests.sources import (
    OWN_CASES,
    Cases,
    Histories,
    Large,
    Openb,
    Philly,
    Source,
    Worlds,
    steps_of,
)

SAME, DIFFERENT, REFUSED = 0, 1, 2
MOST_LINES = 40
"""Of a difference."""


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for; returns the exit status."""
    asked = _parser().parse_args(arguments)
    sources = _sources(asked)
    if asked.act == "show":
        return _show(sources, asked)
    chosen = {name: source for name, source in sources.items() if asked.only is None or name in asked.only}
    with ProcessPoolExecutor(asked.processes, mp_context=multiprocessing.get_context("spawn")) as workers:
        if asked.act == "record":
            began = time.monotonic()
            met = record(asked.file, chosen, workers)
            for kind, rows in sorted(met.items()):
                _say(f"{rows:>10,} {kind}")
            _say(f"recorded {', '.join(chosen)} in {time.monotonic() - began:.0f} s: {asked.file}")
            return SAME
        try:
            return _compare(chosen, asked, workers)
        except NoRecordError as error:
            _say(str(error))
            return REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduling.tests.proof.digests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    acts = parser.add_subparsers(dest="act", required=True)
    for act, help_ in (("record", "write a record"), ("compare", "compare with a record")):
        found = acts.add_parser(act, help=help_)
        found.add_argument("file", type=Path)
        found.add_argument("--only", nargs="+", metavar="SOURCE", help="these sources only")
        found.add_argument("--processes", type=int, default=2)
        _with_folders(found)
        if act == "record":
            found.add_argument("--worlds", type=int, default=20_000, help="how many random worlds")
            found.add_argument("--histories", type=int, default=2_000, help="how many histories")
        else:
            found.add_argument("--count", type=int, help="only so many items of each source, the first ones")
            found.add_argument(
                "--plain", action="store_true", help="by the rules alone: cases, worlds, histories"
            )
            found.add_argument("--decisions", action="store_true", help="do not compare sentences")
            found.add_argument("--differences", type=int, default=3, help="how many are shown of each source")
    show = acts.add_parser("show", help="print the plans of one item")
    show.add_argument("source")
    show.add_argument("key")
    show.add_argument("--step", help="only the plan of this step")
    show.add_argument("--given", action="store_true", help="and what the first plan is made for")
    _with_folders(show)
    return parser


def _with_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", type=Path, default=[], help="more folders of scenario files")
    parser.add_argument("--traces", type=Path, help="the folder of the traces, with folders philly and openb")


def _sources(asked: argparse.Namespace) -> dict[str, Source]:
    """All sources for which there is what they need."""
    accelerate = not getattr(asked, "plain", False)
    found: dict[str, Source] = {
        "cases": Cases((OWN_CASES, *asked.cases), accelerate),
        "worlds": Worlds(getattr(asked, "worlds", 0), accelerate),
        "histories": Histories(getattr(asked, "histories", 0), accelerate),
    }
    if not accelerate:
        return found
    found["large"] = Large()
    if asked.traces is not None:
        found |= {"philly": Philly(asked.traces / "philly"), "openb": Openb(asked.traces / "openb")}
    return found


# --- Comparing ----------------------------------------------------------------------------------------------------


def _compare(sources: dict[str, Source], asked: argparse.Namespace, workers: ProcessPoolExecutor) -> int:
    """Compare source by source, and say of each what was found."""
    status, there = SAME, recorded(asked.file)
    layers = (DECISIONS,) if asked.decisions else (DECISIONS, SENTENCES)
    for name, count in there.items():
        if name not in sources:
            _say(f"{name}: left out")
            continue
        began, items, plans, found = time.monotonic(), 0, 0, list[Difference]()
        most = count if asked.count is None else min(count, asked.count)
        for outcome in compare(asked.file, name, sources[name], workers, items=most, layers=layers):
            items, plans = items + outcome.items, plans + outcome.plans
            found.extend(outcome.differences)
        how = f"{len(found):,} differ" if found else "all the same"
        _say(f"{name}: {items:,} items, {plans:,} plans, {how} ({time.monotonic() - began:.0f} s)")
        for difference in found[: asked.differences]:
            _say("\n".join(_told(difference)))
        if len(found) > asked.differences:
            _say(f"  and {', '.join(each.key for each in found[asked.differences :][:20])} ...")
        status = DIFFERENT if found else status
    return status


def _told(difference: Difference) -> Iterator[str]:
    """A difference in lines, and how to see all of it."""
    step = f", {difference.step}" if difference.step else ""
    yield f"  {difference.source} {difference.key}{step}: other {difference.layer}"
    if difference.was is None:
        yield "    The record has no text of it. What there is now:"
        lines = difference.now.splitlines()
    else:
        before, after = difference.was.splitlines(), difference.now.splitlines()
        lines = list(difflib.unified_diff(before, after, "then", "now", lineterm="", n=0))
    yield from (f"    {line}" for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"    and {len(lines) - MOST_LINES:,} lines more"
    yield f"    To see it: show {difference.source} {difference.key} --given"


# --- Showing ------------------------------------------------------------------------------------------------------


def _show(sources: dict[str, Source], asked: argparse.Namespace) -> int:
    """Print what an item is and what becomes of it."""
    source = sources.get(asked.source)
    if source is None:
        _say(f"There is no source {asked.source}; there are {', '.join(sources)}.")
        return REFUSED
    given = source.given(asked.key) if asked.given else None
    for part in fields(given) if given is not None else ():
        for row in getattr(given, part.name):
            _say(_brief(row))
    for step in steps_of(source, asked.key):
        if asked.step in (None, step.name):
            _say(f"--- {step.name}\n{step.texts.decisions}\n{step.texts.sentences}")
    return SAME


def _brief(value: Any) -> str:
    """A row as it would be written in a test: without what equals its default."""
    if isinstance(value, tuple):
        return f"({', '.join([_brief(each) for each in value])}{',' if len(value) == 1 else ''})"
    if not is_dataclass(value) or isinstance(value, type):
        return (
            str(value)
            if isinstance(value, bool | int)
            else repr(str(value) if isinstance(value, str) else value)
        )
    told = [
        f"{part.name}={_brief(getattr(value, part.name))}"
        for part in fields(value)
        if part.default is MISSING or getattr(value, part.name) != part.default
    ]
    return f"{type(value).__name__}({', '.join(told)})"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
