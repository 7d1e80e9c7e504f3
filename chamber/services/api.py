"""Service accounts over the API."""

import uuid
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.models import BearerToken, Scope, ServiceAccount, ServiceToken
from chamber.people.leaving import Leaving
from chamber.rest import NewestFirst
from chamber.services import actions, reading
from chamber.services.reading import AccountState
from chamber.tokens import DEFAULT_DAYS, LONGEST_DAYS, TokenRequest
from teams.actions.members import find_person
from teams.api.requests import actor, one_page, person, team_for, values_of
from teams.api.shapes import StrictSerializer
from teams.models import Role

MANAGE = Scope.MANAGE


class ServiceRoleShape(serializers.Serializer[Any]):
    """A role and the team it is on."""

    team = serializers.SlugField()
    role = serializers.ChoiceField(choices=Role.choices)


class ServiceTokenShape(serializers.ModelSerializer[ServiceToken]):
    """A token of a service account without its secret."""

    team = serializers.SlugRelatedField[Any](
        slug_field="slug", read_only=True, help_text="It reaches only this team and those below it."
    )
    made_by = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, help_text="Who has read it."
    )

    class Meta:
        model = ServiceToken
        fields = (
            "id",
            "name",
            "prefix",
            "scope",
            "team",
            "made_by",
            "created_at",
            "expires_at",
            "last_used_at",
            "last_address",
        )


class ServiceSecretShape(ServiceTokenShape):
    """A token with its secret, as it is answered once."""

    token = serializers.CharField(read_only=True)

    class Meta(ServiceTokenShape.Meta):
        fields = (*ServiceTokenShape.Meta.fields, "token")  # type: ignore[assignment]


class ServiceShape(serializers.Serializer[Any]):
    """A service account; roles as far as you may see their teams."""

    name = serializers.CharField()
    username = serializers.CharField(help_text="As its workloads and the audit trail name it.")
    description = serializers.CharField()
    team = serializers.SlugField(help_text="The team that owns it.")
    state = serializers.ChoiceField(choices=[each.value for each in AccountState])
    created_at = serializers.DateTimeField()
    roles = ServiceRoleShape(many=True)
    tokens = serializers.IntegerField(help_text="Valid ones.")
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_address = serializers.CharField(allow_null=True)
    limits = serializers.DictField(
        child=serializers.IntegerField(), help_text="Those that differ from everybody's."
    )


def _limit(text: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=actions.MOST_OF_LIMIT, help_text=text
    )


class LimitsShape(StrictSerializer):
    """Limits of its own; null: as everybody's. Only organisation admins set them."""

    requests_per_minute = _limit("Of all its tokens together, and of each.")
    submissions_per_hour = _limit("Workloads.")
    open_workloads = _limit("At once.")
    streams = _limit("Open at once in each process of the server.")


class NewServiceShape(StrictSerializer):
    """A service account to be made, with a role on the team that owns it, or without."""

    name = serializers.CharField(max_length=60)
    team = serializers.SlugField()
    description = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")
    role = serializers.ChoiceField(choices=Role.choices, required=False, allow_null=True, default=None)


class ServicePatch(StrictSerializer):
    """Another description, or another team to own it."""

    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    team = serializers.SlugField(required=False)
    limits = LimitsShape(required=False)


class DisableServiceShape(StrictSerializer):
    """What becomes of its open workloads, and who takes them over."""

    workloads = serializers.ChoiceField(
        choices=[each.value for each in Leaving], required=False, default=Leaving.LEAVE.value
    )
    to = serializers.CharField(
        max_length=254,
        required=False,
        allow_null=True,
        default=None,
        help_text="User name or e-mail address of a person.",
    )


class ServiceEndedShape(serializers.Serializer[Any]):
    """How many tokens were revoked, and how many open workloads that concerned."""

    tokens = serializers.IntegerField()
    workloads = serializers.IntegerField()


class NewServiceTokenShape(StrictSerializer):
    """What a token to be made is called, may do where, and how long it is valid."""

    name = serializers.CharField(max_length=80)
    scope = serializers.ChoiceField(choices=Scope.choices)
    expires_in_days = serializers.IntegerField(min_value=1, max_value=LONGEST_DAYS, default=DEFAULT_DAYS)
    team = serializers.SlugField(
        required=False, allow_null=True, default=None, help_text="Only this team and those below it."
    )


class RotateShape(StrictSerializer):
    """For how long the old token goes on."""

    overlap_minutes = serializers.IntegerField(
        min_value=0, max_value=actions.LONGEST_OVERLAP_MINUTES, default=actions.OVERLAP_MINUTES
    )


def _shape(shown: reading.ShownAccount) -> Any:
    account, last = shown.account, shown.last_used
    body = {
        "name": account.name,
        "username": account.user.username,
        "description": account.description,
        "team": account.team.slug,
        "state": shown.state.value,
        "created_at": account.created_at,
        "roles": [{"team": binding.team.slug, "role": binding.role} for binding in shown.roles],
        "tokens": len(shown.tokens),
        "last_used_at": last.last_used_at if last else None,
        "last_address": last.last_address if last else None,
        "limits": account.limits or {},
    }
    return ServiceShape(body).data


def _once(token: ServiceToken, secret: str) -> Response:
    body = {**ServiceTokenShape(token).data, "token": secret}
    return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


def _made_with(request: Request) -> BearerToken | None:
    return request.auth if isinstance(request.auth, BearerToken) else None


class NewestServiceFirst(NewestFirst):
    """By when it was made."""

    ordering = ("-created_at", "-id")


class Services(GenericAPIView[ServiceAccount]):
    """Service accounts, as far as your role gives roles or reads the trail."""

    token_scope = MANAGE
    serializer_class = ServiceShape
    pagination_class = NewestServiceFirst

    @extend_schema(responses=ServiceShape(many=True))
    def get(self, request: Request) -> Response:
        """Return a page of them, the newest first; 403 where your role shows you none."""
        found = self.paginate_queryset(reading.services_for(person(request))) or []
        return self.get_paginated_response([_shape(each) for each in reading.shown(found, person(request))])

    @extend_schema(request=NewServiceShape, responses={201: ServiceShape})
    def post(self, request: Request) -> Response:
        """Make one that a team owns; 409 where the name is taken."""
        values = values_of(request, NewServiceShape)
        team = team_for(request, values.pop("team"), field="team")
        role = Role(values.pop("role")) if values["role"] else values.pop("role")
        made = actions.create_service(by=actor(request), team=team, role=role, **values)
        shown = reading.service_for(person(request), made.name)
        return Response(_shape(shown), status=status.HTTP_201_CREATED)


class ServiceDetail(APIView):
    """One service account."""

    token_scope = MANAGE

    @extend_schema(responses=ServiceShape)
    def get(self, request: Request, name: str) -> Response:
        """Return it."""
        return Response(_shape(reading.service_for(person(request), name)))

    @extend_schema(request=ServicePatch, responses=ServiceShape)
    def patch(self, request: Request, name: str) -> Response:
        """Give it another description, to another team, or limits of its own."""
        shown, values = reading.service_for(person(request), name), values_of(request, ServicePatch)
        limits = values.pop("limits", None)
        if "team" in values:
            values["team"] = team_for(request, values["team"], field="team")
        with transaction.atomic():
            if limits:
                actions.set_limits(by=actor(request), account=shown.account, limits=limits)
            if values or not limits:
                actions.change_service(by=actor(request), account=shown.account, **values)
        return Response(_shape(reading.service_for(person(request), name)))


class ServiceDisable(APIView):
    """Having it let nobody in any more."""

    token_scope = MANAGE

    @extend_schema(request=DisableServiceShape, responses=ServiceEndedShape)
    def post(self, request: Request, name: str) -> Response:
        """Revoke its tokens; 409 where it is disabled already."""
        shown, values = reading.service_for(person(request), name), values_of(request, DisableServiceShape)
        actions.require_manage(actor(request), shown.account)  # before anything is told of who has an account
        heir = find_person(values["to"]) if values["to"] else None
        leaving = Leaving(values["workloads"])
        ended = actions.disable_service(
            by=actor(request), account=shown.account, workloads=leaving, heir=heir
        )
        return Response(ended)


class ServiceEnable(APIView):
    """Having it be used again."""

    token_scope = MANAGE

    @extend_schema(request=None, responses=ServiceShape)
    def post(self, request: Request, name: str) -> Response:
        """Let it have tokens again; 409 where it is not disabled."""
        shown = reading.service_for(person(request), name)
        actions.enable_service(by=actor(request), account=shown.account)
        return Response(_shape(reading.service_for(person(request), name)))


class ServiceTokens(APIView):
    """The tokens of a service account."""

    token_scope = MANAGE

    @extend_schema(responses=ServiceTokenShape(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Return the valid ones, newest first, without their secrets."""
        shown = reading.service_for(person(request), name)
        return one_page([ServiceTokenShape(token).data for token in shown.tokens])

    @extend_schema(
        request=NewServiceTokenShape,
        responses={201: ServiceSecretShape},
    )
    def post(self, request: Request, name: str) -> Response:
        """Make one and return its secret, this once; it expires with the token it is made with at the latest."""
        shown, values = reading.service_for(person(request), name), values_of(request, NewServiceTokenShape)
        team = team_for(request, values["team"], field="team") if values["team"] else None
        wanted = TokenRequest(values["name"], Scope(values["scope"]), values["expires_in_days"], team)
        made = actions.make_token(
            by=actor(request), account=shown.account, wanted=wanted, made_with=_made_with(request)
        )
        return _once(*made)


class ServiceTokenDetail(APIView):
    """One token of a service account."""

    token_scope = MANAGE

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, token_id: uuid.UUID) -> Response:
        """Revoke it, now and for good."""
        account = reading.service_for(person(request), name).account
        actions.revoke_token(by=actor(request), token=reading.token_for(account, token_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ServiceTokenRotate(APIView):
    """Replacing a token."""

    token_scope = MANAGE

    @extend_schema(
        request=RotateShape,
        responses={201: ServiceSecretShape},
    )
    def post(self, request: Request, name: str, token_id: uuid.UUID) -> Response:
        """Make one that may do the same for as long, and return its secret, this once.

        The old one goes on for a while.
        """
        account = reading.service_for(person(request), name).account
        made = actions.rotate_token(
            by=actor(request),
            token=reading.token_for(account, token_id),
            overlap_minutes=values_of(request, RotateShape)["overlap_minutes"],
            made_with=_made_with(request),
        )
        return _once(*made)
