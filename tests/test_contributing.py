"""What contributors are told to run is there, and judges what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(("subject", "status"), [("x" * 72, 0), ("x" * 73, 1)])
def test_a_subject_has_at_most_72_characters(subject: str, status: int, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text(f"# a comment of git\n{subject}\n\n{'y' * 100}\n")
    done = subprocess.run(
        [sys.executable, ".ci/subjects.py", str(message)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "at most 72" in done.stderr) == (status, bool(status))


def test_hooks_and_pages_name_only_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = [hook["entry"] for hook in hooks]
    pages = [(ROOT / page).read_text() for page in ("CONTRIBUTING.md", "README.md", ".ci/run")]
    blocks = "\n".join(
        block for page in pages for block in re.findall(r"^(?:\$ )?make ([a-z -]+)", page, re.MULTILINE)
    )
    named = {word for entry in entries for word in re.findall(r"^make ([a-z-]+)", entry)} | set(
        blocks.split()
    )
    assert named
    assert named <= targets


def test_hooks_run_what_the_gate_runs() -> None:
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for command in re.findall(r"\$\(BIN\)/(.+)", lint):
        assert command.removesuffix(" .") in hooks.replace(" --force-exclude", "").replace(".venv/bin/", "")


def test_a_test_that_hangs_ends(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert 0 < float(pytestconfig.getini("timeout")) <= 600
