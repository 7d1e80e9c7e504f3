"""The metrics that Redis tells: whether it answers, what waits in the queues, and how many pages are open."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import closing

import redis
from django.conf import settings
from django.core.cache import cache
from prometheus_client.core import GaugeMetricFamily, Metric

from chamber import sentinels

logger = logging.getLogger(__name__)

QUEUES = {"duties": "celery", "scheduling": "scheduling"}
"""By the names of `chamber worker --queue`, as the broker has them."""
PATIENCE_SECONDS = 1.0


def read() -> Iterator[Metric]:
    """Return the families of Redis; without one, what this process knows, which is then the only one."""
    up = GaugeMetricFamily("chamber_redis_up", "1 while Redis answers, else 0.")
    waiting = GaugeMetricFamily(
        "chamber_queue_messages", "Messages in the queue that no worker has taken.", labels=("queue",)
    )
    open_now = GaugeMetricFamily(
        "chamber_live_connections", "Sockets of open pages in all processes; each tells every few seconds."
    )
    if not settings.REDIS:
        open_now.add_metric((), cache.get(f"connections:{socket.gethostname()}:{os.getpid()}", 0))
    else:
        try:
            with closing(client()) as server:
                for queue, key in QUEUES.items():
                    waiting.add_metric((queue,), server.llen(key))
                open_now.add_metric((), _connections(server))
            up.add_metric((), 1)
        except redis.RedisError as error:
            logger.warning("Redis does not answer, /metrics goes without what it tells: %s", error)
            up.add_metric((), 0)
    yield from (up, waiting, open_now)


def client() -> redis.Redis:
    """Return a connection to Redis that waits for no longer than a second."""
    return sentinels.client(
        settings.REDIS, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
    )


def _connections(client: redis.Redis) -> int:
    """Return the sum of what processes have noted of their sockets; one that is gone is forgotten within 30 s."""
    pattern = cache.make_key("connections:*")
    keys = [key.decode() for key in client.scan_iter(match=pattern, count=1000)]
    prefix = cache.make_key("")
    return sum(int(count) for count in cache.get_many(key.removeprefix(prefix) for key in keys).values())
