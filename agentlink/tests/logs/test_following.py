"""A whole way: pods of an agent's cluster, the logs connection, a served project, and who looks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings

from agentlink.agent import runner
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.runner import run_agent
from agentlink.logs import viewing
from agentlink.models import PodLog
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
from agentlink.tests.logs.conftest import Scripted, looking, read, token_of
from chamber import limits
from teams.models import Binding
from workloads.models import Attempt, Status, Workload

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Way:
    """A running workload, where it is served, and the token of who submitted it."""

    cluster: Scripted
    attempt: Attempt
    slug: str
    url: str
    secret: str
    token: str

    def agent(self) -> Any:
        return running(run_agent(self.url, self.secret, self.cluster))


async def run(
    place: Place, *, command: str = "sleep 600", pods: int = 1, first: int = 0
) -> tuple[Attempt, str]:
    def work() -> Attempt:
        devices = devices_of(place.cluster, "n1")[first : first + pods]
        return admit(
            place.team, place.owner, place.pool, place.cluster, devices, command=["sh", "-c", command]
        )

    attempt: Attempt = await in_database(work)
    begins = {Status.QUEUED, Status.STARTING}
    await until(lambda: Workload.objects.get(pk=attempt.workload_id).status not in begins)
    return attempt, await in_database(lambda: Workload.objects.get(pk=attempt.workload_id).slug)


@contextlib.asynccontextmanager
async def a_way(place: Place, *, pods: int = 1) -> AsyncIterator[Way]:
    """Give a way without an agent once its workload runs."""
    cluster = Scripted(nodes(2))
    secret, token = await in_database(make_token, place.cluster), await in_database(token_of, place.owner)
    async with serving() as url:
        async with running(run_agent(url, secret, cluster)):
            attempt, slug = await run(place, pods=pods)
        yield Way(cluster, attempt, slug, url, secret, token)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "FIRST_ASK_SECONDS", 0.1)
    monkeypatch.setattr(viewing, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(runner, "FIRST_PAUSE_SECONDS", 0.05)


async def test_two_who_follow_a_pod_see_its_last_lines_and_what_comes_and_it_is_read_once(
    place: Place,
) -> None:
    async with a_way(place) as way, way.agent():
        pod = way.cluster.written[0]
        pod.say("one", "two", "three")
        assert way.cluster.asked == []  # nobody looks: nothing flows
        async with looking(way.url, way.token, way.slug, tail=2) as first:
            await first.until("three")
            pod.say("four")
            await first.until("four")
            async with looking(way.url, way.token, way.slug) as second:
                await second.until("four")
                pod.say("five")
                await first.until("five")
                await second.until("five")
                assert first.text == "two\nthree\nfour\nfive\n"
                assert second.text == "one\ntwo\nthree\nfour\nfive\n"
                assert [asked["follow"] for asked in way.cluster.asked] == [True]
        async with asyncio.timeout(60):
            while pod.readers:  # and when they are gone, nothing flows again
                await asyncio.sleep(0.02)
        assert (await read(way.url, way.token, way.slug, tail=1)).text == "five\n"


async def test_who_follows_while_the_agent_is_away_is_told_and_goes_on_when_it_is_back(place: Place) -> None:
    async with a_way(place) as way:
        pod = way.cluster.written[0]
        pod.say("one")
        async with looking(way.url, way.token, way.slug) as reader:
            async with way.agent():
                await reader.until("one")
            await reader.until("away")
            pod.say("two")
            async with way.agent():
                await reader.until("two", "back")
                pod.say("three")
                await reader.until("three")
                assert reader.text == "one\ntwo\nthree\n"
        assert reader.notes.count("away") == 1


async def test_without_an_agent_a_single_look_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "FIRST_AWAY_SECONDS", 0.3)
    async with a_way(place) as way:
        answer = await read(way.url, way.token, way.slug)
        assert answer.text == "… The cluster's agent does not answer now; try again later.\n"


async def test_who_comes_back_with_his_place_gets_what_came_since(place: Place) -> None:
    async with a_way(place) as way, way.agent():
        pod = way.cluster.written[0]
        pod.say("one", "two")
        async with looking(way.url, way.token, way.slug) as reader:
            await reader.until("two")
        pod.say("three")
        async with looking(way.url, way.token, way.slug, after=reader.ids[-1]) as again:
            await again.until("three")
            assert again.text == "three\n"


async def test_what_a_stopped_pod_wrote_to_its_last_line_is_there_after_all_have_restarted(
    place: Place,
) -> None:
    async with a_way(place, pods=2) as way:
        way.cluster.written[0].say("working")
        way.cluster.written[1].say("\x1b[31mworking too", b"10%\r20%\r", b"30%\n", b"\xff\x00\n", b"no end")
        async with way.agent(), looking(way.url, way.token, way.slug) as reader:
            await reader.until("working")
            await in_database(cancel, way.attempt)
            await asyncio.sleep(0.1)
            way.cluster.written[0].say("checkpoint written")
            await until(lambda: PodLog.objects.count() == 2)
            await reader.until("checkpoint written")
            await asyncio.wait_for(reader.ended.wait(), 60)
            assert reader.notes[-1] == "ended"
    async with serving() as url:
        first = await read(url, way.token, way.slug)
        second = await read(url, way.token, way.slug, pod=1)
        async with looking(url, way.token, way.slug, pod=1, tail=1) as reader:
            await asyncio.wait_for(reader.ended.wait(), 60)
    assert first.text == "working\ncheckpoint written\n"
    assert second.text == "working too\n30%\n�␀\nno end\n"
    assert (reader.text, reader.notes) == ("no end\n", ["ended"])


async def test_a_played_pod_writes_what_its_command_says_and_that_is_kept(place: Place) -> None:
    cluster = SimulatedCluster(nodes(2))
    secret, token = await in_database(make_token, place.cluster), await in_database(token_of, place.owner)
    async with serving() as url, running(run_agent(url, secret, cluster)):
        _, slug = await run(place, command="echo 'hello, world'; sleep 0.5; echo over; exit 3")
        async with looking(url, token, slug) as reader:
            await asyncio.wait_for(reader.ended.wait(), 60)
        await until(lambda: Attempt.objects.filter(released_at__isnull=False).exists())
        # What is stored a moment later is waited for.
        kept = (await read(url, token, slug)).text
    assert kept == "hello, world\nover\n"
    assert kept.endswith(reader.text)


async def test_who_loses_the_right_while_he_follows_sees_no_further_line(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewing, "CHECK_SECONDS", 0.1)
    async with a_way(place) as way, way.agent():
        way.cluster.written[0].say("one")
        async with looking(way.url, way.token, way.slug) as reader:
            await reader.until("one")
            await in_database(lambda: Binding.objects.filter(user=place.owner).delete())
            await asyncio.wait_for(reader.ended.wait(), 60)
            way.cluster.written[0].say("secret")
        assert reader.notes[-2:] == ["not-allowed", "You may no longer see this log."]
        assert reader.text == "one\n"
        async with looking(way.url, way.token, way.slug) as again:
            await asyncio.wait_for(again.ended.wait(), 60)
        assert again.status == 404


async def test_a_noisy_pod_is_cut_and_delays_no_report(place: Place) -> None:
    async with a_way(place) as way, way.agent():
        line = b"x" * 1023 + b"\n"
        async with looking(way.url, way.token, way.slug) as reader:
            way.cluster.written[0].say("begin")
            await reader.until("begin")
            way.cluster.written[0].say(*([line * 16] * 600))
            other, _ = await run(place, first=1)
            assert (
                await in_database(lambda: Workload.objects.get(pk=other.workload_id).status) == Status.RUNNING
            )
            way.cluster.written[0].end()
            await asyncio.wait_for(reader.ended.wait(), 60)
        said = [note for note in reader.notes if "dropped here: more than 1 MiB/s" in note]
        dropped = sum(int(note.split()[0].replace(",", "")) for note in said)
        assert dropped > 0
        assert reader.text.count("\n") + dropped == 1 + 16 * 600


async def test_nobody_follows_more_logs_than_his_share(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.LIMITS, "streams", 1)
    async with a_way(place) as way, way.agent():
        way.cluster.written[0].say("one")
        async with looking(way.url, way.token, way.slug) as reader:
            await reader.until("one")
            assert (await read(way.url, way.token, way.slug)).status_code == 429
        async with asyncio.timeout(60):
            while limits._streams:
                await asyncio.sleep(0.02)
        assert (await read(way.url, way.token, way.slug)).text == "one\n"
