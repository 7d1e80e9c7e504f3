"""A steady load through the API: people of several teams submit, cancel, hold, requeue, edit and read.

Everything that is asked is written down before, and its answer after. A submission without an answer is sent again with
its idempotency key until it has one. What people choose comes from a seed; when, from how fast they are answered.
"""

import asyncio
import json
import random
import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from chaos.organisation import EDITOR, LEAD, POOL, TEAMS

REQUEST_SECONDS = 15.0
PAUSE_SECONDS = 0.4
"""Mean time between two acts of one person."""
LONGEST_CAUSE = 120
"""Characters of an answer that is no problem of the API's."""
REMEMBERED = 60
"""Workloads that one person has in mind."""
ACTS = {
    "submit": 38, "submit_many": 6, "send_again": 10, "cancel": 9, "hold": 12, "release": 8, "requeue": 5,
    "read": 8, "trespass": 4,
}  # fmt: skip
EDITS = {"edit_team": 3, "edit_share": 3, "read": 4}


class LoadJournal:
    """The load's own record: a line of JSON when something is asked, another one with its answer, if any comes."""

    def __init__(self, path: Path) -> None:
        self._out = path.open("a")
        self._count = 0
        self.answers: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        """Answers of 500 and above, by route and cause."""

    def ask(self, **asked: Any) -> int:
        """Note a request before it is sent; return its number."""
        self._count += 1
        self._write({"id": self._count, **asked})
        return self._count

    def answer(self, number: int, status: int | None, made: list[str]) -> None:
        """Note what a request was answered; nothing where it was not."""
        self.answers["none" if status is None else f"{status // 100}xx"] += 1
        if status is not None:
            self._write({"id": number, "status": status, "made": made})

    def _write(self, line: dict[str, Any]) -> None:
        self._out.write(json.dumps({"at": time.monotonic(), **line}) + "\n")
        self._out.flush()


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that may be sent more than once."""

    key: str
    body: dict[str, Any]
    names: tuple[str, ...]


@dataclass(slots=True)
class Person:
    """Somebody who uses the API until told to stop."""

    user: str
    team: str
    reserved: bool
    api: httpx.AsyncClient
    journal: LoadJournal
    chance: random.Random
    count: int = 0
    mine: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    held: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    sent: deque[Submission] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    unanswered: dict[str, Submission] = field(default_factory=dict)
    others: "list[Person]" = field(default_factory=list)

    async def live(self, stop: asyncio.Event, acts: dict[str, int]) -> None:
        """Act after act, with pauses, until stopped."""
        names, weights = list(acts), list(acts.values())
        while not stop.is_set():
            act = self.chance.choices(names, weights)[0]
            await getattr(self, act)()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.chance.expovariate(1 / PAUSE_SECONDS))

    # Acts

    async def submit(self) -> None:
        """Submit one workload."""
        workload = self.workload()
        await self.send(Submission(self._key(), workload, (workload["name"],)))

    async def submit_many(self) -> None:
        """Submit several at once."""
        several = [self.workload() for _ in range(self.chance.randint(3, 8))]
        names = tuple(workload["name"] for workload in several)
        await self.send(Submission(self._key(), {"workloads": several}, names))

    async def send_again(self) -> None:
        """Send a submission again that was never answered, or, so that something happens, one that was."""
        if self.unanswered:
            await self.send(next(iter(self.unanswered.values())))
        elif self.sent:
            await self.send(self.chance.choice(self.sent))

    async def cancel(self) -> None:
        """Cancel something of one's own."""
        await self._act_on("cancel", self.mine)

    async def hold(self) -> None:
        """Submit something and hold it at once: whoever is quicker, this or the scheduler."""
        await self.submit()
        slug = await self._act_on("hold", list(self.mine)[-1:])
        if slug:
            self.held.append(slug)

    async def release(self) -> None:
        """Release what was held longest ago."""
        if self.held:
            slug = self.held.popleft()
            if await self.act("release", slug) is None:
                self.held.append(slug)

    async def requeue(self) -> None:
        """Run something again that has ended."""
        await self._act_on("requeue", self.mine)

    async def trespass(self) -> None:
        """Try to cancel what belongs to another team."""
        theirs = [slug for other in self.others for slug in other.mine]
        if theirs:
            await self.act("cancel", self.chance.choice(theirs), told="forbidden-cancel")

    async def read(self) -> None:
        """Look at a list, a workload and its events."""
        paths = ["workloads/?limit=50", "teams/"]
        if self.mine:
            slug = self.chance.choice(self.mine)
            paths += [f"workloads/{slug}/", f"workloads/{slug}/events/"]
        await self._ask("GET", self.chance.choice(paths), act="read")

    async def edit_team(self) -> None:
        """Change a team's bursting priority."""
        await self._edit("edit-team", "teams/gamma/", "bursting_priority", (1, 2, 3, 4, 5))

    async def edit_share(self) -> None:
        """Change what a team may have at most."""
        await self._edit("edit-share", f"teams/gamma/shares/{POOL}/", "maximum", (10, 14, 18, None))

    # How

    def workload(self, **asked: Any) -> dict[str, Any]:
        """Return something to submit, under a name that is used once."""
        pods = self.chance.choice((1, 1, 1, 2, 3))
        self.count += 1
        return {
            "name": f"{self.user}-{self.count}",
            "team": self.team,
            "pools": [POOL],
            "priority": 100
            if self.reserved and self.chance.random() < 0.4
            else self.chance.choice((25, 50, 75)),
            "pods": pods,
            "min_pods": self.chance.choice((pods, pods, 1)),
            "gpus": self.chance.choice((0.25, 0.5, 1, 1, 1, 2, 4)),
            "image": "load",
            "command": self.chance.choice(("sleep 1", "sleep 2", "sleep 4", "sleep 8", "sleep 3; exit 1")),
            "grace_seconds": 1,
            "max_retries": self.chance.choice((0, 0, 1)),
            **asked,
        }

    async def send(self, submission: Submission) -> bool:
        """Send a submission; return whether it was answered."""
        self.unanswered[submission.key] = submission
        answer = await self._ask(
            "POST",
            "workloads/",
            act="submit",
            key=submission.key,
            body=submission.body,
            names=submission.names,
        )
        if answer is None or answer.status_code >= 500:
            return False
        del self.unanswered[submission.key]
        self.sent.append(submission)
        if answer.is_success:
            self.mine.extend(slug for slug in _slugs(answer.json()) if slug not in self.mine)
        return True

    async def settle(self) -> None:
        """Send what was not answered until it is."""
        while self.unanswered:
            if not await self.send(next(iter(self.unanswered.values()))):
                await asyncio.sleep(0.5)

    async def _act_on(self, act: str, slugs: Sequence[str]) -> str:
        """Do it to one of these; return which, empty where it was not done."""
        if not slugs:
            return ""
        slug = self.chance.choice(slugs)
        answer = await self.act(act, slug)
        return slug if answer is not None and answer.is_success else ""

    async def act(self, act: str, slug: str, *, told: str = "") -> httpx.Response | None:
        """Do it to a workload; `told` is what the journal calls it."""
        return await self._ask("POST", f"workloads/{slug}/{act}/", act=told or act, target=slug)

    async def _edit(self, act: str, path: str, name: str, values: tuple[Any, ...]) -> None:
        """Read and change, as an editor does: the version that was read goes with the change."""
        now = await self._ask("GET", path, act="read")
        if now is None or not now.is_success:
            return
        value = self.chance.choice([value for value in values if value != now.json()[name]])
        await self._ask("PATCH", path, act=act, target=path, body={name: value}, etag=now.headers["ETag"])

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        act: str,
        target: str = "",
        key: str = "",
        body: Any = None,
        names: tuple[str, ...] = (),
        etag: str = "",
    ) -> httpx.Response | None:
        """Ask, and write down what was answered; None where there was no answer."""
        headers = {"Idempotency-Key": key} if key else {"If-Match": etag} if etag else {}
        number = self.journal.ask(user=self.user, act=act, target=target, key=key, names=names)
        answer: httpx.Response | None = None
        with suppress(httpx.HTTPError):
            answer = await self.api.request(method, path, json=body, headers=headers)
        made = _slugs(answer.json()) if answer is not None and answer.is_success and names else []
        self.journal.answer(number, None if answer is None else answer.status_code, made)
        if answer is not None and answer.is_server_error:
            self.journal.failures[failure(method, path, answer)] += 1
        return answer

    def _key(self) -> str:
        return f"{self.user}-key-{self.count}-{self.chance.getrandbits(32):08x}"


class Load:
    """All people at once."""

    def __init__(self, url: str, tokens: dict[str, str], journal: Path, *, seed: int) -> None:
        self.journal = LoadJournal(journal)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        chance = random.Random(seed)
        self.people = [
            Person(
                user, team, gpus > 0, _client(url, tokens[user]), self.journal, random.Random(chance.random())
            )
            for team, gpus, _, user in TEAMS
        ]
        for person in self.people:
            person.others = [other for other in self.people if other is not person]
        self.editor = Person(
            EDITOR, POOL, False, _client(url, tokens[EDITOR]), self.journal, random.Random(chance.random())
        )
        self.lead = Person(
            LEAD, "gamma", False, _client(url, tokens[LEAD]), self.journal, random.Random(chance.random())
        )

    def start(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(person.live(self._stop, ACTS)) for person in self.people]
        self._tasks.append(asyncio.create_task(self.editor.live(self._stop, EDITS)))
        self._tasks.append(asyncio.create_task(self._lead()))

    async def _lead(self) -> None:
        """The lead cancels what others submitted, which is his right."""
        while not self._stop.is_set():
            theirs = [slug for person in self.people for slug in person.mine]
            if theirs:
                await self.lead.act("cancel", self.lead.chance.choice(theirs))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), PAUSE_SECONDS * 4)

    async def finish(self) -> None:
        """Stop, get every answer that is missing, release what is held, and leave a full house behind.

        The house: elastic work without an end that takes every GPU there is, then reserved work up to each guarantee,
        which has to take its place. What the truths say of guarantees and idle GPUs is about something then.
        """
        self._stop.set()
        await asyncio.gather(*self._tasks)
        for person in self.people:
            await person.settle()
            while person.held:
                await person.release()
        await self._fill()

    async def _fill(self) -> None:
        endless = {"command": "sleep 86400", "pods": 1, "min_pods": 1, "gpus": 1, "max_retries": 0}
        burst, *reserving = sorted(self.people, key=lambda person: person.reserved)
        guarantees = {team: gpus for team, gpus, _, _ in TEAMS}
        wanted = [(burst, 50, 30), *((person, 100, guarantees[person.team]) for person in reserving)]
        for person, priority, times in wanted:
            several = [person.workload(**endless, priority=priority) for _ in range(times)]
            names = tuple(workload["name"] for workload in several)
            await person.send(Submission(f"{person.user}-fill", {"workloads": several}, names))
            await person.settle()


def _client(url: str, token: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=REQUEST_SECONDS
    )


def failure(method: str, path: str, answer: httpx.Response) -> str:
    """Return the route and the cause of an answer of 500 or above; the same for all rows of a table."""
    table, _, rest = path.partition("?")[0].partition("/")
    _, _, act = rest.partition("/")
    route = f"{table}/NAME/{act}" if rest else f"{table}/"
    try:
        told = answer.json()
        cause = f"{told['code']}: {told['detail']}" if told.get("code") else str(told["detail"])
    except (ValueError, KeyError, AttributeError, TypeError):
        words = " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())
        cause = words[:LONGEST_CAUSE] or "an empty body"
    return f"{method} {route} {answer.status_code} ({cause})"


def _slugs(body: Any) -> list[str]:
    """Return the slugs of an answer to a submission."""
    return [row["slug"] for row in body.get("workloads", [body])]
