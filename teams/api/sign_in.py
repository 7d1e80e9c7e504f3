"""What the organisation asks of whoever signs in, over the API."""

from typing import Any
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import require_version
from teams import actions
from teams.api.requests import actor, one_page, person, team_for, values_of, versioned
from teams.api.shapes import SecondFactorRule, StrictSerializer
from teams.api.teams import IF_MATCH
from teams.models import Role, SignInPolicy
from teams.provider_groups import GroupMapping, mapping_of, mappings
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


class ProviderShape(serializers.Serializer[Any]):
    """An identity provider by which people sign in."""

    id = serializers.CharField()
    name = serializers.CharField()
    issuer = serializers.CharField()


class SignInShape(serializers.Serializer[Any]):
    """What is asked of whoever signs in, and by whom else they do."""

    second_factor = SecondFactorShape()
    providers = ProviderShape(many=True)
    version = serializers.IntegerField()


class ProviderRoleEdit(StrictSerializer):
    """A role that the people of a provider's group have on a team."""

    provider = serializers.CharField(max_length=30, help_text="Its id.")
    group = serializers.CharField(max_length=255, help_text="As the provider names it.")
    team = serializers.CharField(max_length=60, help_text="Its slug.")
    role = serializers.ChoiceField(choices=Role.choices)


class ProviderRoleShape(serializers.Serializer[Any]):
    """A role that the people of a provider's group have on a team; each from their next sign-in or sync on."""

    id = serializers.UUIDField()
    provider = serializers.CharField()
    group = serializers.CharField()
    team = serializers.SlugField()
    role = serializers.ChoiceField(choices=Role.choices)
    people = serializers.IntegerField(help_text="How many the provider put into the group so far.")


class ProviderRolesShape(serializers.Serializer[Any]):
    """All are one page."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = ProviderRoleShape(many=True)


def _answer(policy: SignInPolicy) -> Response:
    second_factor = {
        "required": policy.required_since is not None,
        "grace_days": policy.grace_days,
        "required_from": policy.required_from,
    }
    body = {
        "second_factor": second_factor,
        "providers": settings.IDENTITY_PROVIDERS,
        "version": policy.version,
    }
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


class SignInGroups(APIView):
    """Roles by groups of identity providers."""

    @extend_schema(operation_id="sign_in_groups_list", responses=ProviderRolesShape)
    def get(self, request: Request) -> Response:
        """Return all; 403 for who is neither organisation admin nor auditor."""
        policy_for(person(request))
        return one_page([_group_role(each) for each in mappings()])

    @extend_schema(
        operation_id="sign_in_groups_set", request=ProviderRoleEdit, responses={201: ProviderRoleShape}
    )
    def post(self, request: Request) -> Response:
        """Give a group a role on a team, in place of the one that it had there; an organisation admin does."""
        policy_for(person(request))
        values = values_of(request, ProviderRoleEdit)
        binding = actions.set_provider_role(
            by=actor(request),
            provider=values["provider"],
            name=values["group"],
            team=team_for(request, values["team"], field="team"),
            role=Role(values["role"]),
        )
        [made] = [each for each in mappings() if binding is not None and each.binding.pk == binding.pk]
        return Response(_group_role(made), status=status.HTTP_201_CREATED)


class SignInGroup(APIView):
    """One of them."""

    @extend_schema(operation_id="sign_in_groups_remove", responses={204: None})
    def delete(self, request: Request, binding_id: UUID) -> Response:
        """Take the role away; 409 where it is the last organisation admin's."""
        policy_for(person(request))
        found = mapping_of(binding_id)
        actions.set_provider_role(
            by=actor(request), provider=found.provider, name=found.name, team=found.binding.team, role=None
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


def _group_role(mapping: GroupMapping) -> Any:
    body = {
        "id": mapping.binding.pk,
        "provider": mapping.provider,
        "group": mapping.name,
        "team": mapping.binding.team.slug,
        "role": mapping.binding.role,
        "people": mapping.size,
    }
    return ProviderRoleShape(body).data
