"""The workers: one process that schedules, and processes for all other duties, over Celery."""

import logging
import warnings
from typing import Any

from celery.apps.worker import Worker
from celery.exceptions import CDeprecationWarning, CPendingDeprecationWarning, SecurityWarning
from celery.worker import state
from celery.worker.consumer import Consumer
from django.db import connection
from kombu.transport import redis

from chamber import stores
from chamber.celery import app
from chamber.serving.grace import Grace

logger = logging.getLogger(__name__)

SCHEDULING = "scheduling"
DUTIES = "duties"
QUEUES = {SCHEDULING: "scheduling", DUTIES: app.conf.task_default_queue}
LOOK_FOR_REDIS_EVERY_SECONDS = 1
LEAVING_SECONDS = 1
"""How long a worker that was asked to stop waits for a connection to the database, at each try."""


def run(*, queue: str, concurrency: int, grace_seconds: int) -> int:
    """Work until a signal; return the exit status. What is under way is finished first, within the grace."""
    warnings.simplefilter("ignore", SecurityWarning)  # about a user whom the container does not have
    redis.Transport.Channel = Channel
    stores.name_connections(app, stores.worker_name(queue))
    worker = _CeleryWorker(
        app=app,
        hostname=f"{queue}@%h",
        queues=[QUEUES[queue]],
        # Cycles run one after the other in the main thread; nothing else is in that process.
        pool="solo" if queue == SCHEDULING else "threads",
        concurrency=1 if queue == SCHEDULING else concurrency,
        consumer_cls=_Consumer,
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        # Told to nobody, and while Redis is away it would be tried for ever: the worker could not stop.
        without_heartbeat=True,
        grace_seconds=grace_seconds,
    )
    logger.info("This worker takes %s.", "cycles" if queue == SCHEDULING else "duties")
    worker.start()
    logger.info("This worker has stopped.")
    return int(worker.exitcode or 0)


class Channel(redis.Channel):
    """A channel that is closed with its connection says so to whatever still wants to go through it.

    A task that ends while Redis goes away is acknowledged on it a moment later: for kombu that was a fault of the code,
    which ended the worker.
    """

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection is None:
            raise ConnectionError("The connection to Redis was closed meanwhile.")
        found: dict[str, Any] = super()._connparams(asynchronous)  # type: ignore[no-untyped-call]
        return found


class _CeleryWorker(Worker):
    """Celery's worker with our way to stop."""

    def __init__(self, *, grace_seconds: int, **options: Any) -> None:
        self._grace = Grace(self._ask, seconds=grace_seconds)
        super().__init__(**options)

    def install_platform_tweaks(self, worker: Worker) -> None:  # noqa: ARG002 - Celery's signature
        """Handle the signals by ourselves, and leave warnings out that Celery has just switched on."""
        self._grace.install()
        for category in (CDeprecationWarning, CPendingDeprecationWarning):
            # About settings that are as they should be.
            warnings.simplefilter("ignore", category)

    def _ask(self) -> None:
        """Have the loop end once it comes round: with one thread, after the task under way."""
        state.should_stop = 0
        pool = getattr(connection, "pool", None)
        if pool is not None:
            pool.timeout = LEAVING_SECONDS


class _Consumer(Consumer):
    """Celery's consumer that looks for an absent Redis each second, however long it is away."""

    def ensure_connected(self, connection: Any) -> Any:
        """Return the connection once it is made; asked to stop meanwhile, the worker stops."""
        connection.ensure_connection(
            lambda error, _: logger.error("This worker waits for Redis.", exc_info=error),
            interval_start=LOOK_FOR_REDIS_EVERY_SECONDS,
            interval_step=0,
            interval_max=LOOK_FOR_REDIS_EVERY_SECONDS,
            callback=state.maybe_shutdown,
        )
        self.first_connection_attempt = False
        return connection
