"""`chamber doctor` as a process: what it prints, and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
    good = {"CHAMBER_DATA": str(folder), "CHAMBER_SECRET_KEY": "k3V9xq-0Zr7LwYt2mB8pQf5sJd1HnUc6E"}
    return subprocess.run(
        [sys.executable, "-m", "chamber.cli", *arguments],
        env={**kept, **good, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a SQLite database of this version."""
    folder = tmp_path_factory.mktemp("data")
    assert run(folder, "migrate").returncode == 0
    return folder


def test_findings_are_sentences_with_advice_and_status_1(migrated: Path) -> None:
    done = run(migrated, "doctor")
    assert done.returncode == 1
    assert done.stdout == (
        "beat: Nobody has carried out a duty yet.\n  Start `chamber serve --part all`.\n"
        "scheduler: Nobody has run a cycle yet.\n  Start `chamber serve --part all`.\n"
    )
    assert done.stderr == ""


def test_programs_are_told_in_json(migrated: Path) -> None:
    done = run(migrated, "doctor", "--json", CHAMBER_DEBUG="1")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["well"] is False
    assert [found["check"] for found in told["findings"]] == ["debug", "beat", "scheduler"]
    assert "channel-layer" in told["made"]
    assert told["left_out"] == []


def test_settings_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", CHAMBER_DATABASE="mysql://db/chamber")
    assert done.returncode == 1
    assert done.stdout.startswith("settings: CHAMBER_DATABASE begins with 'mysql'; allowed is ")


def test_what_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    done = run(tmp_path / "missing", "doctor")
    assert done.returncode == 1
    assert "database: The database does not answer: unable to open database file." in done.stdout
    assert "Not looked at, because of that: migrations," in done.stdout
