"""Questions to Chamber's server. No conversation is begun, which would end that of an agent at work."""

import json
from contextlib import suppress

import httpx

from agentlink import protocol
from agentlink.agent import authority
from agentlink.agent.check.found import CheckOptions, Problem
from agentlink.agent.link import LinkLost, open_websocket, refusal_of_name, why_unreached
from agentlink.protocol import Error

ANSWER_SECONDS = 10.0


async def server(asked: CheckOptions, uid: str = "") -> list[Problem]:
    """Look whether Chamber's server is reached, and lets this token in, from the cluster whose id is `uid` if known."""
    headers = {"Authorization": f"Bearer {asked.token}"}
    params = {"wait": "0", "cluster": uid} if uid else {"wait": "0"}
    try:
        trusted = authority.context() or True
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS, headers=headers, verify=trusted) as client:
            answer = await client.post(f"{asked.url.rstrip('/')}/agent/v1/sync", params=params, json=[])
    except authority.BadAuthority as error:
        return [Problem(str(error), "Correct the path, or the file.")]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return [
            Problem(
                f"The server {asked.url} cannot be reached: {why_unreached(error)}",
                "See that the address is right and that the cluster may reach it; `agent.url` of the chart names it.",
            )
        ]
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        if foreign := _of_another_cluster(answer):
            return [Problem(foreign, "On the page of each cluster, tokens of its own are made.")]
        return [
            Problem(
                f"The server {asked.url} does not take the token.",
                "Make a new one on the cluster's page; a token is of one cluster, may expire and be revoked.",
            )
        ]
    if answer.status_code != httpx.codes.OK:
        why = f"{asked.url} answers {answer.status_code}: it may not be Chamber's server, or it is not ready."
        advice = "Open the address in a browser, and see what /readyz says."
        return [Problem(refusal_of_name(answer) or why, advice)]
    return await _socket(asked) if asked.transport == "websocket" else []


def _of_another_cluster(answer: httpx.Response) -> str:
    """Return what the server says of a token that is valid, but not here; "" where it says anything else."""
    with suppress(ValueError, LookupError, TypeError):
        message = protocol.from_server(json.dumps(answer.json()[0]))
        if isinstance(message, Error) and message.about == "hello":
            return message.message
    return ""


async def _socket(asked: CheckOptions) -> list[Problem]:
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
