"""Redis: whether it answers, keeps the time, and carries an announcement from one process to another."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import redis
from channels.layers import channel_layers
from django.conf import settings

from chamber import sentinels
from chamber.doctor.database import on_postgresql, skew
from chamber.doctor.finding import DoctorFinding
from chamber.serving.absence import FULL, cannot_be_used, trouble_of
from chamber.serving.outages import first_line

PATIENCE_SECONDS = 5.0
GROUP = "doctor"


def client() -> redis.Redis:
    """Return a connection to Redis that waits for no longer than five seconds."""
    return sentinels.client(
        settings.REDIS, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
    )


def answers() -> Iterator[DoctorFinding]:
    """Look whether there is a Redis where one is needed, and whether it answers."""
    if not settings.REDIS:
        if on_postgresql():
            yield DoctorFinding(
                "No Redis is named: announcements and bells do not leave their process.",
                "Set CHAMBER_REDIS to redis://host:6379/0; without it, only `chamber serve --part all` may run.",
            )
        return
    try:
        with closing(client()) as found:
            found.ping()
    except redis.AuthenticationError as error:
        yield DoctorFinding(
            cannot_be_used("Redis", first_line(error)),
            "Correct the password in CHAMBER_REDIS, redis://:password@host:6379/0.",
        )
    except (redis.RedisError, OSError, ValueError) as error:
        yield DoctorFinding(cannot_be_used("Redis", first_line(error)), _advice(error))


def _advice(error: Exception) -> str:
    if trouble_of(str(error)) is FULL:
        return "Raise maxclients of the Redis, or run fewer processes."
    if urlsplit(settings.REDIS).scheme == sentinels.SCHEME:
        return "Start the sentinels, or correct their addresses and the master's name in CHAMBER_REDIS."
    if any(sign in str(error) for sign in ("SSL", "certificate")):
        return "Correct CHAMBER_REDIS: rediss:// where the server speaks TLS, its authority in ssl_ca_certs."
    return "Start it, or correct its address in CHAMBER_REDIS."


def clock() -> Iterator[DoctorFinding]:
    """Look whether this machine and Redis' agree on the time."""
    if not settings.REDIS:
        return
    with closing(client()) as found:
        before = datetime.now(UTC).timestamp()
        seconds, microseconds = found.time()
        after = datetime.now(UTC).timestamp()
    theirs = seconds + microseconds / 1_000_000
    yield from skew("Redis' machine", before - theirs if theirs < before else -max(0.0, theirs - after))


def channel_layer() -> Iterator[DoctorFinding]:
    """Send an announcement through the channel layer and look whether it arrives."""
    try:
        arrived = asyncio.run(_sent_and_received())
    except (TimeoutError, redis.RedisError, OSError) as error:
        arrived, why = False, f" ({first_line(error)})"
    else:
        why = ""
    if not arrived:
        yield DoctorFinding(
            f"An announcement sent through the channel layer did not arrive{why}: open pages hear of nothing.",
            "Check that all processes name the same Redis, and that it allows publish and subscribe.",
        )


async def _sent_and_received() -> bool:
    layer = channel_layers.make_backend("default")  # of this event loop, which ends with the question
    mine = await layer.new_channel()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await layer.group_add(GROUP, mine)
            await layer.group_send(GROUP, {"type": "live.changed", "topic": "doctor", "version": 1})
            return bool((await layer.receive(mine))["topic"] == "doctor")
    finally:
        if hasattr(layer, "close_pools"):
            await layer.close_pools()
