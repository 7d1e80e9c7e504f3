"""The API of workloads: submit, list, read, follow, and what is done to them."""

import hashlib
import json
import threading
from typing import TYPE_CHECKING, Any

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import limits
from chamber.api_document import events_of, in_query
from chamber.errors import Refusal
from chamber.rest import MAX_CURSOR, MAX_LIMIT, etag, limit_of, short_of
from chamber.standing import StreamStanding
from teams.api.requests import actor, one_page, person
from teams.models import Team
from workloads import actions, chains, listing, variables, warnings, watch
from workloads.admissible import completed
from workloads.arrays import shapes as array_shapes
from workloads.models import Workload
from workloads.requests import DRY_RUN, Unreadable, parse_all
from workloads.shapes import (
    SUBMISSION,
    SUBMITTED,
    AttemptShape,
    EventShape,
    ManySubmittedShape,
    OneWorkloadShape,
    WorkloadShape,
)
from workloads.submission import LONGEST_KEY, prepare, submit_all

if TYPE_CHECKING:
    from chamber.models import User

FILTERS = [
    in_query("team", "Slug of a team; those below it are included."),
    in_query(
        "status",
        "A status, or several in a form; repeat it for any of several.",
        type="array",
        items={"type": "string", "enum": list(dict(listing.STATUS_CHOICES))},
    ),
    in_query("class", "The priority class.", enum=list(dict(listing.CLASS_CHOICES))),
    in_query("job_class", "What kind of work it is: the name of a job class."),
    in_query("owner", "A user name, or me."),
    in_query("pool", "Slug of the pool it was admitted in."),
    in_query("array", "Slug of an array: its members."),
    in_query("search", "A part of the name or the slug."),
    in_query("within", "How long ago it was submitted at most.", enum=list(listing.WITHIN)),
    in_query("sort", "The order; with - descending.", enum=list(listing.ORDERS)),
]
LIMIT = in_query(
    "limit",
    f"How many rows; {listing.LARGEST_PAGE} where it is more.",
    type="integer",
    minimum=1,
    maximum=MAX_LIMIT,
    default=listing.PAGE_SIZE,
)
CURSOR = in_query(
    "cursor", "Where a page begins, as `next` and `previous` of another one say.", maxLength=MAX_CURSOR
)
KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    OpenApiParameter.HEADER,
    description="Kept for 24 hours, for each person.",
)


LAST_SEQUENCE = 2**31 - 1
SHOWN = ("team", "owner", "pool", "attempt", "array", "adopted_job__cluster")
"""What a workload is shown with; the last is a row of a room above, reached by the name of the relation."""


def last_event(**bounds: Any) -> OpenApiParameter:
    """Return how the header is described by which a stream goes on."""
    about = "The id of the last event that was read: goes on after it."
    return OpenApiParameter(
        "Last-Event-ID", {"type": "string", **bounds}, OpenApiParameter.HEADER, description=about
    )


EVENTS = events_of((), "An event, as `events/` lists them.")


def workload_for(request: Request, slug: str) -> Workload:
    """Return the workload with this slug as far as the asker may see it; raise `NotVisible` otherwise."""
    rows = Workload.objects.visible_to(person(request)).select_related(*SHOWN).with_placed_pods()
    return rows.by_slug(slug)


def shown(workloads: list[Workload], user: "User") -> list[dict[str, Any]]:
    """Return workloads as the API shows them to somebody."""
    return [
        {**_shapes.workload.to_representation(workload), "environment": variables.told(user, workload)}
        for workload in workloads
    ]


class _Shapes(threading.local):
    """Shapes that a thread uses again: making the forty fields of one costs more than filling them."""

    def __init__(self) -> None:
        self.workload = WorkloadShape()


_shapes = _Shapes()


class Workloads(APIView):
    """All workloads that one may see, and submitting."""

    token_scope = "submit"  # noqa: S105 - the scope that a token needs

    @extend_schema(parameters=[*FILTERS, LIMIT, CURSOR], responses=WorkloadShape(many=True))
    def get(self, request: Request) -> Response:
        """List workloads by cursor, newest first unless `sort` says otherwise."""
        short_of(request, *(parameter.name for parameter in FILTERS))
        filters = listing.Filters.read_strictly(request.query_params, person(request))
        size = _limit(request)
        rows = Workload.objects.visible_to(person(request))
        rows = rows.select_related(*SHOWN).with_placed_pods()
        rows = filters.apply(rows, user=person(request), now=timezone.now())
        cursor = request.query_params.get("cursor")
        if cursor and not (len(cursor) <= MAX_CURSOR and listing.is_cursor(cursor, sort=filters.sort)):
            # The first page again would send a program that follows `next` round in a circle.
            raise Refusal("cursor is none of this list and order: begin without one.", field="cursor")
        found = listing.page_of(rows, sort=filters.sort, cursor=cursor, size=size)
        return Response(
            {
                "next": _address(request, found.following),
                "previous": _address(request, found.previous),
                "results": shown(found.rows, person(request)),
            }
        )

    @extend_schema(request=SUBMISSION, parameters=[KEY], responses={200: ManySubmittedShape, 201: SUBMITTED})
    def post(self, request: Request) -> Response:
        """Submit one workload, or several at once as `{"workloads": [...]}`: all are taken, or none.

        One that has an `array` is answered as several are, with the array among `arrays`.

        With `"dry_run": true` beside `workloads` all is checked and nothing submitted: 200 with an empty list.
        """
        body: Any = request.data
        several = isinstance(body, dict) and "workloads" in body
        try:
            asked = parse_all(body, may_be_dry=True)
        except Unreadable as unreadable:
            raise completed(unreadable, actor(request)) from unreadable
        if several and body.get(DRY_RUN, False):
            prepare(by=actor(request), requests=asked)
            return Response({"workloads": [], "arrays": []})
        submitted = submit_all(
            by=actor(request),
            requests=asked,
            key=request.headers.get("Idempotency-Key"),
            body_sha256=hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(),
        )
        made = submitted.workloads
        told = warnings.of([*made, *submitted.firsts])
        single = [each for each in asked if each.array is None]
        answer = [
            {
                **one,
                "depends_on": each.depends_on,
                "warnings": [*warnings.of_sharing(workload, each), *told[workload.pk]],
            }
            for workload, each, one in zip(made, single, shown(made, person(request)), strict=True)
        ]
        if several or submitted.arrays:
            arrays = array_shapes.submitted(submitted.arrays, submitted.firsts, told)
            return Response({"workloads": answer, "arrays": arrays}, status=201)
        return Response(answer[0], status=201, headers={"ETag": etag(made[0].version)})


def _limit(request: Request) -> int:
    return limit_of(request, most=listing.LARGEST_PAGE, otherwise=listing.PAGE_SIZE)


def _address(request: Request, cursor: str | None) -> str | None:
    if cursor is None:
        return None
    query = request.query_params.copy()
    query["cursor"] = cursor
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


class OneWorkload(APIView):
    """One workload."""

    @extend_schema(responses=OneWorkloadShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return the workload, with the ETag of its version."""
        workload = workload_for(request, slug)
        needed = [need.written for need in chains.needs_of(workload, person(request))]
        body = {**shown([workload], person(request))[0], "depends_on": needed}
        return Response(body, headers={"ETag": etag(workload.version)})


class Attempts(APIView):
    """The tries to run one workload."""

    @extend_schema(responses=AttemptShape(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """List the attempts, the first one first."""
        attempts = list(
            workload_for(request, slug).attempts.select_related("pool", "notes").order_by("number")
        )
        named = {str(part["team"]) for attempt in attempts for part in attempt.allocation if part["team"]}
        teams = Team.objects.filter(pk__in=named).values_list("pk", "slug")
        context = {"team_slugs": {str(pk): slug for pk, slug in teams}, "now": timezone.now()}
        return one_page([AttemptShape(attempt, context=context).data for attempt in attempts])


class Events(APIView):
    """What happened to one workload."""

    @extend_schema(
        parameters=[
            in_query(
                "after", "Only events of a higher sequence.", type="integer", minimum=0, maximum=LAST_SEQUENCE
            ),
            LIMIT,
        ],
        responses=EventShape(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        """List the events in their order, page by page; `next` continues after the last one."""
        workload = workload_for(request, slug)
        size = _limit(request)
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 12 and int(after) <= LAST_SEQUENCE):
            raise Refusal(f"after is {after[:40]!r}; it must be the sequence of an event.", field="after")
        events = list(workload.events.filter(sequence__gt=int(after)).order_by("sequence")[: size + 1])
        page = events[:size]
        following = None
        if len(events) > size:
            query = request.query_params.copy()
            query["after"] = str(page[-1].sequence)
            following = request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
        return Response(
            {"next": following, "previous": None, "results": [EventShape(event).data for event in page]}
        )


class EventStream(BaseRenderer):
    """Lets a client ask for `text/event-stream`; what is refused before the stream begins is JSON all the
    same.
    """

    media_type = "text/event-stream"
    format = "sse"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        renderer_context: Any = None,  # noqa: ARG002 - DRF's signature
    ) -> bytes:
        """Return a problem as JSON."""
        return json.dumps(data).encode()


class Watch(APIView):
    """The events of one workload as they come."""

    renderer_classes = (EventStream, JSONRenderer)

    @extend_schema(
        parameters=[last_event(pattern="^[0-9]{0,11}$")],
        responses={(200, "text/event-stream"): EVENTS, 410: None},
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        """Follow a workload until it ends; with `Last-Event-ID` from there, 410 where that is none of its
        events.
        """
        workload = workload_for(request, slug)
        after = watch.starting_point(request.headers.get("Last-Event-ID", ""), workload)
        limits.require_stream(person(request))
        allowed = StreamStanding.of(request).allowed(watch.seen(workload.pk))
        told = limits.streamed(person(request).pk, watch.stream(workload.pk, after, allowed))
        response = StreamingHttpResponse(told, content_type="text/event-stream")
        response["Cache-Control"] = "no-store"
        # Proxies that gather answers before they pass them on are told not to.
        response["X-Accel-Buffering"] = "no"
        return response


class Act(APIView):
    """Cancel, hold, release or requeue one workload; `act` is set by its address."""

    token_scope = "submit"  # noqa: S105 - the scope that a token needs
    act = ""

    @property
    def summary(self) -> str:
        """What the API's document calls it."""
        return f"One workload: {self.act} it"

    @extend_schema(request=None, responses=WorkloadShape)
    def post(self, request: Request, slug: str) -> Response:
        """Do it, and return the workload as it is then; 409 where its status does not allow it."""
        workload = workload_for(request, slug)
        action = {
            "cancel": actions.cancel,
            "hold": actions.hold,
            "release": actions.release,
            "requeue": actions.requeue,
        }[self.act]
        action(by=actor(request), workload=workload)
        after = workload_for(request, slug)
        return Response(shown([after], person(request))[0], headers={"ETag": etag(after.version)})
