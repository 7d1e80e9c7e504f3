"""The agent's log: what it says of its connection and of pods, with the cluster on each line, in the form asked for."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.figures import FIGURES
from agentlink.agent.link import LinkLost
from agentlink.protocol import Error, ErrorCode, Heartbeat, Hello
from agentlink.tests.agent.test_runner import Script, agent, script, work
from agentlink.tests.agents import nodes, running
from chamber import logs
from rig import processes

__all__ = ["script"]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The records of the agent, each with what was bound where it was logged."""
    bound = logs.Bound()
    caplog.handler.addFilter(bound)
    with caplog.at_level("INFO", logger="agentlink.agent"):
        yield caplog
    caplog.handler.removeFilter(bound)


async def test_it_says_that_it_connected_was_refused_and_lost_the_connection_and_why(
    script: Script, told: pytest.LogCaptureFixture
) -> None:
    before, connections = FIGURES.lost.copy(), FIGURES.connections
    with logs.bind(cluster="east"):
        async with running(agent()):
            await script.greeted()
            script.answers.put_nowait(LinkLost("The socket was closed."))
            await script.hears(Hello)
            script.answers.put_nowait(LinkLost("The token was revoked.", ErrorCode.NOT_AUTHORISED))
            await script.hears(Hello)
            script.answers.put_nowait(LinkLost("Nobody answers."))
            await script.hears(Hello)
    of_link = [line.getMessage() for line in told.records if line.name == "agentlink.agent.runner"]
    assert of_link == [
        "Connected to Chamber at http://x.",
        "The connection to Chamber at http://x was lost: The socket was closed. Trying again at once.",
        "Chamber at http://x refused this agent (not-authorised): The token was revoked. Trying again at once.",
        "There is no connection to Chamber at http://x: Nobody answers. Trying again at once.",
    ]
    assert {vars(line)["cluster"] for line in told.records} == {"east"}
    assert FIGURES.lost - before == {"lost": 1, "not-authorised": 1, "unreachable": 1}
    assert FIGURES.connections == connections + 1


async def test_a_server_that_stays_away_is_one_line_and_one_when_it_is_back(
    script: Script, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FIGURES, "connected", False)
    async with running(agent()):
        for _ in range(4):
            await script.hears(Hello)
            script.answers.put_nowait(LinkLost("Nobody answers."))
        await script.greeted()
        await script.hears(Heartbeat)
    first, last = [line.getMessage() for line in told.records if line.name == "agentlink.agent.runner"]
    assert first.startswith("There is no connection to Chamber at http://x: Nobody answers. Trying again ")
    assert re.fullmatch(r"Connected to Chamber at http://x again, after \d+ s\.", last)


async def test_a_server_that_fails_on_messages_is_one_line_with_the_cause_and_one_when_it_takes_them_again(
    script: Script, told: pytest.LogCaptureFixture
) -> None:
    fault = Error(code=ErrorCode.FAULT, message="Its database is away.", about="heartbeat")
    async with running(agent()):
        await script.greeted()
        for _ in range(4):
            await script.hears(Heartbeat)
            script.answers.put_nowait(fault)
        async with asyncio.timeout(60):
            while not any("takes this" in line.getMessage() for line in told.records):
                await asyncio.sleep(0.02)
    _, first, last = [line.getMessage() for line in told.records if line.name == "agentlink.agent.runner"]
    assert first == (
        "The server fails on messages of this agent, which says them again: Its database is away."
    )
    assert re.fullmatch(r"The server takes this agent's messages again, after \d+ s\.", last)


async def test_pods_that_come_and_go_are_told_with_workload_and_attempt(
    told: pytest.LogCaptureFixture,
) -> None:
    cluster, before = SimulatedCluster(nodes(2)), FIGURES.created.copy()
    asked = work()
    await cluster.create(asked, asked.pods)
    await cluster.stop(asked.attempt, None)
    found = [(line.getMessage(), vars(line)["workload"], vars(line)["attempt"]) for line in told.records]
    assert found == [("Created pods (1).", asked.slug, "1"), ("Deleted pods (1).", asked.slug, "1")]
    assert FIGURES.created - before == {"Pod": 1}


@pytest.mark.parametrize("by_environment", [False, True])
def test_its_log_is_json_with_the_cluster_on_each_line_when_asked(
    tmp_path: Path, by_environment: bool
) -> None:
    nodes_file, token = tmp_path / "east.csv", tmp_path / "token"
    nodes_file.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n")
    token.write_text("cha_x")
    environment = {"CHAMBER_LOG_FORMAT": "json", "CHAMBER_CLUSTER": "far-east"} if by_environment else {}
    words = [] if by_environment else ["--log-format", "json", "--cluster", "far-east"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = ["agent", "--url", url, "--token-file", str(token), "--simulate", str(nodes_file), *words]
        started = processes.Popen[str](
            [sys.executable, "-m", "chamber.cli", *command],
            stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3], env=os.environ | environment,
        )  # fmt: skip
        listener.settimeout(90)
        listener.accept()[0].close()  # it is up, and loses the connection before it was answered
        asked, _ = listener.accept()
        with asked:
            threading.Timer(0.1, started.send_signal, (signal.SIGTERM,)).start()
            _, said = started.communicate(timeout=60)
    records = [json.loads(line) for line in said.splitlines()]
    assert [record["level"] for record in records] == ["WARNING", "INFO"]
    assert records[0]["message"].startswith(f"There is no connection to Chamber at {url}: ")
    assert {record["cluster"] for record in records} == {"far-east"}
