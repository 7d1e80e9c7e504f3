"""Start the demo: one process, one data folder, one port; stopped by Ctrl-C, started again on the same data."""

import asyncio
import fcntl
import os
import secrets
import shutil
import socket
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator


def run(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    reset: bool = False,
    data: str | None = None,
    with_stream: bool = True,
) -> int:
    """Run until Ctrl-C; return the exit status. What prevents a start is one sentence on stderr and status 1."""
    folder = Path(data or os.environ.get("CHAMBER_DATA") or ".demo").resolve()
    try:
        listener = _listen(host, port)
        with listener, _sole_use(folder):
            if reset:
                _empty(folder)
            _configure(folder, host, port)
            _refuse_open(host)
            return _serve(listener, with_stream=with_stream)
    except _CannotStartError as error:
        print(error, file=sys.stderr)
        return 1


class _CannotStartError(Exception):
    """Why the demo cannot start, as a sentence with what to do."""


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, so that a busy port is known before anything else happens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        other = port + 1 if port < 65535 else 8000
        raise _CannotStartError(
            f"Chamber cannot listen on {host} port {port} ({error.strerror}). Choose another: make demo PORT={other}"
        ) from error
    listener.setblocking(False)
    return listener


@contextmanager
def _sole_use(folder: Path) -> "Iterator[None]":
    """Hold the data folder's lock: two processes on one SQLite file would both schedule."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        _refuse_folder(folder, error)
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _CannotStartError(
                f"Another Chamber runs on the data in {folder}; stop it first, or name another folder "
                "with CHAMBER_DATA."
            ) from error
        yield


def _refuse_folder(folder: Path, error: OSError) -> NoReturn:
    raise _CannotStartError(
        f"Chamber cannot write its data to {folder} ({error.strerror}); name a folder that it may write "
        "with CHAMBER_DATA."
    ) from error


def _empty(folder: Path) -> None:
    """Remove all data but the lock that is held."""
    for entry in folder.iterdir():
        if entry.name == "lock":
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _configure(folder: Path, host: str, port: int) -> None:
    """Set the environment that `chamber.settings` reads, and load Django."""
    key = folder / "secret-key"
    try:
        if not key.exists():
            key.touch(mode=0o600)
            key.write_text(secrets.token_urlsafe(50))
    except OSError as error:
        _refuse_folder(folder, error)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
    os.environ["CHAMBER_DATA"] = str(folder)
    os.environ["CHAMBER_SECRET_KEY_FILE"] = str(key)
    os.environ["CHAMBER_DEMO"] = "1"
    # An example organisation has no business in anybody's servers: the demo is one process with a file.
    for name in ("CHAMBER_DATABASE", "CHAMBER_DATABASE_FILE", "CHAMBER_REDIS", "CHAMBER_REDIS_FILE"):
        os.environ.pop(name, None)
    # What runs in the demo runs for minutes: a GPU that was idle for one of them is told of.
    os.environ.setdefault("CHAMBER_IDLE_MINUTES", "1")
    # Whoever looks at a demo looks at its pages: each step of each workload would fill the terminal.
    os.environ.setdefault("CHAMBER_LOG_LEVEL", "WARNING")
    named = f"[{host}]" if ":" in host else host
    os.environ.setdefault("CHAMBER_HOSTS", f"localhost,127.0.0.1,[::1],{named}")
    os.environ["CHAMBER_DEMO_URL"] = f"http://{named}:{port}"
    import django

    from chamber.collecting import without_collecting

    with without_collecting():
        django.setup()


def _refuse_open(host: str) -> None:
    from chamber.serving.start import CannotStart, refuse_open

    try:
        refuse_open(host)
    except CannotStart as error:
        forward = "To show it elsewhere, forward its port: ssh -L 8000:127.0.0.1:8000 MACHINE."
        raise _CannotStartError(f"{error} {forward}") from error


def _serve(listener: socket.socket, *, with_stream: bool) -> int:
    from django.core.management import call_command

    from chamber.demo import organisation
    from chamber.demo.process import serve

    call_command("migrate", verbosity=0, interactive=False)
    setting = organisation.set_up()
    with suppress(KeyboardInterrupt):
        asyncio.run(
            serve(listener, url=os.environ["CHAMBER_DEMO_URL"], setting=setting, with_stream=with_stream)
        )
    print("Stopped. The data is kept; `make demo` goes on with it, `make demo RESET=1` starts afresh.")
    return 0
