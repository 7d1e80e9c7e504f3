"""Chaos: `python -m chaos --seconds 300 --seed 1 [--faults WORDS] [--plant NAME]`; exit status 1 with any violation."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos import report, stage
from chaos.faults import InjectedFault
from chaos.plants import PLANTS
from chaos.run import ChaosResult, NothingRuns, Run, choose


def main() -> int:
    """Play one run and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=300, help="how long faults go on; below 120 only short ones"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="what the order of the faults and the load come from"
    )
    parser.add_argument(
        "--faults", default="", help="only faults whose names hold one of these words, comma-separated"
    )
    parser.add_argument("--plant", default="", choices=["", *PLANTS], help="a bug to plant in every process")
    parser.add_argument("--keep", action="store_true", help="keep logs and records, and say where they are")
    given = parser.parse_args()
    try:
        faults = choose(given.faults)
    except ValueError as error:
        parser.error(str(error))
    # What was started is stopped, however this ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        result = _play(folder, given, faults)
    except NothingRuns as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if given.keep:
            print(f"Logs and records are in {folder}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(report.text(result))
    return 1 if result.violations else 0


def _play(folder: Path, given: argparse.Namespace, faults: Sequence[InjectedFault]) -> ChaosResult:
    """Set the stage in the folder and play."""
    prepare = PLANTS[given.plant].prepare if given.plant else ""
    with stage.running(folder, plant=given.plant, prepare=prepare) as running:
        run = Run(running, seed=given.seed, seconds=given.seconds, faults=faults)
        try:
            return asyncio.run(run.play())
        finally:
            if given.keep:
                shutil.copytree(running.team.folder, folder / "deployment")


if __name__ == "__main__":
    sys.exit(main())
