"""People over the API."""

from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import sessions
from chamber.api_document import in_query
from chamber.errors import NotAllowed, Refusal, no_such
from chamber.models import User
from chamber.people import actions, reading
from chamber.people.actions import Made
from chamber.people.leaving import Leaving
from chamber.people.mail import bound, deliver, tell_old_address
from chamber.people.reading import PersonState
from chamber.rest import NewestFirst, flag_of, short_of
from teams.actions.members import find_person
from teams.api.requests import actor, one_page, person, team_for, values_of
from teams.api.shapes import StrictSerializer
from teams.models import Role
from teams.permissions import Permission, may_anywhere


class PersonRoleShape(serializers.Serializer[Any]):
    """A role, the team it is on, and the group by which it is somebody's."""

    team = serializers.SlugField()
    role = serializers.ChoiceField(choices=Role.choices)
    group = serializers.CharField(allow_null=True)


class PersonShape(serializers.Serializer[Any]):
    """Somebody who has, or had, an account; roles as far as you may see their teams."""

    username = serializers.CharField()
    name = serializers.CharField()
    email = serializers.CharField()
    state = serializers.ChoiceField(choices=[each.value for each in PersonState])
    created_at = serializers.DateTimeField()
    last_sign_in = serializers.DateTimeField(allow_null=True)
    second_factor = serializers.BooleanField(
        allow_null=True, help_text="Whether they have one; null: your role does not let you see it."
    )
    link_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Of the link that was made for them and not used; null: there is none."
    )
    roles = PersonRoleShape(many=True)


class LinkShape(serializers.Serializer[Any]):
    """A link by which somebody sets their password, once; it is answered this once, and not where it was mailed."""

    username = serializers.CharField()
    purpose = serializers.ChoiceField(choices=["invitation", "reset"])
    mailed_to = serializers.CharField(allow_blank=True, help_text="Empty: to nobody.")
    url = serializers.CharField(
        allow_null=True,
        help_text="Null: it was mailed, or could not be and only an organisation admin is shown it then.",
    )
    not_mailed_to = serializers.CharField(
        allow_blank=True,
        help_text="The address to which the mail server took no mail; empty: it was asked for none, or took it.",
    )
    expires_at = serializers.DateTimeField()


class NewPersonShape(StrictSerializer):
    """Somebody to let in, with a role on a team or, by an organisation admin, without."""

    username = serializers.CharField(max_length=60)
    name = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")
    email = serializers.CharField(max_length=254, required=False, allow_blank=True, default="")
    team = serializers.SlugField(required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(choices=Role.choices, required=False, allow_null=True, default=None)
    mail = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Whether the link is mailed; else it is answered. Unless said, where that can be done.",
    )


class NewLinkShape(StrictSerializer):
    """Another link."""

    mail = serializers.BooleanField(
        required=False, allow_null=True, default=None, help_text="As of a new person."
    )


class PersonPatch(StrictSerializer):
    """Another name or address."""

    name = serializers.CharField(max_length=300, required=False, allow_blank=True)
    email = serializers.CharField(max_length=254, required=False, allow_blank=True)


class DisableShape(StrictSerializer):
    """What becomes of their open workloads, and who takes them over."""

    workloads = serializers.ChoiceField(
        choices=[each.value for each in Leaving], required=False, default=Leaving.LEAVE.value
    )
    to = serializers.CharField(
        max_length=254,
        required=False,
        allow_null=True,
        default=None,
        help_text="User name or e-mail address.",
    )


class EndedShape(serializers.Serializer[Any]):
    """How much was ended, and how many open workloads that concerned."""

    sessions = serializers.IntegerField()
    tokens = serializers.IntegerField(required=False)
    workloads = serializers.IntegerField(required=False)


class SessionShape(serializers.Serializer[Any]):
    """A browser in which somebody is signed in."""

    id = serializers.IntegerField()
    address = serializers.CharField(help_text="Last seen; 0.0.0.0 where it has none.")
    agent = serializers.CharField(help_text="What the browser says it is.")
    created_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()


def _body(shown: reading.ShownPerson) -> dict[str, Any]:
    user, link = shown.user, shown.link
    roles = [
        {
            "team": binding.team.slug,
            "role": binding.role,
            "group": binding.group.name if binding.group else None,
        }
        for binding in shown.roles
    ]
    return {
        "username": user.username,
        "name": user.get_full_name(),
        "email": user.email,
        "state": shown.state.value,
        "created_at": user.created_at,
        "last_sign_in": user.last_login,
        "second_factor": shown.has_factor,
        "link_expires_at": link.expires_at if link else None,
        "roles": roles,
    }


def _shape(shown: reading.ShownPerson) -> Any:
    return PersonShape(_body(shown)).data


def _link(made: Made, request: Request) -> Response:
    """Mail a link, or answer it, this once."""
    delivered = deliver(made, request._request, by=actor(request))
    body = {
        "username": made.link.user.username,
        "purpose": made.link.purpose,
        "mailed_to": delivered.mailed_to,
        "url": delivered.url or None,
        "not_mailed_to": "" if delivered.mailed_to else made.link.mailed_to,
        "expires_at": made.link.expires_at,
    }
    shape = LinkShape(body).data
    return Response(shape, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


def _mailed(request: Request, wanted: bool | None, email: str) -> bool:
    """Return whether a link is mailed, and count that; refuse where it is to be and cannot be, or is once too often."""
    if wanted and not settings.MAIL:
        raise Refusal("This server sends no mail: leave mail out, and hand over the link.", field="mail")
    mailed = settings.MAIL and bool(email) if wanted is None else wanted
    if mailed:
        bound(request._request, "links", by=person(request), to=email)
    return mailed


class NewestPersonFirst(NewestFirst):
    """By when the account was made."""

    ordering = ("-created_at", "-id")


class People(GenericAPIView[User]):
    """People, as far as your role gives roles or reads the trail."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    serializer_class = PersonShape
    pagination_class = NewestPersonFirst

    @extend_schema(
        responses=PersonShape(many=True),
        parameters=[
            in_query("search", "Stands in a name or the address."),
            in_query("state", "How the account stands.", enum=[each.value for each in PersonState]),
            in_query("second_factor", "Who has one, or lacks one; organisation admins ask.", type="boolean"),
        ],
    )
    def get(self, request: Request) -> Response:
        """Return a page of them, the newest account first; 403 where your role shows you nobody."""
        short_of(request, "search")
        asked = request.query_params
        rows = reading.people_for(person(request))
        factor = None
        if "second_factor" in asked:
            actions.require_people(actor(request))
            factor = flag_of(request, "second_factor")
        rows = reading.matching(
            rows, text=asked.get("search", ""), state=asked.get("state", ""), factor=factor
        )
        found = self.paginate_queryset(rows) or []
        return self.get_paginated_response([_shape(each) for each in reading.shown(found, person(request))])

    @extend_schema(request=NewPersonShape, responses={201: LinkShape})
    def post(self, request: Request) -> Response:
        """Make an account, and the link by which its person sets a password; 409 where name or address are taken."""
        values = values_of(request, NewPersonShape)
        slug, role = values.pop("team"), values.pop("role")
        team = team_for(request, slug, field="team") if slug else None
        if not may_anywhere(person(request), Permission.MANAGE_MEMBERS):
            raise NotAllowed("Your role does not let you invite anybody: only who gives roles may.")
        given = Role(role) if role else None
        if (team is None) == (given is None):  # else what is sent is wrong for anybody
            actions.require_invite(actor(request), team, given)
        made = actions.invite(
            by=actor(request),
            team=team,
            role=given,
            mailed=_mailed(request, values.pop("mail"), values["email"]),
            **values,
        )
        return _link(made, request)


class PersonDetail(APIView):
    """One person."""

    @extend_schema(responses=PersonShape)
    def get(self, request: Request, username: str) -> Response:
        """Return them."""
        return Response(_shape(reading.person_for(person(request), username)))

    @extend_schema(request=PersonPatch, responses=PersonShape)
    def patch(self, request: Request, username: str) -> Response:
        """Give them another name or e-mail address."""
        shown = reading.person_for(person(request), username)
        changed = actions.change(by=actor(request), user=shown.user, **values_of(request, PersonPatch))
        tell_old_address(request._request, changed, shown.user.email)
        return Response(_shape(reading.person_for(person(request), username)))


class PersonLink(APIView):
    """The link by which somebody sets their password."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=NewLinkShape, responses={201: LinkShape})
    def post(self, request: Request, username: str) -> Response:
        """Make another one in place of the one before; 409 for who is disabled."""
        shown = reading.person_for(person(request), username)
        wanted = values_of(request, NewLinkShape)["mail"]
        actions.require_link(actor(request), shown.user)
        mailed = _mailed(request, wanted, shown.user.email)
        return _link(actions.new_link(by=actor(request), user=shown.user, mailed=mailed), request)


class PersonDisable(APIView):
    """Putting somebody out."""

    @extend_schema(request=DisableShape, responses=EndedShape)
    def post(self, request: Request, username: str) -> Response:
        """End their sessions, tokens and links; 409 for the last organisation admin, yourself, and who is out."""
        shown, values = reading.person_for(person(request), username), values_of(request, DisableShape)
        actions.require_people(actor(request))  # before anything is told of who has an account
        heir = find_person(values["to"]) if values["to"] else None
        leaving = Leaving(values["workloads"])
        return Response(actions.disable(by=actor(request), user=shown.user, workloads=leaving, heir=heir))


class PersonEnable(APIView):
    """Letting somebody in again."""

    @extend_schema(request=None, responses=PersonShape)
    def post(self, request: Request, username: str) -> Response:
        """Let them sign in with the password and the roles that they had; 409 where they can."""
        shown = reading.person_for(person(request), username)
        actions.enable(by=actor(request), user=shown.user)
        return Response(_shape(reading.person_for(person(request), username)))


class PersonSessions(APIView):
    """The sessions of somebody: your own, and as an organisation admin anybody's."""

    of_account = True

    @extend_schema(responses=SessionShape(many=True))
    def get(self, request: Request, username: str) -> Response:
        """Return them, the last used first."""
        found = sessions.of(whose(request, username))
        return one_page([_session(each) for each in found])

    @extend_schema(operation_id="people_sessions_end_all", responses={200: EndedShape})
    def delete(self, request: Request, username: str) -> Response:
        """End all of them; tokens stay."""
        return Response(actions.end_sessions(by=actor(request), user=whose(request, username)))


class PersonSession(APIView):
    """One session of somebody."""

    of_account = True

    @extend_schema(operation_id="people_sessions_end", responses={204: None})
    def delete(self, request: Request, username: str, session_id: int) -> Response:
        """End it."""
        user = whose(request, username)
        found = next((each for each in sessions.of(user) if each.pk == session_id), None)
        if found is None:
            raise no_such("session", session_id)
        actions.end_sessions(by=actor(request), user=user, only=found)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _session(row: UserSession) -> Any:
    told = {"id": row.pk, "address": row.ip, "agent": row.user_agent}
    return SessionShape({**told, "created_at": row.created_at, "last_seen_at": row.last_seen_at}).data


def whose(request: Request, username: str, what: str = "Sessions") -> User:
    """Return oneself, or whom one manages; `what` of theirs is asked for."""
    user = person(request)
    if username == user.username:
        return user
    shown = reading.person_for(user, username)
    if not may_anywhere(user, Permission.MANAGE_PEOPLE):
        raise NotAllowed(f"{what} of others are an organisation admin's to see and to end.")
    return shown.user
