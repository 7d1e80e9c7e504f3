"""`make vulnerabilities`: what it says of what pip-audit found, or could not look up."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / ".ci/vulnerabilities.py"
TABLE = "Name   Version ID\n------ ------- ------------\ndjango 5.2.0   PYSEC-2027-1\n"


def run(status: int, out: str, err: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Return the status where pip-audit ends so."""
    module: dict[str, Any] = runpy.run_path(str(SCRIPT))
    done = subprocess.CompletedProcess([], status, out, err)
    monkeypatch.setattr(sys, "argv", ["vulnerabilities", *words])
    monkeypatch.setitem(module["main"].__globals__, "audited", lambda *_: done)
    return int(module["main"]())


def test_what_is_found_is_shown_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(1, TABLE, "Found 1 known vulnerability in 1 package\n", monkeypatch) == 1
    said = capsys.readouterr().err
    assert "requirements.txt: Found 1 known vulnerability in 1 package." in said
    assert "PYSEC-2027-1" in said


@pytest.mark.parametrize(
    "err",
    [
        "ERROR:pip_audit._cli:yarl: Dependency not found on PyPI and could not be audited: yarl (1.25.1)\n",
        'Traceback (most recent call last):\n  File "x", line 1\nrequests.exceptions.ConnectionError: no route\n',
    ],
)
def test_what_cannot_be_known_is_one_sentence_and_fails(
    err: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(1, "", err, monkeypatch, "osv") == 1
    said = capsys.readouterr().err
    assert (
        "requirements-dev.txt: whether it has known vulnerabilities cannot be told: osv did not answer"
        in said
    )
    assert "Traceback" not in said


def test_nothing_found_is_said_of_each_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(0, "", "No known vulnerabilities found\n", monkeypatch) == 0
    assert capsys.readouterr().out.count("no known vulnerabilities.") == 2


def test_another_service_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(0, "", "", monkeypatch, "nvd") == 2
    assert "SERVICE is 'nvd'; allowed is pypi or osv." in capsys.readouterr().err
