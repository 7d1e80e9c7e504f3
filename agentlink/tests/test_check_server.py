"""What the doctor of a cluster says of Chamber's server: whether it is there, takes the token, and lets sockets in."""

import asyncio
import socket
import uuid

import pytest

from agentlink.agent.check.found import CheckOptions
from agentlink.agent.check.server import server
from agentlink.models import Cluster
from agentlink.tests.agents import in_database, make_token, serving
from agentlink.tests.conftest import Place


@pytest.mark.django_db(transaction=True)
async def test_a_server_that_takes_the_token_is_no_problem_and_no_agent_is_disturbed(place: Place) -> None:
    secret = await in_database(make_token, place.cluster)
    talking = uuid.uuid4()
    await in_database(lambda: Cluster.objects.update(connection=talking, rejected_messages=0))
    async with serving() as url:
        assert await server(CheckOptions(url=f"{url}/", token=secret)) == []
        assert await server(CheckOptions(url=url, token=secret, transport="long-poll")) == []
    after = await in_database(Cluster.objects.get)
    assert (after.connection, after.rejected_messages) == (talking, 0)


@pytest.mark.django_db(transaction=True)
async def test_a_token_of_another_cluster_is_told_and_nothing_counts_as_refused(place: Place) -> None:
    secret = await in_database(make_token, place.cluster)
    await in_database(lambda: Cluster.objects.update(uid="here", connected=True))
    async with serving() as url:
        asked = CheckOptions(url=url, token=secret, transport="long-poll")
        [found] = await server(asked, "there")
        assert await server(asked, "here") == []
    assert f"The token belongs to the cluster {place.cluster.name}, which is here" in found.problem
    assert "this agent runs in there" in found.problem
    after = await in_database(Cluster.objects.get)
    assert (after.uid, after.rejected_messages) == ("here", 0)


@pytest.mark.django_db(transaction=True)
async def test_a_cluster_that_was_made_anew_is_no_problem(place: Place) -> None:
    secret = await in_database(make_token, place.cluster)
    await in_database(lambda: Cluster.objects.update(uid="before", connected=False))
    async with serving() as url:
        assert await server(CheckOptions(url=url, token=secret, transport="long-poll"), "anew") == []


@pytest.mark.django_db(transaction=True)
async def test_a_token_that_is_not_taken_is_said_so(place: Place) -> None:
    async with serving() as url:
        [found] = await server(CheckOptions(url=url, token="cha_wrong"))
    assert found.problem == f"The server {url} does not take the token."


async def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        [found] = await server(CheckOptions(url=url, token="cha_x"))
    assert found.problem == f"The server {url} cannot be reached: Connection refused."


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "answers 404: it may not be Chamber's server",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 31\r\n\r\nIts operator adds CHAMBER_HOSTS.",
            "Its operator adds CHAMBER_HOSTS",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "The server is reached, but no WebSocket"),
    ],
)
async def test_whatever_else_answers_is_told_from_a_server(answer: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        [found] = await server(CheckOptions(url=url, token="cha_x"))
    assert words in found.problem
