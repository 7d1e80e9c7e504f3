"""A database with all migrations, made once for a run of tests and then copied: making it takes a core five seconds.

What tests are about migrations, or of a server's first start, makes its own.
"""

import fcntl
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from rig import processes

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
    done = processes.run(
        [sys.executable, "-m", "chamber.cli", "migrate"],
        env={**kept, "CHAMBER_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "chamber.settings"},
        cwd=ROOT,
    )
    if done.returncode != 0:
        (folder / FILE).unlink(missing_ok=True)
        raise NotMigrated(f"migrate ended with {done.returncode}: {done.stderr[-1500:]}")


@contextmanager
def copied(
    connection: Any, folder: Path, allowed: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Inside the block, Django's test database begins as a copy, which `migrate` finds complete.

    `allowed`: within it the database may be used at the end of the block.
    """
    creation = connection.creation
    create = creation.create_test_db
    made: list[str] = []

    def of_sqlite(**options: Any) -> Any:
        copy_of(folder, Path(connection.settings_dict["TEST"]["NAME"]))
        return create(**{**options, "keepdb": True})

    def of_postgresql(**options: Any) -> Any:
        template = folder / "template"
        with _turn(folder):
            if template.exists():
                connection.settings_dict["TEST"]["TEMPLATE"] = template.read_text()
                return create(**options)
            name = create(**options)
            creation.clone_test_db("migrated", verbosity=0, autoclobber=True)
            made.append(creation.get_test_db_clone_settings("migrated")["NAME"])
            template.write_text(made[0])
            return name

    creation.create_test_db = of_sqlite if connection.vendor == "sqlite" else of_postgresql
    try:
        yield
    finally:
        creation.create_test_db = create
        for name in made:
            with _turn(folder), allowed():
                (folder / "template").unlink()
                _drop(connection, name)


def _drop(connection: Any, name: str) -> None:
    """Drop what the copies were made of: it is nobody's test database, whose end Django sees to."""
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)}")
