"""Requests to the API server: raw objects, errors by kind, patience, and a pace that its fairness does not mind."""

import asyncio
import json
import random
import re
import socket
import time
from collections.abc import AsyncGenerator, Mapping, MutableSequence, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import count
from types import TracebackType
from typing import Literal, NamedTuple, Self, cast

import httpx
from pydantic_core import from_json

from agentlink.agent import unreached
from agentlink.agent.figures import FIGURES
from agentlink.agent.kube.access import Access
from agentlink.agent.kube.errors import (
    KubeError,
    Throttled,
    Unreachable,
    from_answer,
    from_status,
)
from agentlink.agent.kube.resources import JsonObject, Resource
from agentlink.agent.kube.streams import Handshake, split_lines
from agentlink.agent.kube.telling import WriteVerb, name_in, telling
from agentlink.pace import Pace

FIELD_MANAGER = "chamber-agent"
PAGE = 500
"""Objects in one answer to a list: what is trimmed page by page needs the memory of one."""
AT_ONCE = 8
"""Requests under way. The API server has hundreds of seats for service accounts, which they share."""
A_SECOND = 200.0
BURST = 50
PATIENCE_SECONDS = 30.0
"""How long a request that meets a busy or restarting API server is repeated."""
ANSWER_SECONDS = 65.0
"""The API server itself gives up after a minute."""
CONNECT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
WATCH_SECONDS = (300, 600)
"""How long a watch is asked for: any time between, so that they do not all end together."""
LONGEST_LINE = 64 * 1024
"""A longer line of a log comes in pieces."""
LONGEST_EVENT = 64 * 1024 * 1024

# A peer that vanished without a word is noticed within a minute, also by a watch on which nothing happens.
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_HEADERS = {
    "User-Agent": FIELD_MANAGER,
    "Accept": "application/json",
    # The way is short; compressing would cost both ends more than it saves.
    "Accept-Encoding": "identity",
}
_TIMEOUT = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, pool=None).as_dict()
_APPLY = "application/apply-patch+yaml"

Body = JsonObject | Sequence[JsonObject]
PatchKind = Literal["merge", "json", "strategic"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Listing(NamedTuple):
    """Objects, and the version of the whole from which a watch goes on."""

    items: list[JsonObject]
    version: str


class WatchEvent(NamedTuple):
    """What a watch tells: ADDED, MODIFIED or DELETED, or BOOKMARK, whose object has only a version."""

    kind: str
    object: JsonObject


class Kube:
    """A client, to be entered with `async with`. It may be used by many tasks of one event loop.

    A request that meets 429, 502, 503, 504, a `Retry-After` or a broken connection is made again within
    `patience_seconds`; then its error is raised. So a create may find that it had succeeded (`AlreadyExists`), and a
    JSON patch that its test fails (`Invalid`). `requests` counts all that were sent.
    """

    def __init__(
        self,
        access: Access,
        *,
        at_once: int = AT_ONCE,
        a_second: float = A_SECOND,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.access = access
        self._server = access.server.rstrip("/")
        self.requests = 0
        self.server_date = ""
        """The `Date` of the latest answer."""
        self._patience_seconds = patience_seconds
        self._room = asyncio.Semaphore(at_once)
        self._pace = Pace(at_once=BURST, every_seconds=1 / a_second)
        self._quiet_until = 0.0
        # Each request goes through all connections of its pool, so watches and logs have one of their own.
        self._client, self._streams = _http(access), _http(access)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._client)
        await self._open.enter_async_context(self._streams)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(kind, error, trace)

    # Reading

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JsonObject:
        """Return an object."""
        return await self._object("GET", resource.path(namespace, name))

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> Listing:
        """Return the objects that both selectors pick."""
        items: list[JsonObject] = []
        version = ""
        async with aclosing(self.pages(resource, namespace, labels, fields)) as pages:
            async for page in pages:
                items += page.items
                version = page.version
        return Listing(items, version)

    async def pages(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[Listing]:
        """Yield the objects page by page; raise `Gone` where it takes so long that the first page is forgotten."""
        params = {"limit": str(PAGE), **_selectors(labels, fields)}
        while True:
            body = await self._object("GET", resource.path(namespace), params=params)
            yield Listing(body.get("items") or [], body["metadata"]["resourceVersion"])
            following = body["metadata"].get("continue")
            if not following:
                return
            params["continue"] = following

    async def watch(
        self,
        resource: Resource,
        version: str,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        *,
        seconds: int | None = None,
    ) -> AsyncGenerator[WatchEvent]:
        """Yield what happens after `version` until the API server ends the watch, with bookmarks.

        Raises `Gone` where the version is too old, `Unreachable` where the connection breaks. To be wrapped in
        `contextlib.aclosing` by a caller that may leave early.
        """
        seconds = random.randint(*WATCH_SECONDS) if seconds is None else seconds  # noqa: S311 - guards nothing
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            **_selectors(labels, fields),
        }
        path = resource.path(namespace)
        longest = seconds + ANSWER_SECONDS
        async with aclosing(self._lines("watch", path, params, longest, LONGEST_EVENT)) as lines:
            async for line in lines:
                if not line.strip():
                    continue
                try:
                    told = from_json(line)
                except ValueError as error:
                    raise Unreachable(0, message=f"The watch of {path} broke off.") from error
                if told["type"] == "ERROR":
                    raise from_status(told["object"], 500)
                yield WatchEvent(told["type"], told["object"])

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Yield the lines of an answer as they come, each with its end; a very long one comes in pieces.

        Waits for ever for the next. To be wrapped in `contextlib.aclosing` by a caller that may leave early.
        """
        async with aclosing(self._lines("log", path, params, None, LONGEST_LINE)) as lines:
            async for line in lines:
                yield line

    # Writing

    async def create(self, resource: Resource, body: JsonObject, namespace: str | None = None) -> JsonObject:
        """Create an object and return it."""
        params = {"fieldManager": FIELD_MANAGER}
        with telling(WriteVerb.CREATE, resource, name_in(body), namespace):
            return await self._object("POST", resource.path(namespace), params=params, body=body)

    async def try_create(
        self, resource: Resource, body: JsonObject, namespace: str | None = None
    ) -> tuple[str, ...]:
        """Have an object admitted and not stored; return what the API server warns of, and raise as `create` does."""
        warnings: MutableSequence[str] = []
        params = {"fieldManager": FIELD_MANAGER, "dryRun": "All"}
        await self.raw("POST", resource.path(namespace), params=params, body=body, warnings=warnings)
        return tuple(warnings)

    async def apply(
        self, resource: Resource, body: JsonObject, namespace: str | None = None, *, force: bool = True
    ) -> None:
        """Have an object be so (server-side apply); others' fields raise `Conflict` unless `force`."""
        params = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        name = name_in(body)
        path = resource.path(namespace, name)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        with telling(WriteVerb.APPLY, resource, name, namespace):
            await self.raw("PATCH", path, params=params, body=whole, content_type=_APPLY)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> None:
        """Change an object."""
        path = resource.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER}
        with telling(WriteVerb.CHANGE, resource, name, namespace):
            await self.raw("PATCH", path, params=params, body=body, content_type=_PATCHES[kind])

    async def replace(
        self, resource: Resource, body: JsonObject, namespace: str | None = None, *, subresource: str = ""
    ) -> JsonObject:
        """Put the object in the place of the one that it was read as; raise `Conflict` where that has changed."""
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        return await self._object("PUT", path, params={"fieldManager": FIELD_MANAGER}, body=body)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
    ) -> None:
        """Delete an object; raise `Conflict` where it has another `uid` by now."""
        body: JsonObject = {"propagationPolicy": propagation}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        with telling(WriteVerb.DELETE, resource, name, namespace):
            await self.raw("DELETE", resource.path(namespace, name), body=body)

    async def raw(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        warnings: MutableSequence[str] | None = None,
    ) -> bytes:
        """Return the answer's body; what the API server warns of is added to `warnings`."""
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = _HEADERS | {"Content-Type": content_type} if content else _HEADERS
        # Not by the client's own means, which take addresses apart three times.
        request = httpx.Request(
            method, f"{self._server}{path}", params=params, headers=headers, content=content,
            extensions={"timeout": _TIMEOUT},
        )  # fmt: skip
        deadline = time.monotonic() + self._patience_seconds
        for failures in count():
            try:
                return await self._once(request, warnings)
            except KubeError as error:
                pause = _pause(error, failures)
                if pause is None or time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError

    # Inside

    async def _object(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> JsonObject:
        content = await self.raw(method, path, params=params, body=body)
        try:
            found = from_json(content)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        # What answers between the two, a proxy with a page of its own, is no API server.
        raise Unreachable(0, message=f"The answer to {method} {path} is no object of an API server.")

    async def _once(self, request: httpx.Request, warnings: MutableSequence[str] | None) -> bytes:
        async with self._room:
            await self._turn()
            handshake = Handshake()
            request.extensions |= self._extensions(handshake)
            try:
                response = await self._client.send(request)
            except httpx.TransportError as error:
                _count(request.method)
                raise _unreachable(self.access, error) from error
            except asyncio.CancelledError:
                await handshake.close()
                raise
        _count(request.method, response.status_code)
        self.server_date = response.headers.get("Date", "")
        if response.is_success:
            if warnings is not None:
                warnings.extend(map(_warning, response.headers.get_list("Warning")))
            return response.content
        raise self._heed(
            from_answer(response.status_code, response.content, response.headers.get("Retry-After", ""))
        )

    async def _turn(self) -> None:
        """Wait until one more request may be sent."""
        while True:
            rest = max(self._pace.rest_seconds(), self._quiet_until - time.monotonic())
            if rest <= 0:
                break
            await asyncio.sleep(rest)
        self._pace.step()
        self.requests += 1

    def _heed(self, error: KubeError) -> KubeError:
        """Have all requests wait where the API server has too much to do; return the error."""
        if isinstance(error, Throttled):
            asked = error.retry_after_seconds
            wait = 1.0 if asked is None else min(asked, LONGEST_PAUSE_SECONDS)
            self._quiet_until = max(self._quiet_until, time.monotonic() + wait)
        return error

    async def _lines(
        self, verb: str, path: str, params: Mapping[str, str], silence_seconds: float | None, longest: int
    ) -> AsyncGenerator[bytes]:
        await self._turn()
        timeout = httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS)
        handshake = Handshake()
        extensions = self._extensions(handshake)
        try:
            async with self._streams.stream(
                "GET", path, params=params, timeout=timeout, extensions=extensions
            ) as response:
                _count(verb, response.status_code)
                if not response.is_success:
                    content = await response.aread()
                    raise self._heed(
                        from_answer(response.status_code, content, response.headers.get("Retry-After", ""))
                    )
                chunks = cast(AsyncGenerator[bytes, None], response.aiter_raw())  # what it is, to be closed
                async with (
                    aclosing(chunks),
                    aclosing(split_lines(chunks, longest)) as lines,
                ):
                    async for line in lines:
                        yield line
        except httpx.ConnectError as error:
            _count(verb)
            raise _unreachable(self.access, error) from error
        except httpx.TransportError as error:
            raise _unreachable(self.access, error) from error
        except asyncio.CancelledError:
            await handshake.close()
            raise

    def _extensions(self, handshake: Handshake) -> dict[str, object]:
        name = self.access.tls_server_name
        return {"trace": handshake, **({"sni_hostname": name} if name else {})}


def _http(access: Access) -> httpx.AsyncClient:
    """Return connections to the API server, as many as are needed at a time."""
    transport = httpx.AsyncHTTPTransport(
        verify=access.context,
        proxy=access.proxy,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30),
        socket_options=_KEEP_ALIVE,
    )
    return httpx.AsyncClient(
        base_url=access.server,
        auth=access,
        transport=transport,
        headers=_HEADERS,
    )


def _warning(header: str) -> str:
    """Return the text of a warning (RFC 7234, 5.5): `299 - "text"`."""
    _, _, quoted = header.partition('"')
    return re.sub(r"\\(.)", r"\1", quoted.rpartition('"')[0]) or header


def _count(verb: str, code: int = 0) -> None:
    FIGURES.requests[verb.lower(), str(code)] += 1


def _selectors(labels: str, fields: str) -> dict[str, str]:
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in both.items() if value}


def _pause(error: KubeError, failures: int) -> float | None:
    """Return how long to wait before the request is made again; None: it is not."""
    longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures, 16)), LONGEST_PAUSE_SECONDS)
    jitter = random.uniform(0.0, longest)  # noqa: S311 - guards nothing
    if error.retry_after_seconds is not None:
        return error.retry_after_seconds + jitter
    return jitter if isinstance(error, Throttled | Unreachable) else None


def _unreachable(access: Access, error: httpx.TransportError) -> Unreachable:
    why = unreached.words(error)
    return Unreachable(
        0, message=f"{access.server} gave {why if why == unreached.TOO_LATE else f'no answer: {why}'}."
    )
