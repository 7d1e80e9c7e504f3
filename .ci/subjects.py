"""Judge the subjects of commits: of the message in a file, or, without one, of all commits since the rule holds."""

import subprocess
import sys
from pathlib import Path

MOST = 72
SINCE = "2026-11-27T00:10:00+00:00"
"""Subjects of before may be longer."""


def subjects_of_log() -> list[tuple[str, str]]:
    """Return the commits since then, each with its subject; none where this is no checkout of git."""
    command = ["git", "log", f"--since={SINCE}", "--format=%h\t%s"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no input of others
    except FileNotFoundError:
        return []
    pairs = [line.partition("\t") for line in log.stdout.splitlines()]
    return [(commit, subject) for commit, _, subject in pairs]


def main() -> int:
    """Name each subject that is too long; return the status to end with."""
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        found = [("This commit", line) for line in lines if line and not line.startswith("#")][:1]
    else:
        found = subjects_of_log()
    long = [(commit, subject) for commit, subject in found if len(subject) > MOST]
    for commit, subject in long:
        sys.stderr.write(
            f"{commit} has a subject of {len(subject)} characters; at most {MOST} are allowed: {subject}\n"
        )
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
