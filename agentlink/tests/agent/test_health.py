"""The agent's pages for probes."""

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentlink.agent.health import Health


async def ask(health: Health, path: str, method: str = "GET") -> httpx.Response:
    async with health.served(0, host="127.0.0.1") as port, httpx.AsyncClient(trust_env=False) as client:
        return await client.request(method, f"http://127.0.0.1:{port}{path}")


async def test_it_is_alive_before_it_is_ready_and_says_what_it_waits_for() -> None:
    health = Health("the cluster's nodes")
    assert (await ask(health, "/livez")).status_code == 200
    waiting = await ask(health, "/readyz")
    assert (waiting.status_code, waiting.text) == (503, "The agent waits for the cluster's nodes.\n")
    health.waits_for = ""
    assert (await ask(health, "/readyz")).status_code == 200


async def test_there_is_nothing_else_and_nothing_to_write() -> None:
    health = Health("")
    assert (await ask(health, "/other")).status_code == 404
    assert (await ask(health, "/metrics", "POST")).status_code == 404
    assert (await ask(health, "/livez", "POST")).status_code == 404
    assert (await ask(health, "/livez", "HEAD")).text == ""


async def test_metrics_are_told_while_it_is_not_ready() -> None:
    told = await ask(Health("the cluster's nodes"), "/metrics")
    assert told.status_code == 200
    assert told.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(told.text)}
    assert families["chamber_agent_leader"].samples[0].value == 0
    assert "process_resident_memory_bytes" in families


@pytest.mark.parametrize(
    "sent", [b"", b"GET", b"\x00\xff" * 8000, b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 3000]
)
async def test_what_is_no_request_is_hung_up_on_and_the_next_one_is_answered(sent: bytes) -> None:
    health = Health("")
    async with health.served(0, host="127.0.0.1") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/livez")).status_code == 200
