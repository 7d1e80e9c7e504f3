"""How large a body may be that the live part takes."""

from typing import Any

import pytest

from chamber.serving.bounds import MAX_BODY_BYTES, Bounded
from chamber.serving.leaving import Message, Receive, Scope, Send


async def reads_all(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 after the whole body, as Django does; nothing where it is broken off."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message.get("more_body", False):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def status(chunks: list[int], length: int | None = None, kind: str = "http") -> list[Any]:
    """Return the statuses that a request with these chunks is answered with."""
    left = list(chunks)
    answered: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * left.pop(0), "more_body": bool(left)}

    async def send(message: Message) -> None:
        answered.append(message)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    await Bounded(reads_all)({"type": kind, "headers": headers}, receive, send)
    return [message["status"] for message in answered if "status" in message]


@pytest.mark.parametrize("chunks", [[0], [10, 20], [MAX_BODY_BYTES]])
async def test_a_body_up_to_the_bound_is_passed_on(chunks: list[int]) -> None:
    assert await status(chunks) == [200]
    assert await status(chunks, sum(chunks)) == [200]


async def test_a_body_that_is_said_to_be_larger_is_refused_unread() -> None:
    assert await status([], MAX_BODY_BYTES + 1) == [413]


async def test_a_body_without_a_length_is_broken_off_at_the_bound() -> None:
    assert await status([MAX_BODY_BYTES, 1, 1000]) == [413]


async def test_sockets_have_bounds_of_their_own() -> None:
    assert await status([MAX_BODY_BYTES + 1], kind="websocket") == [200]
