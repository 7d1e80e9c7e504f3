"""A conversation between an agent and the server of this version can be recorded: releases keep one (`test_skew`).

With CHAMBER_TEST_RECORD naming the folder of fixtures, it is written there, under this version.
"""

import asyncio
import json
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from pydantic import TypeAdapter

from agentlink import protocol
from agentlink import session as sessions
from agentlink.agent import link
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.runner import run_agent
from agentlink.protocol import Discovered, DiscoveredJob, Message, NamespaceReport, UsageFigure, UsageReport
from agentlink.protocol.messages import ServerMessage
from agentlink.session import Answer, Session
from agentlink.tests.agents import (
    admit,
    cancel,
    devices_of,
    in_database,
    make_token,
    nodes,
    running,
    serving,
    until,
)
from agentlink.tests.conftest import Place
from workloads.models import Attempt, Status, Workload

pytestmark = pytest.mark.django_db(transaction=True)


class Recording:
    """What both sides said and people did, in order; ids become `<kind name>`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lines: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}

    def said(self, by: str, message: Message) -> None:
        """Note a message."""
        self.lines.append({"from": by, "message": json.loads(protocol.encode(message))})
        if message.type == "hello":
            self._names[str(message.connection)] = "<connection>"

    def taken(self, answer: Answer) -> Answer:
        """Note what the server answered."""
        for message in answer.messages:
            self.said("server", message)
        return answer

    async def begin(self, name: str, node: str, device: int, command: str) -> Attempt:
        """Admit a workload; noted before the server can tell of it."""
        self.lines.append({"do": "admit", "name": name, "node": node, "device": device, "command": command})

        def work() -> Attempt:
            place = self.place
            row = devices_of(place.cluster, node)[device]
            words = ["sh", "-c", command]
            return admit(place.team, place.owner, place.pool, place.cluster, [row], command=words)

        attempt: Attempt = await in_database(work)
        self._names[str(attempt.pk)] = f"<attempt {name}>"
        self._names[str(attempt.workload_id)] = f"<workload {name}>"
        return attempt

    async def stop(self, name: str, attempt: Attempt) -> None:
        """Cancel a workload."""
        self.lines.append({"do": "cancel", "name": name})
        await in_database(cancel, attempt)

    def heard(self, by: str, kind: str) -> bool:
        """Return whether such a message was sent."""
        return any(line.get("from") == by and line["message"]["type"] == kind for line in list(self.lines))

    def text(self) -> str:
        """Return the lines as they are kept."""
        found = "".join(f"{json.dumps(line)}\n" for line in self.lines)
        for known, name in self._names.items():
            found = found.replace(known, name)
        return found


@pytest.fixture
def recording(place: Place, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """A recording that hears both sides."""
    found = Recording(place)

    def encode(message: Message) -> str:
        found.said("agent", message)
        return protocol.encode(message)

    tapped = {name: getattr(protocol, name) for name in protocol.__all__} | {"encode": encode}
    monkeypatch.setattr(link, "protocol", SimpleNamespace(**tapped))
    take, news = Session.take, Session.news
    monkeypatch.setattr(sessions.Session, "take", lambda self, data: found.taken(take(self, data)))
    monkeypatch.setattr(sessions.Session, "news", lambda self: found.taken(news(self)))
    return found


def unsimulated(workload: UUID) -> list[Message]:
    """Return what a simulated cluster does not send."""
    figure = UsageFigure(
        workload=workload, at=datetime.now(UTC), utilisation_percent=93, memory_mib=70_000,
        tensor_percent=41, power_watts=600, devices={"GPU-1": 93},
    )  # fmt: skip
    job = DiscoveredJob(
        uid="0b6d", namespace="team-nlp", name="train", pods=2, gpus=1, cpu_milli=4000, memory_mib=8192,
        image="registry.example/train:3", command=("python", "train.py"), node_selector={"zone": "a"},
        tolerations=("nvidia.com/gpu:NoSchedule",), time_limit_seconds=3600, priority="high", who="ada",
        volumes=("emptyDir",),
    )  # fmt: skip
    namespace = NamespaceReport(namespace="team-nlp", ready=True, foreign_jobs=1, foreign_gpus=2)
    return [UsageReport(figures=(figure,)), Discovered(namespaces=(namespace,), jobs=(job,))]


async def converse(recording: Recording) -> None:
    """Have a workload run on, one complete, one fail and one be stopped."""
    secret = await in_database(make_token, recording.place.cluster)
    early = await recording.begin("early", "n1", 0, "sleep 600")
    async with serving() as url, running(run_agent(url, secret, SimulatedCluster(nodes(2)))):
        await until(partial(recording.heard, "server", "ack"))
        for name, device, command, end in (
            ("short", 1, "sleep 1", Status.COMPLETED),
            ("fails", 2, "sleep 0.2; exit 7", Status.FAILED),
        ):
            attempt = await recording.begin(name, "n1", device, command)
            await until(partial(is_status, attempt, end))
        stopped = await recording.begin("stopped", "n2", 0, "sleep 600")
        await until(partial(is_status, stopped, Status.RUNNING))
        await recording.stop("stopped", stopped)
        await until(Attempt.objects.filter(pk=stopped.pk, released_at__isnull=False).exists)
        await until(partial(recording.heard, "agent", "heartbeat"))
        await asyncio.sleep(0.1)  # for its answer
    for message in unsimulated(early.workload_id):
        recording.said("agent", message)


def is_status(attempt: Attempt, status: Status) -> bool:
    return Workload.objects.get(pk=attempt.workload_id).status == status


async def test_a_conversation_of_this_version_can_be_kept(recording: Recording) -> None:
    await converse(recording)
    text = recording.text()
    types = {line["message"]["type"] for line in recording.lines if "message" in line}
    assert types >= {"hello", "inventory", "heartbeat", "observed", "usage", "discovered", "desired", "ack"}
    assert "<attempt stopped>" in text
    assert "<connection>" in text
    if folder := os.environ.get("CHAMBER_TEST_RECORD"):
        version = str(settings.SPECTACULAR_SETTINGS["VERSION"])
        await asyncio.to_thread(keep, Path(folder) / version, text)


def keep(place: Path, text: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "conversation.jsonl").write_text(text)
    schema = TypeAdapter(ServerMessage).json_schema()
    (place / "server-messages.schema.json").write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n")
