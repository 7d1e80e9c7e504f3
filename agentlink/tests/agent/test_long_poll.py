"""The link over requests: what an answer means that is no list of messages."""

import socket
import uuid

import httpx
import pytest

from agentlink.agent.link import LinkLost, LongPollLink, open_socket, why_unreached
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
        with pytest.raises(LinkLost, match=r"could not be asked: Connection refused[.]$"):
            await LongPollLink(client).send([HELLO])


async def test_where_nobody_listens_that_is_told_in_the_system_s_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(LinkLost, match=f"^{url} could not be reached: Connection refused[.]$"):
            async with open_socket(url, "cha_x", "/ws/agent/"):
                pass
        async with httpx.AsyncClient(base_url=url) as client:
            with pytest.raises(LinkLost, match=r"could not be asked: Connection refused[.]$"):
                await LongPollLink(client).send([HELLO])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
                "[Errno 111] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused.",
        ),
        (OSError(-2, "Name or service not known"), "Name or service not known."),
        (TimeoutError("timed out during opening handshake"), "timed out during opening handshake."),
        (TimeoutError(), "no answer in time."),
        (httpx.ReadTimeout(""), "no answer in time."),
    ],
)
def test_what_python_writes_around_a_reason_is_left_out(error: Exception, words: str) -> None:
    assert why_unreached(error) == words


async def test_a_server_that_has_another_name_is_told_in_its_words() -> None:
    refused = httpx.Response(400, text="This server does not answer under the name 'x'. See CHAMBER_HOSTS.\n")
    async with httpx.AsyncClient(
        base_url="http://x", transport=httpx.MockTransport(lambda _: refused)
    ) as client:
        with pytest.raises(LinkLost, match=r"^This server does not answer under the name 'x'"):
            await LongPollLink(client).send([HELLO])
