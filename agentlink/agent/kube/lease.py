"""One of several agents of a cluster leads; the others wait until its lease runs out.

An agent that waits goes by how long the lease has not changed, on its own clock; the leader stops earlier, counted from
before it last asked. What the clocks of two machines show is compared in one case only, with a margin: how long ago a
cluster was let go of, which is not renewed.
"""

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from agentlink.agent.kube.access import Access
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import AlreadyExists, KubeError, NotFound, ObjectConflict
from agentlink.agent.kube.resources import LEASES, JsonObject
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

LEASE_SECONDS = 15
RENEW_WITHIN_SECONDS = 10.0
"""A leader that has not renewed its lease for so long stops: that leaves the rest of the lease for stopping."""
EVERY_SECONDS = 4.0
"""How often a leader renews, and how often others look."""
GIVE_UP_WITHIN_SECONDS = 5.0
KEPT_SECONDS = 120
"""How long no agent leads after a cluster was let go of: its agents are removed meanwhile."""
SKEW_SECONDS = 30
"""By how much clocks of two machines may differ: so much longer than `KEPT_SECONDS` ago is over on any."""
RELEASE = "release-"
"""How those holders are named that let go of the cluster."""
TRIES = 3
"""How often a lease that others write to at the same time is read anew before the next look."""


class LeaseNote(Protocol):
    """Something small that the leader writes on the lease, and that the next leader finds there."""

    def text(self) -> str:
        """Return what is to be written; empty: what is there stays."""
        ...

    def recall(self, text: str) -> None:
        """Take in what is written there."""
        ...


class Leadership:
    """A candidate with a connection of its own, so that nothing delays a renewal; `leads` says whether it may act.
    `note` is written on the lease as an annotation of that name.
    """

    def __init__(
        self,
        access: Access,
        *,
        namespace: str,
        name: str = "chamber-agent",
        lease_seconds: int = LEASE_SECONDS,
        renew_within_seconds: float = RENEW_WITHIN_SECONDS,
        every_seconds: float = EVERY_SECONDS,
        note: tuple[str, LeaseNote] | None = None,
    ) -> None:
        self.leads = False
        self.identity = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        self._access, self._namespace, self._name = access, namespace, name
        self._note = note
        self._lease_seconds, self._every = lease_seconds, every_seconds
        self._renew_within = renew_within_seconds
        self._lease: JsonObject | None = None
        """As it was last read or written."""
        self._seen: JsonObject = {}
        self._seen_at = 0.0
        """What a lease said when it last changed, and when that was seen."""
        self._renewed_at = 0.0

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the work whenever this candidate leads, until the work is over by itself; raise what it raises.

        The work is cancelled as soon as the lease is lost, or cannot be renewed in time. Cancelled itself, it gives the
        lease up when the work has ended, so that another begins at once.
        """
        async with Kube(self._access, at_once=1, patience_seconds=self._every / 2) as kube:
            while True:
                await self._win(kube)
                if await self._do(work, kube):
                    return

    async def take_over(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Do the work with the lease, also if another agent holds it; return whether it is over, raise what it raises.

        The agent that led notices with its next renewal, within `RENEW_WITHIN_SECONDS`. After the work the lease is
        held for two minutes more; where the work failed it is given up.
        """
        self.identity = f"{RELEASE}{self.identity}"
        async with Kube(self._access, patience_seconds=self._every / 2) as kube:
            for _ in range(TRIES):
                await self._look(kube)
                with suppress(AlreadyExists, ObjectConflict, NotFound):
                    self._lease = await self._write(kube, self._claim())
                    self._seen, self._seen_at = self._lease["spec"], time.monotonic()
                    self._renewed_at, self.leads = self._seen_at, True
                    break
            return await self._do(work, kube, keeps=True)

    async def _win(self, kube: Kube) -> None:
        """Return when the lease was won; say at once which agent has it meanwhile."""
        told: tuple[str, int] | None = None
        failing = Lasting()
        while True:
            try:
                if await self._hold(kube):
                    logger.info("%s leads.", self.identity)
                    self.leads = True
                    return
                failing.over()
                held = self._seen["holderIdentity"], self._seen["leaseDurationSeconds"]
                if held != told:
                    told = held
                    logger.info("%s waits to lead: %s", self.identity, self._awaited(*held))
            except KubeError as error:
                if failing.due(str(error)):
                    logger.warning("The lease %s cannot be had: %s", self._name, error)
            await asyncio.sleep(self._every)

    def _awaited(self, holder: str, seconds: int) -> str:
        """Return the holder of the lease, and until when it holds it, as the end of a sentence."""
        if not _is_kept(holder, seconds):
            return (
                f"the lease {self._name} is held by {holder}, until that has not renewed it for {seconds} s."
            )
        left = self._seconds_left()
        until = datetime.now(UTC) + timedelta(seconds=left)
        return (
            f"the cluster was let go of, and {holder} keeps the lease {self._name} for agents that are about to be "
            f"removed: {left:.0f} s more, until {until:%H:%M:%S} UTC."
        )

    async def _do(
        self, work: Callable[[], Coroutine[Any, Any, None]], kube: Kube, *, keeps: bool = False
    ) -> bool:
        """Do the work while the lease holds; return whether it is over. `keeps`: then the lease is not given up."""
        worked = False
        working = asyncio.create_task(work())
        renewing = asyncio.create_task(self._renew(kube))
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                worked = True
                return True
            return False
        finally:
            lost = renewing.done()
            working.cancel()
            renewing.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
            self.leads = False
            if not lost:
                await self._give_up(kube, kept_seconds=KEPT_SECONDS if worked and keeps else 0)

    async def _renew(self, kube: Kube) -> None:
        """Renew the lease again and again; return once it is another's, or could not be renewed in time."""
        failing = Lasting()
        while True:
            try:
                async with asyncio.timeout(self._renewed_at + self._renew_within - time.monotonic()):
                    await asyncio.sleep(self._every)
                    while not await self._renewed(kube, failing):
                        await asyncio.sleep(self._every / 4)
                if (seconds := failing.over()) is not None:
                    logger.info("The lease %s is renewed again, after %.0f s.", self._name, seconds)
            except TimeoutError:
                logger.warning("%s could not renew its lease in time and leads no more.", self.identity)
                return
            except _Lost:
                logger.warning(
                    "%s leads no more: the lease is held by %s.", self.identity, self._seen["holderIdentity"]
                )
                return

    async def _renewed(self, kube: Kube, failing: Lasting) -> bool:
        """Return whether the lease was renewed; raise `_Lost` where it is another's."""
        try:
            held = await self._hold(kube)
        except KubeError as error:
            if failing.due(str(error)):
                logger.warning("The lease %s cannot be renewed yet: %s", self._name, error)
            return False
        if not held:
            raise _Lost
        return True

    async def _hold(self, kube: Kube) -> bool:
        """Take or renew the lease; return whether it is this candidate's now."""
        if not self.leads:
            await self._look(kube)
        for _ in range(TRIES):
            if self._is_anothers():
                return False
            asked_at = time.monotonic()
            try:
                self._lease = await self._write(kube, self._claim())
            except (AlreadyExists, ObjectConflict, NotFound) as error:
                clash = error
                await self._look(kube)  # another client has written to it, or deleted it
            else:
                self._seen, self._seen_at, self._renewed_at = self._lease["spec"], asked_at, asked_at
                return True
        raise clash

    async def _look(self, kube: Kube) -> None:
        """Read the lease. One that was deleted still keeps others waiting for the rest of its time."""
        try:
            self._lease = await kube.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._lease = None
            return
        if self._note is not None:
            name, note = self._note
            note.recall((self._lease["metadata"].get("annotations") or {}).get(name, ""))
        if self._lease["spec"] != self._seen:
            self._seen, self._seen_at = self._lease["spec"], time.monotonic()

    def _is_anothers(self) -> bool:
        holder = self._seen.get("holderIdentity")
        if not holder or holder == self.identity:
            return False
        return self._seconds_left() > 0

    def _seconds_left(self) -> float:
        """Return how long the lease holds, counted from when it was seen; what a release keeps, by its own time too."""
        seconds = self._seen.get("leaseDurationSeconds") or 0
        left = self._seen_at + seconds - time.monotonic()
        renewed = self._seen.get("renewTime")
        if not renewed or not _is_kept(self._seen["holderIdentity"], seconds):
            return left
        until = datetime.fromisoformat(renewed) + timedelta(seconds=seconds + SKEW_SECONDS)
        return min(left, (until - datetime.now(UTC)).total_seconds())

    def _claim(self) -> JsonObject:
        """Return what this candidate writes into the lease."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = self._seen.get("holderIdentity") == self.identity
        changes = int(self._seen.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._lease_seconds,
            "acquireTime": self._seen["acquireTime"] if mine else now,
            "renewTime": now,
            "leaseTransitions": changes if mine else changes + 1,
        }

    async def _write(self, kube: Kube, spec: JsonObject) -> JsonObject:
        metadata: JsonObject = {"name": self._name} if self._lease is None else self._lease["metadata"]
        if self._note is not None and (text := self._note[1].text()):
            annotations = {**(metadata.get("annotations") or {}), self._note[0]: text}
            metadata = {**metadata, "annotations": annotations}
        body = {**(self._lease or {}), "metadata": metadata, "spec": spec}
        if self._lease is None:
            return await kube.create(LEASES, body, self._namespace)
        return await kube.replace(LEASES, body, self._namespace)

    async def _give_up(self, kube: Kube, *, kept_seconds: int) -> None:
        """Let another lead at once, or after some time."""
        free = {"holderIdentity": "", "leaseDurationSeconds": 1}
        spec = {**self._claim(), **({"leaseDurationSeconds": kept_seconds} if kept_seconds else free)}
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(GIVE_UP_WITHIN_SECONDS):
                await self._write(kube, spec)


def _is_kept(holder: str, seconds: int) -> bool:
    """Return whether a lease is one that a release keeps when its work is done."""
    return holder.startswith(RELEASE) and seconds >= KEPT_SECONDS


class _Lost(Exception):  # noqa: N818 - no failure
    """The lease is another's."""
