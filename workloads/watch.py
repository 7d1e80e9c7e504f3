"""The events of one workload as server-sent events, from where the reader stopped until the workload ends."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from chamber.errors import Refusal
from chamber.standing import CHECK_SECONDS, Allowed
from workloads.models import Event, Workload
from workloads.models.workload import OPEN
from workloads.shapes import EventShape

if TYPE_CHECKING:
    from chamber.models import User

LOOK_EVERY_SECONDS = 1.0
SAY_SOMETHING_EVERY_SECONDS = 10.0
LONGEST_SECONDS = 600.0
"""A stream ends after this; its reader comes again with Last-Event-ID."""


class Gone(Refusal):
    """The reader names an event that this workload never had: he must begin anew."""

    status = 410
    code = "gone"


def starting_point(last_event_id: str, workload: Workload) -> int:
    """Return the sequence after which to begin; raise `Gone` where it is none of this workload's."""
    if not last_event_id:
        return 0
    known = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 12
    if not known or int(last_event_id) > workload.last_event:
        raise Gone(
            f"Last-Event-ID is {last_event_id[:40]!r}; this workload has events 1 to {workload.last_event}."
        )
    return int(last_event_id)


def seen(workload_id: UUID) -> "Callable[[User], bool]":
    """Return what says of somebody whether they see the workload."""
    return lambda user: Workload.objects.visible_to(user).filter(pk=workload_id).exists()


async def stream(workload_id: UUID, after: int, allowed: Allowed) -> AsyncGenerator[str]:
    """Yield the events after a sequence as they come; ends when the workload has ended and all was told, or when the
    reader is not `allowed` any more.
    """
    began = spoke = looked = time.monotonic()
    while True:
        if time.monotonic() - looked >= CHECK_SECONDS:
            if not await allowed():
                return
            looked = time.monotonic()
        # Status first: an event that comes after it is told, or known to be missing, in the next round.
        status, last = await Workload.objects.values_list("status", "last_event").aget(pk=workload_id)
        async for event in Event.objects.filter(workload=workload_id, sequence__gt=after).order_by(
            "sequence"
        ):
            yield _message(event)
            after, spoke = event.sequence, time.monotonic()
        now = time.monotonic()
        if (status not in OPEN and after >= last) or now - began > LONGEST_SECONDS:
            return
        if now - spoke > SAY_SOMETHING_EVERY_SECONDS:
            yield ": still here\n\n"
            spoke = now
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def _message(event: Event) -> str:
    shown: dict[str, Any] = dict(EventShape(event).data)
    return f"id: {event.sequence}\nevent: {event.kind}\ndata: {json.dumps(shown)}\n\n"
