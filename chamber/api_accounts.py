"""The API of accounts: sign in for a token, who am I, and my tokens."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import sign_in_trail
from chamber.authentication import TokenAuthentication, sign_in
from chamber.errors import NotAllowed, one_of
from chamber.factors.adapter import WRONG_CODE
from chamber.factors.codes import LONGEST, try_code
from chamber.factors.reading import KINDS, NAMES, has_factor
from chamber.models import ApiToken, BearerToken, Scope, ServiceToken, User
from chamber.people import notices
from chamber.requirement import due, require
from chamber.tokens import DEFAULT_DAYS, LONGEST_DAYS, create_token, revoke_token
from teams.api.requests import via
from teams.api.shapes import StrictSerializer
from teams.job_classes import OrganisationClasses
from teams.models import PriorityTier, Team
from teams.permissions import Permission, paths_where, roles_by_path, roles_on
from teams.rules import effective_rules_by_team, limits_for


class ApiTokenSerializer(serializers.ModelSerializer[Any]):
    """A token without its secret."""

    team = serializers.SlugRelatedField[Any](
        slug_field="slug",
        read_only=True,
        help_text="It reaches only this team and those below it; null: all that its owner's roles reach.",
    )

    class Meta:
        model = ApiToken
        fields = (
            "id",
            "name",
            "prefix",
            "scope",
            "team",
            "created_at",
            "expires_at",
            "last_used_at",
            "last_address",
        )


class NewApiTokenSerializer(StrictSerializer):
    """What a token to be made is called, may do, and how long it is valid."""

    name = serializers.CharField(max_length=80)
    scope = serializers.ChoiceField(choices=Scope.choices)
    expires_in_days = serializers.IntegerField(min_value=1, max_value=LONGEST_DAYS, default=DEFAULT_DAYS)
    team = serializers.SlugField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Only this team and those below it; null: all that your roles reach.",
    )


class LoginSerializer(NewApiTokenSerializer):
    """A user name or an e-mail address, a password, and the token wanted for them."""

    username = serializers.CharField(max_length=254)
    password = serializers.CharField(max_length=1000, trim_whitespace=False, write_only=True)
    code = serializers.CharField(
        max_length=LONGEST,
        required=False,
        allow_blank=True,
        default="",
        write_only=True,
        help_text="Of an authenticator app, or a recovery code; asked for of who has a second factor.",
    )
    name = serializers.CharField(max_length=80, default="API")
    scope = serializers.ChoiceField(choices=Scope.choices, default=Scope.ADMIN)


class SecretSerializer(ApiTokenSerializer):
    """A token with its secret, as it is answered once."""

    token = serializers.CharField(read_only=True)

    class Meta(ApiTokenSerializer.Meta):
        fields = (*ApiTokenSerializer.Meta.fields, "token")  # type: ignore[assignment]


def _answer_once(token: ApiToken, secret: str) -> Response:
    body = {**ApiTokenSerializer(token).data, "token": secret}
    return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


class Login(GenericAPIView[Any]):
    """A new token for a user name, or an e-mail address, and a password."""

    authentication_classes = [TokenAuthentication]
    permission_classes = [AllowAny]
    serializer_class = LoginSerializer

    @extend_schema(responses={201: SecretSerializer, 403: None}, auth=[])
    def post(self, request: Request) -> Response:
        """Make the token; 401 where name and password do not go together, 429 after too many tries.

        Who has a second factor sends a code as well: without one, or with a wrong one, the 401 has the code
        `second-factor`.
        """
        asked = LoginSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        user = sign_in(request._request, data["username"], data["password"], via=via(request))
        if user is None:
            raise exceptions.AuthenticationFailed("The user name and the password do not go together.")
        require(user)
        factor = _second_factor(request, user, data["code"])
        team = _team(user, data["team"])
        with transaction.atomic():
            sign_in_trail.signed_in(user, via(request), factor=factor)
            made = create_token(
                user=user,
                name=data["name"],
                scope=Scope(data["scope"]),
                days=data["expires_in_days"],
                team=team,
                via=via(request),
            )
        notices.token_made(request._request, made[0])
        return _answer_once(*made)


class FactorNeeded(exceptions.AuthenticationFailed):
    """The password is right, and a second factor is needed."""

    default_code = "second-factor"


def _second_factor(request: Request, user: User, code: str) -> str:
    """Return the second factor whose code this is, in words; "" for who has none. Raise `FactorNeeded` without it."""
    if not has_factor(user):
        return ""
    if not code:
        raise FactorNeeded(
            "This account has a second factor: send a code of its authenticator app, or a recovery code, as `code`. "
            "Passkeys sign in on pages only; a token is made there, too."
        )
    found = try_code(request._request, user, code, via=via(request))
    if found is None:
        raise FactorNeeded(WRONG_CODE)
    return NAMES[KINDS[found.type]].lower()


class Tokens(GenericAPIView[ApiToken]):
    """The signed-in user's own tokens."""

    of_account = True
    serializer_class = ApiTokenSerializer

    def get_queryset(self) -> QuerySet[ApiToken]:
        """Return those that were not revoked."""
        return ApiToken.read().filter(user=_user(self.request), revoked_at=None)

    @extend_schema(responses=ApiTokenSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Return the tokens, newest first, without their secrets."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(ApiTokenSerializer(page, many=True).data)

    @extend_schema(request=NewApiTokenSerializer, responses={201: SecretSerializer})
    def post(self, request: Request) -> Response:
        """Make a token and return its secret, this once."""
        if isinstance(request.auth, ServiceToken):
            raise NotAllowed("Tokens of a service account are made by those who manage it.")
        asked = NewApiTokenSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        made_with = request.auth if isinstance(request.auth, ApiToken) else None
        token, secret = create_token(
            user=_user(request),
            name=data["name"],
            scope=Scope(data["scope"]),
            days=data["expires_in_days"],
            team=_team(_user(request), data["team"]),
            made_with=made_with,
            via=via(request),
        )
        notices.token_made(request._request, token)
        return _answer_once(token, secret)


class TokenDetail(APIView):
    """One of the signed-in user's own tokens."""

    # Any token may ask: `revoke_token` lets one of a smaller scope revoke only itself.
    token_scope = Scope.READ

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: uuid.UUID) -> Response:
        """Revoke it, now and for good."""
        revoked_with = request.auth if isinstance(request.auth, ApiToken) else None
        revoke_token(user=_user(request), token_id=token_id, revoked_with=revoked_with, via=via(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class RoleSerializer(serializers.Serializer[Any]):
    """A role and the team it reaches from."""

    team = serializers.SlugField()
    team_name = serializers.CharField()
    role = serializers.CharField()


class SubmitSerializer(serializers.Serializer[Any]):
    """A team that the user may submit to, and the priorities allowed there."""

    team = serializers.SlugField()
    elastic_max = serializers.IntegerField(help_text="Highest priority of elastic work.")
    reserved_max = serializers.IntegerField(
        allow_null=True, help_text="Highest of reserved work; null: none."
    )
    tiers = serializers.DictField(child=serializers.IntegerField(), help_text="Names for priorities.")


class MeSerializer(serializers.Serializer[Any]):
    """Who is signed in, and what for."""

    id = serializers.UUIDField()
    username = serializers.CharField()
    name = serializers.CharField()
    email = serializers.CharField(help_text="Empty: none.")
    token = ApiTokenSerializer(allow_null=True)
    roles = RoleSerializer(many=True)
    may_submit_to = SubmitSerializer(many=True)
    second_factor_due = serializers.DateTimeField(
        allow_null=True, help_text="From when on you can only set up a second factor; null: you need not."
    )


class Me(APIView):
    """Who the request comes from."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the user, the token used, roles by team, and where which priorities may be submitted."""
        user = _user(request)
        me = {
            "id": user.pk,
            "username": user.username,
            "name": str(user),
            "email": user.email,
            "token": request.auth if isinstance(request.auth, BearerToken) else None,
            "roles": _roles(user),
            "may_submit_to": _may_submit_to(user),
            "second_factor_due": due(user),
        }
        return Response(MeSerializer(me).data)


def _roles(user: User) -> list[dict[str, str]]:
    """Return the roles, as far as the token leaves them, from where they reach."""
    held = roles_by_path(user)
    teams = Team.objects.active().filter(path__in=held).order_by("path")
    return [
        {"team": team.slug, "team_name": team.name, "role": role}
        for team in teams
        for role in sorted(held[team.path])
    ]


def _team(user: User, slug: str | None) -> Team | None:
    """Return the team to which a token is to be limited, as far as the person sees it."""
    return one_of(Team.objects.visible_to(user), "team", field="team", slug=slug) if slug else None


def _may_submit_to(user: User) -> list[dict[str, Any]]:
    """Return the teams that take the user's workloads (four queries, however many teams)."""
    teams = list(Team.objects.active().under_any(paths_where(user, Permission.SUBMIT)))
    rules = effective_rules_by_team(teams)
    roles = {team.slug: roles_on(user, team) for team in teams}
    limits = {team.slug: limits_for(roles[team.slug], rules[team.pk]) for team in teams}
    tiers = OrganisationClasses(tuple(PriorityTier.objects.all()), {}, "", {})
    return [
        {
            "team": slug,
            "elastic_max": limit.elastic_max,
            "reserved_max": limit.reserved_max,
            "tiers": tiers.offered(limit, roles[slug]),
        }
        for slug, limit in limits.items()
    ]


def _user(request: Request) -> User:
    """Return the user, whom the permission classes have already asked for."""
    if not isinstance(request.user, User):
        raise exceptions.NotAuthenticated
    return request.user
