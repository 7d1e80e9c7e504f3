"""What stands between a client and an API server in tests: a wire to cut, a server that says what it is told."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration

from agentlink.agent.kube.access import Access
from agentlink.agent.kube.resources import JsonObject

LOOPBACK = "127.0.0.1"


class Listener(ABC):
    """A server on loopback, each of whose `connections` is carried by a task that ends with it."""

    def __init__(self) -> None:
        self.port = self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Listen within the block."""
        server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.wait_closed()


class Wire(Listener):
    """A TCP connection to a server, through a port of its own, that can be cut and mended."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._to = port
        self._is_cut = False
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Break all connections, and each new one."""
        self._is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what is said both ways until either end closes."""
        if self._is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(LOOPBACK, self._to)
        both = {writer, back}
        self._open |= both
        try:
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        finally:
            self._open -= both
            back.close()
            with suppress(OSError):
                await back.wait_closed()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def wired(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[Wire, Path]]:
    """Give a wire to the cluster of a kubeconfig, and a kubeconfig that goes by it."""
    told = json.loads(kubeconfig.read_text())
    cluster = told["clusters"][0]["cluster"]
    async with Wire(urlsplit(cluster["server"]).port or 443).listening() as wire:
        cluster["server"] = f"https://{LOOPBACK}:{wire.port}"
        path = folder / f"wired-{wire.port}.kubeconfig"
        path.write_text(json.dumps(told))
        yield wire, path


class Answer:
    """What a scripted server answers: a status, a body in pieces, and whether it then breaks off without an end."""

    def __init__(
        self,
        body: JsonObject | Iterable[JsonObject | bytes],
        *,
        status: int = 200,
        retry_after: str = "",
        breaks_off: bool = False,
        after_seconds: float = 0.0,
    ) -> None:
        whole = [body] if isinstance(body, dict) else body
        self.pieces = [
            piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n" for piece in whole
        ]
        self.status, self.retry_after, self.breaks_off = status, retry_after, breaks_off
        self.after_seconds = after_seconds


def refusal(status: int, reason: str, message: str = "", *, retry_after: str = "") -> Answer:
    """Return an answer of the kind that API servers refuse with."""
    body = {"kind": "Status", "code": status, "reason": reason, "message": message or reason}
    return Answer(body, status=status, retry_after=retry_after)


class Scripted(Listener):
    """A server whose answers come one after the other; then it is silent.

    `requests` has the method and path of each request, `asked` its path and parameters; `most_at_once` says how many
    were under way.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.under_way = self.most_at_once = 0
        self._answers = iter(answers)

    @property
    def access(self) -> Access:
        """Return how to reach it."""
        configuration = Configuration(host=f"http://{LOOPBACK}:{self.port}")
        return Access(lambda: configuration)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, address, *_ = head.split(" ")
        target = urlsplit(address)
        self.requests.append((method, target.path))
        self.asked.append((target.path, {key: values[0] for key, values in parse_qs(target.query).items()}))
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        answer = next(self._answers, None)
        if answer is None:
            await reader.read()
            return
        await asyncio.sleep(answer.after_seconds)
        self.under_way -= 1
        await self._write(writer, answer)

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        wait = f"Retry-After: {answer.retry_after}\r\n" if answer.retry_after else ""
        writer.write(
            f"HTTP/1.1 {answer.status} Said\r\nConnection: close\r\n{wait}"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        for piece in answer.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if not answer.breaks_off:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


def scripted(*answers: Answer) -> AbstractAsyncContextManager[Scripted]:
    """Give a server that answers so."""
    return Scripted(answers).listening()
