"""Two ways to carry the link's messages from the agent: a WebSocket, or long polls where a proxy forbids those."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from agentlink import protocol
from agentlink.agent import authority, unreached
from agentlink.protocol import Desired, Error, ErrorCode, Heartbeat, Hello, InvalidMessage

OPEN_SECONDS = 15
CLOSE_SECONDS = 2
PING_SECONDS = 20
"""How often the socket is tried, and how long an answer may take: after 40 s a peer that vanished is noticed."""
POLL_SECONDS = 40
"""Longer than the server lets a poll wait."""
SERVICE_RESTART = 1012
"""The code with which a server that stops closes its sockets."""

ServerMessage = protocol.ToAgent
MOST_IN_POST = 100
MOST_BYTES_IN_POST = protocol.MAX_BYTES


class LinkLost(Exception):  # noqa: N818 - an outcome that the runner expects
    """The conversation is over; `code` where the server said why, `is_restart` where it comes back at once."""

    def __init__(self, message: str, code: ErrorCode | None = None, *, is_restart: bool = False) -> None:
        super().__init__(message)
        self.code, self.is_restart = code, is_restart


class Link(Protocol):
    """One conversation."""

    async def send(self, messages: Sequence[protocol.Message]) -> None:
        """Send messages in order; raise `LinkLost`."""
        ...

    async def receive(self) -> ServerMessage:
        """Return the next message; raise `LinkLost`."""
        ...


class WebSocketLink:
    """Messages over one socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, messages: Sequence[protocol.Message]) -> None:
        """Send messages in order."""
        try:
            for message in messages:
                await self._socket.send(protocol.encode(message))
        except WebSocketException as error:
            raise _closed(error) from error

    async def receive(self) -> ServerMessage:
        """Return the next message."""
        try:
            data = await self._socket.recv()
        except WebSocketException as error:
            raise _closed(error) from error
        return _read(data)


def _closed(error: WebSocketException) -> LinkLost:
    """Return what a closed socket means; its code says why, also where the error before it was not read any more."""
    frame = error.rcvd if isinstance(error, ConnectionClosed) else None
    codes = {code: reason for reason, code in protocol.CLOSE_CODES.items()}
    reason = codes.get(frame.code) if frame is not None else None
    words = f"The socket was closed{f' ({reason.value})' if reason else ''}: {error}."
    return LinkLost(words, reason, is_restart=frame is not None and frame.code == SERVICE_RESTART)


class LongPollLink:
    """Messages over requests: one waits for news while others carry what is sent."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._inbox: asyncio.Queue[ServerMessage | LinkLost] = asyncio.Queue()
        self._connection: UUID | None = None
        self._generation = 0
        self._begun = asyncio.Event()

    async def send(self, messages: Sequence[protocol.Message]) -> None:
        """Send messages in order, as many to a request as fit."""
        if isinstance(messages[0], Hello):
            self._connection, self._generation = messages[0].connection, 0
            self._begun.clear()
        texts = [protocol.encode(message) for message in messages]
        opens = isinstance(messages[0], Hello | Heartbeat)
        for number, group in enumerate(_groups(texts)):
            await self._post(group if opens and number == 0 else [self._heartbeat(), *group], wait=False)

    async def receive(self) -> ServerMessage:
        """Return the next message."""
        message = await self._inbox.get()
        if isinstance(message, LinkLost):
            raise message
        if isinstance(message, Desired) and message.last and message.connection == self._connection:
            self._generation = max(self._generation, message.generation)
            self._begun.set()
        return message

    async def poll(self) -> None:
        """Ask for news until cancelled, or until the conversation is over."""
        try:
            while True:
                await self._begun.wait()
                await self._post([self._heartbeat()], wait=True)
        except LinkLost as lost:
            await self._inbox.put(lost)

    def _heartbeat(self) -> str:
        assert self._connection is not None  # noqa: S101 - a conversation begins with hello
        heartbeat = Heartbeat(connection=self._connection, generation=self._generation, at=datetime.now(UTC))
        return protocol.encode(heartbeat)

    async def _post(self, texts: Iterable[str], *, wait: bool) -> None:
        body = f"[{','.join(texts)}]".encode()
        try:
            response = await self._client.post(
                "/agent/v1/sync",
                content=body,
                params={} if wait else {"wait": "0"},
                headers={"Content-Type": "application/json"},
            )
        except httpx.HTTPError as error:
            raise LinkLost(f"The server could not be asked: {why_unreached(error)}") from error
        answers: Any = None
        with suppress(ValueError):  # a proxy's page, or the server's while its database is away
            answers = response.json()
        if not isinstance(answers, list):
            told = f"The server answered {response.status_code} and no list of messages."
            raise LinkLost(refusal_of_name(response) or told)
        for answer in answers:
            await self._inbox.put(_read(json.dumps(answer)))


def _groups(texts: Sequence[str]) -> Iterable[list[str]]:
    """Return the messages in groups that fit a request."""
    group: list[str] = []
    size = 0
    for text in texts:
        if group and (len(group) == MOST_IN_POST or size + len(text) > MOST_BYTES_IN_POST):
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group


def _read(data: str | bytes) -> ServerMessage:
    message = protocol.from_server(data)
    if isinstance(message, InvalidMessage):
        raise LinkLost(
            f"The server sent what is no message of protocol {protocol.VERSION}: {message.message}"
        )
    if isinstance(message, Error) and message.code in protocol.CLOSE_CODES:
        raise LinkLost(message.message, message.code)
    return message


def why_unreached(error: BaseException) -> str:
    """Return why the server was not reached as the end of a sentence."""
    return authority.untrusted(error) or f"{unreached.words(error)}."


def refusal_of_name(answer: httpx.Response) -> str:
    """Return what a server says that does not answer under the name it was asked by; "" of any other answer."""
    if answer.status_code == httpx.codes.BAD_REQUEST and "CHAMBER_HOSTS" in answer.text[:500]:
        return " ".join(answer.text[:500].split())
    return ""


def _trusted() -> ssl.SSLContext | bool:
    try:
        return authority.context() or True
    except authority.BadAuthority as error:
        raise LinkLost(str(error)) from error


@asynccontextmanager
async def open_socket(url: str, token: str, path: str) -> AsyncIterator[ClientConnection]:
    """Connect to `path` of the server at `url` (http or https); raise `LinkLost` where that fails."""
    parts = urlsplit(url)
    scheme = "wss" if parts.scheme in {"https", "wss"} else "ws"
    address = urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, "", ""))
    try:
        socket = await connect(
            address,
            ssl=_trusted() if scheme == "wss" else None,
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=protocol.MAX_BYTES,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
        )
    except (OSError, TimeoutError, WebSocketException, ssl.SSLError) as error:
        raise LinkLost(f"{url} could not be reached: {why_unreached(error)}") from error
    async with socket:
        yield socket


@asynccontextmanager
async def open_websocket(url: str, token: str) -> AsyncIterator[Link]:
    """Begin a conversation with the server at `url`; raise `LinkLost` where that fails."""
    async with open_socket(url, token, "/ws/agent/") as socket:
        yield WebSocketLink(socket)


@asynccontextmanager
async def open_long_poll(url: str, token: str) -> AsyncIterator[Link]:
    """Talk to the server at `url` by requests."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=POLL_SECONDS, verify=_trusted()
    ) as client:
        link = LongPollLink(client)
        polling = asyncio.create_task(link.poll())
        try:
            yield link
        finally:
            polling.cancel()
