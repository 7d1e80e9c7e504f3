"""A database of an earlier release is brought up to date, or left as it is with a sentence that says what to do."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from rig import processes

ROOT = Path(__file__).resolve().parent.parent
BEFORE = ("chamber", "0002_marks_and_totals")


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CHAMBER_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "chamber.settings"}
    return processes.run([sys.executable, *words], cwd=ROOT, env=environment)


def rows(folder: Path, query: str, *values: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(folder / "chamber.sqlite3")) as database, database:
        return database.execute(query, values).fetchall()


def test_accounts_that_share_an_address_but_for_capitals_are_named_and_nothing_is_changed(
    tmp_path: Path,
) -> None:
    assert run(tmp_path, "manage.py", "migrate", *BEFORE).returncode == 0
    for username, email in (("Ada", "Ada@X.org"), ("ada", "ada@x.org"), ("eve", "Eve@X.org"), ("bob", "")):
        rows(
            tmp_path,
            "INSERT INTO chamber_user (id, username, email, password, first_name, last_name, is_superuser, is_staff, "
            "is_active, date_joined, created_at) VALUES (?, ?, ?, 'x', '', '', 0, 0, 1, '2026-01-01', '2026-01-01')",
            uuid4().hex,
            username,
            email,
        )
    refused = run(tmp_path, "-m", "chamber.cli", "migrate")
    assert refused.returncode == 1, refused.stderr
    assert "Ada (Ada@X.org); ada (ada@x.org)." in refused.stderr
    assert "eve (" not in refused.stderr
    assert "Traceback" not in refused.stderr
    assert rows(tmp_path, "SELECT name FROM sqlite_master WHERE name LIKE 'account%'") == []
    assert ("Ada@X.org",) in rows(tmp_path, "SELECT email FROM chamber_user")
    rows(tmp_path, "UPDATE chamber_user SET email = '' WHERE username = 'Ada'")
    done = run(tmp_path, "-m", "chamber.cli", "migrate")
    assert done.returncode == 0, done.stderr
    assert set(rows(tmp_path, "SELECT username, email FROM chamber_user")) == {
        ("Ada", ""), ("ada", "ada@x.org"), ("eve", "eve@x.org"), ("bob", ""),
    }  # fmt: skip
