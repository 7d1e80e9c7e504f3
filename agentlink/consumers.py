"""The link's WebSocket: carries messages between an agent and its `Session`, one at a time."""

import logging
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from agentlink import protocol
from agentlink.models import AgentToken
from agentlink.protocol import Error
from agentlink.session import Answer, Session, authenticate
from chamber import live

logger = logging.getLogger(__name__)


def in_thread(function: Any) -> Any:
    """Return `function` as a coroutine that runs in a thread of the pool: agents do not wait for each other."""
    return database_sync_to_async(function, thread_sensitive=False)


class AgentConsumer(AsyncWebsocketConsumer):
    """One agent's connection.

    Woken by the topic `link:<cluster>`: new desired state, a revoked token, a newer hello.
    """

    session: Session | None = None
    topic = ""
    looked_at = 0

    async def connect(self) -> None:
        """Let in whoever has a valid token; tell the others why not, and close with 4401."""
        await self.accept()
        headers = dict(self.scope.get("headers", []))
        header = headers.get(b"authorization", b"").decode("latin-1")
        token: AgentToken | Error = await in_thread(authenticate)(header)
        if isinstance(token, Error):
            await self._send(Answer([token]))
            return
        self.session = Session(token)
        self.topic = f"link:{token.cluster_id}"
        await self.channel_layer.group_add(live.group(self.topic), self.channel_name)

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the signature is Channels'
        """Forget the agent; its cluster counts as connected until it was silent for 30 seconds."""
        if self.topic:
            await self.channel_layer.group_discard(live.group(self.topic), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer one message; Channels hands over the next one after it."""
        if self.session is not None:
            data = text_data if text_data is not None else (bytes_data or b"")
            await self._send(await in_thread(self.session.take)(data))

    async def live_changed(self, event: dict[str, Any]) -> None:
        """Send what is new, or close; announcements that were made before the last look say nothing new."""
        if self.session is None or int(event["version"]) <= self.looked_at:
            return
        self.looked_at = live.version(self.topic)
        await self._send(await in_thread(self.session.news)())

    async def _send(self, answer: Answer) -> None:
        for message in answer.messages:
            await self.send(protocol.encode(message))
        if answer.closes is not None:
            self.session = None
            await self.close(protocol.CLOSE_CODES[answer.closes])
