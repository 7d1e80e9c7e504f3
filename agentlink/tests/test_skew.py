"""An agent of the last release talks to today's server: its recorded messages are taken, and it can read the answers.

`fixtures/<version>/conversation.jsonl` is a conversation as that version's agent and server had it, with what people
did meanwhile; ids stand as `<kind name>`. `server-messages.schema.json` is what an agent of that version accepts: it
refuses keys that it does not know.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.utils import timezone

from agentlink import protocol, spaces
from agentlink.models import GpuUse
from agentlink.protocol import Error, Message, Namespaces
from agentlink.session import Answer
from agentlink.tests.agents import Hand, admit, cancel, devices_of
from agentlink.tests.conftest import Place
from teams.actors import Actor
from workloads.models import Attempt, Status, Workload

FIXTURES = Path(__file__).with_name("fixtures")
RELEASES = sorted(folder.name for folder in FIXTURES.iterdir() if folder.is_dir())
ADMIN = Actor.system("test")
TIME = re.compile(r'"(\d{4}-\d\d-\d\dT[^"]+)"')

pytestmark = pytest.mark.django_db


def lines(release: str) -> list[dict[str, Any]]:
    text = (FIXTURES / release / "conversation.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def schema(release: str) -> jsonschema.Draft202012Validator:
    read = json.loads((FIXTURES / release / "server-messages.schema.json").read_text())
    return jsonschema.Draft202012Validator(read)


class Replay:
    """Plays the agent's side of a recorded conversation, and what people did, against today's server."""

    def __init__(self, place: Place) -> None:
        # The last message of the recording speaks of this namespace.
        spaces.bind_namespace(by=ADMIN, cluster=place.cluster, team=place.team, namespace="team-nlp")
        self.place, self.hand = place, Hand(place.cluster, hello=False)
        self.attempts: dict[str, Attempt] = {}
        self.told: list[Message] = []

    def play(self, said: list[dict[str, Any]]) -> None:
        for line in said:
            match line:
                case {"do": "admit", "name": name, "node": node, "device": index, "command": command}:
                    self.attempts[name] = self._admit(node, index, command)
                case {"do": "cancel", "name": name}:
                    cancel(self.attempts[name])
                case {"from": "agent", "message": message}:
                    self._take(self.hand.session.take(self._here(message)))
                    self._take(self.hand.session.news())

    def _admit(self, node: str, index: int, command: str) -> Attempt:
        place = self.place
        device = devices_of(place.cluster, node)[index]
        return admit(
            place.team, place.owner, place.pool, place.cluster, [device], command=["sh", "-c", command]
        )

    def _namespaces(self) -> int:
        return max(found.version for found in self.told if isinstance(found, Namespaces))

    def _take(self, answer: Answer) -> None:
        self.told += answer.messages

    def _here(self, message: dict[str, Any]) -> str:
        """Return the message with the ids of these rows, its last time being now."""
        if message["type"] in {"heartbeat", "discovered"}:
            # The recording had no namespace bound: an agent answers with the version that it was told last.
            version = "namespaces" if message["type"] == "heartbeat" else "version"
            message = {**message, version: self._namespaces()}
        text = json.dumps(message).replace("<connection>", str(self.hand.connection))
        for name, attempt in self.attempts.items():
            text = text.replace(f"<attempt {name}>", str(attempt.pk))
            text = text.replace(f"<workload {name}>", str(attempt.workload_id))
        times = [datetime.fromisoformat(found) for found in TIME.findall(text)]
        later = timezone.now() - max(times, default=timezone.now())
        return TIME.sub(
            lambda found: json.dumps((datetime.fromisoformat(found[1]) + later).isoformat()), text
        )


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def replay(place: Place, release: str) -> Replay:
    found = Replay(place)
    found.play(lines(release))
    return found


def sentences(errors: Iterator[jsonschema.ValidationError]) -> list[str]:
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def test_an_agent_of_the_last_release_gets_its_work_done(replay: Replay) -> None:
    assert [message for message in replay.told if isinstance(message, Error)] == []
    statuses = {
        name: Workload.objects.get(pk=attempt.workload_id).status for name, attempt in replay.attempts.items()
    }
    assert statuses == {
        "early": Status.RUNNING,
        "short": Status.COMPLETED,
        "fails": Status.FAILED,
        "stopped": Status.CANCELLED,
    }
    released = {
        name
        for name, attempt in replay.attempts.items()
        if Attempt.objects.get(pk=attempt.pk).released_at is not None
    }
    assert released == {"short", "fails", "stopped"}
    assert GpuUse.objects.get(attempt=replay.attempts["early"]).busy_percent == 93


def test_an_agent_of_the_last_release_can_read_what_today_s_server_tells_it(
    replay: Replay, release: str
) -> None:
    told = [json.loads(protocol.encode(message)) for message in replay.told]
    assert {message["type"] for message in told} >= {"desired", "ack", "namespaces", "verdicts"}
    for message in told:
        assert sentences(schema(release).iter_errors(message)) == [], message


def test_the_recorded_server_spoke_by_its_own_schema(release: str) -> None:
    spoken = [line["message"] for line in lines(release) if line.get("from") == "server"]
    assert spoken
    for message in spoken:
        assert sentences(schema(release).iter_errors(message)) == []


def test_the_schema_refuses_what_that_agent_would_refuse(release: str) -> None:
    unknown = {"protocol": 1, "type": "ack", "new-in-a-later-version": 1}
    assert sentences(schema(release).iter_errors(unknown))


def test_an_agent_of_today_takes_what_the_last_release_s_server_tells_it(release: str) -> None:
    for line in lines(release):
        if line.get("from") == "server":
            text = re.sub(r"<[^>]+>", "00000000-0000-0000-0000-000000000001", json.dumps(line["message"]))
            assert not isinstance(protocol.from_server(text), protocol.InvalidMessage), line
