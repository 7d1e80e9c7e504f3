"""An exported trail, checked anywhere: without a server, without its database. Imports no Django.

Lines of JSON: what the file is, a line a row in the order of the chain, and at the end how many rows there are.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from teams.chain.rows import FORM, GENESIS, ChainHead, Keyring, canonical, digest

LONGEST_LINE = 4_000_000
TOLD_EVERY = 10_000


class NoTrail(Exception):  # noqa: N818 - an answer to whoever gave the file
    """The file is no exported trail, or not all of one; the message is a sentence that names the line."""


@dataclass(slots=True)
class FileProof:
    """What a file proves: its rows fit their digests, in so many stretches of the chain without a gap.

    `signed` rows were proved by a key; `unknown_keys` signed others. `known_breaks` are those that had been accepted
    when it was exported, as the file says: nothing proves them. `fault` is the first thing that does not fit.
    """

    rows: int = 0
    first: int = 0
    last: ChainHead = field(default_factory=lambda: ChainHead(0, GENESIS))
    stretches: int = 0
    signed: int = 0
    unknown_keys: set[str] = field(default_factory=set)
    is_selection: bool = False
    saw_known: bool = False
    known_breaks: list[str] = field(default_factory=list)
    fault: str = ""


def verify(
    lines: Iterable[str],
    *,
    keyring: Keyring | None = None,
    known: ChainHead | None = None,
    tell: Callable[[int], None] | None = None,
) -> FileProof:
    """Check an exported trail; `known` is a head from elsewhere that has to be in it, at its place."""
    numbered = _objects(lines)
    begin, previous, end = _beginning(numbered)
    found, closed = (
        FileProof(is_selection=bool(begin.get("filters")), known_breaks=_told_breaks(begin)),
        False,
    )
    if known is not None and known.number > end.number:
        found.fault = (
            f"Row {known.number} is missing: the chain ended at row {end.number} when it was exported."
        )
        return found
    for line, each in numbered:
        if closed:
            raise NoTrail(f"Line {line} comes after the file's end.")
        if "rows" in each:
            closed = True
            found.fault = _count_fault(each["rows"], found.rows)
        else:
            found.fault = _check_row(line, each, previous, found, keyring) or _known_fault(each, known)
            found.saw_known |= known is not None and known.number == each["number"]
        if found.fault:
            return found
        if not closed:
            previous = found.last
            if tell is not None and found.rows % TOLD_EVERY == 0:
                tell(found.rows)
    if not closed:
        raise NoTrail(
            "The file ends before its last line, which tells how many rows it has: export it again."
        )
    if not found.is_selection and previous != end:
        found.fault = f"The rows from {previous.number + 1} to {end.number} are missing at the end."
    return found


def _count_fault(told: object, rows: int) -> str:
    return (
        ""
        if told == rows
        else f"The file tells of {told} rows and has {rows}: some are missing, or were inserted."
    )


def _known_fault(row: Mapping[str, Any], known: ChainHead | None) -> str:
    if known is None or known.number != row["number"] or known.digest == row["digest"]:
        return ""
    return f"Row {known.number} has another digest than the one that was known: the chain was written anew."


def _check_row(
    line: int, each: Mapping[str, Any], previous: ChainHead, found: FileProof, keyring: Keyring | None
) -> str:
    """Return what is wrong with a row; count it where nothing is."""
    number, before, given, mac, event = _parts(line, each)
    name = f"Row {number} ({event.get('id')}, line {line})"
    if number <= previous.number:
        return f"{name} is out of order: it comes after row {previous.number}."
    follows = number == previous.number + 1
    if not follows and not found.is_selection:
        return f"Rows {previous.number + 1} to {number - 1} are missing before line {line}."
    if follows and before != previous.digest:
        return f"{name} does not follow the row before it: one was inserted, changed, or is missing."
    if digest(before, number, canonical(event)) != given:
        return f"{name} was changed: it does not fit its digest."
    if keyring is not None and (fault := _signed(name, mac, given, found, keyring)):
        return fault
    found.first = found.first or number
    found.stretches += not follows or not found.rows
    found.last, found.rows = ChainHead(number, given), found.rows + 1
    return ""


def _signed(name: str, mac: str, given: str, found: FileProof, keyring: Keyring) -> str:
    if not keyring.knows(mac):
        found.unknown_keys.add(mac.partition(":")[0])
    elif keyring.proves(mac, "seal", given.encode()):
        found.signed += 1
    else:
        return f"{name} was inserted or changed together with its digest: Chamber did not sign it."
    return ""


def _parts(line: int, each: Mapping[str, Any]) -> tuple[int, str, str, str, dict[str, Any]]:
    number, event = each.get("number"), each.get("event")
    texts = [each.get(name) for name in ("previous", "digest", "mac")]
    if (
        type(number) is not int
        or not isinstance(event, dict)
        or not all(isinstance(text, str) for text in texts)
    ):
        raise NoTrail(
            f"Line {line} is no row of an exported audit trail: it must have number, previous, digest, mac and event."
        )
    before, given, mac = map(str, texts)
    return number, before, given, mac, event


def _beginning(lines: Iterator[tuple[int, dict[str, Any]]]) -> tuple[dict[str, Any], ChainHead, ChainHead]:
    """Return what the first line tells: all of it, after which row the chain begins, and where it ends."""
    _, begin = next(lines, (0, {}))
    form = begin.get("form")
    if form is None:
        raise NoTrail(
            "It is no exported audit trail: the first line of `chamber audit export` tells its form."
        )
    if form != FORM:
        raise NoTrail(f"The file has the form {form!r}; this version knows {FORM!r}.")
    try:
        anchor, head = (
            ChainHead(int(begin[end]["number"]), str(begin[end]["digest"])) for end in ("anchor", "head")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NoTrail("Line 1 does not tell where the chain begins and ends (anchor, head).") from error
    return begin, anchor, head


def _told_breaks(begin: Mapping[str, Any]) -> list[str]:
    told = begin.get("known_breaks", [])  # files of before have none
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        raise NoTrail("Line 1 does not tell known breaks as a list of sentences (known_breaks).")
    return told


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise NoTrail(f"Line {number} has more than {LONGEST_LINE:,} characters, which no row has.")
        if not line.strip():
            continue
        try:
            each = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise NoTrail(f"Line {number} is not JSON: {error}.") from error
        if not isinstance(each, dict):
            raise NoTrail(f"Line {number} is no JSON object.")
        yield number, each
