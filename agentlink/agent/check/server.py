"""Questions to Chamber's server. No conversation is begun, which would end that of an agent at work."""

import httpx

from agentlink.agent.check.found import Asked, Problem
from agentlink.agent.link import LinkLost, open_websocket

ANSWER_SECONDS = 10.0


async def server(asked: Asked) -> list[Problem]:
    """Look whether Chamber's server is reached, and lets this token in."""
    headers = {"Authorization": f"Bearer {asked.token}"}
    try:
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS, headers=headers) as client:
            answer = await client.post(
                f"{asked.url.rstrip('/')}/agent/v1/sync", params={"wait": "0"}, json=[]
            )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        words = str(error) or type(error).__name__
        return [
            Problem(
                f"The server {asked.url} cannot be reached: {words}.",
                "See that the address is right and that the cluster may reach it; `agent.url` of the chart names it.",
            )
        ]
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return [
            Problem(
                f"The server {asked.url} does not take the token.",
                "Make a new one on the cluster's page; a token is of one cluster, may expire and be revoked.",
            )
        ]
    if answer.status_code != httpx.codes.OK:
        return [
            Problem(
                f"{asked.url} answers {answer.status_code}: it may not be Chamber's server, or it is not ready.",
                "Open the address in a browser, and see what /readyz says.",
            )
        ]
    return await _socket(asked) if asked.transport == "websocket" else []


async def _socket(asked: Asked) -> list[Problem]:
    try:
        async with open_websocket(asked.url, asked.token):
            return []
    except LinkLost as lost:
        return [
            Problem(
                f"The server is reached, but no WebSocket: {lost}",
                "Have the proxy on the way let WebSockets to /ws/ through, or start the agent with "
                "`--transport long-poll`.",
            )
        ]
