"""Reading, writing and cutting messages: text from outside becomes a message or an `Invalid`, never an exception."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentlink.protocol.messages import (
    MAX_BYTES,
    MAX_REPORTS,
    VERSION,
    Ack,
    AgentMessage,
    Assignment,
    Desired,
    Discovered,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    Inventory,
    Message,
    NodeReport,
    Observed,
    Report,
    ServerMessage,
    StopOrder,
    Usage,
)

PART_BYTES = 512 * 1024
"""Where a set is cut into parts: leaves room for the frame around its items."""
MAX_ORDERS = 2000
"""Attempts to stop, and to forget, in one `desired`: together they leave room for a part's assignments."""
MAX_PODS_IN_ITEM = 4000
"""An assignment with more pods comes as several items, merged by the agent."""

_AGENT: TypeAdapter[Hello | Heartbeat | Inventory | Observed | Discovered | Usage] = TypeAdapter(AgentMessage)
_SERVER: TypeAdapter[Desired | Ack | Error] = TypeAdapter(ServerMessage)


@dataclass(frozen=True, slots=True)
class Invalid:
    """Text that is no message: why, and of which type it claimed to be ("" where that is unknown)."""

    code: ErrorCode
    message: str
    about: str = ""

    def as_error(self) -> Error:
        """Return the answer to it."""
        return Error(code=self.code, message=self.message, about=self.about)


def from_agent(data: str | bytes) -> Hello | Heartbeat | Inventory | Observed | Discovered | Usage | Invalid:
    """Return the agent's message, or why it is none; never raises."""
    return _parse(_AGENT, data)


def from_server(data: str | bytes) -> Desired | Ack | Error | Invalid:
    """Return the server's message, or why it is none; never raises."""
    return _parse(_SERVER, data)


M = TypeVar("M")


def _parse(adapter: TypeAdapter[M], data: str | bytes) -> M | Invalid:
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return Invalid(
            ErrorCode.TOO_LARGE, f"The message has {size:,} bytes; at most {MAX_BYTES:,} are taken."
        )
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        return _invalid(error.errors(include_url=False)[0])
    except (ValueError, RecursionError) as error:
        return Invalid(ErrorCode.INVALID, f"The message is not JSON: {str(error)[:200]}.")


def _invalid(error: ErrorDetails) -> Invalid:
    """Return what is wrong as a sentence with the offending value."""
    place = [str(part) for part in error["loc"]]
    about = place[0][:60] if place else ""
    if error["type"] == "json_invalid":
        return Invalid(ErrorCode.INVALID, f"The message is not JSON: {error['msg'][:300]}.")
    if error["type"] == "union_tag_invalid":
        tag, allowed = error["ctx"]["tag"], error["ctx"]["expected_tags"]
        return Invalid(
            ErrorCode.INVALID, f"Messages of type {str(tag)[:60]!r} are unknown here; known are {allowed}."
        )
    if not place:
        return Invalid(ErrorCode.INVALID, "A message is an object that names its type.")
    value = _plain_value(error["input"])
    if place[1:] == ["protocol"]:
        return Invalid(ErrorCode.INVALID, f"Protocol {value} is not spoken here, only {VERSION}.", about)
    where = ".".join(place[1:])[:200] or about
    return Invalid(ErrorCode.INVALID, f"{where}: {error['msg'][:200]} (not {value}).", about)


def _plain_value(value: object) -> str:
    return repr(value)[:100].replace("\x00", "\\0")


def encode(message: Message) -> str:
    """Return the message as it travels; what has its default is left out, but for protocol and type."""
    body = message.model_dump_json(exclude_defaults=True)
    frame = f'{{"protocol":{VERSION},"type":"{message.type}"'
    return f"{frame}}}" if body == "{}" else f"{frame},{body[1:]}"


Item = TypeVar("Item", bound=BaseModel)


def in_parts(items: Sequence[Item], *, most: int = 10_000) -> Iterator[tuple[Item, ...]]:
    """Yield the items in groups of at most `most` that each fit a message; one empty group for no items."""
    group: list[Item] = []
    size = 0
    for item in items:
        length = len(item.model_dump_json(exclude_defaults=True).encode())
        if group and (size + length > PART_BYTES or len(group) == most):
            yield tuple(group)
            group, size = [], 0
        group.append(item)
        size += length + 1
    yield tuple(group)


def inventory_in_parts(nodes: Sequence[NodeReport], *, generation: int) -> Iterator[Inventory]:
    """Yield an inventory as messages."""
    groups = list(in_parts(nodes))
    for part, group in enumerate(groups):
        yield Inventory(generation=generation, part=part, last=part == len(groups) - 1, nodes=group)


def observed_in_parts(reports: Sequence[Report], *, generation: int) -> Iterator[Observed]:
    """Yield reports as messages; none for no reports."""
    for group in in_parts(reports, most=MAX_REPORTS):
        if group:
            yield Observed(generation=generation, reports=group)


def desired_in_parts(
    *,
    generation: int,
    base: int | None,
    assignments: Iterable[Assignment],
    stop: Sequence[StopOrder],
    forget: Sequence[UUID],
) -> Iterator[Desired]:
    """Yield a desired set as messages: assignments first, then what is to stop and to forget."""
    pieces = [piece for assignment in assignments for piece in _pieces(assignment)]
    groups = list(in_parts(pieces))
    orders = max(1, -(-max(len(stop), len(forget)) // MAX_ORDERS))
    count = len(groups) + orders - 1
    for part in range(count):
        first = max(0, part - len(groups) + 1) * MAX_ORDERS
        begun = part >= len(groups) - 1
        yield Desired(
            generation=generation,
            base=base,
            part=part,
            last=part == count - 1,
            assignments=groups[part] if part < len(groups) else (),
            stop=tuple(stop[first : first + MAX_ORDERS]) if begun else (),
            forget=tuple(forget[first : first + MAX_ORDERS]) if begun else (),
        )


def _pieces(assignment: Assignment) -> Iterator[Assignment]:
    if len(assignment.pods) <= MAX_PODS_IN_ITEM:
        yield assignment
        return
    for start in range(0, len(assignment.pods), MAX_PODS_IN_ITEM):
        yield assignment.model_copy(update={"pods": assignment.pods[start : start + MAX_PODS_IN_ITEM]})
