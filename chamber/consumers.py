"""The socket of live pages: it hears `{"watch": [topics]}` and says `{"topic", "version"}`, nothing else."""

import asyncio
import json
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from chamber import live

MAX_TOPICS = 50
MAX_TOPIC_LENGTH = 200
SIGNED_OUT = 4401
BAD_MESSAGE = 4400
COALESCE_SECONDS = 1.0


class LiveConsumer(AsyncWebsocketConsumer):
    """One open page. Carries no data: the page fetches what changed over HTTP, where permission is checked.

    At most one message a second and topic: the first at once, what follows within the second as one.
    """

    async def connect(self) -> None:
        """Take in whoever is signed in; close with 4401 otherwise."""
        self.topics: set[str] = set()
        self.waiting: dict[str, int] = {}
        self.quiet: dict[str, asyncio.TimerHandle] = {}
        await self.accept()
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the signature is Channels'
        """Forget the page."""
        for handle in self.quiet.values():
            handle.cancel()
        for topic in self.topics:
            await self.channel_layer.group_discard(live.group(topic), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:  # noqa: ARG002
        """Watch the topics named; anything else closes the socket with 4400."""
        topics = _topics(text_data)
        if topics is None:
            await self.close(BAD_MESSAGE)
            return
        for topic in self.topics - topics:
            await self.channel_layer.group_discard(live.group(topic), self.channel_name)
        for topic in topics - self.topics:
            await self.channel_layer.group_add(live.group(topic), self.channel_name)
        self.topics = topics
        for topic in sorted(topics):
            await self._say(topic, live.version(topic))

    async def live_changed(self, event: dict[str, Any]) -> None:
        """Pass on an announcement, at once or with the next one of its second."""
        topic, version = str(event["topic"]), int(event["version"])
        if topic not in self.topics:
            return
        if topic in self.quiet:
            self.waiting[topic] = version
            return
        self._hush(topic)
        await self._say(topic, version)

    def _hush(self, topic: str) -> None:
        loop = asyncio.get_running_loop()
        self.quiet[topic] = loop.call_later(COALESCE_SECONDS, lambda: loop.create_task(self._flush(topic)))

    async def _flush(self, topic: str) -> None:
        self.quiet.pop(topic, None)
        version = self.waiting.pop(topic, None)
        if version is not None and topic in self.topics:
            self._hush(topic)
            await self._say(topic, version)

    async def _say(self, topic: str, version: int) -> None:
        await self.send(json.dumps({"topic": topic, "version": version}))


def _topics(text: str | None) -> set[str] | None:
    """Return the topics that a message asks for; None where it is not of the protocol."""
    try:
        asked = json.loads(text or "")["watch"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(asked, list) or len(asked) > MAX_TOPICS:
        return None
    if not all(isinstance(topic, str) and 0 < len(topic) <= MAX_TOPIC_LENGTH for topic in asked):
        return None
    return set(asked)
