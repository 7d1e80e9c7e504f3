"""The link's long-poll twin: the same messages over POST, for where a proxy forbids WebSockets.

A request carries a JSON list of messages, the first of them `hello` or `heartbeat`: nothing of a conversation is kept
between requests but what these two say. The answer is a JSON list too. Where there is nothing to answer, the request
waits for something new, at most 20 s; `?wait=0` answers at once. `?cluster=ID` asks whether an agent of that cluster is
let in.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from channels.layers import get_channel_layer
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from agentlink import protocol, refusals
from agentlink.consumers import in_thread
from agentlink.models import AgentToken
from agentlink.protocol import Error, ErrorCode
from agentlink.session import Answer, Session, authenticate
from chamber import live

WAIT_SECONDS = 20.0
MAX_MESSAGES = 1000
STATUS = {ErrorCode.NOT_AUTHORISED: 401, ErrorCode.SUPERSEDED: 409}


@csrf_exempt
@login_not_required
@require_POST
async def sync(request: HttpRequest) -> HttpResponse:
    """Take in messages and answer them; 401 and 409 where the conversation is over, 422 for what is no list."""
    token: AgentToken | Error = await in_thread(authenticate)(request.headers.get("Authorization", ""))
    if isinstance(token, Error):
        return _respond(Answer([token]))
    if uid := request.GET.get("cluster"):
        foreign = await in_thread(refusals.of)(token.cluster, uid[:64])
        if foreign is not None:
            return _respond(Answer([foreign]))
    session = Session(token, polls=True)
    sent = _texts(request)
    if isinstance(sent, Error):
        return _respond(await in_thread(session.refuse)(sent), status=422)
    waits = request.GET.get("wait") != "0"
    async with _Bell(f"link:{token.cluster_id}") as bell:
        answer = await in_thread(_take_all)(session, sent)
        if not answer.messages and waits:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    while not answer.messages:
                        await bell.rung()
                        answer = await in_thread(session.news)()
    return _respond(answer)


def _texts(request: HttpRequest) -> list[str] | Error:
    """Return the request's messages, each as text again, bounded and checked like one from a socket."""
    try:
        body = json.loads(request.body)
    except RequestDataTooBig:
        return Error(
            code=ErrorCode.TOO_LARGE, message="The body is larger than what is taken in one request."
        )
    except (ValueError, RecursionError):
        return Error(code=ErrorCode.INVALID, message="The body is not JSON.")
    if not isinstance(body, list) or len(body) > MAX_MESSAGES:
        return Error(
            code=ErrorCode.INVALID, message=f"The body is a list of at most {MAX_MESSAGES} messages."
        )
    return [json.dumps(message) for message in body]


def _take_all(session: Session, texts: list[str]) -> Answer:
    answer = Answer()
    for text in texts:
        answer.messages += session.take(text).messages
        if answer.closes is not None:
            break
    return answer


def _respond(answer: Answer, *, status: int = 200) -> HttpResponse:
    messages = [json.loads(protocol.encode(message)) for message in answer.messages]
    if answer.closes is not None:
        status = STATUS[answer.closes]
    return JsonResponse(messages, safe=False, status=status)


class _Bell:
    """Hears announcements of a topic while it is open."""

    def __init__(self, topic: str) -> None:
        self._group = live.group(topic)
        self._layer: Any = get_channel_layer()
        self._channel = ""

    async def __aenter__(self) -> "_Bell":
        self._channel = await self._layer.new_channel()
        await self._layer.group_add(self._group, self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._layer.group_discard(self._group, self._channel)

    async def rung(self) -> None:
        """Return at the next announcement."""
        await self._layer.receive(self._channel)
