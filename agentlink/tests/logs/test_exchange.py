"""One agent's connection and those who look: what is asked of the agent, and what each of them is told."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from agentlink.bucket import TokenBucket
from agentlink.logs import exchange as module
from agentlink.logs.exchange import RECENT_CHARACTERS, SINGLE_LOOKS, Exchange, pod_group
from agentlink.protocol.logs import STREAMS, Ask, Chunk, StopStream, StreamEnd, StreamEndReason

ATTEMPT = UUID(int=7)


class Wire:
    """What an exchange said to its agent and told to whom."""

    def __init__(self) -> None:
        self.said: list[Ask | StopStream] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.exchange = Exchange(say=self._say, tell=self._tell, tell_group=self._tell)

    async def _say(self, message: Ask | StopStream) -> None:
        self.said.append(message)

    async def _tell(self, channel: str, event: dict[str, Any]) -> None:
        self.told.append((channel, event))

    async def want(self, viewer: str, *, pod: int = 0, **fields: Any) -> None:
        event = {
            "viewer": viewer,
            "attempt": str(ATTEMPT),
            "pod": pod,
            "follow": True,
            "tail": 1000,
            "after": "",
        }
        await self.exchange.wanted({"attached": "", **event, **fields})

    async def chunk(self, sequence: int, text: str, **fields: Any) -> None:
        await self.exchange.chunk(Chunk(**{"stream": 1, "sequence": sequence, "text": text, **fields}))

    def lines_to(self, channel: str) -> list[str]:
        return [event["text"] for to, event in self.told if to == channel and event["type"] == "logs.lines"]


@pytest.fixture
async def wire() -> Wire:
    return Wire()


async def test_the_agent_is_asked_once_however_many_follow_and_told_when_the_last_has_gone(
    wire: Wire,
) -> None:
    await wire.want("a")
    await wire.want("b")
    assert [type(message) for message in wire.said] == [Ask]
    await wire.exchange.unwanted({"viewer": "a"})
    assert len(wire.said) == 1
    await wire.exchange.unwanted({"viewer": "b"})
    assert wire.said[1:] == [StopStream(stream=1)]


async def test_who_comes_later_is_told_what_was_before_and_who_was_there_is_not(wire: Wire) -> None:
    await wire.want("a")
    await wire.chunk(1, "one\n", cursor="1")
    await wire.chunk(2, "two\n", cursor="2", dropped=5)
    await wire.want("b")
    await wire.want("c", after="1")
    here = wire.told[0][1]["stream"]
    await wire.want("a", attached=here)
    assert wire.lines_to(pod_group(ATTEMPT, 0)) == ["one\n", "two\n"]
    assert (wire.lines_to("a"), wire.lines_to("b"), wire.lines_to("c")) == ([], ["one\n", "two\n"], ["two\n"])
    assert [event["sequence"] for to, event in wire.told if to == "b" and "text" in event] == [1, 2]


async def test_what_came_before_is_told_in_few_messages(wire: Wire) -> None:
    await wire.want("a")
    for number in range(1, 1001):
        await wire.chunk(number, f"line {number}\n")
    await wire.want("b", tail=RECENT_CHARACTERS)
    assert wire.lines_to("b") == ["".join(f"line {number}\n" for number in range(1, 1001))]


async def test_who_says_nothing_for_a_while_is_forgotten(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    await wire.want("a")
    await wire.exchange.expire()
    assert len(wire.said) == 1
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.0)
    await wire.want("a")
    await wire.exchange.expire()
    assert wire.said[1:] == [StopStream(stream=1)]
    await wire.chunk(1, "late\n")
    assert wire.lines_to(pod_group(ATTEMPT, 0)) == []


async def test_no_more_pods_are_followed_or_looked_at_than_the_bounds_say(wire: Wire) -> None:
    for pod in range(STREAMS):
        await wire.want("a", pod=pod)
    for number in range(SINGLE_LOOKS):
        await wire.want(f"s{number}", follow=False)
    asked = len(wire.said)
    await wire.want("b", pod=STREAMS)
    await wire.want("c", follow=False)
    assert len(wire.said) == asked
    assert [event["reason"] for to, event in wire.told if to in {"b", "c"}] == ["too-many", "too-many"]
    await wire.want("d", pod=3)
    assert [event["type"] for to, event in wire.told if to == "d"] == ["logs.here"]


async def test_a_single_look_is_told_to_the_one_who_asked(wire: Wire) -> None:
    await wire.want("a", follow=False, tail=77)
    assert isinstance(wire.said[0], Ask)
    assert (wire.said[0].follow, wire.said[0].tail_bytes) == (False, 77)
    await wire.chunk(1, "one\n")
    await wire.exchange.end(StreamEnd(stream=1, reason=StreamEndReason.ENDED))
    assert wire.lines_to("a") == ["one\n"]
    assert wire.told[-1][0] == "a"
    assert wire.told[-1][1]["type"] == "logs.over"


async def test_an_agent_that_sends_too_much_is_cut_and_that_is_counted(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKEN_A_SECOND", 10)
    monkeypatch.setattr(module, "TokenBucket", partial(TokenBucket, clock=lambda: 0.0))
    flooded = Wire()
    await flooded.want("a")
    await flooded.chunk(1, "x" * 15 + "\n")
    await flooded.chunk(2, "y" * 15 + "\n" + "z\n", dropped=3)
    flooded.exchange._bucket._level = 100
    await flooded.chunk(3, "w\n")
    told = [(event["text"], event["dropped"]) for _, event in flooded.told if event["type"] == "logs.lines"]
    assert told == [("x" * 15 + "\n", 0), ("w\n", 5)]


async def test_the_end_of_a_connection_is_told_to_all_who_look(wire: Wire) -> None:
    await wire.want("a")
    await wire.want("s", follow=False)
    await wire.exchange.close()
    assert [to for to, event in wire.told if event["type"] == "logs.lost"] == [pod_group(ATTEMPT, 0), "s"]


async def test_chunks_that_come_twice_or_of_no_stream_concern_nobody(wire: Wire) -> None:
    await wire.want("a")
    await wire.chunk(2, "two\n")
    await wire.chunk(2, "two\n")
    await wire.chunk(1, "one\n")
    await wire.chunk(1, "other\n", stream=9)
    await wire.exchange.end(StreamEnd(stream=9, reason=StreamEndReason.ENDED))
    assert wire.lines_to(pod_group(ATTEMPT, 0)) == ["two\n"]
