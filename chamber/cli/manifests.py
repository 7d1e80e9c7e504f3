"""Files of workloads: YAML (one document or several) or JSON, as plain data for the API to judge."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import yaml

from chamber.cli.status import Exit, Failure
from chamber.words import placed

T = TypeVar("T")

MOST_BYTES = 1024 * 1024
"""The API takes no larger body."""
JSON_SCALARS = (str, int, float, bool, type(None))
TIMES = frozenset({"start_after", "deadline"})
"""Keys of a workload whose values may be dates: the server reads these as they are written here."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Build a node, refusing an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not taken, write it out", mark)
        return super().compose_node(parent, index)


class Mistakes(Failure):
    """All that is wrong with a file."""


@dataclass(slots=True)
class File:
    """What a file holds, and in which line each key of it stands: by its place, such as `teams.nlp.shares.main` or
    `workloads[1].image`.

    `problems` are what was found wrong with it here, by place. It is told together with what the server finds wrong
    with the rest.
    """

    name: str
    documents: list[Any] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def told_at_least(self) -> Iterator[None]:
        """Tell what is known to be wrong also where the server cannot be asked about the rest."""
        try:
            yield
        except Failure as failure:
            if not self.problems or isinstance(failure, Mistakes):
                raise
            raise self.failure(self.problems) from failure

    def failure(
        self, problems: Mapping[str, str], status: Exit = Exit.USAGE, *, http_status: int | None = None
    ) -> Mistakes:
        """Return what is wrong as one failure: each sentence with its line and place, in the order of the file."""
        found = sorted(
            ((self.line_of(place), placed(place, text)) for place, text in problems.items()),
            key=lambda each: (each[0] is None, each[0] or 0),
        )
        if len(found) == 1:
            [(line, text)] = found
            return Mistakes(
                f"{self.name}{f', line {line}' if line else ''}: {text}", status, http_status=http_status
            )
        told = [f"  line {line}: {text}" if line else f"  {text}" for line, text in found]
        message = "\n".join([f"{self.name} has {len(told):,} mistakes:", *told])
        return Mistakes(message, status, http_status=http_status)

    def refused(self, failure: Failure) -> Failure:
        """Return what is wrong with the file, here and by the server, with the lines; `failure` unchanged where it is
        about no place.

        What flags alone describe has no name.
        """
        fields = {
            place: text
            for place, text in failure.fields.items()
            if not any(around in self.problems for around in _around(place))
        } | self.problems
        if not fields or not self.name:
            return failure
        status = Exit.USAGE if self.problems else Exit(failure.exit_code)
        return self.failure(fields, status, http_status=failure.http_status)

    def line_of(self, place: str) -> int | None:
        """Return the line of a place, else of the nearest one around it; None where the file says nothing of it."""
        return next((self.lines[each] for each in _around(place) if each in self.lines), None)


def read(path: str) -> File:
    """Return a file's workloads (`-`: standard input) as its documents, in their order; `workloads:` may hold several.

    Places are those of the API: below `workloads[0]`, and of a single workload its keys alone.
    """
    file = load(path)
    found = File(file.name)
    places: dict[str, str] = {}
    for number, document in enumerate(file.documents):
        place = f"documents[{number}]"
        several = isinstance(document, dict) and "workloads" in document
        places[place] = ""
        for index, item in enumerate(_items(document, place, file)):
            after = f"workloads[{len(found.documents)}]"
            places[f"{place}.workloads[{index}]" if several else place] = after
            if not isinstance(item, dict):
                found.problems[after] = f"{item!r:.60} is not a workload, which is a mapping."
            found.documents.append(item if isinstance(item, dict) else {})
    single = len(found.documents) == 1
    found.problems |= _moved(file.problems, places, single=single)
    found.lines = _moved(file.lines, places, single=single)
    if not found.documents:
        raise (
            found.failure(found.problems)
            if found.problems
            else Failure(f"{file.name} holds no workload.", Exit.USAGE)
        )
    return found


def _moved(values: Mapping[str, T], places: Mapping[str, str], *, single: bool) -> dict[str, T]:
    """Return values by place under the places that those around them are called by, the nearest first."""
    moved = {}
    for place, value in values.items():
        around = next(each for each in _around(place) if each in places)
        after = (places[around] + place.removeprefix(around)).removeprefix(".")
        moved[after.removeprefix("workloads[0]").removeprefix(".") if single else after] = value
    return moved


def _around(place: str) -> Iterator[str]:
    """Yield a place, and those around it: `documents[0].a`, `documents[0]`."""
    while place:
        yield place
        place = place[: max(place.rfind("."), place.rfind("["), 0)]


def load(path: str) -> File:
    """Return the documents of a file (`-`: standard input); a `Failure` with the line where it is not YAML.

    What JSON has no word for (infinities, dates without quotes but for `TIMES`) and keys that come twice are among its
    `problems`; the documents have a text instead. Places are below `documents[0]`.
    """
    file = File(_named(path))
    content = _content(path, file.name)
    try:
        loader = _Loader(content)
        while loader.check_node():
            node = loader.get_node()
            place = f"documents[{len(file.documents)}]"
            file.lines |= _lines(node, place)
            file.problems |= _given_again(node, place)
            document = loader.construct_document(node)
            file.problems |= _not_json(document, place)
            file.documents.append(_as_json(document))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Failure(f"{file.name}, line {line}: {error.problem or error.context}.", Exit.USAGE) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Failure(f"{file.name} is not YAML: {error}.", Exit.USAGE) from error
    return file


def _lines(node: yaml.Node | None, place: str) -> dict[str, int]:
    """Return the line of each key and item; items that have a slug also by it: `teams[0]` is `teams.nlp`."""
    if node is None:
        return {}
    found = {place: node.start_mark.line + 1}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{place}.{key.value}"
            found |= {**_lines(value, inner), inner: key.start_mark.line + 1}
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            of_item = _lines(item, f"{place}[{index}]")
            found |= of_item
            if slug := _slug(item):
                before = f"{place}[{index}]"
                found |= {f"{place}.{slug}" + at.removeprefix(before): line for at, line in of_item.items()}
    return found


def _slug(node: yaml.Node) -> str:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((str(value.value) for key, value in pairs if key.value == "slug"), "")


def _given_again(node: yaml.Node | None, place: str) -> dict[str, str]:
    """Return a sentence by place for each key that comes twice: one of its values would be lost in silence."""
    found: dict[str, str] = {}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                inner = f"{place}.{key.value}"
                found |= _given_again(value, inner)
                if key.value in seen:
                    found[inner] = f"{key.value} is given again."
                seen.add(key.value)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            slug = _slug(item)
            found |= _given_again(item, f"{place}.{slug}" if slug else f"{place}[{index}]")
    return found


def _not_json(value: Any, place: str) -> dict[str, str]:
    """Return a sentence by place for each value that JSON has no word for."""
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, JSON_SCALARS):
                found[f"{place}.{key}"] = f"the name {key} is no text; put quotes around it."
            found |= _not_json(part, f"{place}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            slug = part.get("slug") if isinstance(part, dict) else None
            found |= _not_json(part, f"{place}.{slug}" if isinstance(slug, str) else f"{place}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        found[place] = f"{_last(place)} is {_as_json(value)}; it must be a number that ends."
    elif isinstance(value, date):
        of, _, key = place.rpartition(".")
        if key in TIMES and of.endswith("]"):
            return found
        found[place] = f"{_last(place)} is the date {value}; put quotes around it."
    elif not isinstance(value, JSON_SCALARS):
        found[place] = f"{_last(place)} is {value!r:.60}; it must be text, a number, a list or a mapping."
    return found


def _as_json(value: Any) -> Any:
    """Return a value with a text in place of each part that JSON has no word for, so that the rest can be judged."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, JSON_SCALARS) else str(key): _as_json(part) for key, part in value.items()
        }
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return value if isinstance(value, JSON_SCALARS) else str(value)


def _last(place: str) -> str:
    return place.rpartition(".")[2]


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


def _items(document: Any, place: str, file: File) -> list[Any]:
    """Return the workloads of a document: itself, or those under `workloads`; none for an empty one."""
    if not isinstance(document, dict) or "workloads" not in document:
        return [] if document is None else [document]
    for key in document.keys() - {"workloads"}:
        file.problems[f"{place}.{key}"] = (
            f"there is no {key!r} beside workloads, which are all of a document."
        )
    several = document["workloads"]
    if not isinstance(several, list):
        file.problems[f"{place}.workloads"] = f"workloads must be a list, not {several!r:.60}."
        return []
    return several


def _content(path: str, name: str) -> bytes:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror}.", Exit.USAGE) from error
    if len(content) > MOST_BYTES:
        raise Failure(f"{name} is larger than {MOST_BYTES:,} bytes, the most that is taken.", Exit.REJECTED)
    return content
