"""A record of plans in one file: for each item the digests of its plans and, where they are few, the texts themselves.

The file is a zip with a member of lines of JSON for each hundred items of a source. The same plans give the same bytes.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any

from scheduling.tests.proof.digests.canonical import PlanTexts
from scheduling.tests.proof.digests.sources import Source, Step, steps_of

FORM = 1
ABOUT = "about.json"
TOGETHER = 100
THE_PAST = (2000, 1, 1, 0, 0, 0)
"""In place of the time at which a record is made, which would make each another."""
DECISIONS, SENTENCES = "decisions", "sentences"

Item = dict[str, Any]
"""What is recorded of an item: ``key``, and ``steps`` as lists of name, both digests and, where kept, both texts."""


class NoRecordError(Exception):
    """The file is no record that can be compared with; the message says why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first plan of an item that differs from the recorded one, in which layer, and both texts; ``was`` is ``None``
    where the record has no text."""

    source: str
    key: str
    step: str
    layer: str
    was: str | None
    now: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found by comparing items of a source."""

    items: int
    plans: int
    differences: tuple[Difference, ...]


# --- Recording ----------------------------------------------------------------------------------------------------


def record(path: Path, sources: Mapping[str, Source], workers: Executor) -> Counter[str]:
    """Write a record of all plans of these sources; returns how many rows of each kind they have."""
    met: Counter[str] = Counter()
    items = {name: len(source.keys()) for name, source in sources.items()}
    with zipfile.ZipFile(path, "w") as file:
        for name, source in sources.items():
            keys, size = source.keys(), _together(items[name])
            parts = [keys[at : at + size] for at in range(0, len(keys), size)]
            for number, (lines, seen) in enumerate(workers.map(_recorded, repeat(source), parts)):
                met.update(seen)
                _write(file, _member(name, number), lines)
        _write(file, ABOUT, json.dumps({"form": FORM, "items": items, "met": dict(sorted(met.items()))}))
    return met


def _together(items: int) -> int:
    """How many items of a source stand in one part: where there are few, each has its own."""
    return TOGETHER if items > TOGETHER else 1


def _member(source: str, number: int) -> str:
    return f"{source}/{number:05d}"


def _write(file: zipfile.ZipFile, name: str, text: str) -> None:
    about = zipfile.ZipInfo(name, THE_PAST)
    about.external_attr = 0o600 << 16
    file.writestr(about, text, zipfile.ZIP_LZMA)


def _recorded(source: Source, keys: Sequence[str]) -> tuple[str, Counter[str]]:
    """The lines of a part, and how many rows of each kind its plans have."""
    met: Counter[str] = Counter()
    items = []
    for key in keys:
        steps = list(steps_of(source, key))
        for each in steps:
            met.update(each.met)
        items.append({"key": key, "steps": [_of_step(each, texts=source.keeps_texts) for each in steps]})
    return "\n".join(map(json.dumps, items)), met


def _of_step(step: Step, *, texts: bool) -> list[str]:
    kept = [step.texts.decisions, step.texts.sentences] if texts else []
    return [step.name, *step.texts.digests, *kept]


# --- Comparing ----------------------------------------------------------------------------------------------------


def recorded(path: Path) -> dict[str, int]:
    """The sources that a record has, and how many items of each. Raises :class:`NoRecordError`."""
    try:
        with zipfile.ZipFile(path) as file:
            about = json.loads(file.read(ABOUT))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise NoRecordError(f"{path} is no record: {error}.") from error
    if about.get("form") != FORM:
        raise NoRecordError(
            f"{path} is of form {about.get('form')}; only records of form {FORM} can be compared."
        )
    items: dict[str, int] = about["items"]
    return items


def compare(
    path: Path, name: str, source: Source, workers: Executor, *, items: int, layers: Sequence[str]
) -> Iterator[Outcome]:
    """What the first so many items of a source have otherwise than the record, part by part."""
    size = _together(recorded(path)[name])
    members = [_member(name, number) for number in range(-(-items // size))]
    lengths = [min(size, items - size * number) for number in range(len(members))]
    yield from workers.map(_compared, repeat(path), members, lengths, repeat(source), repeat(tuple(layers)))


def _compared(path: Path, member: str, most: int, source: Source, layers: Sequence[str]) -> Outcome:
    """What differs in one part."""
    plans, found = 0, []
    items = items_of(path, member)[:most]
    for item in items:
        for was, now in zip_longest(item["steps"], steps_of(source, item["key"])):
            plans += 1
            difference = _difference(member.partition("/")[0], item["key"], was, now, layers)
            if difference is not None:
                found.append(difference)
                break
    return Outcome(len(items), plans, tuple(found))


def items_of(path: Path, member: str) -> list[Item]:
    """The items of one part of a record."""
    with zipfile.ZipFile(path) as file:
        return [json.loads(line) for line in file.read(member).decode().splitlines()]


def _difference(
    source: str, key: str, was: list[str] | None, now: Step | None, layers: Iterable[str]
) -> Difference | None:
    """In which layer a plan is another than the recorded one; the decisions come first."""
    if was is None or now is None:
        there = now.name if now is not None else was[0] if was is not None else ""
        text = now.texts.decisions if now is not None else "There is no such plan any more."
        return Difference(source, key, there, DECISIONS, None, text)
    name, *rest = was
    digests, kept = rest[:2], rest[2:]
    texts = _by_layer(now.texts)
    for at, layer in enumerate((DECISIONS, SENTENCES)):
        if layer in layers and digests[at] != now.texts.digests[at]:
            return Difference(source, key, name, layer, kept[at] if kept else None, texts[layer])
    return None


def _by_layer(texts: PlanTexts) -> dict[str, str]:
    return {DECISIONS: texts.decisions, SENTENCES: texts.sentences}
