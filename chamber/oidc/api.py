"""By which identity providers somebody signs in, over the API."""

from typing import Any

from allauth.socialaccount.models import SocialAccount
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.oidc.admission import unlink
from chamber.oidc.reading import accounts_of
from chamber.people.api import whose
from teams.api.requests import actor, one_page

WHAT = "Accounts at identity providers"


class ProviderAccountShape(serializers.Serializer[Any]):
    """What somebody is at an identity provider."""

    provider = serializers.CharField()
    subject = serializers.CharField()
    groups = serializers.ListField(child=serializers.CharField(), help_text="As it said last.")
    last_sign_in = serializers.DateTimeField(help_text="Or the last time that it was asked.")


class ProviderAccountsShape(serializers.Serializer[Any]):
    """All of somebody are one page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = ProviderAccountShape(many=True)


class PersonProviders(APIView):
    """By which identity providers somebody signs in: your own, and as an organisation admin anybody's."""

    @extend_schema(operation_id="people_providers_list", responses=ProviderAccountsShape)
    def get(self, request: Request, username: str) -> Response:
        """Return them."""
        return one_page([_shape(each) for each in accounts_of(whose(request, username, WHAT))])


class PersonProvider(APIView):
    """One of them."""

    @extend_schema(operation_id="people_providers_unlink", responses={204: None})
    def delete(self, request: Request, username: str, provider_id: str) -> Response:
        """Have it vouch for the person no more: its roles, and the sessions that began by it, end."""
        unlink(by=actor(request), user=whose(request, username, WHAT), provider_id=provider_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _shape(account: SocialAccount) -> Any:
    body = {
        "provider": account.provider,
        "subject": account.uid,
        "groups": account.extra_data.get("groups", []),
        "last_sign_in": account.last_login,
    }
    return ProviderAccountShape(body).data
