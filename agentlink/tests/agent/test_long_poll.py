"""The link over requests: what an answer means that is no list of messages."""

import uuid

import httpx
import pytest

from agentlink.agent.link import LinkLost, LongPollLink
from agentlink.protocol import Hello

HELLO = Hello(connection=uuid.UUID(int=1), agent_version="1", cluster_uid="u", nodes=0, gpus=0)


@pytest.mark.parametrize("answer", [httpx.Response(503, html="<p>Try again"), httpx.Response(413, json={})])
async def test_an_answer_that_is_no_list_is_told_with_its_status(answer: httpx.Response) -> None:
    transport = httpx.MockTransport(lambda _: answer)
    async with httpx.AsyncClient(base_url="http://x", transport=transport) as client:
        with pytest.raises(LinkLost, match=f"answered {answer.status_code} and no list of messages"):
            await LongPollLink(client).send([HELLO])


async def test_a_server_that_cannot_be_reached_is_told_by_the_error() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    async with httpx.AsyncClient(base_url="http://x", transport=httpx.MockTransport(refuse)) as client:
        with pytest.raises(LinkLost, match="could not be asked: ConnectError"):
            await LongPollLink(client).send([HELLO])
