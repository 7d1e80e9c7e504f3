"""Redis behind Sentinel: an address that names the sentinels, who tell which server is the master at the moment.

    redis+sentinel://[user:password@]host[:port],host[:port],.../master[/database]

User and password are those of the Redis; the sentinels are asked without.
"""

from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

import redis
from redis.sentinel import Sentinel, SentinelConnectionPool

SCHEME = "redis+sentinel"
PORT = 26379


@dataclass(frozen=True, slots=True)
class Sentinels:
    """What such an address says."""

    hosts: tuple[tuple[str, int], ...]
    master: str
    database: int
    username: str | None
    password: str | None

    @classmethod
    def parse(cls, url: str) -> "Sentinels | None":
        """Return what the address says; None for that of a single Redis; raise `ValueError` where it is neither."""
        parts = urlsplit(url)
        if parts.scheme != SCHEME:
            return None
        userinfo, _, places = parts.netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        master, _, database = parts.path.strip("/").partition("/")
        hosts = tuple(_host(place) for place in places.split(","))
        if not master or (master.isdigit() and not database) or parts.query or parts.fragment:
            raise ValueError("the address names no sentinel, or no master")
        return cls(
            hosts, unquote(master), int(database or 0), unquote(username) or None, unquote(password) or None
        )

    @property
    def login(self) -> dict[str, Any]:
        """What a connection to the master is made with, besides where it is."""
        given = {"username": self.username, "password": self.password, "db": self.database}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def broker_url(self) -> str:
        """The same as Celery wants it: an address for each sentinel; the master is an option of its transport."""
        login = quote(self.username or "", safe="")
        login += f":{quote(self.password, safe='')}@" if self.password else ""
        return ";".join(f"sentinel://{login}{host}:{port}/{self.database}" for host, port in self.hosts)


def _host(place: str) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    if not parts.hostname:
        raise ValueError("a sentinel has no host")
    return parts.hostname, parts.port or PORT


class MasterPool(SentinelConnectionPool):
    """Connections to whichever server the sentinels name as the master when one is made."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return the pool for an address; `options` are those of its connections."""
        found = Sentinels.parse(url)
        if found is None:
            raise ValueError("the address names no sentinels")
        waits = {name: value for name, value in options.items() if name.startswith("socket_")}
        watchers = Sentinel(found.hosts, sentinel_kwargs=waits)  # type: ignore[no-untyped-call]  # redis
        return cls(found.master, watchers, **found.login, **options)


def client(url: str, **options: Any) -> redis.Redis:
    """Return a client for the Redis at `url`, be it one server or one that sentinels watch; it connects when asked."""
    if urlsplit(url).scheme != SCHEME:
        return redis.Redis.from_url(url, **options)
    return redis.Redis.from_pool(MasterPool.from_url(url, **options))
