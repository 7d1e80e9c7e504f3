"""An agent's logs connection: carries messages between the agent and its `Exchange`, one at a time."""

import asyncio
import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.exceptions import ChannelFull
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.db.models import F
from django.utils import timezone
from redis import RedisError

from agentlink import protocol
from agentlink.logs import kept
from agentlink.logs.exchange import Event, Exchange, asking_group
from agentlink.models import AgentToken, Cluster
from agentlink.protocol import Error, ErrorCode, InvalidMessage
from agentlink.protocol import logs as messages
from agentlink.protocol.logs import Ask, Chunk, KeptLogs, StopStream, Stored, StoredPod, StreamEnd
from agentlink.session import authenticate
from chamber import live
from chamber.logs import bind_task

logger = logging.getLogger(__name__)

SEND_SECONDS = 30.0
"""How long an agent may take to read a message."""
LOOK_SECONDS = 5.0
"""How often it is looked which viewers are gone, and whether the token still holds; where announced, at once."""
LEAST_SECONDS = 0.5
"""Between two looks at the token, however many announcements there are."""
MOST_REJECTED = 100
"""Wrong messages after which the connection is closed."""
TRY_AGAIN = 1013
TOO_SLOW = 4408
REJECTED = 4400


def in_thread(function: Any) -> Any:
    """Return `function` as a coroutine that runs in a thread of the pool."""
    return database_sync_to_async(function, thread_sensitive=False)


class AgentLogsConsumer(AsyncWebsocketConsumer):
    """One agent's logs connection. It holds nothing that is not asked for again within seconds where it breaks."""

    cluster_id: UUID | None = None
    token_id: UUID | None = None
    exchange: Exchange | None = None
    looking: "asyncio.Task[None] | None" = None
    rejected = 0
    told_unknown = told_foreign = False

    async def connect(self) -> None:
        """Let in an agent with a valid token; tell others why not, and close with 4401."""
        await self.accept()
        headers = dict(self.scope.get("headers", []))
        header = headers.get(b"authorization", b"").decode("latin-1")
        try:
            token: AgentToken | Error = await in_thread(authenticate)(header)
        except DatabaseError:
            logger.exception("An agent's logs cannot be taken now.")
            await self._end(TRY_AGAIN)
            return
        if isinstance(token, Error):
            await self._refuse(token)
            return
        self.cluster_id, self.token_id = token.cluster_id, token.pk
        bind_task(cluster=token.cluster.name)
        self.rung, self.parts = asyncio.Event(), kept.Parts()
        self.exchange = Exchange(say=self._say, tell=self._tell, tell_group=self._tell_group)
        for group in self._groups():
            await self.channel_layer.group_add(group, self.channel_name)
        self.looking = asyncio.create_task(self._look())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the signature is Channels'
        """Tell the viewers that the agent is away."""
        exchange, self.exchange = self.exchange, None
        if self.looking is not None:
            self.looking.cancel()
            await asyncio.gather(self.looking, return_exceptions=True)
        for group in self._groups():
            await self.channel_layer.group_discard(group, self.channel_name)
        if exchange is not None:
            await exchange.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take one message of the agent; Channels hands over the next one after it."""
        exchange = self.exchange
        if exchange is None:
            return
        message = messages.from_agent(text_data if text_data is not None else (bytes_data or b""))
        if isinstance(message, Chunk):
            await exchange.chunk(message)
        elif isinstance(message, StreamEnd):
            await exchange.end(message)
        elif isinstance(message, KeptLogs):
            await self._keep(message)
        else:
            await self._reject(message)

    # Viewers

    async def logs_wanted(self, event: Event) -> None:
        """A viewer looks, or still does."""
        if self.exchange is not None:
            await self.exchange.wanted(event)

    async def logs_unwanted(self, event: Event) -> None:
        """A viewer looks no more."""
        if self.exchange is not None:
            await self.exchange.unwanted(event)

    async def live_changed(self, event: Event) -> None:  # noqa: ARG002 - what is new, the tables say
        """Look whether the token still holds."""
        self.rung.set()

    # Inside

    def _groups(self) -> list[str]:
        if self.cluster_id is None:
            return []
        return [asking_group(self.cluster_id), live.group(f"link:{self.cluster_id}")]

    async def _keep(self, message: KeptLogs) -> None:
        """Store what is whole by now and say so; the agent sends again what could not be stored."""
        pods = list(self.parts.take(message.items))
        if not pods:
            return
        try:
            left_out: kept.LeftOut = await in_thread(kept.keep)(self.cluster_id, pods)
        except DatabaseError:
            logger.exception("Logs of %d pods cannot be stored now.", len(pods))
            return
        self._tell_left_out(left_out)
        await self._say(Stored(pods=tuple(StoredPod(attempt=pod.attempt, pod=pod.pod) for pod in pods)))

    def _tell_left_out(self, pods: kept.LeftOut) -> None:
        """Log what was not stored, the first time in this connection: the agent sends it for each pod that is over."""
        if pods.unknown and not self.told_unknown:
            self.told_unknown = True
            logger.info(
                "Its agent sent logs of attempts that are not known here; they are left out. The attempts were "
                "deleted, or began after the backup that the database was restored from."
            )
        if pods.foreign and not self.told_foreign:
            self.told_foreign = True
            logger.warning("Its agent sent logs of pods that are not its own; they are left out.")

    async def _reject(self, wrong: InvalidMessage) -> None:
        """Count and log what was wrong, and say so."""
        self.rejected += 1
        logger.warning("An agent sent what is no message about logs: %s", wrong.message)
        with suppress(DatabaseError):
            await in_thread(_count_rejected)(self.cluster_id)
        await self._say(wrong.as_error())
        if self.rejected >= MOST_REJECTED:
            await self._end(REJECTED)

    async def _look(self) -> None:
        """Forget viewers that are gone, and end the connection if its token does not hold any more."""
        while self.exchange is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.rung.wait(), timeout=LOOK_SECONDS)
            self.rung.clear()
            await self.exchange.expire()
            with suppress(DatabaseError):
                if not await in_thread(_holds)(self.token_id):
                    text = "The agent token was revoked, or has expired."
                    await self._refuse(Error(code=ErrorCode.NOT_AUTHORISED, message=text))
                    return
            await asyncio.sleep(LEAST_SECONDS)

    async def _refuse(self, error: Error) -> None:
        await self._say(error)
        await self._end(protocol.CLOSE_CODES[error.code])

    async def _say(self, message: Ask | StopStream | Stored | Error) -> None:
        try:
            await asyncio.wait_for(self.send(messages.encode(message)), timeout=SEND_SECONDS)
        except TimeoutError:
            logger.warning("An agent does not read what it is asked about logs.")
            await self._end(TOO_SLOW)
        except OSError:
            pass  # the socket is gone; its end is told next

    async def _tell(self, channel: str, event: Event) -> None:
        with suppress(OSError, RedisError, ChannelFull):  # the viewer notices, and asks again
            await self.channel_layer.send(channel, event)

    async def _tell_group(self, group: str, event: Event) -> None:
        with suppress(OSError, RedisError):
            await self.channel_layer.group_send(group, event)

    async def _end(self, code: int) -> None:
        """Close the connection; an agent that does not read is not waited for."""
        with suppress(OSError):  # TimeoutError is one
            await asyncio.wait_for(self.close(code), timeout=1.0)


def _holds(token_id: UUID) -> bool:
    token = AgentToken.objects.filter(pk=token_id).first()
    return token is not None and token.is_valid(timezone.now())


def _count_rejected(cluster_id: UUID) -> None:
    Cluster.objects.filter(pk=cluster_id).update(rejected_messages=F("rejected_messages") + 1)
