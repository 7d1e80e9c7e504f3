"""Inviting many people from a CSV: a page that tells of each line first, and the same over the API."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.errors import Refusal
from chamber.http import page, posted_from
from chamber.people.csv_rows import COLUMNS, MOST_LINES, UnreadableList, decoded
from chamber.people.forms import CsvForm
from chamber.people.many import LONGEST, MOST_AT_ONCE, Invited, invite_all, judged
from chamber.people.views import gives_no_role
from teams.api import requests as api
from teams.api.shapes import StrictSerializer
from teams.forms import show_refusal
from teams.permissions import Permission, may_anywhere
from teams.views.requests import actor, person


@require_http_methods(["GET", "HEAD", "POST"])
def preview(request: HttpRequest) -> HttpResponse:
    """Take a list of people, and show who would be invited and what is wrong with each other line; invite nobody."""
    _require_giver(request)
    form = CsvForm(request.POST, request.FILES) if request.method == "POST" else CsvForm()
    if request.method != "POST" or not form.is_valid():
        return _page(request, form)
    try:
        text = _text(form)
        rows = judged(text, by=actor(request), place="text")
    except Refusal as refusal:
        show_refusal(form, refusal)
        return _page(request, form)
    # A file is mended where it is, and sent again: its text beside it would be refused.
    pasted = {} if form.cleaned_data["file"] else {"text": text}
    return _page(request, CsvForm(initial=pasted), rows=rows, text=text)


@posted_from("chamber:people-csv")
def add(request: HttpRequest) -> HttpResponse:
    """Invite everybody of a list who has no fault; each link is mailed, or shown on the page that this answers."""
    _require_giver(request)
    form = CsvForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    try:
        rows = judged(form.cleaned_data["text"], by=actor(request), place="text")
    except Refusal as refusal:
        show_refusal(form, refusal)
        return _page(request, form)
    return _page(request, CsvForm(), done=invite_all(rows, by=actor(request), request=request))


def _require_giver(request: HttpRequest) -> None:
    if not may_anywhere(person(request), Permission.MANAGE_MEMBERS):
        raise gives_no_role()


def _text(form: CsvForm) -> str:
    """Return the text that was pasted, or that of the file."""
    file = form.cleaned_data["file"]
    if file is None:
        return str(form.cleaned_data["text"])
    if file.size > 4 * LONGEST:
        raise Refusal(f"The file has {file.size:,} bytes; at most {4 * LONGEST:,} are taken.", field="file")
    try:
        return decoded(file.read())
    except UnreadableList as error:
        raise Refusal(str(error), field="file") from error


def _page(
    request: HttpRequest,
    form: CsvForm,
    *,
    rows: Sequence[Invited] = (),
    done: Sequence[Invited] = (),
    text: str = "",
) -> HttpResponse:
    context = {
        "form": form,
        "rows": rows,
        "done": done,
        "text": text,
        "faulty": sum(bool(row.fault) for row in rows or done),
        "fit": sum(not row.fault for row in rows or done),
        "columns": COLUMNS,
        "most": MOST_AT_ONCE,
        "most_by_command": f"{MOST_LINES:,}",
        "mail": settings.MAIL,
    }
    return page(request, "people/csv.html", context, status=422 if form.errors else 200)


class PeopleCsvShape(StrictSerializer):
    """A list of people as CSV text, its first line the heading."""

    csv = serializers.CharField(
        max_length=LONGEST,
        trim_whitespace=False,
        help_text=f"With the columns {', '.join(COLUMNS)}; at most {MOST_AT_ONCE} people.",
    )
    preview = serializers.BooleanField(
        required=False, default=False, help_text="Whether only to tell what is wrong with each line."
    )


class CsvPersonShape(serializers.Serializer[Any]):
    """Somebody of a line: the fault for which they are not invited, or what became of their link."""

    line = serializers.IntegerField()
    username = serializers.CharField(allow_blank=True)
    fault = serializers.CharField(allow_blank=True, help_text="Empty: there is none.")
    mailed_to = serializers.CharField(allow_blank=True, help_text="Empty: to nobody.")
    url = serializers.CharField(allow_null=True, help_text="The link, this once; null: it is not shown.")


class PeopleCsvDone(serializers.Serializer[Any]):
    """What became of each line."""

    invited = serializers.IntegerField(help_text="How many were; of a preview, would be.")
    lines = CsvPersonShape(many=True)


class PeopleCsv(APIView):
    """Many people from a CSV."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=PeopleCsvShape, responses={200: PeopleCsvDone, 201: PeopleCsvDone})
    def post(self, request: Request) -> Response:
        """Invite everybody whose line has no fault, and tell of each other what it is; 200 for a preview, which invites
        nobody.
        """
        values = api.values_of(request, PeopleCsvShape)
        _require_giver(request._request)
        rows = judged(values["csv"], by=api.actor(request), place="csv")
        if not values["preview"]:
            rows = invite_all(rows, by=api.actor(request), request=request._request)
        made = status.HTTP_200_OK if values["preview"] else status.HTTP_201_CREATED
        body = {"invited": sum(not row.fault for row in rows), "lines": [_line(row) for row in rows]}
        return Response(PeopleCsvDone(body).data, status=made, headers={"Cache-Control": "no-store"})


def _line(row: Invited) -> dict[str, Any]:
    return {
        "line": row.person.line,
        "username": row.person.username,
        "fault": row.fault,
        "mailed_to": row.delivered.mailed_to,
        "url": row.delivered.url or None,
    }
