"""What processes count: each in its memory, and for all of them in Redis.

Each adds what it counted to one hash in Redis every few seconds (`flush`), so that it does not matter which process is
scraped. Without Redis one process is all. What Redis loses begins at zero again, which Prometheus takes for a restart.
"""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import closing

import redis
from django.conf import settings

from chamber.metrics.processes import client

logger = logging.getLogger(__name__)

Field = tuple[str, ...]
"""What is counted: words without tabs."""


class Counts:
    """Amounts by field, under a name that no other counts have; for several threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._amounts: Counter[Field] = Counter()
        self._alone: Counter[Field] = Counter()

    def grow(self, amounts: Mapping[Field, float]) -> None:
        """Add amounts."""
        with self._lock:
            _grow(self._amounts, amounts)

    def take(self) -> Mapping[Field, float]:
        """Return what was counted since this was last done."""
        with self._lock:
            taken, self._amounts = self._amounts, Counter()
        return taken

    def flush(self) -> None:
        """Add what this process counted to what all have; what cannot be added is kept for the next time."""
        taken = self.take()
        if not settings.REDIS:
            _grow(self._alone, taken)
            return
        if not taken:
            return
        try:
            with closing(client()) as server:
                pipeline = server.pipeline(transaction=True)
                for field, amount in taken.items():
                    pipeline.hincrbyfloat(self._key(), "\t".join(field), amount)
                pipeline.execute()
        except redis.RedisError as error:
            logger.debug("%s are counted later: %s", self._name, error)
            self.grow(taken)

    def read(self) -> Mapping[Field, float] | None:
        """Return what all processes counted, with all of this one; None while Redis is away."""
        self.flush()
        if not settings.REDIS:
            return dict(self._alone)
        try:
            with closing(client()) as server:
                stored = server.hgetall(self._key())
        except redis.RedisError as error:
            logger.warning("Redis does not answer, /metrics goes without %s: %s", self._name, error)
            return None
        return {_field(field): float(amount) for field, amount in stored.items()}

    def forget(self) -> None:
        """Drop what was counted here."""
        self.take()
        self._alone.clear()

    def _key(self) -> str:
        return f"{settings.CHANNEL_LAYERS['default']['CONFIG']['prefix']}:{self._name}"


def _grow(amounts: Counter[Field], added: Mapping[Field, float]) -> None:
    for field, amount in added.items():
        amounts[field] += amount  # type: ignore[assignment]  # amounts are floats here


def _field(stored: bytes | str) -> Field:
    return tuple((stored if isinstance(stored, str) else stored.decode()).split("\t"))
