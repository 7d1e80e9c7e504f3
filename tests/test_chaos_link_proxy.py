"""The proxy between agents and server passes everything on, or does to it what it was told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidMessage

from chaos.link_proxy import CALM, LinkProxy, Trouble

SECONDS = 60.0


async def echo(agent: ServerConnection) -> None:
    """Say who comes, then send everything back."""
    await agent.send(agent.request.headers["Authorization"] if agent.request else "")
    async for message in agent:
        if message == "go":
            await agent.close(4401, "go away")
        await agent.send(message)


@asynccontextmanager
async def echoing(trouble: Trouble) -> AsyncIterator[tuple[LinkProxy, ClientConnection]]:
    """Have a proxy before an echo, and somebody who was let through to it."""
    async with serve(echo, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        proxy = LinkProxy("127.0.0.1", port, seed=1)
        async with proxy.running():
            address = f"ws://127.0.0.1:{proxy.port}/ws/agent/"
            async with connect(address, additional_headers={"Authorization": "Bearer x"}) as agent:
                assert await agent.recv() == "Bearer x"
                proxy.trouble = trouble
                yield proxy, agent


async def answers(agent: ClientConnection, count: int) -> list[str | bytes]:
    """Return so many messages."""
    return [await asyncio.wait_for(agent.recv(), SECONDS) for _ in range(count)]


async def test_without_trouble_everything_passes_in_order() -> None:
    async with echoing(CALM) as (_, agent):
        for text in "abc":
            await agent.send(text)
        assert await answers(agent, 3) == ["a", "b", "c"]


async def test_messages_come_twice() -> None:
    async with echoing(Trouble(twice=1.0)) as (proxy, agent):
        await agent.send("a")
        assert await answers(agent, 4) == ["a"] * 4  # twice there, and each twice back
        assert proxy.counts["twice"] == 3


async def test_a_message_is_passed_by_the_next_one() -> None:
    async with echoing(Trouble(swap=1.0)) as (proxy, agent):
        await agent.send("a")
        await agent.send("b")
        # Swapped on the way there, and again on the way back.
        assert await answers(agent, 2) == ["a", "b"]
        assert proxy.counts["swapped"] == 2


async def test_a_message_that_nothing_follows_comes_late() -> None:
    async with echoing(Trouble(swap=1.0)) as (_, agent):
        await agent.send("a")
        assert await answers(agent, 1) == ["a"]


async def test_a_cut_ends_the_conversation() -> None:
    async with echoing(Trouble(cut=1.0)) as (_, agent):
        await agent.send("a")
        with pytest.raises(ConnectionClosed):
            await answers(agent, 1)


async def test_who_is_refused_gets_no_answer() -> None:
    async with echoing(Trouble(refuse=True)) as (proxy, _):
        with pytest.raises(InvalidMessage):
            await connect(f"ws://127.0.0.1:{proxy.port}/ws/agent/", open_timeout=SECONDS)


async def test_the_reason_for_closing_reaches_the_agent() -> None:
    async with echoing(CALM) as (_, agent):
        await agent.send("go")
        with pytest.raises(ConnectionClosed) as closed:
            await answers(agent, 2)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401


async def test_plain_requests_pass_and_are_cut() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = LinkProxy("127.0.0.1", server.sockets[0].getsockname()[1], seed=1)
    async with server, proxy.running(), httpx.AsyncClient(base_url=proxy.url, timeout=SECONDS) as client:
        assert (await client.get("/agent/v1/sync")).json() == []
        proxy.trouble = Trouble(cut=1.0)
        with pytest.raises(httpx.TransportError):
            await client.get("/agent/v1/sync")
