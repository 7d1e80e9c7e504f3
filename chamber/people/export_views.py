"""What is kept about a person, as a file: of oneself from the page Settings, of others for organisation admins."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_POST
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from chamber import limits
from chamber.models import User
from chamber.people import reading
from chamber.people.export import begin_export
from chamber.standing import StreamStanding
from teams.actors import Actor
from teams.api import requests as api
from teams.permissions import Permission, may_anywhere
from teams.views.audit import written_while_sent
from teams.views.requests import actor, person


@require_POST
def export_own(request: HttpRequest) -> HttpResponseBase:
    """Send what is kept about oneself."""
    reader = person(request)
    return _sent(request, reader, reader, by=actor(request), standing=StreamStanding.of(request))


@require_POST
def export(request: HttpRequest, username: str) -> HttpResponseBase:
    """Send what is kept about somebody, to an organisation admin."""
    reader = person(request)
    user = reading.person_for(reader, username).user
    return _sent(request, reader, user, by=actor(request), standing=StreamStanding.of(request))


class PersonExportDoor(APIView):
    """What is kept about a person."""

    @extend_schema(request=None, responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def post(self, request: Request, username: str) -> HttpResponseBase:
        """Return it as one JSON document of any length, `"complete": true` last: of yourself, or as an organisation
        admin of anybody. Noted in the audit trail; no secret is in it.
        """
        reader = api.person(request)
        user = reader if username == reader.username else reading.person_for(reader, username).user
        return _sent(
            request._request, reader, user, by=api.actor(request), standing=StreamStanding.of(request)
        )


def _sent(
    request: HttpRequest, reader: User, user: User, *, by: Actor, standing: StreamStanding
) -> HttpResponseBase:
    def sees(reader: User) -> bool:
        return reader.pk == user.pk or may_anywhere(reader, Permission.MANAGE_PEOPLE)

    limits.require_stream(reader)
    written = begin_export(by=by, user=user)
    return written_while_sent(
        request, written, standing, sees, name=f"{user.username}.json", kind="application/json"
    )
