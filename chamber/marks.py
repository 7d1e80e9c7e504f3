"""What the parts of a deployment leave behind in `Mark`, so that others can tell that they live."""

import logging
import os
import socket
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from chamber import __version__
from chamber.models import Mark

logger = logging.getLogger(__name__)

PART = "part:"
HEARTBEAT_SECONDS = 5.0
SILENT_AFTER = timedelta(seconds=30)
"""A part that left no mark for so long is silent: a restart takes less."""

REMEMBERED = timedelta(seconds=60)
"""How long a beat that fell silent stands beside the one that beats now."""


def beaten(*, now: datetime, sent_by: str | None = None, run_by: str | None = None) -> None:
    """Mark the beat and the worker of the duties' queue as alive (2 queries); both are this process by default."""
    here = f"{socket.gethostname()}:{os.getpid()}"
    sender, runner = sent_by or here, run_by or here
    before = Mark.objects.filter(pk="beat").values_list("details", flat=True).first() or {}
    beats = _with(before.get("beats", {}), sender, now)
    rivals = at_once({"beats": beats}, now)
    if len(rivals) > max(1, len(at_once(before, now))):
        logger.error("More than one beat sends the duties (%s); stop all but one.", ", ".join(rivals))
    found = [
        Mark(name="beat", at=now, said_by=sender, details={"beats": beats}),
        Mark(name="worker:duties", at=now, said_by=runner),
    ]
    Mark.objects.bulk_create(
        found, update_conflicts=True, unique_fields=["name"], update_fields=["at", "said_by", "details"]
    )


def _with(beats: Mapping[str, Any], sender: str, now: datetime) -> dict[str, Any]:
    """Return the beats that were heard of late, `sender` just now."""
    known = {name: seen for name, seen in beats.items() if _time(seen["last"]) > now - REMEMBERED}
    since = known[sender]["since"] if sender in known else now.isoformat()
    return {**known, sender: {"since": since, "last": now.isoformat()}}


def at_once(details: Mapping[str, Any], now: datetime) -> list[str]:
    """Return the beats of a `beat` mark that send at the same time: each went on after all of them had begun.

    One that follows another, after a restart, leaves a single one.
    """
    beats = {
        name: seen
        for name, seen in details.get("beats", {}).items()
        if _time(seen["last"]) > now - SILENT_AFTER
    }
    newest = max((_time(seen["since"]) for seen in beats.values()), default=now)
    return sorted(name for name, seen in beats.items() if _time(seen["last"]) >= newest)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


# The duty that looks for silent agents

AGENTS = "watch:agents"
WATCHED_WITHIN = timedelta(seconds=15)
"""A pause between two looks that is longer is an outage of ours: it looks every 5 s."""


def watched_since(*, now: datetime) -> datetime:
    """Mark that silent agents are looked for now; return since when that goes on without an outage (2 queries).

    Who looks can write to the database, so what agents say can be written down as well. Times before are no silence of
    theirs.
    """
    before = Mark.objects.filter(pk=AGENTS).first()
    since = now
    if before is not None and now - before.at <= WATCHED_WITHIN:
        since = min(now, _time(before.details["since"]))
    said_by = f"{socket.gethostname()}:{os.getpid()}"
    mark = Mark(name=AGENTS, at=now, said_by=said_by, details={"since": since.isoformat()})
    Mark.objects.bulk_create(
        [mark], update_conflicts=True, unique_fields=["name"], update_fields=["at", "said_by", "details"]
    )
    return since


# The parts that listen

PART_SECONDS = 5.0
PARTS_KEPT = timedelta(days=1)
"""How long the mark of a part that did not stop in order is kept."""


def part_lives(part: str, *, now: datetime) -> None:
    """Mark a part (web, live, or all) of this machine as alive, and forget those long gone (2 queries)."""
    said_by = f"{socket.gethostname()}:{os.getpid()}"
    found = Mark(name=_part_name(part), at=now, said_by=said_by, details={"version": __version__})
    Mark.objects.bulk_create(
        [found], update_conflicts=True, unique_fields=["name"], update_fields=["at", "said_by", "details"]
    )
    Mark.objects.filter(name__startswith=PART, at__lt=now - PARTS_KEPT).delete()


def part_leaves(part: str) -> None:
    """Take off the mark of a part that stops in order; another process of this machine sets it again."""
    Mark.objects.filter(pk=_part_name(part)).delete()


def parts_of(name: str) -> tuple[str, ...]:
    """Return which of web and live a mark of this name speaks for; none where it is no part's."""
    if not name.startswith(PART):
        return ()
    part = name.split(":")[1]
    return ("web", "live") if part == "all" else (part,)


def last_heard(part: str) -> datetime | None:
    """Return when a process of web or live was last heard; None where none runs (1 query)."""
    rows = [at for name, at in Mark.objects.values_list("name", "at") if part in parts_of(name)]
    return max(rows, default=None)


def is_reachable() -> bool:
    """Return whether a process runs to which agents connect (1 query). Where one process is all, it does."""
    if not settings.REDIS:
        return True
    heard = last_heard("live")
    return heard is not None and timezone.now() - heard <= SILENT_AFTER


def _part_name(part: str) -> str:
    return f"{PART}{part}:{socket.gethostname()}"[:60]
