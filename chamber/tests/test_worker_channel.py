"""What a worker does with a task that ends while Redis goes away."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.transport import redis

from chamber.serving.worker import Channel
from rig import servers

pytestmark = pytest.mark.redis

MAKE_CONNECTION: Any = Connection
MAKE_QUEUE: Any = Queue
"""Of a library without types."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[servers.Redis, Any, Any]]:
    """Redis, a connection to it, and a message that was taken from it by a channel of a worker."""
    monkeypatch.setattr(redis.Transport, "Channel", Channel)
    with servers.redis() as server, MAKE_CONNECTION(server.url) as connection:
        queue = MAKE_QUEUE("duties")(connection.default_channel)
        queue.declare()
        connection.Producer().publish({"duty": 1}, routing_key="duties")
        message = queue.get()
        assert message is not None
        yield server, connection, message


def test_an_acknowledgement_on_a_closed_channel_is_a_lost_connection(
    taken: tuple[servers.Redis, Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    server, connection, message = taken
    server.stop()
    message.channel.do_restore = False  # which would connect once more
    message.channel.close()
    message.ack_log_error(logging.getLogger("celery.worker"), connection.connection_errors)
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert "The connection to Redis was closed meanwhile." in caplog.text


def test_an_acknowledgement_on_an_open_channel_is_taken(
    taken: tuple[servers.Redis, Any, Any],
) -> None:
    _, _, message = taken
    message.ack()
    assert message.acknowledged
