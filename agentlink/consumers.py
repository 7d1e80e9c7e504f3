"""The link's WebSocket: carries messages between an agent and its `Session`, one at a time."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError

from agentlink import protocol
from agentlink.models import AgentToken
from agentlink.pace import Pace
from agentlink.protocol import Error
from agentlink.session import Answer, Session, authenticate
from chamber import live, logs

logger = logging.getLogger(__name__)

SEND_SECONDS = 30.0
"""How long an agent may take to read a message, which waits for it in a buffer of bounded size."""
SILENCE_SECONDS = 60.0
"""An agent says something every 10 s: where nothing comes for so long, it is gone."""
NEWS_AT_ONCE = 4
NEWS_EVERY_SECONDS = 0.1
"""How fast looks at what is new follow each other: what is announced in between is looked up together."""
TOO_SLOW = 4408
SILENT = 4410
TRY_AGAIN = 1013


def in_thread(function: Any) -> Any:
    """Return `function` as a coroutine that runs in a thread of the pool: agents do not wait for each other."""
    return database_sync_to_async(function, thread_sensitive=False)


class AgentConsumer(AsyncWebsocketConsumer):
    """One agent's connection.

    Woken by the topic `link:<cluster>`: new desired state, a revoked token, a newer hello. Many announcements are one
    look: the tables say what is new. Nothing is queued for an agent that does not read: its next message is taken,
    and looked up, when the one before it has been sent.
    """

    session: Session | None = None
    topic = ""
    telling: "asyncio.Task[None] | None" = None
    heard_at = 0.0

    async def connect(self) -> None:
        """Let in an agent with a valid token; tell others why not, and close with 4401."""
        await self.accept()
        self.turn, self.rung = asyncio.Lock(), asyncio.Event()
        headers = dict(self.scope.get("headers", []))
        header = headers.get(b"authorization", b"").decode("latin-1")
        try:
            token: AgentToken | Error = await in_thread(authenticate)(header)
        except DatabaseError:
            logger.exception("An agent cannot be let in now.")
            await self._end(TRY_AGAIN)
            return
        if isinstance(token, Error):
            await self._send(Answer([token]))
            return
        self.session = Session(token)
        self.topic = f"link:{token.cluster_id}"
        logs.bind_task(cluster=token.cluster.name)  # all that is heard on a socket is one task's
        self.heard_at = asyncio.get_running_loop().time()
        await self.channel_layer.group_add(live.group(self.topic), self.channel_name)
        self.telling = asyncio.create_task(self._tell())

    async def disconnect(self, code: int) -> None:
        """Forget the agent; its cluster counts as connected until it was silent for 30 seconds."""
        self.session = None
        if self.topic:
            logger.info("The socket of its agent was closed (%s).", code)
        if self.telling is not None:
            self.telling.cancel()
            with suppress(asyncio.CancelledError):
                await self.telling
        if self.topic:
            await self.channel_layer.group_discard(live.group(self.topic), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer one message; Channels hands over the next one after it."""
        self.heard_at = asyncio.get_running_loop().time()
        async with self.turn:
            if self.session is not None:
                data = text_data if text_data is not None else (bytes_data or b"")
                await self._send(await in_thread(self.session.take)(data))

    async def live_changed(self, event: dict[str, Any]) -> None:  # noqa: ARG002 - what is new, the tables say
        """Have what is new sent, or the conversation closed."""
        self.rung.set()

    async def _tell(self) -> None:
        """Send news when rung, until the conversation is over; end it where nothing is heard any more."""
        loop = asyncio.get_running_loop()
        pace = Pace(at_once=NEWS_AT_ONCE, every_seconds=NEWS_EVERY_SECONDS)
        while self.session is not None:
            quiet_until = self.heard_at + SILENCE_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self.rung.wait(), timeout=max(0.0, quiet_until - loop.time()))
            if self.rung.is_set():
                await asyncio.sleep(pace.rest_seconds())
                pace.step()
                self.rung.clear()
                async with self.turn:
                    if self.session is not None:
                        await self._send(await in_thread(self.session.news)())
            elif loop.time() >= self.heard_at + SILENCE_SECONDS:
                logger.warning("Its agent said nothing for %.0f s.", SILENCE_SECONDS)
                await self._end(SILENT)

    async def _send(self, answer: Answer) -> None:
        try:
            for message in answer.messages:
                await asyncio.wait_for(self.send(protocol.encode(message)), timeout=SEND_SECONDS)
        except TimeoutError:
            logger.warning("Its agent does not read what it is sent.")
            await self._end(TOO_SLOW)
            return
        except OSError:
            self.session = None  # the socket is gone; its end is told next
            return
        if answer.closes is not None:
            await self._end(protocol.CLOSE_CODES[answer.closes])

    async def _end(self, code: int) -> None:
        """Close the conversation; an agent that does not read is not waited for."""
        self.session = None
        with suppress(OSError):  # TimeoutError is one
            await asyncio.wait_for(self.close(code), timeout=1.0)
