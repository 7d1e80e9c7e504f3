"""What tests of a whole deployment share: a team of processes with an agent, and how to follow workloads in it."""

import inspect
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from rig import deployment, processes, servers
from rig.deployment import Deployment, ServiceProcess
from rig.spreading import DEPLOYMENT_THAT_STOPS, unit_of
from tests import shared
from tests.waiting import until

CLUSTER = "east"
PARTS = ("web", "live", "worker", "scheduler", "beat")
KEY = "an-example-of-a-long-enough-key-0123456789"


@contextmanager
def deployed(*, started: bool = False) -> Iterator[Deployment]:
    """Run a deployment with the demo's people and one simulated cluster inside the block.

    `started`: each of its processes begins by a start of its own (see `rig.processes`), unless it is begun again.
    """
    with ExitStack() as stack:
        with processes.Forking.off() if started else nullcontext():
            running = stack.enter_context(deployment.running())
            running.add_agent(CLUSTER, deployment.nodes(CLUSTER, 4))
        yield running


@pytest.fixture(scope="session")
def first_team(pytestconfig: pytest.Config) -> Iterator[Deployment]:
    """The deployment of most tests that need one; it ends with the last of them in this process."""
    with shared.until_the_last(pytestconfig, deployed(started=True)) as running:
        yield running


@pytest.fixture(scope="session")
def second_team(pytestconfig: pytest.Config) -> Iterator[Deployment]:
    """One more, for the tests that stop all of it, which another process may run."""
    with shared.until_the_last(pytestconfig, deployed()) as running:
        yield running


@pytest.fixture(scope="module")
def team(request: pytest.FixtureRequest) -> Deployment:
    """The deployment that the file shares with others; who stops a part of it starts it again (see `mended`)."""
    stops = unit_of(request.node.nodeid) == DEPLOYMENT_THAT_STOPS
    given: Deployment = request.getfixturevalue("second_team" if stops else "first_team")
    return given


def submit(team: Deployment, **body: Any) -> str:
    """Submit a workload as rosa of NLP and return its slug."""
    asked = {"name": "try", "team": "nlp", "image": "demo/trainer:1", "gpus": 1, "command": ["sleep", "1"]}
    with team.api("rosa") as api:
        answer = api.post("workloads/", json={**asked, **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["slug"])


def status_of(team: Deployment, slug: str) -> str:
    """Return a workload's status; an empty text while nobody answers."""
    try:
        with team.api("rosa") as api:
            answer = api.get(f"workloads/{slug}/")
    except httpx.HTTPError:
        return ""
    return str(answer.json()["status"]) if answer.status_code == 200 else ""


def becomes(team: Deployment, slug: str, status: str, *, seconds: float = 120) -> None:
    """Wait until the workload has the status."""
    until(lambda: status_of(team, slug) == status, seconds=seconds)


def stop_all(team: Deployment) -> list[int]:
    """Ask all parts to stop at once, and return their statuses once they have ended."""
    parts = [team.services[name] for name in PARTS]
    for part in parts:
        until(lambda part=part: hears(part, signal.SIGTERM))  # type: ignore[misc]
    for part in parts:
        part.send(signal.SIGTERM)
    return [part.process.wait(deployment.STOP_SECONDS) for part in parts if part.process is not None]


def hears(service: ServiceProcess, number: signal.Signals) -> bool:
    """Return whether a process is so far that it handles the signal, which ends it at once before that."""
    for line in Path(f"/proc/{service.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "SigCgt":
            return bool(int(value, 16) >> (number - 1) & 1)
    return False


def settled(team: Deployment) -> None:
    """Wait until no workload is under way and two seconds passed without a cycle: none has begun for anything else."""

    def cycles() -> tuple[Any, ...] | None:
        query = """
            SELECT count(*), (SELECT max(number) FROM scheduling_cycle)
            FROM agentlink_placement WHERE hold <> 'released'
        """
        with psycopg.connect(team.database.url, autocommit=True) as connection:
            return connection.execute(query).fetchone()

    def quiet() -> bool:
        before = cycles()
        time.sleep(2)
        return before is not None and before[0] == 0 and before == cycles()

    until(quiet)


def start_all(team: Deployment) -> None:
    """Start all parts that do not run, and wait until they are ready."""
    for name in PARTS:
        team.services[name].start(wait=False)
    for name in ("web", "live"):
        team.services[name].wait_for("/readyz")


def notice(team: Deployment, server: str, *names: str) -> None:
    """Wait until each of these parts has said that the server is away."""
    for name in names:
        until(lambda name=name: says(team.services[name], f"{server} is away: "))  # type: ignore[misc]


def turn_is_over(team: Deployment) -> None:
    """Have the lease of a scheduler that is gone end now, as it does by itself after ten seconds."""
    with psycopg.connect(team.database.url, autocommit=True) as connection:
        connection.execute("UPDATE scheduling_turn SET held_until = now()")


@contextmanager
def held(team: Deployment, statement: str) -> Iterator[None]:
    """Keep a lock of the database inside the block: whoever needs it waits."""
    with psycopg.connect(team.database.url) as connection:
        connection.execute(statement.encode())
        yield
        connection.rollback()


def waits_for_a_lock(team: Deployment, words: str) -> bool:
    """Return whether a process of the deployment waits for a lock of the database, with these words in its query."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'chamber' "
        "AND strpos(query, %s) > 0"
    )
    with psycopg.connect(team.database.url, autocommit=True) as connection:
        row = connection.execute(query, [words]).fetchone()
    return row is not None and row[0] > 0


@pytest.fixture
def mended(request: pytest.FixtureRequest) -> Iterator[None]:
    """After the test, everything runs again whatever it stopped, and of the workloads nothing does.

    What its processes wrote before the test is none of its business. A test without the deployment needs none of this.
    """
    if "team" not in inspect.signature(request.function).parameters:
        yield
        return
    team: Deployment = request.getfixturevalue("team")
    for service in [*team.services.values(), *team.agents.values()]:
        service.turn_page()
    yield
    for server in (team.database, team.redis):
        if server.process is None:
            server.start()
    for service in [*team.services.values(), *team.agents.values()]:
        service.resume()
        service.start(wait=False)
    for name in ("web", "live"):
        team.services[name].wait_for("/readyz")
    with team.api("rosa") as api:
        for status in ("pending", "queued", "starting", "running"):
            for row in api.get("workloads/", params={"status": status, "limit": 500}).json()["results"]:
                api.post(f"workloads/{row['slug']}/cancel/")


def chamber(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with nothing but this environment, and return how it went."""
    kept = {"PATH": "/usr/bin:/bin", "CHAMBER_SECRET_KEY": KEY, **environment}
    command = [sys.executable, "-m", "chamber.cli", *words]
    return processes.run(command, env=kept, cwd=deployment.ROOT, seconds=180)


def refused(status: int, *words: str, **environment: str) -> str:
    """Return the one sentence by which a command refuses, with its status."""
    done = chamber(*words, **environment)
    assert done.returncode == status, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


@contextmanager
def started(team: Deployment, name: str, **environment: str) -> Iterator[ServiceProcess]:
    """Run one more process of a kind with another environment, and stop it."""
    port = {"CHAMBER_LISTEN_PORT": str(servers.free_port())} if name in {"web", "live"} else {}
    folder = team.folder / f"extra-{time.monotonic_ns()}"
    folder.mkdir()
    again = team.services[name]
    service = ServiceProcess(name, again.command, {**again.environment, **port, **environment}, folder)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def told(service: ServiceProcess, *, least: str = "WARNING") -> list[str]:
    """Return the messages that a process logged from this level on; a line that is no record is an error."""
    levels = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    records = [json.loads(line) for line in service.printed().splitlines()]
    assert not [record for record in records if "traceback" in record], service.printed()
    return [record["message"] for record in records if levels.index(record["level"]) >= levels.index(least)]


def says(service: ServiceProcess, sentence: str) -> bool:
    """Return whether a process warned with this sentence."""
    return any(sentence in message for message in told(service))


def queued(team: Deployment) -> int:
    """Return how many messages wait in Redis."""
    with redis.Redis.from_url(team.redis.url) as client:
        return sum(int(client.llen(name)) for name in ("celery", "scheduling"))
