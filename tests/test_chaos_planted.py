"""Planted bugs find what they change, and sleep until they are woken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.faults import ASTRAY
from chaos.planted import BUGS, environment
from chaos.plants import PLANTS
from chaos.run import choose
from rig import processes

ROOT = Path(__file__).resolve().parent.parent

APPLY_ALL = """
import importlib
import django
django.setup()
from chaos.planted import BUGS
for bug in BUGS.values():
    for name, change in bug().items():
        change(importlib.import_module(name))
"""
RING = """
import django
django.setup()
from scheduling.cycle import wake_ups
wake_ups._raise_version = wake_ups._send = lambda: print("rung")
wake_ups.pass_on()
"""


def python(code: str, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run code in a process of its own, on SQLite and without Redis."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
    given = {**kept, "DJANGO_SETTINGS_MODULE": "chamber.settings", "PYTHONPATH": str(ROOT), **variables}
    return processes.run([sys.executable, "-c", code], env=given, cwd=ROOT)


def test_each_bug_has_a_run_that_catches_it() -> None:
    assert set(BUGS) == set(PLANTS)


def test_each_bug_that_needs_a_fault_has_one() -> None:
    needed = {name: choose(plant.faults) for name, plant in PLANTS.items() if plant.faults}
    assert {name: len(faults) for name, faults in needed.items()} == {"foreign-agent": len(ASTRAY)}


def test_each_bug_finds_what_it_changes() -> None:
    assert python(APPLY_ALL, {}).stderr == ""


@pytest.mark.parametrize(("awake", "heard"), [(False, "rung\nrung\n"), (True, "")])
def test_a_bug_sleeps_until_it_is_woken(tmp_path: Path, awake: bool, heard: str) -> None:
    armed = tmp_path / "armed"
    if awake:
        armed.touch()
    done = python(RING, environment("dropped-ring", armed))
    assert (done.stdout, done.returncode) == (heard, 0)
