"""Reading a scenario file into a tree that remembers the line of every value.

YAML is read as events, never as objects, and by the rules of YAML 1.2: `on`, `yes` and `010` are text. JSON
comes through the same builder, so that both refuse the same things with the same sentences: duplicate keys,
nesting without end, bytes that are not text. Nothing here knows what a scenario is.

    ScenarioError    the only exception this package lets out
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

import yaml

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 16
MAX_VALUES = 10_000_000
TOO_MANY = f"the file has more than {MAX_VALUES:,} keys and values, which is the most allowed"
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, which is the most allowed"

_SURROGATE = re.compile("[\ud800-\udfff]")
_ODD_LINE_BREAK = re.compile("[\x85\u2028\u2029]")
_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\]",:]+|\n')
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TraceLine(int):
    """A line of the trace that comes with a scenario."""

    __slots__ = ()


class ScenarioError(Exception):
    """A scenario that is refused: a sentence with the value and what is allowed, and the line of the file.

    `in_trace`: it is the trace that is refused.
    """

    def __init__(self, message: str, line: int | None = None, *, in_trace: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.in_trace = in_trace or isinstance(line, TraceLine)

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class Format(Enum):
    """The two ways to write a scenario."""

    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it was written; `quoted` text is never a number, a boolean or null."""

    line: int
    text: str
    quoted: bool

    @property
    def is_null(self) -> bool:
        """Whether it writes null."""
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, in the order of the file."""

    line: int
    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class DocumentMapping:
    """Keys and values in the order of the file; `key_lines` says where each key stands."""

    line: int
    items: dict[str, "Value"]
    key_lines: dict[str, int]


Value = Scalar | Sequence | DocumentMapping


class _Mark(Enum):
    MAPPING = "mapping"
    SEQUENCE = "sequence"
    END = "end"


_Event = Scalar | tuple[_Mark, int]


def parse(content: bytes, form: Format) -> Value:
    """Return the tree of a file's bytes; raises ScenarioError for what is not one plain document."""
    if len(content) > MAX_BYTES:
        raise ScenarioError(f"the file has more than {MAX_BYTES:,} bytes, which is the most allowed")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"byte 0x{content[error.start]:02x} is not UTF-8 text", line) from None
    return _build(_json_events(text) if form is Format.JSON else _yaml_events(text))


def _build(events: Iterator[_Event]) -> Value:
    """Return the tree that a stream of events describes, without recursion."""
    open_levels: list[_Level] = []
    for number, event in enumerate(events):
        if number > MAX_VALUES:
            raise ScenarioError(TOO_MANY)
        if isinstance(event, Scalar):
            value: Value = event
            if _SURROGATE.search(event.text):
                raise ScenarioError(
                    f"{event.text[:60]!r} holds half a character (a lone surrogate)", event.line
                )
        elif event[0] is _Mark.END:
            value = open_levels.pop().close()
        else:
            if len(open_levels) == MAX_DEPTH:
                raise ScenarioError(TOO_DEEP, event[1])
            open_levels.append(_Level(event[0], event[1]))
            continue
        if not open_levels:
            for extra in events:
                line = extra.line if isinstance(extra, Scalar) else extra[1]
                raise ScenarioError("a second document begins here; one is allowed", line)
            return value
        open_levels[-1].add(value)
    raise ScenarioError("the file is empty; a mapping with version, pools, teams and workloads is expected")


class _Level:
    """One mapping or list that is still being read."""

    __slots__ = ("items", "key", "key_lines", "kind", "line", "pairs")

    def __init__(self, kind: _Mark, line: int) -> None:
        self.kind = kind
        self.line = line
        self.items: list[Value] = []
        self.pairs: dict[str, Value] = {}
        self.key_lines: dict[str, int] = {}
        self.key: str | None = None

    def add(self, value: Value) -> None:
        if self.kind is _Mark.SEQUENCE:
            self.items.append(value)
        elif self.key is not None:
            self.pairs[self.key] = value
            self.key = None
        elif not isinstance(value, Scalar):
            raise ScenarioError("a list or a mapping stands where a key belongs; keys are text", value.line)
        elif value.text in self.key_lines:
            first = self.key_lines[value.text]
            raise ScenarioError(
                f"the key {value.text[:60]!r} is given twice, first in line {first}", value.line
            )
        else:
            self.key = value.text
            self.key_lines[value.text] = value.line

    def close(self) -> Value:
        if self.kind is _Mark.SEQUENCE:
            return Sequence(self.line, tuple(self.items))
        return DocumentMapping(self.line, self.pairs, self.key_lines)


def _yaml_events(text: str) -> Iterator[_Event]:
    odd = _ODD_LINE_BREAK.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        raise ScenarioError(f"U+{ord(odd.group()):04X} ends a line for YAML only; none are allowed", line)
    try:
        for event in yaml.parse(text, Loader=_YAML_LOADER):
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                name = getattr(event, "anchor", "")
                raise ScenarioError(f'"{name}" is a YAML anchor or alias; none are allowed', line)
            if isinstance(event, yaml.ScalarEvent):
                _refuse_tag(event.tag if event.tag != "!" else None, line)
                yield Scalar(line, event.value, not event.implicit[0])
            elif isinstance(event, yaml.MappingStartEvent):
                _refuse_tag(event.tag, line)
                yield _Mark.MAPPING, line
            elif isinstance(event, yaml.SequenceStartEvent):
                _refuse_tag(event.tag, line)
                yield _Mark.SEQUENCE, line
            elif isinstance(event, yaml.CollectionEndEvent):
                yield _Mark.END, line
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "something unexpected"
        raise ScenarioError(f"not YAML: {problem}", None if mark is None else mark.line + 1) from None
    except yaml.reader.ReaderError as error:
        raise ScenarioError(f"not YAML: {error.reason}", text.count("\n", 0, error.position) + 1) from None


def _refuse_tag(tag: str | None, line: int) -> None:
    if tag is not None:
        raise ScenarioError(f'"{tag}" is a YAML tag; none are allowed', line)


def _json_events(text: str) -> Iterator[_Event]:
    """Yield the events of JSON text; the library judges it first, so that the tokens need no grammar here."""
    if text.count(",") > MAX_VALUES:
        raise ScenarioError(TOO_MANY)
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise ScenarioError(TOO_DEEP) from None
    line = 1
    for match in _JSON_TOKEN.finditer(text):
        lexeme = match.group()
        if lexeme == "\n":
            line += 1
        elif lexeme in "}]":
            yield _Mark.END, line
        elif lexeme in "{[":
            yield (_Mark.MAPPING if lexeme == "{" else _Mark.SEQUENCE), line
        elif lexeme[0] == '"':
            yield Scalar(line, json.loads(lexeme), True)
        else:
            yield Scalar(line, lexeme, False)


def _refuse_constant(text: str) -> NoReturn:
    raise ScenarioError(f"{text} is not a number that JSON has")
