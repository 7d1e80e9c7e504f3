"""Following a workload: every event once, from where the reader stopped, until the end."""

import asyncio
import json
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import AsyncClient, Client

from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads import watch
from workloads.models import Workload
from workloads.tests.factories import finish, make_workload, start

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def workload() -> Workload:
    team: Team = make_team(make_org(), "NLP")
    return make_workload(team, member(team, Role.RESEARCHER, "ada"), slug="bert-1")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_SECONDS", 0.01)


async def follow(workload: Workload, last: str = "") -> Any:
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(pk=workload.owner_id))
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
    return await client.get(f"/api/v1/workloads/{workload.slug}/watch/", headers=headers)


async def told(response: Any) -> list[dict[str, Any]]:
    """Return the events of a stream that ends."""
    text = "".join([part.decode() async for part in response.streaming_content])
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_it_is_told_to_the_end_while_it_happens(workload: Workload) -> None:
    response = await follow(workload)
    assert response.headers["Content-Type"] == "text/event-stream"
    reading = asyncio.create_task(told(response))
    await asyncio.sleep(0.05)
    assert not reading.done()

    def live() -> None:
        finish(start(workload, make_pool("Main")))

    await database_sync_to_async(live)()
    events = await asyncio.wait_for(reading, 60)
    assert [event["sequence"] for event in events] == [1, 2, 3, 4, 5]
    assert events[-1]["data"]["status"] == "completed"


async def test_it_goes_on_where_the_reader_stopped(workload: Workload) -> None:
    await database_sync_to_async(lambda: finish(start(workload, make_pool("Main"))))()
    assert [event["sequence"] for event in await told(await follow(workload, "3"))] == [4, 5]
    assert await told(await follow(workload, "5")) == []


@pytest.mark.parametrize("last", ["2", "x", "-1", "9" * 40])
async def test_an_event_it_never_had_is_gone(workload: Workload, last: str) -> None:
    response = await follow(workload, last)
    assert response.status_code == 410
    assert "events 1 to 1" in json.loads(response.content)["detail"]


async def test_a_quiet_stream_says_that_it_lives_and_ends_in_time(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SAY_SOMETHING_EVERY_SECONDS", 0.02)
    parts = []
    async for part in (await follow(workload)).streaming_content:
        parts.append(part.decode())
        if parts[-1] == ": still here\n\n":
            monkeypatch.setattr(watch, "LONGEST_SECONDS", 0.0)
    assert [part.splitlines()[0] for part in parts] == ["id: 1", ": still here"]


def test_what_is_not_mine_is_not_there(workload: Workload, client: Client) -> None:
    stranger: User = member(make_team(workload.team, "Below"), Role.VIEWER)
    client.force_login(stranger)
    pool: Pool = make_pool("Main")
    assert pool.pk
    headers = {"Accept": "text/event-stream"}
    assert client.get("/api/v1/workloads/bert-1/watch/", headers=headers).status_code == 404
