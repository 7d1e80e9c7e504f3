import asyncio
import re
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from agentlink.agent.kube.access import Access, load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.lease import Leadership, LeaseNote
from agentlink.agent.kube.resources import LEASES, JsonObject
from agentlink.agent.memory import AgentMemory
from agentlink.protocol import Epoch
from agentlink.tests.kube.wires import wired
from rig.namespaces import Namespace

LEASE_SECONDS = 2
NAME = "chamber-agent"

pytestmark = pytest.mark.kube


class Candidate:
    """An agent that notes when it works. Times are this process's, the same for all candidates."""

    def __init__(
        self,
        access: Access,
        namespace: str,
        lease_seconds: int = LEASE_SECONDS,
        note: tuple[str, LeaseNote] | None = None,
    ) -> None:
        self.begun = asyncio.Event()
        self.began_at = self.ended_at = 0.0
        self.leadership = Leadership(
            access,
            namespace=namespace,
            lease_seconds=lease_seconds,
            renew_within_seconds=lease_seconds * 0.6,
            every_seconds=0.2,
            note=note,
        )
        self.task = asyncio.create_task(self.leadership.run(self._work))

    async def _work(self) -> None:
        self.began_at = time.monotonic()
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended_at = time.monotonic()

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def lease_of(kube: Kube, namespace: str) -> JsonObject:
    spec: JsonObject = (await kube.get(LEASES, NAME, namespace))["spec"]
    return spec


async def test_one_of_two_leads_and_the_other_begins_at_once_when_it_gives_up(namespace: Namespace) -> None:
    access = load(namespace.kubeconfig)
    first = Candidate(access, namespace.name, lease_seconds=60)
    await asyncio.wait_for(first.begun.wait(), 60)
    second = Candidate(access, namespace.name)
    await asyncio.sleep(0.5)
    assert not second.begun.is_set()
    assert first.leadership.leads
    await first.stop()
    await asyncio.wait_for(second.begun.wait(), 60)
    assert 0 < first.ended_at < second.began_at
    async with Kube(access) as kube:
        lease = await lease_of(kube, namespace.name)
        assert lease["holderIdentity"] == second.leadership.identity
        assert lease["leaseTransitions"] >= 2
        await second.stop()
        assert not (await lease_of(kube, namespace.name)).get("holderIdentity")


async def test_what_a_leader_remembers_the_next_one_finds_on_the_lease(namespace: Namespace) -> None:
    access, name, row = load(namespace.kubeconfig), "chamber.internal/epoch", uuid4()
    memories = AgentMemory(), AgentMemory()
    first = Candidate(access, namespace.name, note=(name, memories[0]))
    await asyncio.wait_for(first.begun.wait(), 60)
    memories[0].learn(Epoch(of=row, number=7))
    memories[0].learn(Epoch(of=row, number=3))  # late
    await first.stop()
    second = Candidate(access, namespace.name, note=(name, memories[1]))
    await asyncio.wait_for(second.begun.wait(), 60)
    assert memories[1].epoch == Epoch(of=row, number=7)
    await second.stop()
    async with Kube(access) as kube:
        metadata = (await kube.get(LEASES, NAME, namespace.name))["metadata"]
    assert metadata["annotations"] == {name: f"{row}:7"}


async def test_a_leader_that_is_cut_off_stops_before_another_begins(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig):
        first = Candidate(load(kubeconfig), namespace.name)
        await asyncio.wait_for(first.begun.wait(), 60)
        second = Candidate(load(namespace.kubeconfig), namespace.name, lease_seconds=60)
        await asyncio.sleep(0.5)
        wire.cut()
        await asyncio.wait_for(second.begun.wait(), 60)
        assert 0 < first.ended_at < second.began_at
        assert not first.leadership.leads
        wire.mend()
        await asyncio.sleep(0.5)
        assert first.began_at < second.began_at
        await first.stop()
        await second.stop()


async def test_a_lease_that_another_took_ends_the_work_at_once(namespace: Namespace) -> None:
    access = load(namespace.kubeconfig)
    first = Candidate(access, namespace.name, lease_seconds=600)
    await asyncio.wait_for(first.begun.wait(), 60)
    async with Kube(access) as kube:
        change = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 60}}
        taken_at = time.monotonic()
        await kube.patch(LEASES, NAME, change, namespace.name)
        while not first.ended_at:
            await asyncio.sleep(0.02)
        assert first.ended_at - taken_at < 60, "not before it would have had to give up anyhow"
        await first.stop()
        assert (await lease_of(kube, namespace.name))["holderIdentity"] == "another"


@pytest.mark.parametrize("year", [1999, 2099])
async def test_whatever_the_clock_of_a_dead_leader_showed_its_lease_runs_out(
    namespace: Namespace, year: int
) -> None:
    access = load(namespace.kubeconfig)
    spec = {
        "holderIdentity": "dead",
        "leaseDurationSeconds": 1,
        "renewTime": f"{year}-01-01T00:00:00.000000Z",
    }
    async with Kube(access) as kube:
        await kube.create(LEASES, {"metadata": {"name": NAME}, "spec": spec}, namespace.name)
    began = time.monotonic()
    candidate = Candidate(access, namespace.name)
    await asyncio.wait_for(candidate.begun.wait(), 60)
    assert candidate.began_at - began >= 1.0
    await candidate.stop()


async def test_where_there_is_no_such_namespace_nobody_leads_and_little_is_asked(
    control_plane: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    hold = Leadership._hold

    async def counted(leadership: Leadership, kube: Kube) -> bool:
        looks.append(time.monotonic())
        return await hold(leadership, kube)

    monkeypatch.setattr(Leadership, "_hold", counted)
    candidate = Candidate(load(control_plane), "no-such-namespace")
    async with asyncio.timeout(60):
        while len(looks) < 4:
            await asyncio.sleep(0.02)
    assert not candidate.begun.is_set()
    await candidate.stop()
    assert looks[-1] - looks[0] >= 0.2 * (len(looks) - 1)
    assert len([record for record in caplog.records if "cannot be had" in record.message]) == 1


async def test_who_waits_to_lead_says_at_once_for_whom_and_until_when(
    namespace: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    def said(part: str) -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if "waits to lead: " in message and part in message]

    async def until_said(part: str) -> None:
        async with asyncio.timeout(60):
            while not said(part):
                await asyncio.sleep(0.02)

    async def nothing() -> None:
        return None

    caplog.set_level("INFO", logger="agentlink.agent.kube.lease")
    access = load(namespace.kubeconfig)
    first = Candidate(access, namespace.name, lease_seconds=60)
    await asyncio.wait_for(first.begun.wait(), 60)
    second = Candidate(access, namespace.name)
    leader = first.leadership.identity
    await until_said(f"the lease {NAME} is held by {leader}, until that has not renewed it for 60 s.")
    assert await Leadership(access, namespace=namespace.name).take_over(nothing)
    await first.stop()
    after = Candidate(access, namespace.name)
    await until_said(f"{after.leadership.identity} waits to lead: the cluster was let go of, and release-")
    assert len(said(f"is held by {leader}")) == 1
    assert re.search(r" removed: \d+ s more, until \d\d:\d\d:\d\d UTC\.$", said("let go of")[-1])
    await second.stop()
    await after.stop()


@pytest.mark.parametrize(("ago_seconds", "waits"), [(86_400, False), (151, False), (66, True), (-3600, True)])
async def test_who_begins_long_after_a_release_does_not_wait_for_it(
    namespace: Namespace, ago_seconds: int, *, waits: bool
) -> None:
    access = load(namespace.kubeconfig)
    released = (datetime.now(UTC) - timedelta(seconds=ago_seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "release-x", "leaseDurationSeconds": 120, "leaseTransitions": 1}
    async with Kube(access) as kube:
        times = {"acquireTime": released, "renewTime": released}
        await kube.create(LEASES, {"metadata": {"name": NAME}, "spec": spec | times}, namespace.name)
    after = Candidate(access, namespace.name)
    if waits:
        await asyncio.sleep(1)
        assert not after.begun.is_set()
    else:
        await asyncio.wait_for(after.begun.wait(), 60)
    await after.stop()


async def test_what_the_work_raises_ends_the_leadership(namespace: Namespace) -> None:
    access = load(namespace.kubeconfig)

    async def fail() -> None:
        raise ValueError("broken")

    leadership = Leadership(access, namespace=namespace.name, every_seconds=0.2)
    with pytest.raises(ValueError, match="broken"):
        await leadership.run(fail)
    assert not leadership.leads
    async with Kube(access) as kube:
        assert not (await lease_of(kube, namespace.name)).get("holderIdentity")
