"""The last conversation about a cluster: what had ended there, and that it was let go of."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from agentlink import protocol
from agentlink.agent.backends.base import Observation
from agentlink.agent.core import Core
from agentlink.agent.figures import own_version
from agentlink.agent.link import Link, LinkLost
from agentlink.agent.runner import Transport, open_link
from agentlink.protocol import ENDED, Ack, Desired, Error, ErrorCode, Hello, Released, Report
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

WITHIN_SECONDS = 30.0
"""How long the server may take to answer; it is asked again within that time."""
AGAIN_SECONDS = (1.0, 8.0)
"""The first pause before it is asked again, and the longest; each is twice the one before."""
FINAL = frozenset({ErrorCode.NOT_AUTHORISED, ErrorCode.INVALID})
"""Errors that saying it again does not mend; an older server does not know the message."""


class ServerAddress:
    """Whom to tell: the address, and the token, which is read when it is needed."""

    def __init__(self, url: str, token: Callable[[], str], transport: Transport = "websocket") -> None:
        self.url, self.token, self.transport = url, token, transport


async def tell(
    server: ServerAddress,
    cluster_uid: str,
    ended: Iterable[Observation],
    *,
    within_seconds: float = WITHIN_SECONDS,
) -> str:
    """Tell the server that the cluster was let go of; return "" once it has taken that, else why it was not told.

    Of `ended`, those that ended by themselves are reported first, for nothing remembers them any more.
    """
    seen = [each for each in ended if each.phase in ENDED]
    try:
        token = server.token()
    except LinkLost as lost:
        return str(lost).rstrip(".")
    why = f"it did not answer within {within_seconds:.0f} s"
    untold, (pause, longest) = Lasting(), AGAIN_SECONDS
    try:
        async with asyncio.timeout(within_seconds):
            while True:
                try:
                    async with open_link(server.url, token, server.transport) as link:
                        await _say(link, cluster_uid, seen)
                    return ""
                except LinkLost as lost:
                    why = str(lost).rstrip(".")
                    if lost.code in FINAL:
                        return why
                if untold.due(why):
                    logger.info(
                        "The server could not be told yet: %s. Trying for %.0f s.", why, within_seconds
                    )
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
    except TimeoutError:
        return why


async def _say(link: Link, cluster_uid: str, seen: Sequence[Observation]) -> None:
    """Have the conversation; raise `LinkLost` where it is cut short."""
    core, connection = Core(), uuid.uuid4()
    core.connected(connection)
    hello = Hello(
        connection=connection,
        agent_version=own_version(),
        cluster_uid=cluster_uid,
        nodes=0,
        gpus=0,
        farewell=True,
        at=datetime.now(UTC),
    )
    await link.send([hello])
    while not core.works_by:
        message = await _receive(link)
        if isinstance(message, Desired):
            core.desire(message)
    core.observe(seen)
    # What was stopped for the release is not reported as vanished: the server is told that it was released.
    by_itself = {each.attempt for each in seen}
    reports = [report for report in core.plan().reports if report.attempt in by_itself]
    if reports:
        await _report(link, reports)
    await link.send([Released()])
    while not (isinstance(message := await _receive(link), Ack) and message.released):
        continue


async def _report(link: Link, reports: Sequence[Report]) -> None:
    """Send reports and return once the server has settled each."""
    open_ = {report.attempt for report in reports}
    await link.send(list(protocol.observed_in_parts(reports)))
    while open_:
        message = await link.receive()
        if isinstance(message, Ack):
            open_ -= {taken.attempt for taken in message.reports}
        elif isinstance(message, Error):
            if message.attempt is None:
                raise LinkLost(message.message, message.code)
            open_.discard(message.attempt)


async def _receive(link: Link) -> protocol.ToAgent:
    message = await link.receive()
    if isinstance(message, Error):
        raise LinkLost(message.message, message.code)
    return message
