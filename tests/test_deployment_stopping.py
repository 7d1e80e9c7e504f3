"""Stopping in order: what is under way is finished, who waits is told to come back, and force comes second."""

import asyncio
import contextlib
import json
import signal
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agentlink.views_sync import WAIT_SECONDS
from rig.deployment import Deployment, ServiceProcess
from rig.organisation import PASSWORD
from tests.deployment_fixtures import (
    CLUSTER,
    becomes,
    held,
    settled,
    status_of,
    submit,
    turn_is_over,
    waits_for_a_lock,
)
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]

CLOCK = "SELECT * FROM scheduling_clock FOR UPDATE"
"""What a cycle that applies its plan waits for."""
WORKLOADS = "LOCK TABLE workloads_workload IN SHARE ROW EXCLUSIVE MODE"
"""What a submission waits for."""
APPLYING, SUBMITTING = "scheduling_clock", "INSERT INTO"
"""What stands in the query of who waits: other processes may wait too."""
SERVICE_RESTART = 1012


def asked_to_stop(service: ServiceProcess, number: signal.Signals = signal.SIGTERM) -> None:
    service.send(number)
    time.sleep(1.5)


def in_a_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start the function and return what waits for its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()

    def result() -> Any:
        thread.join(120)
        assert found, "it came to no end"
        return found[0]

    return result


def test_a_cycle_under_way_is_finished_before_the_scheduler_ends(team: Deployment) -> None:
    scheduler = team.services["scheduler"]
    settled(team)  # the cycle that waits for the lock is that of the workload
    with held(team, CLOCK):
        slug = submit(team)
        until(lambda: waits_for_a_lock(team, APPLYING))
        asked_to_stop(scheduler)
        assert scheduler.running, "the cycle was cut in half"
        assert status_of(team, slug) == "pending"
    assert scheduler.process is not None
    assert scheduler.process.wait(60) == 0
    becomes(team, slug, "completed")


def test_a_cycle_that_does_not_end_is_given_up_when_the_grace_is_over(team: Deployment) -> None:
    scheduler = team.services["scheduler"]
    scheduler.stop()
    scheduler.environment["CHAMBER_GRACE_SECONDS"] = "3"
    scheduler.start()
    with held(team, CLOCK):
        slug = submit(team)
        until(lambda: waits_for_a_lock(team, APPLYING))
        began = time.monotonic()
        assert scheduler.stop() == 1
        assert time.monotonic() - began > 2.5
    assert "did not end within 3 s" in scheduler.printed()
    del scheduler.environment["CHAMBER_GRACE_SECONDS"]
    turn_is_over(team)
    scheduler.start()
    becomes(team, slug, "completed")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["scheduler", "web"])
def test_a_second_signal_ends_it_at_once(team: Deployment, name: str, second: signal.Signals) -> None:
    service = team.services[name]
    with held(team, CLOCK if name == "scheduler" else WORKLOADS):
        if name == "scheduler":
            submit(team)
        else:
            in_a_thread(lambda: submission_that_breaks_off(team))
        until(lambda: waits_for_a_lock(team, APPLYING if name == "scheduler" else SUBMITTING))
        asked_to_stop(service)
        assert service.running

        def has_ended() -> bool:
            service.send(second)  # again, where the first one was not taken in yet
            return not service.running

        # Its grace would be 20 s.
        until(has_ended, seconds=15, every=0.5)
        assert service.process is not None
        assert service.process.returncode != 0


def submission_that_breaks_off(team: Deployment) -> str:
    try:
        return submit(team)
    except httpx.HTTPError:
        return "broken off"


def test_a_request_under_way_is_answered_before_the_web_part_ends(team: Deployment) -> None:
    web = team.services["web"]
    with held(team, WORKLOADS):
        answered = in_a_thread(lambda: submit(team))
        until(lambda: waits_for_a_lock(team, SUBMITTING))
        asked_to_stop(web)
        assert web.running
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{team.web_url}/livez", timeout=60)
    slug = answered()
    assert web.process is not None
    assert web.process.wait(60) == 0
    web.start()
    becomes(team, slug, "completed")


def agent_token(team: Deployment, name: str) -> str:
    """Return a token of a cluster whose agent this test plays."""
    with team.api("otto") as api:
        answer = api.post("clusters/", json={"name": name, "backend": "simulated"})
    return str(answer.json()["token"])


def hello(connection: uuid.UUID) -> dict[str, Any]:
    return {
        "type": "hello",
        "protocol": 1,
        "connection": str(connection),
        "agent_version": "test",
        "cluster_uid": str(uuid.uuid4()),
        "nodes": 0,
        "gpus": 0,
    }


def test_sockets_of_agents_and_pages_are_told_to_come_back(team: Deployment) -> None:
    token = agent_token(team, f"told-{uuid.uuid4().hex[:6]}")
    cookies = signed_in(team)

    async def codes() -> list[int]:
        address = team.live_url.replace("http", "ws")
        bearer = {"Authorization": f"Bearer {token}"}
        agent = connect(f"{address}/ws/agent/", additional_headers=bearer, open_timeout=60)
        headers = {"Cookie": cookies, "Origin": team.live_url}
        page = connect(f"{address}/ws/live/", additional_headers=headers, open_timeout=60)
        async with agent as first, page as second:
            await first.send(json.dumps(hello(uuid.uuid4())))
            await second.send(json.dumps({"watch": ["overview"]}))
            await asyncio.gather(first.recv(), second.recv())
            team.services["live"].send(signal.SIGTERM)
            return list(await asyncio.gather(closing(first), closing(second)))

    assert asyncio.run(asyncio.wait_for(codes(), 120)) == [SERVICE_RESTART, SERVICE_RESTART]
    live = team.services["live"].process
    assert live is not None
    assert live.wait(60) == 0


async def closing(socket: ClientConnection) -> int:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


def signed_in(team: Deployment) -> str:
    """Return the cookies of a page that rosa has open."""
    with httpx.Client(base_url=team.web_url, timeout=60) as pages:
        pages.get("/sign-in/")
        form = {
            "login": "rosa",
            "password": PASSWORD,
            "csrfmiddlewaretoken": pages.cookies["csrftoken"],
        }
        assert pages.post("/sign-in/", data=form).status_code == 302
        return "; ".join(f"{name}={value}" for name, value in pages.cookies.items())


def test_a_long_poll_is_answered_at_once(team: Deployment) -> None:
    name, connection = f"poll-{uuid.uuid4().hex[:6]}", uuid.uuid4()
    headers = {"Authorization": f"Bearer {agent_token(team, name)}"}
    with httpx.Client(base_url=team.live_url, headers=headers, timeout=60) as agent:
        began = agent.post("/agent/v1/sync", json=[hello(connection)])
        assert began.status_code == 200, began.text
        generation = began.json()[-1]["generation"]
        beat = {"type": "heartbeat", "connection": str(connection), "generation": generation}
        assert seen(
            team, name, "UPDATE agentlink_cluster SET last_seen_at = NULL WHERE name = %s RETURNING 1"
        )
        answered = in_a_thread(lambda: agent.post("/agent/v1/sync", json=[beat]))
        query = "SELECT 1 FROM agentlink_cluster WHERE name = %s AND last_seen_at IS NOT NULL"
        until(lambda: seen(team, name, query))
        time.sleep(1)
        stopped = time.monotonic()
        team.services["live"].send(signal.SIGTERM)
        answer = answered()
    assert (answer.status_code, answer.json()) == (200, [])
    assert time.monotonic() - stopped < WAIT_SECONDS - 2, "it was answered when its time was over"
    live = team.services["live"].process
    assert live is not None
    assert live.wait(60) == 0


def seen(team: Deployment, name: str, query: str) -> bool:
    """Return whether the query finds the cluster of this name."""
    with psycopg.connect(team.database.url, autocommit=True) as database:
        return database.execute(query.encode(), (name,)).fetchone() is not None


def test_a_stream_of_events_ends_whole_and_goes_on_with_the_next_process(team: Deployment) -> None:
    slug = submit(team, command=["sleep", "600"])
    becomes(team, slug, "running")
    begun = threading.Event()
    first = in_a_thread(lambda: events_of(team, slug, "", begun))
    assert begun.wait(60)
    assert team.services["live"].stop() == 0
    last = first()[-1]
    team.services["live"].start()
    with team.api("rosa") as api:
        assert api.post(f"workloads/{slug}/cancel/").status_code == 200
    assert events_of(team, slug, last)[0] == str(int(last) + 1)


def events_of(team: Deployment, slug: str, last: str, begun: threading.Event | None = None) -> list[str]:
    """Return the ids of the events that a stream tells until it ends; a stream that breaks off is an error."""
    headers = {"Authorization": f"Bearer {team.token('rosa')}", **({"Last-Event-ID": last} if last else {})}
    url = f"{team.live_url}/api/v1/workloads/{slug}/watch/"
    with httpx.stream("GET", url, headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        found = []
        for line in stream.iter_lines():
            if line.startswith("id: "):
                found.append(line.removeprefix("id: "))
                if begun is not None:
                    begun.set()
        return found


def test_the_agent_comes_back_by_itself_when_its_server_does(team: Deployment) -> None:
    team.services["live"].restart()
    slug = submit(team)
    becomes(team, slug, "completed")
    assert team.agents[CLUSTER].running


def test_a_duty_under_way_is_finished_before_the_worker_ends(team: Deployment) -> None:
    worker = team.services["worker"]
    others = [team.services[name] for name in ("web", "live")]
    for service in others:
        service.stop()
    # Without those two, only duties of this worker write marks: whoever waits is one of them.
    with held(team, "LOCK TABLE chamber_mark IN ACCESS EXCLUSIVE MODE"):
        until(lambda: waits_for_a_lock(team, "chamber_mark"))
        asked_to_stop(worker)
        assert worker.running
    assert worker.process is not None
    assert worker.process.wait(60) == 0
    for service in others:
        service.start()
