"""Whole agents on simulated clusters against a served project, by socket and by long poll."""

import asyncio
import time
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import pytest

from agentlink import actions
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.link import LinkLost
from agentlink.agent.runner import Transport, run_agent
from agentlink.models import AgentToken, Cluster, Device, Node
from agentlink.tests.agents import (
    admit,
    cancel,
    devices_of,
    in_database,
    make_token,
    nodes,
    running,
    serving,
    until,
)
from agentlink.tests.conftest import Place
from chamber import live
from teams.actors import Actor
from workloads.models import Attempt, AttemptNotes, EndReason, Status, Workload

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("transport", ["websocket", "long-poll"]),
]


def status_of(attempt: Attempt) -> str:
    return Workload.objects.get(pk=attempt.workload_id).status


def is_status(attempt: Attempt, status: Status) -> bool:
    return status_of(attempt) == status


def is_released(attempt: Attempt) -> bool:
    return Attempt.objects.filter(pk=attempt.pk, released_at__isnull=False).exists()


async def submit(place: Place, device: int, command: str, **fields: Any) -> Attempt:
    def work() -> Attempt:
        device_row = devices_of(place.cluster, "n1")[device]
        words = ["sh", "-c", command]
        return admit(
            place.team, place.owner, place.pool, place.cluster, [device_row], command=words, **fields
        )

    attempt: Attempt = await in_database(work)
    return attempt


async def test_a_workload_runs_to_its_end_and_its_devices_are_free(
    place: Place, transport: Transport
) -> None:
    secret = await in_database(make_token, place.cluster)
    async with (
        serving() as url,
        running(run_agent(url, secret, SimulatedCluster(nodes(2)), transport=transport)),
    ):
        attempt = await submit(place, 0, "sleep 0.2")
        failing = await submit(place, 1, "sleep 0.1; exit 7")
        await until(partial(is_status, attempt, Status.COMPLETED))
        await until(partial(is_status, failing, Status.FAILED))
        await until(partial(is_released, failing))
        await until(partial(is_released, attempt))
    occupied = await in_database(lambda: list(Device.objects.filter(occupied_milli__gt=0)))
    assert occupied == []
    assert (await in_database(lambda: Attempt.objects.get(pk=failing.pk))).exit_code == 7
    assert (await in_database(lambda: Attempt.objects.get(pk=attempt.pk))).running_at is not None


async def test_what_a_pod_notes_is_known_within_two_seconds_also_what_it_saves_when_it_is_stopped(
    place: Place, transport: Transport
) -> None:
    def said(attempt: Attempt) -> tuple[int | None, int | None] | None:
        return AttemptNotes.objects.filter(attempt=attempt).values_list("step", "progress_millionths").first()

    secret = await in_database(make_token, place.cluster)
    async with (
        serving() as url,
        running(run_agent(url, secret, SimulatedCluster(nodes(2)), transport=transport)),
    ):
        command = "sleep 1; echo '::chamber checkpoint step=7::'; echo '::chamber progress 0.25::'; sleep 60"
        attempt = await submit(place, 0, command, read_notes=True)
        silent = await submit(place, 1, command)
        await until(lambda: said(attempt) == (7, 250_000))
        known_at = time.time()
        saved = await in_database(lambda: Attempt.objects.get(pk=attempt.pk))
        assert 1 <= (saved.checkpointed_at - saved.running_at).total_seconds() < 1.5
        assert known_at - saved.checkpointed_at.timestamp() < 2
        program = await submit(place, 2, "python train.py", read_notes=True, grace_seconds=30)
        await until(partial(is_status, program, Status.RUNNING))
        await asyncio.sleep(1)
        await in_database(cancel, program)
        await until(partial(is_released, program))
        await until(lambda: said(program) is not None)
        saved = await in_database(lambda: Attempt.objects.get(pk=program.pk))
        assert saved.checkpointed_at >= saved.ended_at - timedelta(seconds=0.1)
    assert await in_database(said, silent) is None


async def test_a_newcomer_is_let_go_when_the_old_pods_are_gone(place: Place, transport: Transport) -> None:
    secret = await in_database(make_token, place.cluster)
    cluster = SimulatedCluster(nodes(2))
    async with serving() as url, running(run_agent(url, secret, cluster, transport=transport)):
        old = await submit(place, 0, "sleep 60")
        await until(partial(is_status, old, Status.RUNNING))
        await in_database(cancel, old)
        new = await submit(place, 0, "sleep 60")
        assert await in_database(status_of, new) == Status.QUEUED
        await until(partial(is_status, new, Status.RUNNING))
    first, second = [await in_database(lambda a=a: Attempt.objects.get(pk=a.pk)) for a in (old, new)]
    assert first.released_at < second.starting_at
    assert max(cluster.used_milli().values()) == 1000


async def test_an_agent_that_was_stopped_converges_when_it_starts_again(
    place: Place, transport: Transport
) -> None:
    secret = await in_database(make_token, place.cluster)
    ahead = 0.0
    cluster = SimulatedCluster(nodes(2), clock=lambda: time.time() + ahead)
    async with serving() as url:
        async with running(run_agent(url, secret, cluster, transport=transport)):
            stays = await submit(place, 0, "sleep 6000")
            ends = await submit(place, 1, "sleep 60")
            leaves = await submit(place, 2, "sleep 6000")
            for attempt in (stays, ends, leaves):
                await until(partial(is_status, attempt, Status.RUNNING))
        await in_database(cancel, leaves)
        comes = await submit(place, 3, "sleep 6000")
        ahead = 100.0
        assert await in_database(status_of, ends) == Status.RUNNING
        async with running(run_agent(url, secret, cluster, transport=transport)):
            await until(partial(is_status, ends, Status.COMPLETED))
            await until(partial(is_status, comes, Status.RUNNING))
            await until(partial(is_released, leaves))
            assert await in_database(status_of, stays) == Status.RUNNING
    assert set(cluster.living_attempts()) == {stays.workload_id, comes.workload_id}


async def test_an_agent_with_the_token_of_another_cluster_neither_works_nor_sends_logs(
    place: Place, transport: Transport, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_socket(url: str, secret: str, path: str) -> NoReturn:
        opened.append(path)
        raise LinkLost("Not now.")

    monkeypatch.setattr("agentlink.agent.logs.open_socket", open_socket)
    await in_database(partial(Cluster.objects.update, uid="another"))
    secret = await in_database(make_token, place.cluster)
    attempt = await submit(place, 0, "sleep 60")
    async with (
        serving() as url,
        running(run_agent(url, secret, SimulatedCluster(nodes(2)), transport=transport)),
    ):
        await until(lambda: "belongs to the cluster east" in caplog.text)
        await asyncio.sleep(1.0)
        assert await in_database(status_of, attempt) == Status.QUEUED
    assert opened == []


async def test_a_revoked_token_ends_the_conversation(
    place: Place, transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await in_database(make_token, place.cluster)
    async with (
        serving() as url,
        running(run_agent(url, secret, SimulatedCluster(nodes(2)), transport=transport)),
    ):
        await until(lambda: Cluster.objects.get().inventory_upto == "n2")
        token = await in_database(AgentToken.objects.get)
        await in_database(partial(actions.revoke_token, by=Actor.system("test"), token=token))
        await until(lambda: "token was revoked" in caplog.text or "not-authorised" in caplog.text)
        attempt = await submit(place, 0, "sleep 60")
        await asyncio.sleep(0.5)
        assert await in_database(status_of, attempt) == Status.QUEUED


async def test_the_newer_of_two_agents_is_heard(
    place: Place, transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await in_database(make_token, place.cluster)
    cluster = SimulatedCluster(nodes(2))
    async with serving() as url, running(run_agent(url, secret, SimulatedCluster([]), transport=transport)):
        await until(lambda: Cluster.objects.get().connection is not None)
        async with running(run_agent(url, secret, cluster, transport=transport)):
            attempt = await submit(place, 0, "sleep 60")
            await until(partial(is_status, attempt, Status.RUNNING))
            await until(lambda: "only the newest is heard" in caplog.text or "superseded" in caplog.text)
    assert list(cluster.living_attempts()) == [attempt.workload_id]


async def test_a_node_that_fails_loses_its_workload_and_leaves_the_others(
    place: Place, transport: Transport
) -> None:
    secret = await in_database(make_token, place.cluster)
    cluster = SimulatedCluster(nodes(2))
    async with serving() as url, running(run_agent(url, secret, cluster, transport=transport)):
        attempt = await submit(place, 0, "sleep 60")
        await until(partial(is_status, attempt, Status.RUNNING))
        cluster.set_down("n1")
        await until(partial(is_status, attempt, Status.PENDING))
        await until(lambda: not Node.objects.get(name="n1").ready)
    ended = await in_database(lambda: Attempt.objects.get(pk=attempt.pk))
    assert (ended.end_reason, ended.end_detail["code"]) == (EndReason.DISPLACED, "node-lost")


async def test_what_was_desired_while_an_announcement_got_lost_comes_with_the_next_heartbeat(
    place: Place, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = await in_database(make_token, place.cluster)
    cluster = SimulatedCluster(nodes(2))
    async with (
        serving() as url,
        running(run_agent(url, secret, cluster, transport=transport, heartbeat_seconds=0.3)),
    ):
        await until(lambda: Cluster.objects.get().connection is not None)
        monkeypatch.setattr(live, "_dispatch", lambda *_: None)
        attempt = await submit(place, 0, "sleep 60")
        await until(partial(is_status, attempt, Status.RUNNING))


async def test_hundreds_of_workloads_at_once_all_run_and_end(place: Place, transport: Transport) -> None:
    many = nodes(20, gpus=8)
    secret = await in_database(make_token, place.cluster)
    cluster = SimulatedCluster(many)

    def admit_all() -> None:
        for device in Device.objects.filter(node__cluster=place.cluster, foreign=False):
            admit(place.team, place.owner, place.pool, place.cluster, [device], command=["sleep", "0.5"])

    async with serving() as url:
        async with running(run_agent(url, secret, cluster, transport=transport)):
            await until(lambda: Device.objects.filter(foreign=False).count() >= 160)
        await in_database(admit_all)
        async with running(run_agent(url, secret, cluster, transport=transport)):
            await until(lambda: Workload.objects.filter(status=Status.COMPLETED).count() == 160, seconds=30)
            await until(lambda: not Attempt.objects.filter(released_at=None).exists())
    assert cluster.used_milli() == {}
