"""The messages of the logs connection, and whatever an agent sends instead of them."""

import copy
import json
import logging
import os
import tracemalloc
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink import protocol
from agentlink.logs import kept
from agentlink.logs.consumers import AgentLogsConsumer
from agentlink.logs.exchange import RECENT_CHARACTERS, Exchange
from agentlink.models import Cluster, PodLog
from agentlink.protocol import InvalidMessage
from agentlink.protocol import logs as messages
from agentlink.protocol.logs import (
    KEPT_BYTES,
    MAX_TEXT,
    Ask,
    Chunk,
    KeptLogs,
    KeptPart,
    StopStream,
    Stored,
    StoredPod,
    StreamEnd,
    StreamEndReason,
    kept_in_messages,
    parts_of,
)
from agentlink.tests.agents import admit, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node

ATTEMPT = uuid.UUID(int=7)
EXAMPLES = int(os.environ.get("CHAMBER_FUZZ_EXAMPLES", "150"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def test_every_message_comes_out_as_it_went_in() -> None:
    for message in (
        Chunk(stream=1, sequence=1, text="a\nb\n", dropped=3, cursor="2026-01-01T00:00:00.000000001Z"),
        StreamEnd(stream=1, reason=StreamEndReason.GONE, message="It is gone."),
        KeptLogs(items=tuple(parts_of(ATTEMPT, 2, ["a\n"], cut=True))),
    ):
        assert messages.from_agent(messages.encode(message)) == message
    for order in (
        Ask(stream=1, attempt=ATTEMPT, pod=1, follow=True, tail_bytes=5, after="0001"),
        StopStream(stream=1),
        Stored(pods=(StoredPod(attempt=ATTEMPT, pod=1),)),
    ):
        assert messages.from_server(messages.encode(order)) == order


@pytest.mark.parametrize(
    "text",
    [
        "a\x00\n",
        "a\x1b[31m\n",
        "a\rb\n",
        "\u202e\n",
        "no end",
        "x" * (MAX_TEXT + 1),
        "two\u2028\n",
        "\x9b1m\n",
    ],
)
def test_text_that_could_do_more_than_be_read_is_refused(text: str) -> None:
    body = {"protocol": 1, "type": "chunk", "stream": 1, "sequence": 1, "text": text}
    assert isinstance(messages.from_agent(json.dumps(body)), InvalidMessage)


@pytest.mark.parametrize("cursor", ["a\nb", "x" * 65, "a b", "é"])
def test_a_cursor_that_would_break_a_header_is_refused(cursor: str) -> None:
    body = {"protocol": 1, "type": "chunk", "stream": 1, "sequence": 1, "cursor": cursor}
    assert isinstance(messages.from_agent(json.dumps(body)), InvalidMessage)


def test_the_largest_logs_are_cut_into_messages_that_fit() -> None:
    lines = ['"' * 9_999 + "\n"] * (KEPT_BYTES // 10_000)
    parts = [parts_of(ATTEMPT, pod, lines, cut=False) for pod in range(3)]
    sent = list(kept_in_messages([*parts, parts_of(ATTEMPT, 3, [], cut=False)]))
    assert all(len(messages.encode(message).encode()) <= protocol.MAX_BYTES for message in sent)
    whole = list(kept.Parts().take(item for message in sent for item in message.items))
    assert [(each.pod, each.text) for each in whole] == [(pod, "".join(lines)) for pod in range(3)] + [
        (3, "")
    ]


def part(pod: int, number: int, *, last: bool = False, text: str = "x\n") -> KeptPart:
    return KeptPart(attempt=ATTEMPT, pod=pod, part=number, last=last, text=text)


@pytest.mark.parametrize(
    "items",
    [
        [part(0, 1, last=True)],
        [part(0, 0), part(0, 2, last=True)],
        [part(0, 0), part(1, 1, last=True)],
        [part(0, number, last=number == 16, text="y" * 65_535 + "\n") for number in range(17)],
    ],
)
def test_parts_with_a_gap_or_too_large_are_left_out_and_nothing_of_them_is_held(
    items: list[KeptPart],
) -> None:
    parts = kept.Parts()
    assert list(parts.take(items)) == []
    assert [each.pod for each in parts.take([part(5, 0, last=True)])] == [5]
    assert parts._parts == []


class World:
    """One agent's connection, and another cluster of which nothing may change."""

    def __init__(self, place: Place) -> None:
        self.place = place
        west = make_cluster("west")
        make_node(west, "n1", gpus=1, pool=place.pool)
        self.own = admit(
            place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:2]
        )
        self.theirs = admit(place.team, place.owner, place.pool, west, devices_of(west, "n1")[:1])
        PodLog.objects.create(attempt=self.theirs, pod_index=0, content=b"", size_bytes=0)
        self.said: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.consumer = AgentLogsConsumer()
        self.consumer.cluster_id = place.cluster.pk
        self.consumer.parts = kept.Parts()
        self.consumer.exchange = Exchange(say=self._say, tell=self._tell, tell_group=self._tell)
        self.consumer.send = self._send

    async def _send(self, text: str) -> None:
        self.said.append(text)

    async def _say(self, message: Ask | StopStream) -> None:
        self.said.append(messages.encode(message))

    async def _tell(self, _: str, event: dict[str, Any]) -> None:
        self.told.append(event)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return what an agent may rightly say here, and what of another's."""
        items = [
            KeptPart(attempt=attempt, pod=pod, part=number, last=last, text=text)
            for attempt in (self.own.pk, self.theirs.pk, ATTEMPT)
            for pod in (0, 1, 2**31 - 1)
            for number, last in ((0, True), (0, False), (1, True))
            for text in ("", "kept\n")
        ]
        found = [KeptLogs(items=(item,)) for item in items] + [KeptLogs(items=tuple(items))]
        chunks = [
            Chunk(stream=stream, sequence=sequence, text="line\n", dropped=dropped)
            for stream in (1, 2, 99)
            for sequence in (1, 2, 2**53 - 1)
            for dropped in (0, 2**53 - 1)
        ]
        ends = [StreamEnd(stream=stream, reason=reason) for stream in (1, 99) for reason in StreamEndReason]
        said: list[Chunk | StreamEnd | KeptLogs] = [*found, *chunks, *ends]
        return [json.loads(messages.encode(message)) for message in said]


@pytest.fixture
def world(place: Place) -> Iterator[World]:
    logging.disable(logging.ERROR)
    yield World(place)
    logging.disable(logging.NOTSET)


values = (
    st.none() | st.booleans() | st.sampled_from([0, 1, -1, 2**31, 2**53, 10**40]) | st.floats()
    | st.sampled_from(["", "\x00", "\ud800", "x" * 70_000, "\x1b[2J\n", "<b>\n", "a\rb\n", [], {}, [None] * 300])
    | st.sampled_from(["chunk", "end", "kept", "ask", "hello", str(ATTEMPT)])
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """Return the message with up to two values exchanged."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 2))):
        place: Any = body
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
            if not isinstance(place[key], dict | list) or draw(st.booleans()):
                place[key] = copy.deepcopy(draw(values))
                break
            place = place[key]
    return body


@pytest.mark.django_db(transaction=True)
@fuzzed
@given(data=st.data())
def test_whatever_an_agent_says_is_answered_and_kept_to_its_own_pods(
    world: World, data: st.DataObject
) -> None:
    from asgiref.sync import async_to_sync

    said = data.draw(st.lists(st.sampled_from(world.messages).flatmap(changed), max_size=6))
    raw = data.draw(st.lists(st.text(max_size=20) | st.just("[" * 3000), max_size=2))
    theirs = list(PodLog.objects.filter(attempt=world.theirs).values())
    world.consumer.rejected, world.said = 0, []
    rejected = Cluster.objects.get(pk=world.place.cluster.pk).rejected_messages
    texts = [json.dumps(message) for message in said] + raw

    async def say() -> None:
        event = {
            "attempt": str(world.own.pk),
            "pod": 0,
            "viewer": "v",
            "follow": True,
            "tail": 10,
            "after": "",
        }
        assert world.consumer.exchange is not None
        await world.consumer.exchange.wanted({**event, "attached": ""})
        for text in texts:
            await world.consumer.receive(text_data=text)

    async_to_sync(say)()
    wrong = sum(isinstance(messages.from_agent(text), InvalidMessage) for text in texts)
    for text in world.said:
        assert not isinstance(messages.from_server(text), InvalidMessage)
    assert sum('"error"' in text for text in world.said) == wrong
    assert list(PodLog.objects.filter(attempt=world.theirs).values()) == theirs
    stored = PodLog.objects.exclude(attempt=world.theirs)
    assert {row.attempt_id for row in stored} <= {world.own.pk}
    assert all(row.pod_index < 2 for row in stored)
    assert Cluster.objects.get(pk=world.place.cluster.pk).rejected_messages >= rejected + wrong
    for event in world.told:
        assert messages.UNPRINTABLE.search(event.get("text", "")) is None


async def test_a_flood_of_chunks_leaves_no_memory_behind() -> None:
    async def nothing(*_: object) -> None:
        pass

    exchange = Exchange(say=nothing, tell=nothing, tell_group=nothing)
    event = {"attempt": str(ATTEMPT), "pod": 0, "viewer": "v", "follow": True, "tail": 10, "after": ""}
    await exchange.wanted({**event, "attached": ""})
    text = ("x" * 99 + "\n") * 600
    tracemalloc.start()
    try:
        for sequence in range(1, 400):
            copied = "".join([text, str(sequence), "\n"])
            await exchange.chunk(Chunk(stream=1, sequence=sequence, text=copied))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * RECENT_CHARACTERS
