"""The API of logs: a pod's last lines as text, and what comes after as text or as events."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from agentlink.logs import texts, viewing
from agentlink.logs.sources import Source, source_of
from agentlink.logs.texts import LogNote
from agentlink.protocol.logs import Ask
from chamber import limits
from chamber.api_document import events_of, in_query
from chamber.errors import Refusal
from chamber.rest import flag_of
from chamber.standing import Allowed, StreamStanding
from teams.api.requests import person
from workloads.api import last_event
from workloads.models import Workload
from workloads.watch import seen

MOST_NUMBER = 2**31 - 1
MOST_LINES = 100_000
LONGEST_SECONDS = 600.0
"""A stream of events ends after this; its reader comes again with Last-Event-ID."""


PLACE: dict[str, Any] = {"maxLength": 64, "pattern": r"^[0-9A-Za-z:.+-]*$"}
EVENTS = events_of(
    ("lines", "note", "end"), "`text` and `dropped` of lines, `code` and `message` of notes and of the end."
)


class _ProblemRenderer(BaseRenderer):
    """Lets a client ask for text or events; what is refused before they begin is JSON all the same."""

    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        renderer_context: Any = None,  # noqa: ARG002 - DRF's signature
    ) -> bytes:
        """Return a problem as JSON."""
        return json.dumps(data).encode()


class PlainText(_ProblemRenderer):
    """Lines as they are."""

    media_type = "text/plain"
    format = "txt"


class EventStreamRenderer(_ProblemRenderer):
    """Server-sent events."""

    media_type = "text/event-stream"
    format = "sse"


class Logs(APIView):
    """What one pod has written."""

    renderer_classes = (PlainText, EventStreamRenderer)

    @extend_schema(
        parameters=[
            in_query("pod", "Which pod.", type="integer", minimum=0, maximum=MOST_NUMBER, default=0),
            in_query(
                "attempt",
                "Which attempt; without it the newest that had pods.",
                type="integer",
                minimum=0,
                maximum=MOST_NUMBER,
            ),
            in_query(
                "tail",
                "The last so many lines; without it all that there are.",
                type="integer",
                minimum=0,
                maximum=MOST_LINES,
            ),
            in_query("follow", "Go on with what comes, until the pod has ended.", type="boolean"),
            in_query("after", "Only what came after the event of this id.", **PLACE),
            last_event(**PLACE),
        ],
        responses={
            (200, "text/plain"): OpenApiTypes.STR,
            (200, "text/event-stream"): EVENTS,
            409: None,
        },
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        """Return the last lines of a pod, and with `follow` what comes; 409 where no pod has begun yet."""
        workload = Workload.objects.visible_to(person(request)).by_slug(slug)
        source = source_of(
            workload,
            pod=_number(request, "pod", MOST_NUMBER) or 0,
            number=_number(request, "attempt", MOST_NUMBER),
        )
        limits.require_stream(person(request))
        events = isinstance(request.accepted_renderer, EventStreamRenderer)
        content = _content(
            source,
            follow=flag_of(request, "follow"),
            tail=_number(request, "tail", MOST_LINES),
            after=_place(request),
            allowed=StreamStanding.of(request).allowed(seen(workload.pk)),
            events=events,
        )
        kind = "text/event-stream" if events else "text/plain; charset=utf-8"
        told = limits.streamed(person(request).pk, content)
        response = StreamingHttpResponse(told, content_type=kind)
        response["Cache-Control"] = "no-store"
        # Proxies that gather answers before they pass them on are told not to.
        response["X-Accel-Buffering"] = "no"
        return response


async def _content(
    source: Source,
    *,
    follow: bool,
    tail: int | None,
    after: str,
    allowed: Allowed,
    events: bool,
) -> AsyncGenerator[str]:
    until = time.monotonic() + LONGEST_SECONDS
    write = texts.as_event if events else texts.as_text
    looking = viewing.look(source, follow=follow, tail=tail, after=after, allowed=allowed)
    async with aclosing(looking):
        async for told in looking:
            if told is not None:
                if text := write(told):
                    yield text
            elif events:
                yield ": still here\n\n"
            if events and time.monotonic() > until and not (isinstance(told, LogNote) and told.ends):
                return


def _number(request: Request, name: str, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise Refusal(f"{name} is {text[:40]!r}; it must be a number from 0 to {most:,}.", field=name)
    return int(text)


def _place(request: Request) -> str:
    """Return the place from which to go on; refuse what no event has as its id."""
    name, text = "Last-Event-ID", request.headers.get("Last-Event-ID", "")
    if not text:
        name, text = "after", request.query_params.get("after", "")
    try:
        return Ask(stream=1, attempt=UUID(int=0), pod=0, follow=True, tail_bytes=0, after=text).after
    except ValueError as error:
        raise Refusal(f"{name} is {text[:40]!r}; it must be the id of an event.", field=name) from error
