"""The API of arrays: list, read, and what is done to all members. Arrays are submitted as workloads are."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.api_document import in_query
from chamber.errors import Refusal, one_of
from chamber.rest import MAX_CURSOR, MAX_LIMIT, decode_cursor, encode_cursor, etag, limit_of, short_of
from teams.api.requests import actor, person, team_for
from teams.models import Team
from workloads import listing
from workloads.arrays import acts, shapes
from workloads.arrays.shapes import ArrayShape
from workloads.models import WorkloadArray

FILTERS = [
    in_query("team", "Slug of a team: its arrays, and those of teams below it."),
    in_query("owner", "A user name, or me."),
]


class ArrayActShape(serializers.Serializer[Any]):
    """What was done to an array, and to how many of its members."""

    done = serializers.IntegerField(help_text="To how many members it was done.")
    message = serializers.CharField()
    array = ArrayShape()


def array_for(request: Request, slug: str) -> WorkloadArray:
    """Return the array with this slug as far as the asker may see it; raise `NotVisible` otherwise."""
    rows = WorkloadArray.objects.visible_to(person(request)).select_related("team", "owner")
    return one_of(rows, "array", slug=slug)


class Arrays(APIView):
    """All arrays that one may see."""

    @extend_schema(
        parameters=[
            *FILTERS,
            in_query(
                "limit",
                f"How many rows; {listing.LARGEST_PAGE} where it is more.",
                type="integer",
                minimum=1,
                maximum=MAX_LIMIT,
                default=listing.PAGE_SIZE,
            ),
            in_query("cursor", "Where a page begins, as `next` of another one says.", maxLength=MAX_CURSOR),
        ],
        responses=ArrayShape(many=True),
    )
    def get(self, request: Request) -> Response:
        """List arrays, newest first."""
        short_of(request, *(parameter.name for parameter in FILTERS))
        size = limit_of(request, most=listing.LARGEST_PAGE, otherwise=listing.PAGE_SIZE)
        rows = WorkloadArray.objects.visible_to(person(request)).select_related("team", "owner")
        if team := request.query_params.get("team"):
            rows = rows.filter(team__in=Team.objects.within(team_for(request, team, field="team")))
        if owner := request.query_params.get("owner", "").strip():
            if unknown := listing.unknown_owner(owner, person(request)):
                raise unknown
            mine = owner == listing.MINE
            rows = rows.filter(owner=person(request)) if mine else rows.filter(owner__username=owner)
        if cursor := request.query_params.get("cursor"):
            rows = rows.filter(pk__lt=_place(cursor))
        found = list(rows.order_by("-pk")[: size + 1])
        following = None
        if len(found) > size:
            query = request.query_params.copy()
            query["cursor"] = encode_cursor("array", found[size - 1].pk.hex)
            following = request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
        return Response({"next": following, "previous": None, "results": shapes.shown(found[:size])})


def _place(cursor: str) -> str:
    """Return the id after which a page begins."""
    parts = decode_cursor(cursor) if len(cursor) <= MAX_CURSOR else None
    if parts is None or len(parts) != 2 or parts[0] != "array" or not _is_hex(parts[1]):
        raise Refusal("cursor is none of this list and order: begin without one.", field="cursor")
    return parts[1]


def _is_hex(text: str) -> bool:
    return len(text) == 32 and all(letter in "0123456789abcdef" for letter in text)


class OneArray(APIView):
    """One array."""

    @extend_schema(responses=ArrayShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return the array with how its members stand; they are listed by `workloads/?array=SLUG`."""
        array = array_for(request, slug)
        return Response(shapes.shown([array])[0], headers={"ETag": etag(array.version)})


class ArrayAct(APIView):
    """Cancel, hold, release or retry the members of one array; `act` is set by its address."""

    token_scope = "submit"  # noqa: S105 - the scope that a token needs
    act = ""

    @property
    def summary(self) -> str:
        """What the API's document calls it."""
        return f"One array: {self.act} its members"

    @extend_schema(request=None, responses=ArrayActShape)
    def post(self, request: Request, slug: str) -> Response:
        """Do it to all members whose status allows it, and say to how many; 409 where there is none."""
        array = array_for(request, slug)
        done = acts.act_on(by=actor(request), array=array, act=self.act)
        told = shapes.shown([array])[0]
        return Response({"done": done, "message": acts.sentence(array, self.act, done), "array": told})
