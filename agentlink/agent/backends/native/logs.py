"""Reading a pod's log from the API server, by timestamps: a cursor is the time of a line, to the nanosecond.

The API server counts a tail in lines and not in bytes, and ends a stream also when it restarts itself: so what was
written before is read by itself and cut here, and what follows is asked for again until the container has ended.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime

from agentlink.agent.backends.base import LogPiece, NoLogs
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import KubeError, NotFound
from agentlink.agent.kube.resources import PODS, JsonObject
from chamber import notes

BYTES_OF_A_LINE = 32
"""A tail of so many bytes is asked for as so many lines of this length: few logs have shorter ones."""
AGAIN_SECONDS = 1.0
MARK = notes.MARK.encode()
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"

Where = Callable[[], tuple[str, str] | None]


async def read(
    kube: Kube, where: Where, coming: Callable[[], bool], *, follow: bool, tail_bytes: int, after: str = ""
) -> AsyncGenerator[LogPiece]:
    """Yield a pod's lines as `Backend.logs` does.

    `where` tells its namespace and name, None where it is not there; `coming` then tells whether it will be.
    """
    place = where()
    if place is None and coming():
        raise NoLogs("The container has not started yet.", not_started=True)
    if place is None:
        raise NoLogs("The pod is not there any more.")
    namespace, name = place
    container = _started(await _pod(kube, namespace, name))
    reading = _ContainerLog(kube, PODS.path(namespace, name, "log"), container, after)
    if not after:
        for piece in await reading.tail(tail_bytes):
            yield piece
    elif not follow:
        async with aclosing(reading.lines({})) as lines:
            async for piece in lines:
                yield piece
    while follow:
        async with aclosing(reading.lines({"follow": "true"})) as lines:
            async for piece in lines:
                yield piece
        try:
            pod = await _pod(kube, namespace, name)
        except NoLogs:
            return
        if _ended(pod, container):
            return
        await asyncio.sleep(AGAIN_SECONDS)


class _ContainerLog:
    """One container's log, up to a time."""

    def __init__(self, kube: Kube, path: str, container: str, cursor: str) -> None:
        self._kube, self._path, self._container, self._cursor = kube, path, container, cursor

    async def tail(self, tail_bytes: int) -> list[LogPiece]:
        """Return the last lines that fit."""
        found: deque[LogPiece] = deque()
        size = 0
        count = max(10, tail_bytes // BYTES_OF_A_LINE)
        async with aclosing(self.lines({"tailLines": str(count)})) as lines:
            async for piece in lines:
                found.append(piece)
                size += len(piece.data)
                while size > tail_bytes:
                    size -= len(found.popleft().data)
        return list(found)

    async def lines(self, params: Mapping[str, str]) -> AsyncGenerator[LogPiece]:
        """Yield the lines after the latest that was yielded."""
        asked = {"container": self._container, "timestamps": "true", **params}
        if self._cursor:
            # To the second, as the API server has it: what comes twice is left out below.
            asked["sinceTime"] = f"{self._cursor[:19]}Z"
        since, wanted, begun, moment = self._cursor, True, False, ""
        try:
            async with aclosing(self._kube.lines(self._path, asked)) as lines:
                async for line in lines:
                    data = line
                    if not begun:
                        stamp, _, data = line.partition(b" ")
                        moment = _moment(stamp)
                        data = data if moment else line
                        wanted = not moment or moment > since
                        self._cursor = max(self._cursor, moment)
                    begun = not line.endswith(b"\n")
                    if wanted:
                        at = _written(moment) if MARK in data else None
                        yield LogPiece(data, "" if begun else self._cursor, at)
        except NotFound:
            return
        except KubeError as error:
            if error.status == 400:  # the container waits, or its log is gone with it
                raise NoLogs(error.message, not_started="waiting to start" in error.message) from error
            raise


def _moment(stamp: bytes) -> str:
    """Return a line's time in UTC, to the nanosecond and always as long; "" where it is none."""
    text = stamp.decode("ascii", "replace").strip()
    if len(text) == 30 and text.endswith("Z"):
        return text
    try:
        whole = datetime.fromisoformat(text[:19] + text[19:].lstrip(".0123456789")).astimezone(UTC)
    except ValueError:
        return ""
    digits = text[20:].partition("+")[0].partition("-")[0].rstrip("Z") if text[19:20] == "." else ""
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{digits[:9]:0<9}Z"


def _written(moment: str) -> datetime | None:
    """Return a line's time, to the microsecond."""
    return datetime.fromisoformat(f"{moment[:26]}+00:00") if moment else None


async def _pod(kube: Kube, namespace: str, name: str) -> JsonObject:
    try:
        return await kube.get(PODS, name, namespace)
    except NotFound:
        raise NoLogs("The pod is not there any more.") from None


def _started(pod: JsonObject) -> str:
    """Return the name of the container whose log is meant; raise `NoLogs` where it has not started."""
    containers = pod["spec"]["containers"]
    named = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    container = str(named or containers[0]["name"])
    state = _state(pod, container)
    if "running" in state or "terminated" in state or pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return container
    waiting = (state.get("waiting") or {}).get("reason")
    text = f"The container has not started yet{f' ({waiting})' if waiting else ''}."
    raise NoLogs(text, not_started=True)


def _ended(pod: JsonObject, container: str) -> bool:
    over = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return over or "terminated" in _state(pod, container)


def _state(pod: JsonObject, container: str) -> JsonObject:
    statuses = pod["status"].get("containerStatuses") or ()
    found = [status.get("state") or {} for status in statuses if status.get("name") == container]
    return found[0] if found else {}
