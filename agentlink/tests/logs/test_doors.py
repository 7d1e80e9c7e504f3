"""The doors: what the API takes, what the page shows without scripts, and who gets in at the agents' socket."""

import asyncio
import uuid
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from agentlink import actions
from agentlink.logs import consumers, kept
from agentlink.logs.consumers import AgentLogsConsumer
from agentlink.logs.kept import Whole
from agentlink.models import AgentToken, PodLog
from agentlink.protocol import logs as messages
from agentlink.protocol.logs import KeptLogs, Stored, parts_of
from agentlink.tests.agents import admit, cancel, devices_of, in_database, make_token
from agentlink.tests.conftest import Place
from chamber import live
from chamber.logs import Bound
from chamber.tests.sockets import Socket
from teams.actors import Actor
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload


def submitted(place: Place, *, pods: int = 2) -> tuple[Attempt, Workload]:
    attempt = admit(
        place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:pods]
    )
    return attempt, Workload.objects.get(pk=attempt.workload_id)


# The API


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("pod=x", 422, "pod is 'x'; it must be a number from 0"),
        ("pod=2", 422, "pod is 2; {slug} has pods 0 to 1."),
        ("pod=-1", 422, "pod is '-1'"),
        ("attempt=7", 404, "{slug} has no attempt 7 that had pods."),
        ("tail=100001", 422, "it must be a number from 0 to 100,000."),
        ("follow=perhaps", 422, "it must be true or false."),
        ("after=no+place", 422, "after is 'no place'; it must be the id of an event."),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(
    place: Place, client: Client, query: str, status: int, sentence: str
) -> None:
    _, workload = submitted(place)
    client.force_login(place.owner)
    answer = client.get(f"/api/v1/workloads/{workload.slug}/logs/?{query}")
    assert answer.status_code == status
    assert sentence.format(slug=workload.slug) in answer.json()["detail"]


@pytest.mark.django_db
def test_a_workload_that_had_no_pods_has_no_logs_yet(place: Place, client: Client) -> None:
    make_workload(place.team, place.owner, slug="waits")
    client.force_login(place.owner)
    answer = client.get("/api/v1/workloads/waits/logs/")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "waits is Pending: it has had no pods yet."
    page = client.get("/workloads/waits/logs/")
    assert "lines appear when its pods run" in page.content.decode()
    assert 'data-live-url="/workloads/waits/logs/"' in page.content.decode()  # and comes by itself


# The page


@pytest.mark.django_db(transaction=True)
def test_the_page_shows_the_last_lines_without_scripts_and_never_as_markup(
    place: Place, client: Client
) -> None:
    attempt, workload = submitted(place)
    text = "".join(f"line {number}\n" for number in range(300)) + "<script>alert(1)</script>\n"
    kept.keep(place.cluster.pk, [Whole(attempt.pk, 1, text, cut=False)])
    client.force_login(place.owner)
    page = client.get(f"/workloads/{workload.slug}/logs/?pod=1").content.decode()
    assert "line 299\n&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "line 100\n" not in page
    assert "<option selected>1</option>" in page
    part = client.get(f"/workloads/{workload.slug}/logs/?pod=1", headers={"X-Chamber-Fragment": "1"})
    body = part.content.decode()
    assert f'data-logs="/api/v1/workloads/{workload.slug}/logs/?attempt=1&amp;pod=1"' in body
    assert "line 299" not in body
    assert "<html" not in body


@pytest.mark.django_db(transaction=True)
def test_of_an_earlier_attempt_one_sees_what_was_kept_of_it(place: Place, client: Client) -> None:
    attempt, workload = submitted(place)
    kept.keep(place.cluster.pk, [Whole(attempt.pk, 1, "first try\n", cut=False)])
    cancel(attempt)
    client.force_login(place.owner)
    assert "first try" in client.get(f"/workloads/{workload.slug}/logs/?pod=9&attempt=x").content.decode()


# The agents' socket


def agent(secret: str) -> Socket:
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    return Socket(AgentLogsConsumer.as_asgi(), "/ws/agent/logs/", headers=headers)


async def closed(socket: Socket) -> int:
    """Return the code with which the socket is closed, whatever is said before."""
    while (output := await socket.receive_output())["type"] != "websocket.close":
        pass
    return int(output["code"])


@pytest.mark.django_db(transaction=True)
async def test_an_unknown_token_opens_nothing_and_a_revoked_one_closes_within_a_second(place: Place) -> None:
    stranger = agent("cha_unknown")
    await stranger.connect()
    assert await closed(stranger) == 4401
    live.bind(asyncio.get_running_loop())
    try:
        socket = agent(await in_database(make_token, place.cluster))
        await socket.connect()
        token = await in_database(AgentToken.objects.get)
        await in_database(partial(actions.revoke_token, by=Actor.system("test"), token=token))
        assert await closed(socket) == 4401
    finally:
        live.bind(None)


@pytest.mark.django_db(transaction=True)
async def test_while_the_database_is_away_logs_are_not_taken_and_come_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, _ = await in_database(submitted, place)
    message = messages.encode(KeptLogs(items=tuple(parts_of(attempt.pk, 0, ["x\n"], cut=False))))
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()

    def away(*_: Any) -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(kept, "keep", away)
        await socket.send_to(text_data=message)
        assert await socket.receive_nothing(timeout=0.3)
    await socket.send_to(text_data=message)
    answer = messages.from_server(await socket.receive_from())
    assert isinstance(answer, Stored)
    assert await in_database(PodLog.objects.count) == 1
    await socket.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_logs_of_attempts_that_a_restored_database_does_not_know_are_told_once_with_the_clusters_name(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    bound = Bound()
    caplog.handler.addFilter(bound)
    caplog.set_level("INFO", logger=consumers.__name__)
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    for _ in range(3):
        await socket.send_to(
            text_data=messages.encode(KeptLogs(items=tuple(parts_of(uuid.uuid4(), 0, ["x\n"], cut=False))))
        )
        assert isinstance(messages.from_server(await socket.receive_from()), Stored)
    await socket.disconnect()
    caplog.handler.removeFilter(bound)
    (told,) = [record for record in caplog.records if record.name == consumers.__name__]
    assert (told.levelname, vars(told)["cluster"]) == ("INFO", place.cluster.name)
    assert "began after the backup that the database was restored from" in told.getMessage()


@pytest.mark.django_db(transaction=True)
async def test_whoever_only_sends_nonsense_is_closed_at_last(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MOST_REJECTED", 3)
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    for _ in range(3):
        await socket.send_to(bytes_data=b"\xff")
    assert await closed(socket) == consumers.REJECTED
    assert (await in_database(place.cluster.__class__.objects.get)).rejected_messages == 3
