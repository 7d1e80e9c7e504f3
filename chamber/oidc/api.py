"""By which identity providers somebody signs in, and the groups that these name, over the API."""

from typing import Any

from allauth.socialaccount.models import SocialAccount
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.oidc.admission import unlink
from chamber.oidc.groups import NamedGroup, named_group, named_groups
from chamber.oidc.reading import accounts_of
from chamber.people.api import whose
from teams.api.requests import actor, one_page, person
from teams.api.shapes import GroupRoleShape

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


class NamedGroupShape(serializers.Serializer[Any]):
    """A group that an identity provider names, whether it gives a role or not; `people` are user names, of one only."""

    id = serializers.CharField()
    provider = serializers.CharField()
    name = serializers.CharField(help_text="As the provider writes it.")
    by_scim = serializers.BooleanField(help_text="Kept here over SCIM; else told at sign-ins and syncs.")
    size = serializers.IntegerField()
    roles = GroupRoleShape(many=True)
    people = serializers.ListField(child=serializers.CharField(), required=False)


class NamedGroupsShape(serializers.Serializer[Any]):
    """All are one page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = NamedGroupShape(many=True)


class NamedGroups(APIView):
    """Groups that identity providers name."""

    @extend_schema(operation_id="provider_groups_list", responses=NamedGroupsShape)
    def get(self, request: Request) -> Response:
        """Return all; 403 for who is neither organisation admin nor auditor."""
        return one_page([_group(each) for each in named_groups(person(request))])


class NamedGroupDetail(APIView):
    """One of them."""

    @extend_schema(operation_id="provider_groups_retrieve", responses=NamedGroupShape)
    def get(self, request: Request, group_id: str) -> Response:
        """Return it with its people."""
        found = named_group(person(request), group_id)
        return Response({**_group(found), "people": sorted(found.people)})


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


def _group(named: NamedGroup) -> dict[str, Any]:
    return {
        "id": named.id,
        "provider": named.provider,
        "name": named.name,
        "by_scim": named.by_scim,
        "size": named.size,
        "roles": [{"team": each.team.slug, "role": each.role} for each in named.roles],
    }


def _shape(account: SocialAccount) -> Any:
    body = {
        "provider": account.provider,
        "subject": account.uid,
        "groups": account.extra_data.get("groups", []),
        "last_sign_in": account.last_login,
    }
    return ProviderAccountShape(body).data
