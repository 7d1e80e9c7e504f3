"""Shows that the truths can be told from lies: each planted bug is to be caught (`python -m chaos.plants [NAME …]`).

A run for each, with load and without faults but for those that wake a bug, until a violation is found; the table says
which truth found it.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from chaos import stage
from chaos.planted import BUGS
from chaos.run import Run, choose
from chaos.truths import TruthViolation

SECONDS = 45.0
REST_SECONDS = 20.0
"""What has not come to rest by then is stuck: nothing fails in these runs for longer than a moment."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What a bug needs beside the changed code, and which truths it is to break."""

    truths: frozenset[int]
    prepare: str = ""
    """SQL that takes away the guard in the database which would refuse what the bug does."""
    faults: str = ""
    """Words of the faults without which the bug does nothing."""


ALLOCATED = "ALTER TABLE agentlink_device DROP CONSTRAINT device_allocated_within_capacity"
PLANTS: dict[str, Plant] = {
    "lost-update": Plant(frozenset({3, 4})),
    "double-start": Plant(frozenset({4})),
    "over-promise": Plant(frozenset({1}), prepare=ALLOCATED),
    "dropped-ring": Plant(frozenset({5})),
    "rolled-back": Plant(frozenset({3})),
    "key-ignored": Plant(frozenset({3})),
    "reserved-preempted": Plant(frozenset({2})),
    "event-lost": Plant(frozenset({4})),
    "let-go-early": Plant(frozenset({1, 4})),
    "fence-ignored": Plant(frozenset({1})),
    "stale-report": Plant(frozenset({1, 4, 5})),
    "foreign-agent": Plant(frozenset({1, 4}), faults="with the token of"),
    "no-permission": Plant(frozenset({7})),
}


@dataclass(frozen=True, slots=True)
class Caught:
    """What came of a run with a planted bug."""

    name: str
    seconds: float
    violations: list[TruthViolation]

    @property
    def by(self) -> list[TruthViolation]:
        """Return the violations of those truths that the bug is to break."""
        return [violation for violation in self.violations if violation.truth in PLANTS[self.name].truths]


def catch(name: str, *, seed: int, seconds: float) -> Caught:
    """Run with the bug until a truth that it breaks is violated, or for so many seconds and until rest."""
    plant = PLANTS[name]
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        with stage.running(folder, plant=name, prepare=plant.prepare) as running:
            began = time.monotonic()
            run = Run(
                running,
                seed=seed,
                seconds=seconds,
                faults=choose(plant.faults) if plant.faults else (),
                until=plant.truths,
                rest_seconds=REST_SECONDS,
            )
            result = asyncio.run(run.play())
            return Caught(name, time.monotonic() - began, result.violations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Catch them one after the other; return 1 where one got away."""
    parser = argparse.ArgumentParser(prog="python -m chaos.plants", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PLANTS), metavar="NAME", help=", ".join(PLANTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="the longest that one may go on under load"
    )
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in PLANTS]
    if unknown:
        parser.error(f"There is no bug {unknown[0]!r}; there are {', '.join(PLANTS)}.")
    # What was started is stopped, however this ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    width = max(len(name) for name in given.names)
    print(f"{'bug':<{width}}  caught after  by")
    got_away = 0
    for name in given.names:
        one = catch(name, seed=given.seed, seconds=given.seconds)
        how = (
            f"truth {one.by[0].truth}: {one.by[0].sentence}"
            if one.by
            else f"GOT AWAY; {len(one.violations)} others"
        )
        print(f"{name:<{width}}  {one.seconds:10.0f} s  {how}", flush=True)
        got_away += not one.by
    return 1 if got_away else 0


if __name__ == "__main__":
    assert set(PLANTS) == set(BUGS)  # noqa: S101 - both lists are written by hand
    sys.exit(main())
