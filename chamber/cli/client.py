"""The API client that all commands share: one connection, problems as `Failure`, pages, and event streams."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit

import click
import httpx

from chamber import __version__
from chamber.cli.config import StoredLogin, current
from chamber.cli.status import Exit, Failure, of_http
from chamber.cli.trust import certificate_error, distrusted, trust
from chamber.words import clock_time

Json = dict[str, Any]
Params = Mapping[str, str | int | list[str]]

READ_SECONDS = 30.0
PAGE_ROWS = 200
RETRY_AFTER_SECONDS = 1.0
ONE_TOO_MANY = "too-many-requests"
LONGEST_PAUSE_SECONDS, LONGEST_WAIT_SECONDS = 60, 180
"""How long the server may ask to wait, at once and in all, where it has too many requests; longer is an error."""
STREAM_SILENCE_SECONDS = 60.0
"""A stream says something at least every 15 s; one that is silent for this long is dead."""
ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
"""What Python writes before the system's own words."""


@dataclass
class Doors:
    """How commands reach a server; tests put a transport here that needs no network."""

    transport: httpx.BaseTransport | None = None

    def client(self, login: StoredLogin | None = None) -> "Client":
        """Return a client for this sign-in, or for the current one."""
        return Client(login or current(), transport=self.transport)


def connect(login: StoredLogin | None = None) -> "Client":
    """Return a client for the running command."""
    context = click.get_current_context(silent=True)
    doors = (context.find_object(Doors) if context else None) or Doors()
    return doors.client(login)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an event stream."""

    id: str
    event: str
    data: str


class Client:
    """A signed-in (or signing-in) user of one server."""

    def __init__(self, login: StoredLogin, *, transport: httpx.BaseTransport | None = None) -> None:
        self.login = login
        headers = {"User-Agent": f"chamber-cli/{__version__}", "Accept": "application/json"}
        self._silence: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        if login.token:
            if not (login.token.isascii() and login.token.isprintable()):
                raise Failure("The token has characters that no token has; sign in again.", Exit.USAGE)
            headers["Authorization"] = f"Bearer {login.token}"
        try:
            self._http = httpx.Client(
                base_url=f"{login.url}/api/v1/",
                headers=headers,
                transport=transport,
                verify=trust(login.ca),
                timeout=httpx.Timeout(READ_SECONDS, connect=10.0),
            )
        except httpx.InvalidURL as error:
            raise Failure(f"{login.url!r} is not an address: {error}.", Exit.USAGE) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell_silence()
        self._http.close()

    def tell_silence(self, *, again: bool = False) -> None:
        """Say on stderr what the server does not know; once, unless `again` what was said is gone from the screen."""
        if again or self._silence != self._told:
            for sentence in self._silence:
                click.echo(sentence, err=True)
        self._told = self._silence

    def get(self, path: str, params: Params | None = None) -> Any:
        """Read; tried once more where the connection broke."""
        return self._json("GET", path, params=params, repeat=True)

    def post(self, path: str, body: object = None, *, key: str = "") -> Any:
        """Write. With an idempotency `key` it is safe to repeat, and is, once, where the connection broke."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._json("POST", path, body=body, headers=headers, repeat=bool(key))

    def edit(self, method: str, path: str, body: object, *, version: int) -> Any:
        """Change what was read at a version; a conflict where somebody was quicker."""
        return self._json(method, path, body=body, headers={"If-Match": f'"{version}"'}, repeat=False)

    def patch(self, path: str, body: object) -> Any:
        """Change what has no versions."""
        return self._json("PATCH", path, body=body, repeat=False)

    def put(self, path: str, body: object = None) -> Any:
        """Have something be there; doing it twice does no more than doing it once."""
        return self._json("PUT", path, body=body, repeat=True)

    def delete(self, path: str) -> None:
        """Remove; doing it twice does no more than doing it once."""
        self._json("DELETE", path, repeat=True)

    def rows(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Iterator[Json]:
        """Yield the rows of a list page by page, at most `limit` of them."""
        asked: dict[str, Any] = {**(params or {}), "limit": min(limit or PAGE_ROWS, PAGE_ROWS)}
        count = 0
        while True:
            page = self.get(path, asked)
            for row in page["results"]:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield row
            if not page.get("next") or (limit is not None and count >= limit):
                return
            # Only the query: the address the server believes to have may not be the one we reach it by.
            asked |= parse_qs(urlsplit(page["next"]).query)

    def stream(self, path: str, *, last_id: str = "", params: Params | None = None) -> Iterator[Message]:
        """Yield the messages of one event stream until it ends; `last_id` is where the one before stopped."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = httpx.Timeout(READ_SECONDS, read=STREAM_SILENCE_SECONDS)
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                self._hear(response)
                self.tell_silence()
                if not response.is_error:
                    yield from parse_stream(response.iter_lines(), last_id)
                    return
                response.read()
            if not _waited(response, until):
                raise _refusal(response)

    def text(self, path: str, params: Params | None = None, *, method: str = "GET") -> Iterator[str]:
        """Yield a text of any length as it comes."""
        headers = {"Accept": "*/*"}
        try:
            with self._http.stream(method, path, params=params, headers=headers) as response:
                self._hear(response)
                if response.is_error:
                    response.read()
                    raise _refusal(response)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise unreachable(self.login.url, error) from error

    def _json(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool,
    ) -> Any:
        response = self._patiently(
            lambda: self._send(
                self._http.build_request(method, path, params=params, json=body, headers=headers),
                repeat=repeat,
            )
        )
        self._hear(response)
        if not response.is_success:
            raise _refusal(response)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise Failure(f"{self.login.url} did not answer as a Chamber server does.") from error

    @staticmethod
    def _patiently(send: Callable[[], httpx.Response]) -> httpx.Response:
        """Return the answer; sent again, once the server says so, where it had too many requests and did nothing."""
        response = send()
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while _waited(response, until):
            response = send()
        return response

    def _hear(self, response: httpx.Response) -> None:
        """Note what the server says that it does not know."""
        self._silence = tuple(silence_of(response.headers))

    def _send(self, request: httpx.Request, *, repeat: bool) -> httpx.Response:
        try:
            return self._http.send(request)
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            if not repeat:
                raise unreachable(self.login.url, error) from error
        except httpx.TransportError as error:
            raise unreachable(self.login.url, error) from error
        time.sleep(RETRY_AFTER_SECONDS)
        return self._send(request, repeat=False)


def silence_of(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each thing that an answer says is not known; what is not understood is left out."""
    since = headers.get("Chamber-Undecided-Since", "")
    if since == "never":
        yield "The scheduler has not decided anything yet: no cycle has ended."
    elif since and (told := _time(since)):
        yield f"The scheduler has decided nothing since {told}: no cycle has ended."
    for part in headers.get("Chamber-Silent-Clusters", "").split(","):
        name, _, seen = part.strip().partition("=")
        if name and (told := _time(seen)):
            yield f"The cluster {name} was last seen {told}; what its workloads do since is not known."


def _time(text: str) -> str:
    try:
        return clock_time(datetime.fromisoformat(text))
    except ValueError:
        return ""


def unreachable(url: str, error: httpx.TransportError) -> Failure:
    """Return one sentence with the address for a connection that failed."""
    if isinstance(error, httpx.TimeoutException):
        return Failure(f"{url} did not answer in time.", Exit.TIMEOUT)
    if (refused := certificate_error(error)) is not None:
        return distrusted(url, refused)
    detail = ERROR_NUMBER.sub("", str(error)).strip().rstrip(".") or type(error).__name__
    return Failure(f"{url} cannot be reached: {detail}.")


def segment(name: str) -> str:
    """Return a name as one segment of a path, whatever characters somebody typed."""
    return quote(name, safe="")


def parse_stream(lines: Iterator[str], last_id: str = "") -> Iterator[Message]:
    """Yield the messages of an event stream's lines (the format of the HTML standard, without `retry`)."""
    event = ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield Message(last_id, event or "message", "\n".join(data))
            event, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            last_id = value
        elif field == "event":
            event = value
        elif field == "data":
            data.append(value)


def _waited(response: httpx.Response, until: float) -> bool:
    """Return whether it was waited until the request may be sent again; False where it is not one too many."""
    wait = _pause(response)
    if not wait or time.monotonic() + wait > until:
        return False
    click.echo(f"{_problem(response).get('detail', '')} Waiting.", err=True)
    time.sleep(wait)
    return True


def _pause(response: httpx.Response) -> int:
    """Return after how many seconds a request that was one too many may be sent again; 0 where it is not waited for.

    Who tries to sign in too often is told.
    """
    if (
        response.status_code != httpx.codes.TOO_MANY_REQUESTS
        or _problem(response).get("code") != ONE_TOO_MANY
    ):
        return 0
    wait = response.headers.get("Retry-After", "")
    return int(wait) if wait.isascii() and wait.isdigit() and int(wait) <= LONGEST_PAUSE_SECONDS else 0


def _problem(response: httpx.Response) -> Json:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _refusal(response: httpx.Response) -> Failure:
    """Return what the server's problem says; for an answer that is no problem, its status."""
    status = response.status_code
    try:
        problem = response.json()
        sentence = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = f"{response.request.url} answered {status} {response.reason_phrase}."
        return Failure(sentence, of_http(status), http_status=status)
    wait = response.headers.get("Retry-After")
    if wait and "Try again in" not in sentence:
        sentence = f"{sentence.removesuffix(' Try again.')} Try again in {wait} s."
    fields = _by_field(problem.get("errors"))
    code = str(problem.get("code", ""))
    return Failure(sentence, of_http(status), fields=fields, http_status=status, code=code)


def _by_field(errors: object, place: str = "") -> dict[str, str]:
    """Return one sentence a field from the nested `errors` of a problem."""
    if isinstance(errors, dict):
        parts = [_by_field(value, _inner(place, str(name))) for name, value in errors.items()]
    elif isinstance(errors, list) and not all(isinstance(error, str) for error in errors):
        parts = [_by_field(value, f"{place}[{index}]") for index, value in enumerate(errors) if value]
    elif errors:
        sentences = " ".join(errors) if isinstance(errors, list) else str(errors)
        return {place: sentences}
    else:
        return {}
    return {name: sentence for part in parts for name, sentence in part.items()}


def _inner(place: str, name: str) -> str:
    """Return the place of a part: entries of a list are told by their number."""
    if name.isdigit():
        return f"{place}[{name}]"
    return place if name == "non_field_errors" else f"{place}.{name}".lstrip(".")
