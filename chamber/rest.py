"""What every part of the API shares: problems (RFC 9457), bounded JSON, cursors, and ETags on edits."""

import base64
import json
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chamber import invalid, logs
from chamber.bodies import by_place
from chamber.errors import Conflict, NotVisible, Refusal, StaleVersion, TooLarge, refusal_of
from chamber.invalid import shown
from chamber.transactions import is_unavailable
from chamber.words import placed

if TYPE_CHECKING:
    from rest_framework.views import APIView

logger = logging.getLogger(__name__)

FORGERY = "CSRF Failed"
"""How the framework's sentence begins about a session's request without its token."""
MAX_BODY_BYTES = 1024 * 1024
MAX_CURSOR = 2000
MAX_TEXT = 200
"""Characters of a filter of a list."""
MAX_LIMIT = 999_999_999
"""Of rows asked for: more than are ever answered at once."""


class BoundedJSONParser(BaseParser):
    """JSON up to one MiB; NaN, infinities and keys that come twice are refused with the place."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:  # noqa: ARG002
        """Return the decoded body; raise `TooLarge` or `ParseError`."""
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"The body is larger than {MAX_BODY_BYTES:,} bytes, the most that is taken.")
        if not body:
            return {}
        try:
            return json.loads(body, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
        except RecursionError as error:
            raise exceptions.ParseError("The body is nested too deeply.") from error
        except ValueError as error:
            raise exceptions.ParseError(f"The body is not JSON: {error}.") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} comes twice in one object")
        if any("\ud800" <= each <= "\udfff" for each in key):
            raise ValueError(f"the key {shown(key)} contains half a character")
        found[key] = value
    return found


class _Problem(Response):
    """A problem, or the page that shows one to a browser, each called what it is."""

    @property
    def rendered_content(self) -> Any:
        """Return the content as JSON, or as a page where one was asked for."""
        if self.accepted_renderer.media_type == "text/html":
            self.content_type = None  # that of the page
        elif not isinstance(self.accepted_renderer, JSONRenderer):
            self.accepted_renderer = JSONRenderer()
            self.accepted_media_type = JSONRenderer.media_type
        return super().rendered_content


def problem(
    status: int, title: str, detail: str, *, code: str = "", fields: dict[str, Any] | None = None
) -> Response:
    """Return an `application/problem+json` answer; `fields` holds sentences by field."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": _written(detail),
    }
    if code:
        body["code"] = code
    if fields:
        body["errors"] = {_written(place): _written(text) for place, text in fields.items()}
    if request_id := logs.bound("request_id"):
        body["request_id"] = request_id
    return _Problem(body, status=status, content_type="application/problem+json")


def _written(text: Any) -> Any:
    """Return a text with halves of characters as their codes: no answer can have them."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn whatever a view raised into a problem; None (a 500) for what is our own fault.

    Its `errors` are one sentence a place, whatever raised it: `edits[0].shares[1].pool`.
    """
    if isinstance(error, Refusal):
        title = HTTPStatus(error.status).phrase
        detail = error.message + _of_token(error, context)
        answer = problem(error.status, title, detail, code=error.code, fields=error.fields)
        if error.retry_seconds is not None:
            answer["Retry-After"] = str(error.retry_seconds)
        return answer
    if isinstance(error, Http404):
        error = exceptions.NotFound("There is nothing here that you may see.")
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied("Your role does not let you do this.")
    elif is_unavailable(error):
        logger.error("The database did not answer in time.", exc_info=error)
        error = _Busy()
    if not isinstance(error, exceptions.APIException):
        return None
    title = HTTPStatus(error.status_code).phrase
    if isinstance(error, exceptions.ValidationError):
        fields = by_place(error.detail if isinstance(error.detail, dict) else {"body": error.detail})
        place, text = next(iter(fields.items()))
        fields = {place or "body": text for place, text in fields.items()}
        answer = problem(422, HTTPStatus(422).phrase, placed(place, text), code="invalid", fields=fields)
    else:
        detail = _own_sentence(error, context) or str(error.detail)
        answer = problem(error.status_code, title, detail, code=str(error.default_code))
    for header, attribute in (("WWW-Authenticate", "auth_header"), ("Retry-After", "wait")):
        value = getattr(error, attribute, None)
        if value:
            answer[header] = str(value)
    if isinstance(error, _Busy):
        answer._has_been_logged = True  # type: ignore[attr-defined]  # said above, with its cause
    return answer


def _of_token(refusal: Refusal, context: dict[str, Any]) -> str:
    """Return, where a role was not enough, that the token may leave only a part of it: a sentence to stand after."""
    request = context.get("request")
    if refusal.status != HTTPStatus.FORBIDDEN or request is None or request.method in SAFE_METHODS:
        return ""
    scope = getattr(request.auth, "scope", "admin")
    return "" if scope == "admin" else f" The token's scope is {str(scope)!r}."


def _own_sentence(error: exceptions.APIException, context: dict[str, Any]) -> str:
    """Return what to say of a request that the framework refused before the view; "" for what we refused."""
    request, view = context.get("request"), context.get("view")
    told = ""
    if request is None or view is None:
        return told
    if isinstance(error, exceptions.NotAuthenticated):
        kind = request.headers.get("Authorization", "").partition(" ")[0]
        given = f"Authorization is of the kind {shown(kind)}" if kind else "Nobody is signed in"
        told = f"{given}; send `Authorization: Bearer` with a token of `POST /api/v1/login/` or of the page Tokens."
    elif isinstance(error, exceptions.MethodNotAllowed):
        told = invalid.not_among("this address", request.method, view.allowed_methods)
    elif isinstance(error, exceptions.NotAcceptable):
        told = invalid.not_among("Accept", request.headers.get("Accept"), _media_types(view.renderer_classes))
    elif isinstance(error, exceptions.UnsupportedMediaType):
        told = invalid.not_among("Content-Type", request.content_type, _media_types(view.parser_classes))
    elif isinstance(error, exceptions.PermissionDenied) and str(error.detail).startswith(FORGERY):
        told = (
            "The session's token against forgery is missing or wrong: send it as X-CSRFToken, or use a token."
        )
    return told


def _media_types(classes: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(each.media_type for each in classes))


class Negotiation(DefaultContentNegotiation):
    """Chooses a form of the answer; a `?format=` that there is not is refused with those that there are."""

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        """Return who renders, and the kind of the answer; one that is asked for without a name is refused, too."""
        if not request.query_params.get("format", "any"):
            self.filter_renderers(renderers, "")
        chosen: tuple[Any, str] = super().select_renderer(request, renderers, format_suffix)
        return chosen

    def filter_renderers(self, renderers: Iterable[Any], format: str) -> list[Any]:  # noqa: A002 - DRF's signature
        """Return the renderers of this format."""
        known = list(renderers)
        found = [renderer for renderer in known if renderer.format == format]
        if not found:
            text = invalid.not_among("format", format, list(dict.fromkeys(each.format for each in known)))
            raise Refusal(text, field="format")
        return found


class _Busy(exceptions.APIException):
    """The database is locked or out of reach: nothing was done, and the same request may succeed soon."""

    status_code = 503
    default_code = "busy"
    default_detail = "The database did not answer in time; nothing was done. Try again."
    wait = 1


class NewestFirst(CursorPagination):
    """Pages by cursor, newest first; `?limit=` up to 500 rows."""

    ordering: tuple[str, ...] = ("-id",)
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return how a page is described."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": dict(link), "results": schema},
        }

    def get_schema_operation_parameters(self, view: "APIView") -> list[dict[str, Any]]:  # noqa: ARG002 - DRF's signature
        """Return how `cursor` and `limit` are described."""
        rows = f"How many rows; {self.max_page_size} where it is more."
        return [
            {
                "name": self.cursor_query_param,
                "in": "query",
                "description": "Where a page begins, as `next` and `previous` of another one say.",
                "schema": {"type": "string", "maxLength": MAX_CURSOR},
            },
            {
                "name": "limit",
                "in": "query",
                "description": rows,
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": self.page_size},
            },
        ]

    def get_page_size(self, request: Request) -> int | None:
        """Return how many rows were asked for; refuse what is no number of rows."""
        return limit_of(request, most=self.max_page_size, otherwise=self.page_size)

    def paginate_queryset(
        self, queryset: Any, request: Request, view: "APIView | None" = None
    ) -> list[Any] | None:
        """Return a page; 404 where the cursor is none, or names a place that no row can have."""
        text = "cursor is none of this list and order: begin without one."
        if len(request.query_params.get(self.cursor_query_param, "")) > MAX_CURSOR:
            raise NotVisible(text, field="cursor")
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValidationError, ValueError, OverflowError, exceptions.NotFound) as error:
            if self.cursor_query_param not in request.query_params:
                raise
            raise NotVisible(text, field="cursor") from error


def limit_of(request: Request, *, most: int, otherwise: int) -> int:
    """Return `?limit=`, at most `most`, or `otherwise` without one; raise a `Refusal` where it is no number of rows."""
    text = request.query_params.get("limit")
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise Refusal(f"limit is {text[:40]!r}; 1 to {most} are allowed.", field="limit")
    return min(int(text), most)


def short_of(request: Request, *names: str) -> None:
    """Raise one `Refusal` of all parameters of these that are longer than any text that could be meant."""
    long = {
        name: f"{name} has {len(text):,} characters; at most {MAX_TEXT} are allowed."
        for name in names
        if len(text := request.query_params.get(name, "")) > MAX_TEXT
    }
    if long:
        raise refusal_of(long)


def flag_of(request: Request, name: str) -> bool:
    """Return a parameter that is true or false, false without it; raise a `Refusal` for anything else."""
    text = request.query_params.get(name, "").lower()
    if text not in {"", "0", "1", "true", "false"}:
        raise Refusal(f"{name} is {text[:40]!r}; it must be true or false.", field=name)
    return text in {"1", "true"}


def etag(version: int) -> str:
    """Return the ETag of a row's version."""
    return f'"{version}"'


def require_version(request: Request, current: int) -> None:
    """Raise 428 without `If-Match` and 412 where it names another version than `current`."""
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionRequired
    wanted = {part.strip().removeprefix("W/") for part in given.split(",")}
    if "*" not in wanted and etag(current) not in wanted:
        raise StaleVersion(
            f"You edited version {given}, but the current one is {etag(current)}: read it again and repeat your change."
        )


class PreconditionRequired(Conflict):
    """An edit came without `If-Match`."""

    status = 428
    code = "precondition-required"

    def __init__(self) -> None:
        super().__init__(
            "Send If-Match with the ETag of the version you edited, so that nobody's change is lost."
        )


def encode_cursor(*parts: str) -> str:
    """Return an opaque cursor of these parts."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> list[str] | None:
    """Return the parts of a cursor; None where it is not one of ours."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        return None
    return parts if isinstance(parts, list) and all(isinstance(part, str) for part in parts) else None
