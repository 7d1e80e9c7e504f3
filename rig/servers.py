"""Throw-away PostgreSQL and Redis servers on free loopback ports, in a temporary folder.

    python -m rig.servers                  # starts both, prints what to export, stops them when interrupted
    python -m rig.servers pytest workloads # runs a command with both, and returns its status

PostgreSQL refuses to run as root: there it runs as the user `postgres` that Debian's package makes.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import redis as redis_client

START_SECONDS = 90.0
DEBIAN = Path("/usr/lib/postgresql")
DATABASE = "chamber"
PORTS = range(20_000, 32_768)
"""What `free_port` chooses among."""


class ServerFailed(Exception):  # noqa: N818 - an outcome of the machine
    """A server could not be started; the message ends with its own last lines."""


def postgresql_folder() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest that is installed; None without a server."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def redis_program() -> str | None:
    """Return Redis' server program; None where there is none."""
    return shutil.which("redis-server")


def nginx_program() -> str | None:
    """Return the proxy's program, which Debian keeps where only root looks; None where there is none."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def free_port() -> int:
    """Return a port of the loopback address that nobody listened on a moment ago.

    None of those that the system gives to outgoing connections: a server that is down for a moment keeps its port.
    Raises `ServerFailed` where a hundred are taken.
    """
    for _ in range(100):
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerFailed(f"No port of {PORTS.start} to {PORTS.stop - 1} is free.")


class Server(ABC):
    """One server process that may be stopped, killed and started again on the same port and data."""

    name = "server"
    start_seconds = START_SECONDS
    own_session = False
    """Whether Ctrl-C at the terminal is kept from it, so that whoever started it stops it in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self.process is not None, f"{self.name} does not run"  # noqa: S101
        return self.process.pid

    @abstractmethod
    def command(self) -> list[str]:
        """Return what is run."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server takes requests now."""

    def user(self) -> str | None:
        """Return whom the process runs as; None for whoever started it."""
        return None

    def start(self) -> None:
        """Start the process and wait until it answers; raise `ServerFailed`."""
        log = self.folder / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                user=self.user(),
                cwd=self.folder,
                start_new_session=self.own_session,
            )
        _wait(self.answers, self.process, f"{self.name} did not start", log, self.start_seconds)

    def stop(self, sign: signal.Signals = signal.SIGINT) -> None:
        """Stop the process: in order, or at once with `SIGKILL`. Nothing where it does not run."""
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, *, away_seconds: float = 0.0, sign: signal.Signals = signal.SIGINT) -> None:
        """Stop, stay away, and start again with the same data."""
        self.stop(sign)
        time.sleep(away_seconds)
        self.start()


class PostgreSQL(Server):
    """A cluster of its own. `durable=False` leaves out syncing to disk: the data outlive a kill, not the machine."""

    name = "PostgreSQL"

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder)
        programs = postgresql_folder()
        if programs is None:
            raise ServerFailed("PostgreSQL's server is not installed.")
        self._programs, self._durable = programs, durable
        self._data = folder / "data"

    @property
    def url(self) -> str:
        """The database as a URL."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """Return the URL of a database of this server."""
        return f"postgresql://chamber@127.0.0.1:{self.port}/{database}"

    def user(self) -> str | None:
        """Return `postgres` where we are root."""
        return "postgres" if os.geteuid() == 0 else None

    def create(self) -> None:
        """Make the cluster's files, start it, and make the database."""
        user = self.user()
        if user is not None:
            shutil.chown(self.folder, user)
        initdb = [str(self._programs / "initdb"), "-D", str(self._data), "-U", "chamber", "-A", "trust"]
        initdb += ["--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        done = subprocess.run(initdb, user=user, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed: {done.stderr[-500:]}")
        self.start()
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def command(self) -> list[str]:
        """Return the server's command, with room for a whole deployment's connections."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "256MB",
            "fsync": "on" if self._durable else "off",
            # Without it, the last half second of answered commits would be lost with the process.
            "synchronous_commit": "on",
            "max_wal_size": "2GB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self._data), *options]

    def answers(self) -> bool:
        """Return whether a connection can be made."""
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()
            return True
        return False


class Redis(Server):
    """A Redis that keeps nothing on disk: what it held is gone when it stops."""

    name = "Redis"

    def __init__(self, folder: Path, password: str = "") -> None:
        super().__init__(folder)
        self._password = password

    @property
    def url(self) -> str:
        """The server as a URL."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        """Return the server's command."""
        program = redis_program()
        if program is None:
            raise ServerFailed("Redis' server is not installed.")
        password = ["--requirepass", self._password] if self._password else []
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        return [program, *words, *password]

    def answers(self) -> bool:
        """Return whether it answers a ping."""
        with suppress(redis_client.RedisError), redis_client.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


def _wait(
    ready: Callable[[], bool], process: "subprocess.Popen[bytes]", failed: str, log: Path, seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise ServerFailed(f"{failed}: {log.read_text(errors='replace')[-1500:]}")
        time.sleep(0.05)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="chamber-server-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgresql(*, durable: bool = False) -> Iterator[PostgreSQL]:
    """Run a PostgreSQL server with an empty database inside the block; raise `ServerFailed`."""
    with _folder() as folder:
        server = PostgreSQL(folder, durable=durable)
        try:
            server.create()
            yield server
        finally:
            server.stop()


@contextmanager
def redis(password: str = "") -> Iterator[Redis]:
    """Run a Redis server inside the block; raise `ServerFailed`."""
    with _folder() as folder:
        server = Redis(folder, password)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def environment(database: PostgreSQL, bell: Redis) -> dict[str, str]:
    """Return what tells Chamber to use these servers."""
    return {"CHAMBER_DATABASE": database.url, "CHAMBER_REDIS": bell.url}


def main(command: Sequence[str]) -> int:
    """Run the command with both servers and return its status; without one, print their addresses and wait."""
    with ExitStack() as stack:
        variables = environment(stack.enter_context(postgresql()), stack.enter_context(redis()))
        if command:
            return subprocess.run(command, env=os.environ | variables, check=False).returncode
        print("\n".join(f"export {name}={value}" for name, value in variables.items()), flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
