"""`chamber-server` runs a command as the services do: with their user, and their environment as systemd reads it."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.deployment import ROOT
from tests.documented import AS_CHAMBER, script

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
def installed() -> Iterator[Path]:
    """A folder that stands for /opt/chamber, and has the script; others may look into it, as not into `tmp_path`."""
    shared = Path(tempfile.mkdtemp(prefix="chamber-server-"))
    shared.chmod(0o755)
    text = (ROOT / "deploy/systemd/chamber-server").read_text()
    assert AS_CHAMBER in text
    text = text.replace("/opt/chamber", str(shared)).replace("~chamber", "~nobody")
    (shared / "chamber-server").write_text(
        text.replace(AS_CHAMBER, "--reuid nobody --regid nogroup --init-groups")
    )
    yield shared
    shutil.rmtree(shared)


def run(installed: Path, environment: Path, *words: str) -> "subprocess.Popen[str]":
    given = {"PATH": os.environ["PATH"], "CHAMBER_ENVIRONMENT": str(environment)}
    command = ["sh", str(installed / "chamber-server"), *words]
    return subprocess.Popen(
        command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    )


def environment_of(installed: Path, file: Path) -> dict[str, str]:
    """Return what a command has of the file."""
    script(installed / ".venv/bin/chamber", "exec env --null")
    printed, complaints = run(installed, file, "version").communicate(timeout=60)
    assert complaints == ""
    found = dict(entry.split("=", 1) for entry in printed.split("\0") if entry)
    del found["CHAMBER_ENVIRONMENT"]
    return {name: value for name, value in found.items() if name.startswith("CHAMBER_")}


def test_the_services_user_runs_a_command_itself(installed: Path, tmp_path: Path) -> None:
    """Nobody stands between: a signal reaches the command, which has its whole grace to stop."""
    script(installed / ".venv/bin/chamber", 'echo "$$ $(id --user --name) $HOME $CHAMBER_HOSTS $*"')
    (tmp_path / "environment").write_text("CHAMBER_HOSTS=gpus.example.org\n")
    with run(installed, tmp_path / "environment", "agent", "a b") as process:
        printed, _ = process.communicate(timeout=60)
    home = pwd.getpwnam("nobody").pw_dir
    assert printed == f"{process.pid} nobody {home} gpus.example.org agent a b\n"


def test_a_command_of_django_is_run_with_the_same_environment(installed: Path, tmp_path: Path) -> None:
    script(installed / ".venv/bin/python", 'echo "$(id --user --name) $CHAMBER_HOSTS $*"')
    (tmp_path / "environment").write_text("CHAMBER_HOSTS=gpus.example.org\n")
    printed, _ = run(installed, tmp_path / "environment", "manage.py", "changepassword", "ada").communicate(
        timeout=60
    )
    assert printed == f"nobody gpus.example.org {installed}/manage.py changepassword ada\n"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("CHAMBER_X=Chamber <chamber@example.org>", "Chamber <chamber@example.org>"),
        ('CHAMBER_X="Chamber <chamber@example.org>"', "Chamber <chamber@example.org>"),
        ("CHAMBER_X='a b'", "a b"),
        ("CHAMBER_X=redis://:p$ss`word`;&(x@host:6379/0", "redis://:p$ss`word`;&(x@host:6379/0"),
        ("CHAMBER_X=a=b=c#d", "a=b=c#d"),
        ("CHAMBER_X=", ""),
        ("  CHAMBER_X=spaces around  ", "spaces around"),
        ("#CHAMBER_X=a", None),
        ("; CHAMBER_X=a", None),
        ("", None),
    ],
)
def test_a_line_of_the_environment_is_read_as_systemd_reads_it(
    installed: Path, tmp_path: Path, line: str, value: str | None
) -> None:
    (tmp_path / "environment").write_text(f"# {line}\n{line}\nCHAMBER_LAST=1")
    expected = {} if value is None else {"CHAMBER_X": value}
    assert environment_of(installed, tmp_path / "environment") == {**expected, "CHAMBER_LAST": "1"}


def test_every_line_of_the_example_can_be_taken_into_use(installed: Path, tmp_path: Path) -> None:
    text = re.sub(
        r"^#(?=CHAMBER_)", "", (ROOT / "deploy/systemd/environment").read_text(), flags=re.MULTILINE
    )
    (tmp_path / "environment").write_text(text)
    assert (
        environment_of(installed, tmp_path / "environment")["CHAMBER_MAIL_FROM"]
        == "Chamber <chamber@example.org>"
    )
