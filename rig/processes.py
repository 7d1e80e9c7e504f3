"""Starting programs of the project: as `subprocess` does, but by a fork of a process that has the libraries loaded.

What such a program is, and how it ends, is the same: arguments, environment, folder, streams, session, signals, status.
It costs a third of what a start does. Tests fork (the root's `conftest.py`); chaos and figures start everything, and so
do tests with CHAMBER_TEST_FORKS=0. What no fork could be is started in any case: in another folder, of another
interpreter or with options of it, or with another value of a variable that a library read while it was loaded.
"""

import atexit
import inspect
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, AnyStr

from rig.fork_server import MOST_BYTES, Program

ROOT = Path(__file__).resolve().parent.parent
HEEDED = frozenset({"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
"""Of the interpreter's own variables those that a fork heeds."""
PLAIN = {
    "executable": None,
    "preexec_fn": None,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}
"""What a start may say beside what a fork heeds: nothing."""


class ForkServer:
    """The process that forks; it ends with this one."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CHAMBER_", "DJANGO_"))
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rig.fork_server", str(theirs.fileno())],
                env=kept,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        atexit.register(self._end)
        self._read = {name: kept.get(name) for name in self._received()}

    def _end(self) -> None:
        self._connection.close()
        self._process.wait()

    def heeds(self, environment: dict[str, str]) -> bool:
        """Return whether a fork is as a started process with this environment would be."""
        own = {name for name in os.environ.keys() | environment.keys() if name.startswith("PYTHON")} - HEEDED
        return all(environment.get(name) == os.environ.get(name) for name in own) and all(
            environment.get(name) == value for name, value in self._read.items()
        )

    def start(self, program: Program, descriptors: Sequence[int]) -> int:
        """Start a program with these files as input, output and errors; return its id."""
        with self._turn:
            socket.send_fds(self._connection, [json.dumps(asdict(program)).encode()], list(descriptors))
            return int(self._received())

    def status(self, pid: int) -> int | None:
        """Return with what a program ended, as `os.waitpid` says it; None while it runs."""
        with self._turn:
            self._connection.send(json.dumps({"pid": pid}).encode())
            found: int | None = self._received()
            return found

    def _received(self) -> Any:
        message = self._connection.recv(MOST_BYTES)
        if not message:
            raise ChildProcessError(f"The fork server ended with {self._process.wait()}.")
        return json.loads(message)


class Forking:
    """Whether programs are forked in this process."""

    on = False

    @classmethod
    def begin(cls) -> None:
        """Fork from now on, where this machine can and CHAMBER_TEST_FORKS is not 0."""
        cls.on = sys.platform.startswith("linux") and os.environ.get("CHAMBER_TEST_FORKS") != "0"

    @classmethod
    @contextmanager
    def off(cls) -> Iterator[None]:
        """Start everything inside the block."""
        before, cls.on = cls.on, False
        try:
            yield
        finally:
            cls.on = before


_servers: dict[int, ForkServer] = {}
_first = threading.Lock()


def server() -> ForkServer:
    """Return the server of this process; a fork of a test process gets one of its own."""
    with _first:
        if os.getpid() not in _servers:
            _servers[os.getpid()] = ForkServer()
        return _servers[os.getpid()]


class Popen(subprocess.Popen[AnyStr]):
    """A program of the project's Python: a fork where that is the same, else a started one."""

    forked_by: ForkServer | None = None
    """None where it was started."""

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        program = _forkable(asked)
        if program is None or not Forking.on or not server().heeds(program.environment):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        ours = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        streams = [number if given_one == -1 else given_one for number, given_one in enumerate(ours)]
        try:
            self.pid = server().start(program, streams)
            self.forked_by, self._looking, self._child_created = server(), threading.Lock(), True
        finally:
            self._close_pipe_fds(  # type: ignore[attr-defined]
                *(
                    asked[name]
                    for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
                )
            )

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        """Look whether it has ended; return its status, None while it runs."""
        if self.forked_by is None:
            found: int | None = super()._internal_poll(*given, **named)  # type: ignore[misc]
            return found
        with self._looking:
            if self.returncode is None:
                status = self.forked_by.status(self.pid)
                self.returncode = None if status is None else os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; return its status, or raise `subprocess.TimeoutExpired`."""
        if self.forked_by is None:
            return super().wait(timeout)
        deadline, pause = math.inf if timeout is None else time.monotonic() + timeout, 0.001
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        return status


def run(
    words: Sequence[str],
    *,
    text: str | None = None,
    seconds: float | None = None,
    check: bool = False,
    **options: Any,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, with what it wrote; it is killed after so many seconds."""
    given = subprocess.DEVNULL if text is None else subprocess.PIPE
    options |= {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen[str](list(words), text=True, **options) as process:
        try:
            out, err = process.communicate(text, timeout=seconds)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def of_group(group: int) -> Iterator[int]:
    """Yield the ids of the processes of a process group that have not ended yet; none where there is no `/proc`."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the program's name, which may have blanks and brackets: state, parent, group.
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in {"Z", "X"}:
                yield int(stat.parent.name)


def _forkable(asked: Mapping[str, Any]) -> Program | None:
    """Return the program that a start asks for; None where it asks for what no fork does."""
    words = [os.fspath(word) for word in asked["args"]] if isinstance(asked["args"], list) else []
    folder = os.fspath(asked["cwd"] or Path.cwd())
    if (
        words[:1] != [sys.executable]
        or Path(folder).resolve() != ROOT
        or any(asked[name] != plain for name, plain in PLAIN.items())
    ):
        return None
    words = words[1:]
    is_file = bool(words) and not words[0].startswith("-") and Path(folder, words[0]).is_file()
    if not is_file and (words[:1] not in (["-m"], ["-c"]) or len(words) == 1):
        return None
    environment = dict(os.environ if asked["env"] is None else asked["env"])
    return Program(words, environment, folder, bool(asked["start_new_session"]))
