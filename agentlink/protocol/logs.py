"""The messages of the logs connection, which an agent keeps beside the link so that a noisy pod delays no heartbeat.

The server asks for what a viewer looks at, by a number of its own for each stream; the agent answers with chunks of
whole lines until it is told to stop or nothing more comes. What remains of pods that are over the agent sends by
itself, until the server says that it is stored. Text holds no control characters but newlines and tabs: the agent
takes them out (`agentlink.agent.lines`), and a message that has any is refused.

A cursor is a place in one pod's lines: a text that is greater for later lines.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, TypeAdapter

from agentlink.protocol.messages import Count, Error, Sentence, Small, _Message, _Part
from agentlink.protocol.wire import InvalidMessage, encode_any, parse

MAX_TEXT = 64 * 1024
"""Characters in one chunk; with every one of them escaped, it still fits a message."""
KEPT_BYTES = 1024 * 1024
"""The last so many bytes of each pod's log are kept after its end."""
MAX_KEPT_ITEMS = 200
KEPT_MESSAGE_BYTES = 256 * 1024
STREAMS = 64
"""How many pods of one cluster are followed at a time."""

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, other ends of lines, and what turns the direction of writing."""


def _printable(text: str) -> str:
    if found := UNPRINTABLE.search(text):
        raise ValueError(f"the character U+{ord(found[0]):04X} is not allowed in a log")
    return text


def _whole_lines(text: str) -> str:
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    return _printable(text)


LogText = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_whole_lines)]
Cursor = Annotated[str, Field(max_length=64, pattern=r"^[0-9A-Za-z:.+-]*$")]
Stream = Annotated[int, Field(ge=1, le=2**53 - 1)]


# Server -> agent


class Ask(_Message):
    """Send a pod's lines: the last ones up to `tail_bytes`, or all after a cursor; then what comes, to `follow`."""

    type: Literal["ask"] = "ask"
    stream: Stream
    attempt: UUID
    pod: Small
    follow: bool
    tail_bytes: Annotated[int, Field(ge=0, le=KEPT_BYTES)]
    after: Cursor = ""


class StopStream(_Message):
    """A stream has no viewer any more."""

    type: Literal["stop"] = "stop"
    stream: Stream


class StoredPod(_Part):
    """A pod whose log needs not be kept in the cluster any more."""

    attempt: UUID
    pod: Small


class Stored(_Message):
    """What was taken of pods that are over."""

    type: Literal["stored"] = "stored"
    pods: tuple[StoredPod, ...]


# Agent -> server


class Chunk(_Message):
    """Lines of a stream; `dropped` others stood before them. `cursor` is the place after the last one."""

    type: Literal["chunk"] = "chunk"
    stream: Stream
    sequence: Annotated[int, Field(ge=1, le=2**53 - 1)]
    text: LogText = ""
    dropped: Count = 0
    cursor: Cursor = ""


class StreamEndReason(StrEnum):
    """Why a stream has no more lines."""

    ENDED = "ended"
    NOT_STARTED = "not-started"
    GONE = "gone"
    TOO_MANY = "too-many"
    FAILED = "failed"


class StreamEnd(_Message):
    """A stream is over."""

    type: Literal["end"] = "end"
    stream: Stream
    reason: StreamEndReason
    message: Sentence = ""


class KeptPart(_Part):
    """A part of a pod's last lines, counted from 0; `cut` where earlier lines are missing."""

    attempt: UUID
    pod: Small
    part: Annotated[int, Field(ge=0, le=KEPT_BYTES // 1024)] = 0
    last: bool = True
    cut: bool = False
    text: LogText = ""


class KeptLogs(_Message):
    """What remains of pods that are over: the parts of one pod follow each other."""

    type: Literal["kept"] = "kept"
    items: Annotated[tuple[KeptPart, ...], Field(min_length=1, max_length=MAX_KEPT_ITEMS)]


LogsFromAgent = Chunk | StreamEnd | KeptLogs
LogsFromServer = Ask | StopStream | Stored | Error

_AGENT: TypeAdapter[LogsFromAgent] = TypeAdapter(Annotated[LogsFromAgent, Field(discriminator="type")])
_SERVER: TypeAdapter[LogsFromServer] = TypeAdapter(Annotated[LogsFromServer, Field(discriminator="type")])


def from_agent(data: str | bytes) -> LogsFromAgent | InvalidMessage:
    """Return the agent's message, or why it is none; never raises."""
    return parse(_AGENT, data)


def from_server(data: str | bytes) -> LogsFromServer | InvalidMessage:
    """Return the server's message, or why it is none; never raises."""
    return parse(_SERVER, data)


def encode(message: LogsFromAgent | LogsFromServer) -> str:
    """Return the message as it travels."""
    return encode_any(message)


def in_texts(lines: Iterable[str], most: int = MAX_TEXT) -> Iterator[str]:
    """Yield lines, each with its newline, joined to texts of at most `most` characters; longer lines are none."""
    group: list[str] = []
    size = 0
    for line in lines:
        if group and size + len(line) > most:
            yield "".join(group)
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield "".join(group)


def parts_of(attempt: UUID, pod: int, lines: Iterable[str], *, cut: bool) -> list[KeptPart]:
    """Return a pod's last lines as parts; one empty part for no lines."""
    texts = list(in_texts(lines)) or [""]
    return [
        KeptPart(attempt=attempt, pod=pod, part=part, last=part == len(texts) - 1, cut=cut, text=text)
        for part, text in enumerate(texts)
    ]


def kept_in_messages(pods: Iterable[Sequence[KeptPart]]) -> Iterator[KeptLogs]:
    """Yield the parts of pods as messages of a bounded size."""
    group: list[KeptPart] = []
    size = 0
    for item in (part for parts in pods for part in parts):
        length = len(item.text.encode()) + 200
        if group and (size + length > KEPT_MESSAGE_BYTES or len(group) == MAX_KEPT_ITEMS):
            yield KeptLogs(items=tuple(group))
            group, size = [], 0
        group.append(item)
        size += length
    if group:
        yield KeptLogs(items=tuple(group))
