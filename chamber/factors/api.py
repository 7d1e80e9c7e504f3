"""Second factors over the API: which somebody has, and removing them for who lost theirs."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.factors import actions
from chamber.factors.reading import Factor, FactorKind, factors_of
from chamber.people import notices
from chamber.people.api import whose
from teams.api.requests import actor, one_page


class FactorShape(serializers.Serializer[Any]):
    """A second factor, or the recovery codes that stand in for one."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=[each.value for each in FactorKind])
    name = serializers.CharField()
    added_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    without_password = serializers.BooleanField(
        source="alone", help_text="Whether it signs in by itself: of a passkey."
    )
    codes_left = serializers.IntegerField(
        source="left", allow_null=True, help_text="Of recovery codes; null of all else."
    )


class FactorsShape(serializers.Serializer[Any]):
    """All factors of somebody are one page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = FactorShape(many=True)


class PersonFactors(APIView):
    """The second factors of somebody: your own, and as an organisation admin anybody's."""

    @extend_schema(operation_id="people_factors_list", responses=FactorsShape)
    def get(self, request: Request, username: str) -> Response:
        """Return them, without their secrets; recovery codes come last."""
        found = factors_of(whose(request, username, "Second factors"))
        return one_page([_shape(each) for each in found])

    @extend_schema(operation_id="people_factors_reset", responses={204: None})
    def delete(self, request: Request, username: str) -> Response:
        """Remove all of them and end the sessions of their person; 409 where there are none, and for yourself."""
        user = whose(request, username, "Second factors")
        removed = actions.reset(by=actor(request), user=user)
        notices.tell(request._request, user, *actions.told_of_reset(removed))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _shape(factor: Factor) -> Any:
    return FactorShape(factor).data
