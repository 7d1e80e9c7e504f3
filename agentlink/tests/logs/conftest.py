"""Who looks at logs, over HTTP, and a cluster whose pods write what a test says."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from uuid import UUID

import httpx

from agentlink.agent.backends.base import LogPiece, NoLogs
from agentlink.agent.backends.simulated import SimulatedCluster
from chamber.models import Scope, User
from chamber.tokens import create_token


class Written:
    """What one pod has written: told by `say`, ended by `end`."""

    def __init__(self) -> None:
        self.pieces: list[LogPiece] = []
        self.ended = False
        self.news = asyncio.Event()
        self.readers = 0

    def say(self, *lines: str | bytes) -> None:
        for line in lines:
            data = line if isinstance(line, bytes) else f"{line}\n".encode()
            self.pieces.append(LogPiece(data, f"{len(self.pieces) + 1:06}"))
        self.news.set()

    def end(self) -> None:
        self.ended = True
        self.news.set()


class Scripted(SimulatedCluster):
    """A simulated cluster with pods that write what a test says."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.written: defaultdict[int, Written] = defaultdict(Written)
        self.asked: list[dict[str, Any]] = []

    async def logs(
        self, attempt: UUID, pod: int, *, follow: bool, tail_bytes: int, after: str = ""
    ) -> AsyncGenerator[LogPiece]:
        if self._job_with(attempt, pod) is None:
            raise NoLogs("The pod is not there any more.")
        self.asked.append({"pod": pod, "follow": follow, "tail_bytes": tail_bytes, "after": after})
        written = self.written[pod]
        written.readers += 1
        place = int(after or 0)
        try:
            while True:
                while place < len(written.pieces):
                    place += 1
                    yield written.pieces[place - 1]
                if written.ended or not follow or self._job_with(attempt, pod) is None:
                    return
                written.news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(written.news.wait(), 0.1)
        finally:
            written.readers -= 1


def token_of(user: User) -> str:
    return create_token(user=user, name="test", scope=Scope.READ, days=1)[1]


class Reader:
    """Somebody who looks: text so far, and events in their order."""

    def __init__(self) -> None:
        self.status = 0
        self.text = ""
        self.notes: list[str] = []
        self.ids: list[str] = []
        self.ended = asyncio.Event()
        self.news = asyncio.Event()

    async def until(self, *words: str, seconds: float = 60.0) -> None:
        """Return when all words were told, as lines or notes."""
        async with asyncio.timeout(seconds):
            while not all(word in self.text or word in self.notes for word in words):
                self.news.clear()
                await self.news.wait()


@contextlib.asynccontextmanager
async def looking(url: str, token: str, slug: str, **params: Any) -> AsyncIterator[Reader]:
    """Follow a pod's log as events beside the test."""
    reader = Reader()
    task = asyncio.create_task(_look(reader, url, token, slug, params))
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _look(reader: Reader, url: str, token: str, slug: str, params: dict[str, Any]) -> None:
    after = params.pop("after", "")
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    headers |= {"Last-Event-ID": after} if after else {}
    asked = {"follow": "true"} | params
    async with (
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client,
        client.stream("GET", f"/api/v1/workloads/{slug}/logs/", params=asked) as response,
    ):
        reader.status = response.status_code
        kind = ""
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                reader.ids.append(value)
            elif name == "data":
                data = json.loads(value)
                reader.text += data.get("text", "")
                reader.notes += [said for said in (data.get("code"), data.get("dropped")) if said]
                reader.notes += [data["message"]] if data.get("message") else []
                if kind == "end":
                    reader.ended.set()
            reader.news.set()
    reader.ended.set()


async def read(url: str, token: str, slug: str, **params: Any) -> httpx.Response:
    """Return the answer to a single look, as text."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        return await client.get(f"/api/v1/workloads/{slug}/logs/", params=params)
