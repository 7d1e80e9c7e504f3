"""What happens to requests that wait for long when the process stops."""

import asyncio
from typing import Any

import pytest

from chamber.serving import leaving as module
from chamber.serving.leaving import LeavingApplication, Message, Receive, Scope, Send, waits_long

POLL = "/agent/v1/sync"
STREAM = "/api/v1/workloads/train-1/watch/"


@pytest.mark.parametrize(
    ("path", "long"),
    [
        (POLL, True),
        (STREAM, True),
        ("/api/v1/workloads/train-1/logs/", True),
        ("/api/v1/workloads/", False),
        ("/workloads/train-1/", False),
        ("/api/v1/workloads/train-1/", False),
    ],
)
def test_long_polls_and_streams_are_known_by_their_path(path: str, long: bool) -> None:
    assert waits_long(path) is long


class Client:
    """One request to an application, as a server carries it."""

    def __init__(self, leaving: LeavingApplication, path: str, kind: str = "http") -> None:
        self.sent: list[Message] = []
        self._silence = asyncio.Event()
        self._asked = False
        self.task = asyncio.create_task(leaving({"type": kind, "path": path}, self.receive, self.send))

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._silence.wait()
        raise AssertionError

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", False)


async def start(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def waits(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer only when nobody listens any more, as a view that is cancelled does: not at all."""
    await receive()
    assert (await receive())["type"] == "http.disconnect"


async def streams(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await start(send)
    await send({"type": "http.response.body", "body": b"id: 1\n\n", "more_body": True})
    await receive()


async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
    """Hear nothing and answer too late."""
    await receive()
    await asyncio.sleep(1)
    await start(send)


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await start(send)
    await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"[1]"})


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on its way gets all the time that a slow machine may take."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 60.0)


async def left(application: Any, path: str) -> Client:
    leaving = LeavingApplication(application)
    client = Client(leaving, path)
    await asyncio.sleep(0.02)
    leaving.leave()
    await asyncio.wait_for(client.task, 60)
    return client


async def test_a_long_poll_gets_an_empty_list() -> None:
    client = await left(waits, POLL)
    assert (client.sent[0]["status"], client.body, client.ended) == (200, b"[]", True)


async def test_a_stream_ends_after_what_it_has_told() -> None:
    client = await left(streams, STREAM)
    assert (client.body, client.ended) == (b"id: 1\n\n", True)


@pytest.mark.usefixtures("_patient")
async def test_an_answer_on_its_way_is_not_replaced() -> None:
    assert (await left(answers, POLL)).body == b"[1]"


async def test_who_hears_nothing_is_answered_for_and_not_heard_again() -> None:
    client = await left(deaf, POLL)
    await asyncio.sleep(1)
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]


async def test_other_requests_are_not_touched() -> None:
    client = await left(answers, "/api/v1/me/")
    assert client.body == b"[1]"


async def test_what_comes_after_leaving_is_answered_at_once() -> None:
    leaving = LeavingApplication(waits)
    leaving.leave()
    client = Client(leaving, POLL)
    await asyncio.wait_for(client.task, 60)
    assert client.body == b"[]"


async def test_an_applications_fault_stays_its_fault() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a fault")

    client = Client(LeavingApplication(fails), POLL)
    with pytest.raises(ValueError, match="a fault"):
        await client.task
