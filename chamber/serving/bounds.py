"""How large a body the live part takes: Django would write it to disk before anybody looks at it."""

from chamber.serving.leaving import Application, Message, Receive, Scope, Send

MAX_BODY_BYTES = 4 * 1024 * 1024
SENTENCE = f"The body is larger than {MAX_BODY_BYTES:,} bytes, the most that is taken; nothing was done."


class Bounded:
    """An ASGI application around another: 413 where a body is said to be too large, or turns out to be."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body counted."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > MAX_BODY_BYTES:
            await _refuse(send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            # Without a length nobody knows before; a request that is broken off is one that nobody sent.
            return message if taken <= MAX_BODY_BYTES else {"type": "http.disconnect"}

        await self._application(scope, counted, send)
        if taken > MAX_BODY_BYTES:
            await _refuse(send)


async def _refuse(send: Send) -> None:
    body = SENTENCE.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
