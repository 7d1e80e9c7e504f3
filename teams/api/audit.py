"""The audit trail over the API."""

import json
from typing import Any

from django.apps import apps
from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import limits
from chamber.api_document import in_query
from chamber.errors import MOST_SHOWN, Refusal
from chamber.rest import NewestFirst, short_of
from chamber.standing import StreamStanding
from chamber.words import nearest
from teams.actors import Via
from teams.api import shapes
from teams.api.requests import person
from teams.chain import duty
from teams.models import AuditEvent
from teams.querysets import AuditEventQuerySet
from teams.trail import TrailFilters
from teams.views.audit import chosen_by, require_reader, sent

TARGET = ("target_kind", "target_id")


PARAMETERS = [
    in_query("team", "What was done to this team."),
    in_query("actor", "By whom: a user name."),
    in_query("action", "One act, such as team.moved, or all of a kind, such as team."),
    in_query("target", "On what: a name as it was then, or an id."),
    in_query("address", "From which client's address."),
    in_query("via", "By which door.", enum=[each.value for each in Via]),
    in_query("since", "From this day or time on."),
    in_query("until", "Until the end of this day, or before this time."),
    in_query("target_kind", "The kind of what was changed, such as team, pool or cluster."),
    in_query("target_id", "The id of what was changed."),
]


def _filtered(request: Request) -> AuditEventQuerySet:
    """Return what the asker may read, by the filters of the address."""
    short_of(request, *(parameter.name for parameter in PARAMETERS))
    asked, user = request.query_params, person(request)
    kinds = {str(model._meta.model_name) for model in apps.get_models()}
    if (kind := asked.get("target_kind", "")) and kind not in kinds:
        text = f"target_kind is {kind[:MOST_SHOWN]!r}; it must be the kind of a row, such as team, pool or cluster."
        raise Refusal(text + nearest(kind, kinds), field="target_kind")
    events = TrailFilters.read(asked).apply(AuditEvent.objects.visible_to(user), user)
    return events.filter(**{name: asked[name].replace("\x00", "") for name in TARGET if asked.get(name)})


class NewestActFirst(NewestFirst):
    """By the time of the act, which the indexes of the trail have."""

    ordering = ("-at", "-id")


class AuditTrail(GenericAPIView[AuditEvent]):
    """Who changed what, newest first."""

    serializer_class = shapes.AuditShape
    pagination_class = NewestActFirst

    def get_queryset(self) -> QuerySet[AuditEvent]:
        """Return what the asker may read, by the filters of the address."""
        return _filtered(self.request)

    @extend_schema(
        responses=shapes.AuditShape(many=True),
        parameters=PARAMETERS,
    )
    def get(self, request: Request) -> Response:
        """Return a page of the trail of the teams on which your role reads it; 403 where none does."""
        require_reader(person(request))
        rows = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(shapes.AuditShape(rows, many=True).data)


class Csv(BaseRenderer):
    """Lets a client ask for CSV; what is refused before it begins is JSON all the same."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        renderer_context: Any = None,  # noqa: ARG002 - DRF's signature
    ) -> bytes:
        """Return a problem as JSON."""
        return json.dumps(data).encode()


class SealedLines(Csv):
    """Lets a client ask for lines of JSON with the seals, which `chamber audit verify FILE` checks."""

    media_type = "application/x-ndjson"
    format = "jsonl"


class AuditExport(APIView):
    """The trail as CSV, or as lines of JSON with its seals."""

    renderer_classes = (Csv, SealedLines, JSONRenderer)

    @extend_schema(
        parameters=PARAMETERS,
        responses={
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/x-ndjson"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Return all that matches, newest first, as CSV; with `?format=jsonl` what is sealed of it, in the order of the
        chain. 403 where no role of yours reads the trail.
        """
        user = person(request)
        require_reader(user)
        limits.require_stream(user)
        if not isinstance(request.accepted_renderer, SealedLines):
            return sent(request._request, _filtered(request), StreamStanding.of(request))
        asked = request.query_params
        chosen = {name: asked[name] for name in TARGET if asked.get(name)}
        chosen |= chosen_by(TrailFilters.read(asked), user)
        return sent(request._request, _filtered(request), StreamStanding.of(request), sealed_by=chosen)


class AuditChainState(APIView):
    """The chain of the trail."""

    @extend_schema(responses=shapes.AuditChainShape)
    def get(self, request: Request) -> Response:
        """Return how far the chain goes, and what its last check found; 403 where no role of yours reads the trail."""
        require_reader(person(request))
        return Response(shapes.AuditChainShape(duty.standing()).data)
