"""The command line as a process of its own against a running server: sign in, submit, follow, cancel."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rig import processes
from tests.conftest import CHAMBER, Demo
from tests.test_demo import connected
from tests.waiting import until

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]
JOB = ("submit", "--team", "nlp", "--image", "demo/trainer:1", "--gpus", "1")


@pytest.fixture
def rosa(demo: Demo, tmp_path: Path) -> Run:
    """Return `chamber` as Rosa, who has signed in."""
    with demo.api("olga") as api:
        until(lambda: connected(api))
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "TZ": "UTC"}

    def chamber(*arguments: str, stdin: str = "") -> Done:
        return processes.run([*CHAMBER, *arguments], text=stdin, env=environment, seconds=180)

    signed_in = chamber(
        "login", "--url", demo.url, "--username", "rosa", "--password-stdin", stdin=demo.passwords["rosa"]
    )
    assert signed_in.returncode == 0, signed_in.stderr
    return chamber


def test_a_workload_is_submitted_and_watched_to_its_end(rosa: Run) -> None:
    name = rosa(*JOB, "--", "sleep", "1").stdout.strip()

    watched = rosa("watch", name, "-o", "json")

    assert watched.returncode == 0, watched.stderr
    events = [json.loads(line) for line in watched.stdout.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["via"] == "cli"
    assert json.loads(rosa("get", name, "-o", "json").stdout)["status"] == "completed"


def test_the_exit_status_tells_that_the_workload_failed(rosa: Run) -> None:
    done = rosa(*JOB, "--wait", "--", "sh", "-c", "sleep 1; exit 3")

    assert done.returncode == 8
    assert done.stderr == f"{done.stdout.strip()}: failed\n"


def test_what_runs_is_cancelled(rosa: Run) -> None:
    name = rosa(*JOB, "--", "sleep", "600").stdout.strip()
    assert rosa("wait", name, "--for", "running", "--timeout", "90s").returncode == 0

    assert rosa("cancel", name).returncode == 0

    assert rosa("wait", name).returncode == 8
    assert "Cancelled by rosa." in rosa("why", name).stdout


def test_a_server_that_is_gone_is_one_sentence(rosa: Run) -> None:
    done = rosa("login", "--url", "http://127.0.0.1:9", "--username", "x", "--password-stdin", stdin="x")

    assert done.returncode == 1
    assert done.stderr.startswith("Error: http://127.0.0.1:9 cannot be reached: ")
    assert len(done.stderr.splitlines()) == 1
