"""Notes: what a workload says of itself, read and checked.

    ::chamber checkpoint step=1200::
    ::chamber progress 0.42::
    ::chamber link wandb=https://wandb.example/run/7::

Agents read them from lines of output and from annotations, the server from the body of a call; all say in the same
words what is wrong. Imports nothing of the project. The format is documented in `docs/checkpoints.md`.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from urllib.parse import urlsplit

MARK = "::chamber "
"""What a line holds that is a note: others need no look."""
MOST_STEP = 10**15
MILLION = 1_000_000
LONGEST_LINE = 1000
LONGEST_URL = 500
MOST_SHOWN = 60

_NOTE = re.compile(r"::chamber\s+(.*)")
_STEP = re.compile(r"[0-9]{1,16}")
_NUMBER = re.compile(r"[-+]?[0-9]{0,20}\.?[0-9]{0,20}(?:[eE][-+]?[0-9]{1,3})?%?")
_NAME = re.compile(r"[a-z0-9](?:[-_.a-z0-9]{0,38}[a-z0-9])?")


class NoteKind(StrEnum):
    """What a note tells."""

    CHECKPOINT = "checkpoint"
    PROGRESS = "progress"
    LINK = "link"


class NoteProblem(StrEnum):
    """Why a note was not taken."""

    UNREADABLE = "unreadable"
    STEP = "step"
    PROGRESS = "progress"
    LINK = "link"
    TIME = "time"
    FUTURE = "future"
    OTHER_ATTEMPT = "other-attempt"
    TOO_MANY = "too-many"
    NOT_READ = "not-read"


@dataclass(frozen=True, slots=True)
class Note:
    """One note. A checkpoint has a step, progress its millionths, a link its name and address.

    `at` is when it was so, None where that is not known; `attempt` the number of the attempt that it names, if it does.
    """

    kind: NoteKind
    step: int | None = None
    millionths: int | None = None
    name: str = ""
    url: str = ""
    at: datetime | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class BadNote:
    """What was meant as a note and is none: why, as a code and as a sentence with the value and what is allowed."""

    problem: NoteProblem
    message: str


Read = Note | BadNote


def read_line(line: str) -> Read | None:
    """Return the note that a line holds, or why it is none; None where nothing is meant as one."""
    found = _NOTE.search(line) if MARK in line else None
    if found is None:
        return None
    said = found[1].strip()
    if len(line) > LONGEST_LINE:
        return _bad(
            NoteProblem.UNREADABLE, f"A line has {len(line):,} characters; at most {LONGEST_LINE:,} are read."
        )
    if not said.endswith("::"):
        return _bad(NoteProblem.UNREADABLE, f"{shown(line)} does not end: write :: behind a note.")
    return _note(*said[:-2].strip().partition(" ")[::2])


def _note(kind: str, rest: str) -> Read:
    """Return the note that stands between the marks: its kind, and what follows."""
    if kind == NoteKind.CHECKPOINT:
        return _checkpoint(rest.split())
    if kind == NoteKind.PROGRESS:
        return progress(rest.strip())
    if kind == NoteKind.LINK:
        name, _, url = rest.strip().partition("=")
        return link(name, url)
    known = ", ".join(NoteKind)
    return _bad(NoteProblem.UNREADABLE, f"{shown(kind)} is no kind of note; allowed are {known}.")


def checkpoint(step: object, at: object = None, attempt: object = None) -> Read:
    """Return the note of a checkpoint; `step` and `attempt` are whole numbers or their digits, `at` a time."""
    number = _whole(step)
    if number is None or number > MOST_STEP:
        return _bad(
            NoteProblem.STEP,
            f"The step of a checkpoint is {shown(step)}; it must be a whole number from 0 to {MOST_STEP:,}.",
        )
    moment = _moment(at)
    if isinstance(moment, BadNote):
        return moment
    of = None if attempt is None else _whole(attempt)
    if attempt is not None and of is None:
        text = f"The attempt of a checkpoint is {shown(attempt)}; it must be the number in CHAMBER_ATTEMPT."
        return _bad(NoteProblem.OTHER_ATTEMPT, text)
    return Note(NoteKind.CHECKPOINT, step=number, at=moment, attempt=of)


def progress(value: object) -> Read:
    """Return the note of a progress: a part of 1, or its digits."""
    text = str(value).strip()
    bad = _bad(
        NoteProblem.PROGRESS,
        f"The progress is {shown(value)}; it must be a part of 1, from 0 to 1, such as 0.42.",
    )
    if isinstance(value, bool) or len(text) > 40 or not _NUMBER.fullmatch(text):
        return bad
    try:
        part = Decimal(text)
    except InvalidOperation:
        return bad
    return Note(NoteKind.PROGRESS, millionths=int(part * MILLION)) if 0 <= part <= 1 else bad


def link(name: object, url: object) -> Read:
    """Return the note of a link: a page of another program about the workload."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = (
            f"The name of a link is {shown(name)}; allowed are up to 40 of a-z, 0-9, - _ and . such as wandb."
        )
        return _bad(NoteProblem.LINK, text)
    problem = _wrong_with(url)
    return _bad(NoteProblem.LINK, problem) if problem else Note(NoteKind.LINK, name=name, url=str(url))


def shown(value: object) -> str:
    """Return a value as sentences quote it."""
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
    return repr(cut) if isinstance(value, str) else cut


def _checkpoint(words: list[str]) -> Read:
    """Return the checkpoint of a line: `step=N`, and if need be `at=TIME` and `attempt=N`."""
    said: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in {"step", "at", "attempt"} or name in said:
            text = f"{shown(word)} is not read of a checkpoint; write step=N, and if need be at=TIME and attempt=N."
            return _bad(NoteProblem.UNREADABLE, text)
        said[name] = value
    return checkpoint(said.get("step", ""), said.get("at"), said.get("attempt"))


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    return int(text) if _STEP.fullmatch(text) else None


def _moment(at: object) -> datetime | BadNote | None:
    if at is None:
        return None
    moment = at if isinstance(at, datetime) else None
    if isinstance(at, str) and len(at) <= 40:
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            moment = None
    if moment is None or moment.tzinfo is None:
        text = f"The time of a checkpoint is {shown(at)}; it must have its date and zone, such as 2026-01-31T12:00:00Z."
        return _bad(NoteProblem.TIME, text)
    return moment


def _wrong_with(url: object) -> str:
    """Return what is wrong with the address of a link; "" where nothing is."""
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        return f"The address of a link is {shown(url)}; it must be text without spaces."
    if len(url) > LONGEST_URL:
        return f"The address of a link has {len(url):,} characters; at most {LONGEST_URL} are allowed."
    try:
        parts = urlsplit(url)
        host, user = parts.hostname, parts.username or parts.password
    except ValueError:
        return f"The address of a link is {shown(url)}, which is none."
    if parts.scheme not in {"http", "https"} or not host:
        return f"The address of a link is {shown(url)}; it must begin with https:// or http:// and a host."
    return "The address of a link holds a user name or a password; leave them out." if user else ""


def _bad(problem: NoteProblem, message: str) -> BadNote:
    return BadNote(problem, message)
