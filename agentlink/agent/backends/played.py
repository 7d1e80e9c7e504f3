"""What a simulated cluster makes of a workload: how long it takes to start, run and stop, what it writes, how it ends.

A command is played as a shell would run it, as far as it consists of `sleep`, `echo`, `exit`, `true`, `false` and what
takes no time, joined by `;`, `&&` and `||`. Everything else is a program: it ends with 0 and runs as long as its option
`--seconds N` says, else a time that is usual for its job class.
"""

import hashlib
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from agentlink.protocol import DesiredAttempt

START_SECONDS = (0.2, 0.6)
STOP_SECONDS = (0.3, 2.0)
RUN_SECONDS = (30.0, 180.0)
"""Of a program whose class is none of these."""
CLASS_SECONDS = {
    "training": (60.0, 180.0),
    "experiment": (30.0, 90.0),
    "preprocessing": (20.0, 60.0),
    "batch-inference": (30.0, 120.0),
    "serving": (math.inf, math.inf),
}
"""How long programs of a job class run; one that serves runs until it is stopped."""

SHELLS = {"sh", "bash", "/bin/sh", "/bin/bash"}
QUICK = {"true", ":", "cd", "export", "set", "unset", "umask", "ulimit", "mkdir", "pwd", "wait"}
"""Commands that take no time, write nothing, and end with 0."""
KEYWORDS = {"for", "while", "until", "if", "case", "select", "function", "{", "(", "!", "[", "[["}
BAD_USAGE = 2
"""With what a shell ends that cannot read its script."""
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_SLEEP = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SECONDS = re.compile(r"--seconds(?:=|\s+)(\d{1,9}(?:\.\d{1,6})?)(?!\S)")


@dataclass(slots=True)
class Play:
    """What a pod does: for how many seconds it runs, with what it ends, and the lines it writes, each with its second.

    `program` says that something of it is a program, which writes lines of its own.
    """

    seconds: float = 0.0
    exit_code: int = 0
    lines: list[tuple[float, str]] = field(default_factory=list)
    program: bool = False


def start_seconds(workload: UUID) -> float:
    """Return how long its pods are being created."""
    return draw(workload, "start", START_SECONDS)


def stop_seconds(workload: UUID, grace_seconds: int) -> float:
    """Return how much of the grace period its pods take when they are stopped."""
    return min(float(grace_seconds), draw(workload, "stop", STOP_SECONDS))


def play(assignment: DesiredAttempt) -> Play:
    """Return what each of its pods does."""
    command = assignment.command
    program = _program_seconds(assignment)
    if not command:
        return Play(seconds=program, program=True)
    if command[0] not in SHELLS:
        played = Play()
        _run(played, command, program)
        return played
    if len(command) < 3 or not re.fullmatch(r"-[a-z]*c", command[1]):
        return Play(seconds=program, program=True)
    try:
        statements = _statements(command[2])
    except ValueError:
        return Play(exit_code=BAD_USAGE, lines=[(0.0, f"{command[0]}: syntax error: a quote is not closed")])
    if statements is None:
        return Play(seconds=program, program=True)
    return _all_of(statements, program)


def draw(workload: UUID, what: str, bounds: tuple[float, float]) -> float:
    """Return a number between the bounds that is always the same for the same workload."""
    low, high = bounds
    if low == high:
        return low
    digest = hashlib.sha256(workload.bytes + what.encode()).digest()
    return low + (high - low) * int.from_bytes(digest[:8]) / 2**64


def _program_seconds(assignment: DesiredAttempt) -> float:
    """Return how long a program runs that does not say it: as its class, within its time limit."""
    usual = draw(assignment.workload, "run", CLASS_SECONDS.get(assignment.job_class, RUN_SECONDS))
    limit = assignment.time_limit_seconds
    return usual if limit is None or usual == math.inf else min(usual, float(limit))


def _statements(script: str) -> list[tuple[str, list[str]]] | None:
    """Return the commands of a script, each with what joins it to those before (`;`, `&&` or `||`).

    None where it has more to it than that: pipes, loops, conditions, subshells. Raises ValueError for an open quote.
    """
    reader = shlex.shlex(script, posix=True, punctuation_chars=";&|\n")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    found: list[tuple[str, list[str]]] = []
    join, words, comment = ";", list[str](), False
    for token in reader:
        if set(token) <= set(";&|\n"):
            if words:
                found.append((join, words))
            join, words, comment = token.strip("\n") or ";", [], comment and "\n" not in token
            if join not in {";", "&&", "||"}:
                return None
        elif comment or token.startswith("#"):
            comment = True
        elif not words and token in KEYWORDS:
            return None
        else:
            words.append(token)
    return [*found, (join, words)] if words else found


def _all_of(statements: Iterable[tuple[str, list[str]]], program: float) -> Play:
    """Return what becomes of the commands, one after the other."""
    played = Play()
    for join, words in statements:
        if (join == "&&" and played.exit_code) or (join == "||" and not played.exit_code):
            continue
        if _run(played, words, program) or played.seconds == math.inf:
            break
    return played


def _run(played: Play, command: Iterable[str], program: float) -> bool:
    """Play one command; return whether the script ends with it."""
    words = list(command)
    while words and (words[0] == "exec" or _ASSIGNMENT.match(words[0])):
        words.pop(0)
    if not words or words[0] in QUICK:
        played.exit_code = 0
    elif words[0] == "exit":
        said = words[1] if len(words) > 1 else str(played.exit_code)
        played.exit_code = int(said) % 256 if re.fullmatch(r"\d{1,9}", said) else BAD_USAGE
        return True
    elif words[0] == "sleep":
        _sleep(played, words[1:])
    elif words[0] == "echo":
        played.lines.append((played.seconds, " ".join(words[1:])))
        played.exit_code = 0
    elif words[0] == "false":
        played.exit_code = 1
    else:
        seconds = _SECONDS.search(" ".join(words))
        played.seconds += float(seconds[1]) if seconds else program
        played.program, played.exit_code = True, 0
    return False


def _sleep(played: Play, durations: list[str]) -> None:
    """Play `sleep` with these durations, which are added up."""
    read = [_SLEEP.fullmatch(duration) for duration in durations]
    played.exit_code = 0
    if durations == ["infinity"]:
        played.seconds = math.inf
    elif read and all(read):
        played.seconds += sum(float(each[1]) * UNITS[each[2]] for each in read if each)
    else:
        told = " ".join(durations) or "none"
        played.lines.append((played.seconds, f"sleep: invalid time interval: {told}"))
        played.exit_code = 1
