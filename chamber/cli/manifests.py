"""Files of workloads: YAML (one document or several) or JSON, as plain data for the API to judge."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from chamber.cli.status import Exit, Failure
from chamber.words import placed

MOST_BYTES = 1024 * 1024
"""The API takes no larger body."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Build a node, refusing an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not taken, write it out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing a key that comes twice: one of its values would be lost in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is given again", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


@dataclass(slots=True)
class File:
    """What a file holds, and in which line each key of it stands: by its place, such as `teams.nlp.shares.main` or
    `workloads[1].image`.
    """

    name: str
    documents: list[Any] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def failure(
        self, problems: Mapping[str, str], status: Exit = Exit.USAGE, *, http_status: int | None = None
    ) -> Failure:
        """Return what is wrong as one failure: each sentence with its line and place, in the order of the file."""
        found = sorted(
            ((self.line_of(place), placed(place, text)) for place, text in problems.items()),
            key=lambda each: (each[0] is None, each[0] or 0),
        )
        if len(found) == 1:
            [(line, text)] = found
            return Failure(
                f"{self.name}{f', line {line}' if line else ''}: {text}", status, http_status=http_status
            )
        told = [f"  line {line}: {text}" if line else f"  {text}" for line, text in found]
        message = "\n".join([f"{self.name} has {len(told):,} mistakes:", *told])
        return Failure(message, status, http_status=http_status)

    def refused(self, failure: Failure) -> Failure:
        """Return what the server refused of the file, with the lines; unchanged where it is about no place.

        What flags alone describe has no name.
        """
        if not failure.fields or not self.name:
            return failure
        return self.failure(failure.fields, Exit(failure.exit_code), http_status=failure.http_status)

    def line_of(self, place: str) -> int | None:
        """Return the line of a place, else of the nearest one around it; None where the file says nothing of it."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return None


def read(path: str) -> File:
    """Return a file's workloads (`-`: standard input) as its documents, in their order; `workloads:` may hold several.

    Places are those of the API: below `workloads[0]`, and of a single workload its keys alone.
    """
    file = load(path)
    workloads: list[Any] = []
    lines: dict[str, int] = {}
    for number, document in enumerate(file.documents):
        several = isinstance(document, dict) and set(document) == {"workloads"}
        items = _items(document, file)
        for index, _ in enumerate(items):
            before = f"documents[{number}]" + (f".workloads[{index}]" if several else "")
            after = f"workloads[{len(workloads) + index}]"
            lines |= {
                after + place.removeprefix(before): line
                for place, line in file.lines.items()
                if place == before or place.startswith(f"{before}.")
            }
        workloads += items
    if len(workloads) == 1:
        lines = {place.removeprefix("workloads[0]").removeprefix("."): line for place, line in lines.items()}
    file.documents, file.lines = workloads, lines
    for index, item in enumerate(workloads):
        if not isinstance(item, dict):
            text = f"{item!r:.60} is not a workload, which is a mapping."
            raise file.failure({f"workloads[{index}]": text})
    if not workloads:
        raise Failure(f"{file.name} holds no workload.", Exit.USAGE)
    return file


def load(path: str) -> File:
    """Return the documents of a file (`-`: standard input); a `Failure` with the line where it is not YAML, and
    where it holds what JSON has no word for: infinities, or dates without quotes.

    Places are below `documents[0]`.
    """
    file = File(_named(path))
    content = _content(path, file.name)
    try:
        loader = _Loader(content)
        while loader.check_node():
            node = loader.get_node()
            place = f"documents[{len(file.documents)}]"
            file.lines |= _lines(node, place)
            file.documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Failure(f"{file.name}, line {line}: {error.problem or error.context}.", Exit.USAGE) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Failure(f"{file.name} is not YAML: {error}.", Exit.USAGE) from error
    problems = {
        place: text
        for number, document in enumerate(file.documents)
        for place, text in _not_json(document, f"documents[{number}]")
    }
    if problems:
        raise _without_documents(file).failure({_inner(place): text for place, text in problems.items()})
    return file


def _without_documents(file: File) -> File:
    return File(file.name, file.documents, {_inner(place): line for place, line in file.lines.items()})


def _inner(place: str) -> str:
    """Return a place within its document: `documents[0].teams` is `teams`."""
    return place.partition("]")[2].removeprefix(".")


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


def _not_json(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield a place and a sentence for each value that JSON has no word for."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str | int | float | bool | None):
                yield place, f"the name {key} is no text; put quotes around it."
            yield from _not_json(part, f"{place}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            slug = part.get("slug") if isinstance(part, dict) else None
            inner = f"{place}.{slug}" if isinstance(slug, str) else f"{place}[{index}]"
            yield from _not_json(part, inner)
    elif isinstance(value, float) and not math.isfinite(value):
        shown = ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        yield place, f"{_last(place)} is {shown}; it must be a number that ends."
    elif isinstance(value, date):
        yield place, f"{_last(place)} is the date {value}; put quotes around it."
    elif not isinstance(value, str | int | float | bool | None):
        yield place, f"{_last(place)} is {value!r:.60}; it must be text, a number, a list or a mapping."


def _last(place: str) -> str:
    return place.rpartition(".")[2]


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


def _items(document: Any, file: File) -> list[Any]:
    """Return the workloads of a document: itself, or those under `workloads`; none for an empty one."""
    if isinstance(document, dict) and set(document) == {"workloads"}:
        several = document["workloads"]
        if not isinstance(several, list):
            raise file.failure({"workloads": f"workloads must be a list, not {several!r:.60}."})
        return several
    return [] if document is None else [document]


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
