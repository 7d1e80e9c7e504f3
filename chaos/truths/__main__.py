"""Check the truths of a database: `python -m chaos.truths postgresql://… [--answers FILE] [--pods FILE …]`."""

import argparse
import sys
from pathlib import Path

from chaos import truths


def main() -> int:
    """Print each violation with its rows; return 1 where there is any."""
    parser = argparse.ArgumentParser(prog="python -m chaos.truths", description=truths.__doc__)
    parser.add_argument("url", help="the database, postgresql://…")
    parser.add_argument("--answers", type=Path, help="the load's journal: what was answered")
    parser.add_argument(
        "--pods", type=Path, nargs="*", default=[], help="the clusters' records of their pods"
    )
    parser.add_argument(
        "--settled", action="store_true", help="it was quiet: nothing may be under way any more"
    )
    arguments = parser.parse_args()
    where = arguments.url, arguments.answers, tuple(arguments.pods)
    found = truths.safety(*where) + (truths.settled(*where) if arguments.settled else [])
    for violation in found:
        print(violation)
    print(f"{len(found)} violations.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
