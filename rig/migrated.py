"""A database with all migrations, made once for a run of tests and then copied: making it takes a core five seconds.

What tests are about migrations, or of a server's first start, makes its own.
"""

import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = "chamber.sqlite3"
"""Its name in a data folder."""


class NotMigrated(Exception):  # noqa: N818 - an outcome of the machine
    """The migrations could not be applied; the message ends with what was printed."""


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Have of all processes that come with this folder one at a time inside the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def copy_of(folder: Path, wanted: Path) -> None:
    """Write a SQLite database with all migrations; the first process that comes with this folder makes it there."""
    made = folder / FILE
    with _turn(folder):
        if not made.exists():
            _migrate(folder)
    wanted.unlink(missing_ok=True)
    with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(wanted)) as target:
        source.backup(target)


def _migrate(folder: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
    done = subprocess.run(
        [sys.executable, "-m", "chamber.cli", "migrate"],
        env={**kept, "CHAMBER_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "chamber.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        (folder / FILE).unlink(missing_ok=True)
        raise NotMigrated(f"migrate ended with {done.returncode}: {done.stderr[-1500:]}")


@contextmanager
def copied(connection: Any, folder: Path) -> Iterator[None]:
    """Inside the block, Django's test database begins as a copy, which `migrate` finds complete."""
    creation = connection.creation
    create = creation.create_test_db

    def from_copy(**options: Any) -> Any:
        copy_of(folder, Path(connection.settings_dict["TEST"]["NAME"]))
        return create(**{**options, "keepdb": True})

    creation.create_test_db = from_copy
    try:
        yield
    finally:
        creation.create_test_db = create
