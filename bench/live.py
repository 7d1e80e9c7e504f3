"""How soon open pages show what changed: a thousand pages of twenty kinds of viewer, fifty changes a second.

    python -m bench.live                                        # starts a deployment of its own
    python -m bench.live --url http://web --live-url http://live   # with the deployment's environment set

A page is a WebSocket and a fragment that is fetched again as `static/js/live.js` does: when told of another version, at
most once a second, with the last ETag and the versions it was told of. It shows a change once it holds a fragment whose
version is not older than the change's commit. Prints JSON; seconds unless a name says otherwise. What makes the changes
and the pages run on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

FETCH_GAP_SECONDS = 1.0
DRAIN_SECONDS = 8.0
LEAVE_OUT_SECONDS = 2.0
MIXTURE = {"overview": 40, "workloads": 20, "queue": 15, "pools": 10, "workload": 15}
"""How many pages of a hundred are which."""
VERSION = re.compile(rb'data-live-version="(\d+)')


class Http:
    """A client that keeps its connections, as a browser does, and costs little: it shares the machine."""

    def __init__(self, url: str, most: int) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.places = asyncio.Semaphore(most)
        self.statuses: Counter[int] = Counter()
        self.bytes = 0

    async def get(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body; a connection that the server has closed meanwhile is made anew."""
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        async with self.places:
            while True:
                fresh = not self.idle
                reader, writer = (
                    await asyncio.open_connection(self.host, self.port) if fresh else self.idle.pop()
                )
                try:
                    writer.write(request)
                    answer = await self._answer(reader)
                except (OSError, asyncio.IncompleteReadError):
                    writer.close()
                    if fresh:
                        raise
                    continue
                if answer[1].get("connection", "").lower() == "close":
                    writer.close()
                else:
                    self.idle.append((reader, writer))
                self.statuses[answer[0]] += 1
                self.bytes += len(answer[2])
                return answer

    @staticmethod
    async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        if status == 304:
            return status, headers, b""
        if "content-length" in headers:
            return status, headers, await reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return status, headers, body


@dataclass
class OpenPage:
    """One open page: what it shows since when, and what it was told of."""

    path: str
    topic: str
    session: str
    workload: str = ""
    announced: int = 0
    shown: list[tuple[float, int]] = field(default_factory=list)
    etag: str = ""
    wakes: asyncio.Event = field(default_factory=asyncio.Event)
    lost: int = 0

    async def live(self, http: Http, socket_url: str, origin: str) -> None:
        """Be open until cancelled."""
        await self.fetch(http)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(socket_url, origin))
            tasks.create_task(self._follow(http))

    async def _listen(self, url: str, origin: str) -> None:
        while True:
            with suppress(OSError, WebSocketException):
                headers = {"Cookie": f"sessionid={self.session}"}
                # Browsers answer pings and send none.
                async with connect(
                    url,
                    additional_headers=headers,
                    origin=Origin(origin),
                    compression=None,
                    ping_interval=None,
                ) as socket:
                    await self._hear(socket)
            self.lost += 1
            await asyncio.sleep(random.uniform(0.5, 1.5))

    async def _hear(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps({"watch": [self.topic]}))
        async for text in socket:
            self.announced = json.loads(text)["version"]
            if self.announced != self.shown[-1][1]:
                self.wakes.set()

    async def _follow(self, http: Http) -> None:
        while True:
            await self.wakes.wait()
            self.wakes.clear()
            began = time.monotonic()
            await self.fetch(http)
            await asyncio.sleep(max(0.0, began + FETCH_GAP_SECONDS - time.monotonic()))
            if self.shown[-1][1] < self.announced:
                self.wakes.set()

    async def fetch(self, http: Http) -> None:
        """Fetch the fragment, and note which version it shows from now on."""
        headers = {"Cookie": f"sessionid={self.session}", "X-Chamber-Fragment": "1", "Accept": "text/html"}
        if self.etag:
            headers["If-None-Match"] = self.etag
        if self.announced:
            headers["X-Chamber-Heard"] = f"{self.topic}={self.announced}"
        heard = self.announced
        status, answered, body = await http.get(self.path, headers)
        if status == 200 and (found := VERSION.search(body)):
            self.etag = answered.get("etag", "")
            self.shown.append((time.time(), int(found[1])))
        elif status == 304:
            self.shown.append((time.time(), heard))
        elif status != 503:
            sys.exit(f"{self.path} answered {status}: {body[:300]!r}")

    def lags(self, changes: list[tuple[float, str]], since: float, until: float) -> list[float]:
        """Return how long after each change that concerns it the page showed it; infinity for never."""
        found, place = [], 0
        for at, workload in changes:
            if not since <= at <= until or self.workload not in {"", workload}:
                continue
            while place < len(self.shown) and self.shown[place][1] < at * 1_000_000:
                place += 1
            found.append(self.shown[place][0] - at if place < len(self.shown) else float("inf"))
        return [max(0.0, lag) for lag in found]


def pages_of(prepared: dict[str, Any], count: int) -> list[OpenPage]:
    """Return as many pages as asked for, mixed as people's are, each with a session of its own."""
    chance = random.Random(1)
    kinds = chance.choices(list(MIXTURE), weights=list(MIXTURE.values()), k=count)
    sessions = prepared["sessions"]
    pages = []
    for number, kind in enumerate(kinds):
        session = sessions[number % len(sessions)]
        own = [each for each in prepared["workloads"] if each["kind"] == session["kind"]]
        watched, pool = chance.choice(own), chance.choice(prepared["pools"])
        path, topic = {
            "overview": ("/", "overview"),
            "workloads": ("/workloads/", "workloads"),
            "queue": (f"/queue/{pool}/", f"queue:{pool}"),
            "pools": ("/pools/", "pools"),
            "workload": (f"/workloads/{watched['slug']}/", f"workload:{watched['id']}"),
        }[kind]
        workload = {"workload": watched["id"], "pools": "none"}.get(kind, "")
        pages.append(OpenPage(path, topic, session["key"], workload))
    return pages


async def measure(arguments: argparse.Namespace, prepared: dict[str, Any], count: int) -> dict[str, Any]:
    """Open so many pages, make changes, and return how fresh the pages were."""
    http = Http(arguments.url, arguments.connections)
    socket_url = arguments.live_url.replace("http", "ws", 1) + "/ws/live/"
    before = await _with_changes(arguments, arguments.seconds / 3)
    pages = pages_of(prepared, count)
    opened = [asyncio.create_task(page.live(http, socket_url, arguments.url)) for page in pages]
    while any(not page.announced for page in pages):
        failed = next((task for task in opened if task.done() and task.exception()), None)
        if failed is not None:
            failed.result()
        await asyncio.sleep(0.2)
    served, lost = http.statuses.copy(), sum(page.lost for page in pages)
    with_pages = await _with_changes(arguments, arguments.seconds)
    served = http.statuses - served
    await asyncio.sleep(DRAIN_SECONDS)
    for task in opened:
        task.cancel()
    await asyncio.gather(*opened, return_exceptions=True)
    return {
        "pages": count,
        **_freshness(pages, with_pages["changes"]),
        "changes_per_second": round(len(with_pages["changes"]) / with_pages["seconds"], 1),
        "requests_per_second": round(served.total() / with_pages["seconds"], 1),
        "requests": {str(status): number for status, number in sorted(served.items())},
        "sockets_lost": sum(page.lost for page in pages) - lost,
        "transactions_per_change": {
            "without pages": round(before["transactions"] / max(1, len(before["changes"])), 1),
            "with pages": round(with_pages["transactions"] / max(1, len(with_pages["changes"])), 1),
        },
    }


def _freshness(pages: list[OpenPage], changes: list[tuple[float, str]]) -> dict[str, Any]:
    since, until = changes[0][0] + LEAVE_OUT_SECONDS, changes[-1][0]
    by_page = [sorted(lags) for page in pages if (lags := page.lags(changes, since, until))]
    lags = sorted(lag for found in by_page for lag in found)
    worst = sorted(found[int(len(found) * 0.95)] for found in by_page)
    return {
        "fresh_p50": round(lags[len(lags) // 2], 2),
        "fresh_p95": round(lags[int(len(lags) * 0.95)], 2),
        "fresh_max": round(lags[-1], 2),
        "fresh_p95_of_the_worst_page": round(worst[-1], 2),
        "never_shown": sum(lag == float("inf") for lag in lags),
    }


async def _with_changes(arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Have changes made for some seconds; return them, and how many transactions the database saw meanwhile."""
    transactions, began = _transactions(), time.monotonic()
    command = [sys.executable, "-m", "bench.changes", "make", str(arguments.changes), str(seconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    changes = [(float(at), str(workload)) for at, workload in map(json.loads, printed.splitlines())]
    if process.returncode or not changes:
        sys.exit("The changes could not be made.")
    await asyncio.sleep(1.2)  # the database tells its counts a second late
    took = changes[-1][0] - changes[0][0]
    return {
        "changes": changes,
        "seconds": took,
        "transactions": _transactions() - transactions,
        "began": began,
    }


def _transactions() -> int:
    import psycopg

    with psycopg.connect(os.environ["CHAMBER_DATABASE"]) as connection:
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return int(row[0]) if row else 0


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="of the web part")
    parser.add_argument("--live-url", help="of the live part; the web's where one serves both")
    parser.add_argument("--pages", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--kinds", type=int, default=20)
    parser.add_argument("--changes", type=float, default=50, help="a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=64, help="to the web part at most")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        if arguments.url is None:
            from rig import deployment

            team = stack.enter_context(deployment.running())
            os.environ |= team.environment
            arguments.url, arguments.live_url = team.web_url, team.live_url
        arguments.live_url = arguments.live_url or arguments.url
        preparing = [
            sys.executable,
            "-m",
            "bench.changes",
            "prepare",
            str(max(arguments.pages)),
            str(arguments.kinds),
        ]
        prepared = json.loads(subprocess.run(preparing, check=True, stdout=subprocess.PIPE).stdout)
        found = [asyncio.run(measure(arguments, prepared, count)) for count in arguments.pages]
    shape = {"kinds": arguments.kinds, "changes_per_second": arguments.changes, "seconds": arguments.seconds}
    print(json.dumps({"shape": shape | {"processors": os.cpu_count()}, "runs": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
