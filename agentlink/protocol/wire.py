"""Reading, writing and cutting messages: text from outside becomes a message or an `InvalidMessage`, no exception."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentlink.protocol.messages import (
    MAX_BYTES,
    MAX_FIGURES,
    MAX_JOBS,
    MAX_NOTES,
    MAX_REPORTS,
    VERSION,
    AgentMessage,
    AssignedPod,
    Desired,
    DesiredAttempt,
    Discovered,
    DiscoveredJob,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    Inventory,
    Message,
    NamespaceReport,
    NodeReport,
    NoteReport,
    NotesReport,
    Observed,
    RefusedNotes,
    Released,
    Report,
    ServerMessage,
    StopOrder,
    ToAgent,
    UsageFigure,
    UsageReport,
)
from chamber import invalid

PART_BYTES = 512 * 1024
"""Where a set is cut into parts: leaves room for the frame around its items."""
INVENTORY_PART_BYTES = 128 * 1024
"""A part of an inventory is taken in one transaction, for which others wait."""
MAX_ORDERS = 2000
"""Attempts to stop, and to forget, in one `desired`: together they leave room for a part's assignments."""
MAX_ITEM_BYTES = 600 * 1024
"""An assignment may be this large: beside it there is room for the orders of its part."""
MAX_PODS_BYTES = 200 * 1024
"""An assignment whose pods take more comes as several items, merged by the agent."""

FromAgent = Hello | Heartbeat | Inventory | Observed | Discovered | UsageReport | NotesReport | Released
_AGENT: TypeAdapter[FromAgent] = TypeAdapter(AgentMessage)
_SERVER: TypeAdapter[ToAgent] = TypeAdapter(ServerMessage)


class Typed(Protocol):
    """A message, as far as writing it goes."""

    @property
    def type(self) -> str:
        """Return the name of its kind."""
        ...

    def model_dump_json(self, *, exclude_defaults: bool = False) -> str:
        """Return it as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """Text that is no message: why, and of which type it claimed to be ("" where that is unknown)."""

    code: ErrorCode
    message: str
    about: str = ""

    def as_error(self) -> Error:
        """Return the answer to it; what it quotes of the message is made fit for one."""
        return Error(code=self.code, message=_printable(self.message), about=_printable(self.about))


def from_agent(data: str | bytes) -> FromAgent | InvalidMessage:
    """Return the agent's message, or why it is none; never raises."""
    return parse(_AGENT, data)


def from_server(data: str | bytes) -> ToAgent | InvalidMessage:
    """Return the server's message, or why it is none; never raises."""
    return parse(_SERVER, data)


M = TypeVar("M")


def parse(adapter: TypeAdapter[M], data: str | bytes) -> M | InvalidMessage:
    """Return the message that the text is, or why it is none; never raises."""
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return InvalidMessage(
            ErrorCode.TOO_LARGE, f"The message has {size:,} bytes; at most {MAX_BYTES:,} are taken."
        )
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        return _invalid(error.errors(include_url=False)[0])
    except (ValueError, RecursionError) as error:
        return InvalidMessage(ErrorCode.INVALID, f"The message is not JSON: {str(error)[:200]}.")


def _invalid(error: ErrorDetails) -> InvalidMessage:
    """Return what is wrong as a sentence with the offending value."""
    place = [str(part) for part in error["loc"]]
    about = place[0][:60] if place else ""
    if error["type"] == "json_invalid":
        return InvalidMessage(ErrorCode.INVALID, f"The message is not JSON: {error['ctx']['error'][:300]}.")
    if error["type"] == "union_tag_invalid":
        tag, allowed = error["ctx"]["tag"], error["ctx"]["expected_tags"]
        return InvalidMessage(
            ErrorCode.INVALID, f"Messages of type {str(tag)[:60]!r} are unknown here; known are {allowed}."
        )
    if not place:
        return InvalidMessage(ErrorCode.INVALID, "A message is an object that names its type.")
    if "credentials" in place:  # what stands there is a secret, and not repeated
        return InvalidMessage(
            ErrorCode.INVALID, f"{'.'.join(place[1:])[:200]} is none ({error['type']}).", about
        )
    value = _plain_value(error["input"])
    if place[1:] == ["protocol"]:
        text = f"Protocol {value} is not spoken here, only {VERSION}. Bring agent and server to the same version."
        return InvalidMessage(ErrorCode.INVALID, text, about)
    where = _plain_value(".".join(place[1:]))[1:-1] or about
    text = invalid.sentence(error, where)
    text = text if where in text else f"{where}: {text}"
    return InvalidMessage(ErrorCode.INVALID, text[:400], about)


def _plain_value(value: object) -> str:
    return _printable(repr(value)[:100])


def _printable(text: str) -> str:
    """Return the text with NUL and half surrogates, which no message may carry, written out."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()


def encode(message: Message) -> str:
    """Return the message as it travels; what has its default is left out, but for protocol and type."""
    return encode_any(message)


def encode_any(message: Typed) -> str:
    """Return a message of either connection as it travels."""
    body = message.model_dump_json(exclude_defaults=True)
    frame = f'{{"protocol":{VERSION},"type":"{message.type}"'
    return f"{frame}}}" if body == "{}" else f"{frame},{body[1:]}"


def check_size(assignment: DesiredAttempt) -> None:
    """Raise `ValueError` where the assignment cannot be written, or would not fit a message beside orders."""
    size = len(assignment.model_dump_json(exclude_defaults=True).encode())
    if size > MAX_ITEM_BYTES:
        size = max(
            len(piece.model_dump_json(exclude_defaults=True).encode()) for piece in _pieces(assignment)
        )
    if size > MAX_ITEM_BYTES:
        raise ValueError(f"It has {size:,} bytes as a message; at most {MAX_ITEM_BYTES:,} are told.")


Item = TypeVar("Item", bound=BaseModel)


def in_parts(
    items: Iterable[Item], *, most: int = 10_000, most_bytes: int = PART_BYTES
) -> Iterator[tuple[Item, ...]]:
    """Yield the items in groups of at most `most` that each fit a message; one empty group for no items."""
    group: list[Item] = []
    size = 0
    for item in items:
        length = len(item.model_dump_json(exclude_defaults=True).encode())
        if group and (size + length > most_bytes or len(group) == most):
            yield tuple(group)
            group, size = [], 0
        group.append(item)
        size += length + 1
    yield tuple(group)


def inventory_in_parts(nodes: Sequence[NodeReport], *, generation: int) -> Iterator[Inventory]:
    """Yield an inventory as messages."""
    groups = list(in_parts(sorted(nodes, key=attrgetter("name")), most_bytes=INVENTORY_PART_BYTES))
    for part, group in enumerate(groups):
        yield Inventory(generation=generation, part=part, last=part == len(groups) - 1, nodes=group)


def observed_in_parts(reports: Sequence[Report]) -> Iterator[Observed]:
    """Yield reports as messages; none for no reports."""
    for group in in_parts(reports, most=MAX_REPORTS):
        if group:
            yield Observed(reports=group)


def usage_in_parts(figures: Sequence[UsageFigure]) -> Iterator[UsageReport]:
    """Yield figures as messages; none for no figures."""
    for group in in_parts(figures, most=MAX_FIGURES):
        if group:
            yield UsageReport(figures=group)


def notes_in_parts(notes: Sequence[NoteReport], refused: Sequence[RefusedNotes]) -> Iterator[NotesReport]:
    """Yield notes as messages; none for no notes."""
    for group in in_parts(notes, most=MAX_NOTES):
        if group:
            yield NotesReport(notes=group)
    for problems in in_parts(refused, most=MAX_NOTES):
        if problems:
            yield NotesReport(refused=problems)


def discovered_in_parts(
    jobs: Sequence[DiscoveredJob], namespaces: Sequence[NamespaceReport], *, version: int
) -> Iterator[Discovered]:
    """Yield what was discovered as messages; at least one."""
    groups = list(in_parts(sorted(jobs, key=attrgetter("uid")), most=MAX_JOBS))
    after = ""
    for part, group in enumerate(groups):
        yield Discovered(
            version=version,
            after=after,
            last=part == len(groups) - 1,
            namespaces=tuple(namespaces),
            jobs=group,
        )
        after = group[-1].uid if group else after


def desired_in_parts(
    *,
    connection: UUID,
    generation: int,
    base: int | None,
    assignments: Iterable[DesiredAttempt],
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
            connection=connection,
            generation=generation,
            base=base,
            part=part,
            last=part == count - 1,
            assignments=groups[part] if part < len(groups) else (),
            stop=tuple(stop[first : first + MAX_ORDERS]) if begun else (),
            forget=tuple(forget[first : first + MAX_ORDERS]) if begun else (),
        )


def _pieces(assignment: DesiredAttempt) -> Iterator[DesiredAttempt]:
    """Yield the assignment, in several where it has very many pods."""
    if len(assignment.pods) == 1:
        yield assignment
        return
    piece: list[AssignedPod] = []
    room = MAX_PODS_BYTES
    for pod in assignment.pods:
        size = 40 + 6 * len(pod.node) + 40 * len(pod.devices)
        if piece and size > room:
            yield assignment.model_copy(update={"pods": tuple(piece)})
            piece, room = [], MAX_PODS_BYTES
        piece.append(pod)
        room -= size
    yield (
        assignment
        if len(piece) == len(assignment.pods)
        else assignment.model_copy(update={"pods": tuple(piece)})
    )
