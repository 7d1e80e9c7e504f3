"""The audit trail over the API."""

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from chamber.errors import NotAllowed
from teams.api import shapes
from teams.api.requests import person, team_for
from teams.models import AuditEvent
from teams.permissions import Permission, may_anywhere

FILTERS = ("actor", "action", "via", "target_kind", "target_id")


class AuditTrail(GenericAPIView[AuditEvent]):
    """Who changed what, newest first."""

    serializer_class = shapes.AuditShape

    def get_queryset(self) -> QuerySet[AuditEvent]:
        """Return what the asker may read, by the filters of the address."""
        events = AuditEvent.objects.visible_to(person(self.request))
        asked = self.request.query_params
        events = events.filter(**{name: asked[name] for name in FILTERS if asked.get(name)})
        if slug := asked.get("team"):
            events = events.about(team_for(self.request, slug))
        return events

    @extend_schema(
        responses=shapes.AuditShape(many=True),
        parameters=[OpenApiParameter(name, str) for name in ("team", *FILTERS)],
    )
    def get(self, request: Request) -> Response:
        """Return a page of the trail of the teams on which your role reads it; 403 where none does."""
        if not may_anywhere(person(request), Permission.VIEW_AUDIT):
            raise NotAllowed("Your role does not let you read the audit trail.")
        rows = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(shapes.AuditShape(rows, many=True).data)
