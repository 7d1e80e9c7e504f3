"""Versions of topics in Redis, known to all processes, and their announcements.

Redis counts: a version is the larger of Redis' own clock in microseconds and one more than the last, so neither
several processes nor their clocks matter. Topics share a fixed number of slots of one hash, so it never grows; two
topics of one slot cost each other a fetch in vain now and then.

The hash is lost as a whole or not at all, and begins with the field `life`: the version of every slot that is not
set. A Redis that was restarted, emptied or replaced thus answers with numbers that no page knows, and every page
fetches again.
"""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chamber import sentinels

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

SLOTS = 65_536
LIFE = "life"
SECONDS = 1.0
"""How long a round trip may take before Redis counts as away."""
AWAY_SECONDS = 1.0
"""How long nobody asks again after a failure: pages do not queue up behind a server that does not answer."""

BEGIN = """
local time = redis.call('TIME')
redis.call('HSETNX', KEYS[1], 'life', string.format('%.0f', time[1] * 1000000 + time[2]))
return redis.call('HGET', KEYS[1], 'life')
"""
RAISE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('HSETNX', KEYS[1], 'life', string.format('%.0f', now))
local least = math.max(now, tonumber(redis.call('HGET', KEYS[1], 'life')) + 1)
local raised = {}
for place, slot in ipairs(ARGV) do
  local last = tonumber(redis.call('HGET', KEYS[1], slot) or '0')
  raised[place] = string.format('%.0f', math.max(least, last + 1))
  redis.call('HSET', KEYS[1], slot, raised[place])
end
return raised
"""

Message = Callable[[str, int], bytes]
"""(topic, version) -> message as the channel layer reads it"""


class Shared:
    """The versions in one Redis. Every method survives its absence, and says so once in the log."""

    def __init__(self, url: str, *, prefix: str, group: Callable[[str], str], message: Message) -> None:
        self._key = f"{prefix}:versions"
        self._prefix, self._group, self._message = prefix, group, message
        # One retry at once: a connection of the pool that broke while it was idle is no outage.
        self._redis = sentinels.client(
            url,
            socket_timeout=SECONDS,
            socket_connect_timeout=SECONDS,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._begin, self._raise = self._redis.register_script(BEGIN), self._redis.register_script(RAISE)
        self._ask_from = 0.0
        self._away = False
        self._lock = threading.Lock()

    def versions(self, topics: Sequence[str]) -> list[int] | None:
        """Return the versions in the topics' order (one round trip, two in a new life); None while Redis is away."""
        if not topics:
            return []
        return self._answer(lambda: self._versions(topics))

    def announce(self, topics: Sequence[str]) -> bool:
        """Raise the topics' versions and tell who listens (three round trips); return False while Redis is away.

        The version comes first: whoever is told finds at least that version, and so does whoever begins to listen
        after it was looked who does.
        """
        return self._answer(lambda: self._announce(topics)) or False

    def forget(self) -> None:
        """Begin a new life."""
        self._answer(lambda: self._redis.delete(self._key))

    def _versions(self, topics: Sequence[str]) -> list[int]:
        life, *found = self._redis.hmget(self._key, [LIFE, *map(slot, topics)])
        if life is None:
            life = self._begin(keys=[self._key])
            found = [None] * len(topics)
        return [int(number or life) for number in found]

    def _announce(self, topics: Sequence[str]) -> bool:
        raised = self._raise(keys=[self._key], args=[slot(topic) for topic in topics])
        # The name that the layer of channels_redis gives a group's channel.
        channels = [f"{self._prefix}__group__{self._group(topic)}" for topic in topics]
        listening = self._redis.pubsub_numsub(*channels)
        pipeline = self._redis.pipeline(transaction=False)
        for topic, number, channel, (_, count) in zip(topics, raised, channels, listening, strict=True):
            if count:
                pipeline.publish(channel, self._message(topic, int(number)))
        pipeline.execute()
        return True

    def _answer(self, ask: Callable[[], Answer]) -> Answer | None:
        if time.monotonic() < self._ask_from:
            return None
        try:
            answer = ask()
        except redis.RedisError as error:
            self._note(error)
            return None
        if self._away:
            self._note(None)
        return answer

    def _note(self, error: Exception | None) -> None:
        """Remember that Redis went away or came back, and say once that it went."""
        with self._lock:
            self._ask_from = 0.0 if error is None else time.monotonic() + AWAY_SECONDS
            changed, self._away = self._away is not (error is not None), error is not None
        if changed and error is not None:
            logger.warning("Pages are not told of changes, they catch up by polling: %s", error)


def slot(topic: str) -> str:
    """Return the field of the hash in which the topic's version is kept."""
    return str(zlib.crc32(topic.encode()) % SLOTS)
