"""The beat: sends each duty of `CELERY_BEAT_SCHEDULE` at its interval; keeps nothing, and outlives Redis."""

import logging
import time
from datetime import datetime, timedelta
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.schedules import schedule

from chamber import stores
from chamber.celery import app
from chamber.serving.grace import Grace

logger = logging.getLogger(__name__)

LONGEST_SLEEP_SECONDS = 0.5


def run(*, grace_seconds: int) -> int:
    """Beat until a signal; return the exit status."""
    stores.name_connections(app, stores.BEAT_NAME)
    service = Service(app, max_interval=LONGEST_SLEEP_SECONDS, scheduler_cls=Steady, remote_control=False)
    Grace(service.stop, seconds=grace_seconds).install()
    service.start()
    return 0


class Interval(schedule):
    """An interval on a clock that nobody can set: a corrected system clock neither stops nor hurries the beat."""

    def now(self) -> datetime:
        """Return a time that only ever grows."""
        since = timedelta(seconds=time.monotonic() - _STARTED_MONOTONIC)
        return _STARTED + since


_STARTED: datetime = app.now()
_STARTED_MONOTONIC = time.monotonic()


class Steady(Scheduler):
    """The table of duties in memory; all are due at the start, so that a beat that restarts often leaves out none."""

    producer = None
    """None takes one from the pool when it is needed: Celery's own would wait for the broker, deaf to signals."""

    def setup_schedule(self) -> None:
        """Read the table."""
        for name, entry in self.app.conf.beat_schedule.items():
            interval = Interval(timedelta(seconds=entry["schedule"]), app=self.app)
            self.data[name] = ScheduleEntry(
                name=name,
                task=entry["task"],
                schedule=interval,
                options=entry.get("options", {}),
                last_run_at=interval.now() - interval.run_every,
                app=self.app,
            )

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send one duty; one that cannot be sent is due again after its interval."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception:
            logger.exception("The duty %r cannot be sent.", entry.name)
