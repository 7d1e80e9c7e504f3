"""Starts Python programs by a fork of a process that has the libraries loaded: each costs a third of what it did.

    python -m rig.fork_server FD     # what `rig.processes` starts: it listens on this socket, and ends with it

Whatever reads settings or the environment is not loaded here: a program meets them as if it were started. Which
variables the libraries read while they were loaded is told to whoever asks, since no fork could heed another value.
"""

import gc
import io
import json
import os
import runpy
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import BuiltinImporter
from typing import Any
from unittest import mock

MOST_BYTES = 1 << 20
"""Of a message, which has the whole environment of a program."""
LOADED = (
    # The web, and what speaks it.
    "gunicorn.app.base",
    "gunicorn.arbiter",
    "gunicorn.workers.gthread",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "websockets.asyncio.client",
    "httpx",
    "requests",
    "click",
    # Django and what stands on it, as far as it asks for no settings.
    "django.core.handlers.asgi",
    "django.core.handlers.wsgi",
    "django.core.mail",
    "django.core.management.commands.migrate",
    "django.contrib.postgres.apps",
    "django.contrib.staticfiles.handlers",
    "django.db.models",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.forms",
    "django.template.backends.django",
    "django.test.signals",
    "django.views.generic",
    "channels.generic.http",
    "channels.generic.websocket",
    "rest_framework.fields",
    "rest_framework.settings",
    "django_htmx.middleware",
    "whitenoise.middleware",
    "csp.middleware",
    # What Django's settings name by words.
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "kombu.transport.redis",
    "channels_redis.core",
    "redis.asyncio",
    "psycopg_pool",
    "psycopg.types.json",
    # What the project's modules load.
    "argon2",
    "cryptography.fernet",
    "dateutil.rrule",
    "fido2.server",
    "jinja2",
    "jsonschema",
    "jwt",
    "prometheus_client",
    "pydantic",
    "pydantic.deprecated.decorator",
    "qrcode.image.svg",
    "tzlocal",
    "yaml",
    "zxcvbn",
    # What import-linter holds to be free of Django, settings and clocks.
    "agentlink.protocol.messages",
    "agentlink.protocol.logs",
    "scheduling.checker",
    "scheduling.engine",
    "scheduling.scenario",
    "scheduling.simulation",
)


@dataclass(frozen=True, slots=True)
class Program:
    """What is to run, as `subprocess.Popen` was asked for it."""

    words: list[str]
    """After the interpreter: `-m`, a module and its arguments; `-c` and code; or a file and its arguments."""
    environment: dict[str, str]
    folder: str
    own_session: bool


WITHOUT_EFFECT = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "PWD", "TERM", "XDG_RUNTIME_DIR"}
)
"""Variables that are read for gunicorn's control socket, which Chamber has none of, and for its folder, which is this
one's; for colours of Celery's log; and for translations of the standard library's words, which there are none of.
"""


@contextmanager
def recorded(read: set[str]) -> Iterator[None]:
    """Add to `read` the names of all variables of the environment that are asked for inside the block."""
    kind = type(os.environ)
    get = kind.__getitem__

    def getting(self: Any, key: str) -> str:
        read.add(key)
        return get(self, key)

    with mock.patch.object(kind, "__getitem__", getting):
        yield


def load() -> set[str]:
    """Load what programs have in common, and return the names of the variables that this read."""
    import_module("wsgiref.handlers")  # copies the whole environment, for programs that speak CGI
    read: set[str] = set()
    with recorded(read):
        for name in LOADED:
            import_module(name)
    gc.collect()
    gc.freeze()
    return read - WITHOUT_EFFECT


def serve(connection: socket.socket) -> tuple[Program, list[int]] | None:
    """Answer until the other end is closed, then return None; in each forked child what it is to run, and on what."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
        if not message:
            return None
        asked = json.loads(message)
        if "pid" in asked:
            connection.send(json.dumps(_status(asked["pid"])).encode())
            continue
        pid = os.fork()
        if pid == 0:
            return Program(**asked), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(json.dumps(pid).encode())


def _status(pid: int) -> int | None:
    """Return with what a child ended, as `waitpid` says it; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def become(program: Program, descriptors: list[int]) -> None:
    """Have this child be what a started process would be: its files, folder, environment, session and streams."""
    if program.own_session:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    _open_streams(unbuffered=bool(os.environ.get("PYTHONUNBUFFERED")))


def _open_streams(*, unbuffered: bool) -> None:
    """Open input, output and errors as the interpreter does when it starts."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        was: io.TextIOWrapper = getattr(sys, f"__{name}__")
        mode, size = ("rb", -1) if number == 0 else ("wb", 0 if unbuffered else -1)
        raw = open(number, mode, buffering=size, closefd=False)  # noqa: SIM115 - it stays open
        stream = io.TextIOWrapper(
            raw,  # an unbuffered one, as the interpreter itself wraps it
            encoding=was.encoding,
            errors=was.errors,
            newline=None if number == 0 else "\n",
            line_buffering=not unbuffered and (number == 2 or os.isatty(number)),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(words: list[str], folder: str) -> None:
    """Run a module, code or a file as the program that this process is."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], folder
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
        space = vars(sys.modules["__main__"])
        kept = {"__builtins__": space["__builtins__"], "__loader__": BuiltinImporter, "__annotations__": {}}
        space.clear()
        space.update(kept, __name__="__main__", __doc__=None, __package__=None, __spec__=None)
        exec(compile(words[1], "<string>", "exec"), space)  # noqa: S102 - what `python -c` does
    else:
        sys.argv, sys.path[0] = list(words), os.path.dirname(os.path.realpath(words[0]))  # noqa: PTH120
        runpy.run_path(words[0], run_name="__main__")


def main(number: int) -> None:
    """Load, say what was read of the environment, and serve."""
    with socket.socket(fileno=number) as connection:
        read = load()
        if threading.active_count() > 1:
            raise SystemExit("A library has started a thread, which no fork would have.")
        connection.send(json.dumps(sorted(read)).encode())
        asked = serve(connection)
        if asked is not None:
            connection.detach()
    if asked is not None:
        become(*asked)
        run(asked[0].words, asked[0].folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
