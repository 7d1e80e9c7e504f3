"""Files of workloads: YAML (one document or several) or JSON, as plain data for the API to judge."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from chamber.cli.status import Exit, Failure

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


def read(path: str) -> list[dict[str, Any]]:
    """Return the workloads of a file (`-`: standard input) in their order; `workloads:` may hold several."""
    name = _named(path)
    workloads = [item for document in documents(path) for item in _items(document, name)]
    for item in workloads:
        if not isinstance(item, dict):
            raise Failure(f"{name}: {item!r:.60} is not a workload, which is a mapping.", Exit.USAGE)
    if not workloads:
        raise Failure(f"{name} holds no workload.", Exit.USAGE)
    return workloads


def documents(path: str) -> list[Any]:
    """Return the documents of a file (`-`: standard input); a `Failure` with the line where it is not YAML, and
    where it holds what JSON has no word for: infinities, or dates without quotes.
    """
    name = _named(path)
    content = _content(path, name)
    try:
        found = list(yaml.load_all(content, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Failure(f"{name}, line {line}: {error.problem or error.context}.", Exit.USAGE) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Failure(f"{name} is not YAML: {error}.", Exit.USAGE) from error
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as error:
        hint = "Put quotes around dates, and give numbers that end."
        raise Failure(f"{name} cannot be sent as JSON: {error}.", Exit.USAGE).with_hint(hint) from error
    return found


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


def _items(document: Any, name: str) -> list[Any]:
    """Return the workloads of a document: itself, or those under `workloads`; none for an empty one."""
    if isinstance(document, dict) and set(document) == {"workloads"}:
        several = document["workloads"]
        if not isinstance(several, list):
            raise Failure(f"{name}: workloads must be a list, not {several!r:.60}.", Exit.USAGE)
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
