"""A running demo for end-to-end tests: a process of its own, on a free port, with its own data."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from rig import migrated, processes, servers
from rig.deployment import TRUST
from tests import shared
from tests.deployment_fixtures import first_team, mended, second_team, team
from tests.waiting import until

__all__ = ["first_team", "mended", "second_team", "team"]

CHAMBER = [sys.executable, "-m", "chamber.cli"]
START_SECONDS = 180
"""Generous: two test processes may share a slow machine."""


@dataclass
class Demo:
    """The process, where it listens, what it prints, the sign-ins among that.

    Whoever used the API has a token, whoever used a browser its cookies (Playwright's `StorageState`).
    """

    process: "subprocess.Popen[bytes]"
    url: str
    data: Path
    log: Path
    passwords: dict[str, str]
    tokens: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)

    def token(self, username: str, scope: str = "admin") -> str:
        """Return a new API token of this user."""
        body = {
            "username": username,
            "password": self.passwords.get(username, next(iter(self.passwords.values()))),
            "scope": scope,
            "name": "test",
        }
        answer = httpx.post(f"{self.url}/api/v1/login/", json=body, timeout=60)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def api(self, username: str) -> httpx.Client:
        """Return a client that is signed in as this user; the password is compared, slowly, only the first time."""
        if username not in self.tokens:
            self.tokens[username] = self.token(username)
        headers = {"Authorization": f"Bearer {self.tokens[username]}"}
        return httpx.Client(base_url=f"{self.url}/api/v1/", headers=headers, timeout=60, verify=TRUST)

    def stop(self) -> str:
        """Press Ctrl-C, wait for the end, and return all it printed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)
        return self.log.read_text()


def start_demo(data: Path, *options: str, port: int | None = None) -> Demo:
    """Start the demo and wait until it has greeted."""
    port = port or servers.free_port()
    log = data.with_suffix(f".{port}.log")
    command = [*CHAMBER, "demo", "--port", str(port), "--data", str(data), *options]
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    root = Path(__file__).parent.parent
    with log.open("wb") as output:
        process = processes.Popen[bytes](
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=root
        )

    def greeted() -> dict[str, str]:
        if process.poll() is not None:
            pytest.fail(f"The demo did not start:\n{log.read_text()}")
        return dict(re.findall(r"(\w+)/(\S+) \(", log.read_text()))

    passwords = until(greeted, seconds=START_SECONDS)
    return Demo(process, f"http://127.0.0.1:{port}", data, log, passwords)


def migrated_folder(data: Path, run_folder: Path) -> Path:
    """Make a data folder whose database has all migrations: the first start of a server has tests of its own."""
    data.mkdir()
    migrated.copy_of(run_folder / "migrated", data / migrated.FILE)
    return data


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the deployment and the demo with the last test that wants them."""
    shared.end_with(item, nextitem)


@contextmanager
def _demonstrated(folder: Path) -> Iterator[Demo]:
    with processes.Forking.off():
        running = start_demo(folder, "--no-stream")
    yield running
    printed = running.stop()
    assert "Traceback" not in printed, printed


@pytest.fixture(scope="session")
def demo(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config, run_folder: Path
) -> Iterator[Demo]:
    """A demo without the stream of workloads: what the tests submit is all there is."""
    data = tmp_path_factory.mktemp("demo") / "data"
    with shared.until_the_last(pytestconfig, _demonstrated(migrated_folder(data, run_folder))) as running:
        yield running
