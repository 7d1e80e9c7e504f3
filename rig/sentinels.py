"""A Redis with a replica and three sentinels on loopback, which make the replica the master when that is away."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import redis

from rig import servers

MASTER, PASSWORD = "chamber", "a/secret"
FAILOVER_SECONDS = 60.0


class Member(servers.Redis):
    """One of the two servers; it has a password."""

    def __init__(self, folder: Path, master: "Member | None" = None) -> None:
        super().__init__(folder)
        self._master = master

    def command(self) -> list[str]:
        """Return the server's command."""
        words = [*super().command(), "--requirepass", PASSWORD, "--masterauth", PASSWORD]
        return words if self._master is None else [*words, "--replicaof", "127.0.0.1", str(self._master.port)]

    def answers(self) -> bool:
        """Return whether it answers a ping, and has what it replicates."""
        with suppress(redis.RedisError), redis.Redis(port=self.port, password=PASSWORD) as client:
            info = client.info("replication")
            return self._master is None or info["master_link_status"] == "up"
        return False


class SentinelServer(servers.Redis):
    """A sentinel; it keeps what it learns in its own file."""

    name = "Redis' sentinel"

    def __init__(self, folder: Path, master: Member) -> None:
        super().__init__(folder)
        self._file = folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor {MASTER} 127.0.0.1 {master.port} 2",
            f"sentinel auth-pass {MASTER} {PASSWORD}",
            f"sentinel down-after-milliseconds {MASTER} 1000",
            f"sentinel failover-timeout {MASTER} 5000",
        ]
        self._file.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        """Return the sentinel's command."""
        return [super().command()[0], str(self._file), "--sentinel"]


class WatchedRedis:
    """The servers and the sentinels. `url` is what `CHAMBER_REDIS` is to be."""

    def __init__(self, members: list[Member], watchers: list[SentinelServer]) -> None:
        self.members, self.watchers = members, watchers
        hosts = ",".join(f"127.0.0.1:{watcher.port}" for watcher in watchers)
        self.url = f"redis+sentinel://:{PASSWORD.replace('/', '%2F')}@{hosts}/{MASTER}/0"

    def master_port(self) -> int:
        """Return the port of the server that the first sentinel calls the master."""
        with redis.Redis(port=self.watchers[0].port) as client:
            return int(client.sentinel_get_master_addr_by_name(MASTER)[1])

    def wait_until_watched(self) -> None:
        """Wait until every sentinel knows the replica and the other two."""
        for watcher in self.watchers:
            with redis.Redis(port=watcher.port) as client:
                _until(partial(_knows_all, client))

    def fail_over(self) -> None:
        """Kill the master, and wait until the sentinels made the other server one."""
        before = self.master_port()
        next(member for member in self.members if member.port == before).stop(signal.SIGKILL)
        _until(lambda: self.master_port() != before)


def _knows_all(client: redis.Redis) -> bool:
    state = cast("dict[str, Any]", client.sentinel_master(MASTER))
    return (int(state["num-slaves"]), int(state["num-other-sentinels"])) == (1, 2)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FAILOVER_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise servers.ServerFailed("The sentinels did not agree in time.")
        time.sleep(0.1)


@contextmanager
def watched(folder: Path) -> Iterator[WatchedRedis]:
    """Run two servers and three sentinels inside the block; raise `ServerFailed`."""
    with ExitStack() as stack:

        def begun(server: servers.Redis) -> None:
            stack.callback(server.stop)
            server.start()

        def place(name: str) -> Path:
            (folder / name).mkdir()
            return folder / name

        master = Member(place("master"))
        begun(master)
        replica = Member(place("replica"), master)
        begun(replica)
        watchers = [SentinelServer(place(f"sentinel-{number}"), master) for number in range(3)]
        for watcher in watchers:
            begun(watcher)
        found = WatchedRedis([master, replica], watchers)
        found.wait_until_watched()
        yield found
