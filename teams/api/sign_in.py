"""What the organisation asks of whoever signs in, over the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import require_version
from teams import actions
from teams.api.requests import actor, person, values_of, versioned
from teams.api.shapes import SecondFactorRule, StrictSerializer
from teams.api.teams import IF_MATCH
from teams.models import SignInPolicy
from teams.sign_in import policy_for


class SignInEdit(StrictSerializer):
    """What is asked of whoever signs in."""

    second_factor = SecondFactorRule()


class SecondFactorShape(serializers.Serializer[Any]):
    """Whether everybody needs a second factor."""

    required = serializers.BooleanField()  # type: ignore[assignment]  # a field's own attribute
    grace_days = serializers.IntegerField()
    required_from = serializers.DateTimeField(
        allow_null=True, help_text="From when on who lacks one can only set one up; null: none is required."
    )


class SignInShape(serializers.Serializer[Any]):
    """What is asked of whoever signs in."""

    second_factor = SecondFactorShape()
    version = serializers.IntegerField()


def _answer(policy: SignInPolicy) -> Response:
    second_factor = {
        "required": policy.required_since is not None,
        "grace_days": policy.grace_days,
        "required_from": policy.required_from,
    }
    body = {"second_factor": second_factor, "version": policy.version}
    return versioned(SignInShape(body).data, policy.version)


class SignIn(APIView):
    """What the organisation asks of whoever signs in."""

    @extend_schema(operation_id="sign_in_retrieve", responses=SignInShape)
    def get(self, request: Request) -> Response:
        """Return it; 403 for who is neither organisation admin nor auditor."""
        return _answer(policy_for(person(request)))

    @extend_schema(
        operation_id="sign_in_update", request=SignInEdit, responses=SignInShape, parameters=[IF_MATCH]
    )
    def put(self, request: Request) -> Response:
        """Replace it; an organisation admin does."""
        policy = policy_for(person(request))
        actions.require_sign_in(actor(request))
        require_version(request, policy.version)
        rule = values_of(request, SignInEdit)["second_factor"]
        return _answer(actions.require_second_factor(by=actor(request), version=policy.version, **rule))
