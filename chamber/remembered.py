"""What may be lost and is asked for very often: in Redis for all processes, and in the memory of each that asked.

Who reads it has to know whether it still holds, by the versions in it: a process does not hear what another one drops.
Where the cache is away, nothing is found but what this process has.

Redis holds JSON and nothing else: whoever can write there may show people wrong pages, but has no process run code.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from django.core.cache import cache, caches
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from pydantic import TypeAdapter, ValidationError
from redis import Redis, RedisError

from chamber import __version__

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Value = TypeVar("Value")

AWAY_SECONDS = 1.0


class Plain:
    """Values of the shared cache as JSON; what is none, as of a release before, is as if it were not there."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Return the value as Redis holds it: a whole number so that it can be counted up there."""
        return json.dumps(value).encode()

    @staticmethod
    def loads(data: bytes) -> Any:
        """Return the value."""
        try:
            return json.loads(data)
        except ValueError:
            return None


class SharedCache(RedisCache):
    """Django's cache in Redis with a client that is kept: making one costs more than what it is asked."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = _KeptClient

    def add_up(self, key: str, by: int, seconds: int) -> int:
        """Add to a number, which is forgotten after so long from its first, and return it (one round trip)."""
        client: Redis = self._cache.get_client(write=True)
        name = self.make_and_validate_key(key)
        pipeline = client.pipeline(transaction=False)
        pipeline.set(name, 0, ex=seconds, nx=True)
        pipeline.incrby(name, by)
        return int(pipeline.execute()[1])


class _KeptClient(RedisCacheClient):
    _kept: Redis | None = None

    def get_client(self, key: Any = None, *, write: bool = False) -> Redis:
        if self._kept is None:
            self._kept = super().get_client(key, write=write)
        return self._kept


class Remembered(Generic[Value]):
    """Values of one kind, each until a moment of its own; `near` names the cache that holds them in this process.

    There an entry is when it ends, in seconds since 1970, and the value; in the cache of all it is the JSON of this.
    """

    def __init__(self, near: str, kind: type[Value]) -> None:
        self._near = near
        self._entry: TypeAdapter[tuple[float, Value]] = TypeAdapter(tuple[float, kind])  # type: ignore[valid-type]  # told by the caller

    def find(self, *keys: str, suits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """Return the first value that suits, of this process or else of all (one round trip); None without any."""
        near, keys = caches[self._near], tuple(map(self._key, keys))
        found = self._suiting(near.get_many(keys), keys, suits)
        if found is None:
            texts: dict[str, str] = safely(lambda: cache.get_many(keys), otherwise={})
            shared = dict(self._entries(texts))
            for key, entry in shared.items():
                near.set(key, entry, entry[0] - time.time())
            found = self._suiting(shared, keys, suits)
        return found

    def set(self, key: str, value: Value, seconds: float) -> None:
        """Keep a value for so long."""
        key, entry = self._key(key), (time.time() + seconds, value)
        caches[self._near].set(key, entry, seconds)
        text = self._entry.dump_json(entry).decode()
        safely(lambda: cache.set(key, text, seconds), otherwise=None)

    def delete(self, key: str) -> None:
        """Drop a value, here and for whoever does not have it yet."""
        key = self._key(key)
        caches[self._near].delete(key)
        safely(lambda: cache.delete(key), otherwise=False)

    def _key(self, key: str) -> str:
        # While two versions of the program run, neither reads what the other one keeps.
        return f"{self._near}:{__version__}:{key}"

    def _entries(self, texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[float, Value]]]:
        """Yield what can be read of what the cache of all holds."""
        for key, text in texts.items():
            try:
                yield key, self._entry.validate_json(text)
            except ValidationError as error:
                logger.warning("What the cache holds of %s is left out: %s", key, error.errors()[0]["msg"])

    @staticmethod
    def _suiting(
        found: Mapping[str, tuple[float, Value]], keys: Iterable[str], suits: Callable[[Value], bool]
    ) -> Value | None:
        now = time.time()
        entries = (found[key] for key in keys if key in found)
        return next((value for until, value in entries if now < until and suits(value)), None)


_ask_from = 0.0


def safely(ask: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Return what the cache answers; `otherwise` where it is away, and for a second after."""
    global _ask_from  # noqa: PLW0603 - one cache serves the process
    if time.monotonic() < _ask_from:
        return otherwise
    try:
        return ask()
    except (RedisError, OSError) as error:
        _ask_from = time.monotonic() + AWAY_SECONDS
        logger.warning("The cache is away, every part of a page is rendered anew: %s", error)
        return otherwise
