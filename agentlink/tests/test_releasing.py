"""A cluster that an operator let go of: what ran there is back in the queue at once, and told why."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from agentlink import releasing
from agentlink.agent.backends.base import Observation
from agentlink.agent.farewell import ServerAddress, tell
from agentlink.agent.runner import Transport
from agentlink.assignments import ClusterReleased
from agentlink.models import Assignment, Cluster, Device, Node
from agentlink.protocol import Ack, Desired, ErrorCode, Observed, Released, ReportedPhase, inventory_in_parts
from agentlink.tests.agents import (
    Hand,
    admit,
    cancel,
    devices_of,
    in_database,
    make_token,
    nodes,
    report,
    serving,
)
from agentlink.tests.conftest import Place
from teams.capacity import capacity_milli
from teams.models import AuditEvent
from workloads.lifecycle.status import lock
from workloads.models import Attempt, EndReason, Status, Workload


def on(place: Place, *indexes: int) -> Attempt:
    devices = [devices_of(place.cluster, "n1")[index] for index in indexes]
    return admit(place.team, place.owner, place.pool, place.cluster, devices)


def status(attempt: Attempt) -> str:
    return Workload.objects.get(pk=attempt.workload_id).status


@pytest.mark.django_db
def test_what_ran_there_is_in_the_queue_at_once_and_its_devices_are_free(
    place: Place, client: Client
) -> None:
    hand = Hand(place.cluster)
    for part in inventory_in_parts(nodes(2), generation=1):
        hand.say(part)
    runs, stops = on(place, 0, 1), on(place, 2)
    hand.say(Observed(reports=tuple(report(each, ReportedPhase.RUNNING, 1) for each in (runs, stops))))
    cancel(stops)
    waits = on(place, 2)
    assert [status(each) for each in (runs, stops, waits)] == ["running", "cancelled", "queued"]

    answer = hand.say(Released())

    assert answer.messages == [Ack(released=True)]
    assert [status(each) for each in (runs, stops, waits)] == ["pending", "cancelled", "pending"]
    runs.refresh_from_db()
    assert (runs.end_reason, runs.end_detail["code"]) == (EndReason.LOST, "cluster-released")
    assert "released by an operator" in runs.end_detail["message"]
    assert Workload.objects.get(pk=runs.workload_id).failures == 0
    assert not Assignment.objects.filter(gone=False).exists()
    assert not Device.objects.exclude(occupied_milli=0, allocated_milli=0).exists()
    assert AuditEvent.objects.filter(action="cluster.released").count() == 1
    cluster = Cluster.objects.get()
    assert not cluster.connected
    assert cluster.silence == ""
    client.force_login(place.owner)
    assert "An operator let go of it" in client.get("/clusters/east/").content.decode()
    assert not Node.objects.present().exists()  # nothing waits for nodes that are not to come back
    assert capacity_milli() == {place.pool.pk: 0}
    told = client.get("/api/v1/clusters/east/").json()
    released_at = Cluster.objects.values_list("released_at", flat=True).get()
    assert datetime.fromisoformat(told["released_at"]) == released_at

    (error,) = hand.say(hand.heartbeat(1)).messages  # nobody is there without another hello
    assert getattr(error, "code", None) is ErrorCode.NO_HELLO
    again = Hand(place.cluster)
    cluster.refresh_from_db()
    assert (cluster.connected, cluster.released_at) == (True, None)
    assert client.get("/api/v1/clusters/east/").json()["released_at"] is None
    for part in inventory_in_parts(nodes(2), generation=1):
        again.say(part)
    assert set(Node.objects.present().values_list("name", "ready")) == {("n1", True), ("n2", True)}
    assert capacity_milli() == {place.pool.pk: 8000}


@pytest.mark.django_db
def test_a_release_that_is_told_again_changes_nothing_more(place: Place) -> None:
    hand = Hand(place.cluster)
    on(place, 0)
    answer = hand.say(Released())
    first = Cluster.objects.values_list("released_at", flat=True).get()
    for again in (hand, Hand(place.cluster, hello=False)):  # on the same connection, and after a farewell
        if again is not hand:
            again.say(again.farewell())
        assert releasing.take(place.cluster, connection=again.connection)
    assert answer.messages == [Ack(released=True)]
    assert Cluster.objects.values_list("released_at", flat=True).get() == first
    assert AuditEvent.objects.get(action="cluster.released").after == {"attempts": 1}

    Hand(place.cluster)  # an agent is there once more: another release is another one
    Hand(place.cluster).say(Released())
    assert AuditEvent.objects.filter(action="cluster.released").count() == 2


@pytest.mark.django_db
def test_a_release_that_was_cut_short_is_recorded_when_it_is_told_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    runs = on(place, 0)
    monkeypatch.setattr(releasing, "lock", Mock(side_effect=OSError("cut short")))
    with pytest.raises(OSError, match="cut short"):
        releasing.take(place.cluster, connection=hand.connection)
    monkeypatch.undo()
    assert not AuditEvent.objects.filter(action="cluster.released").exists()
    assert releasing.take(place.cluster, connection=hand.connection)
    assert status(runs) == "pending"
    assert AuditEvent.objects.filter(action="cluster.released").count() == 1


@pytest.mark.django_db
def test_an_agent_that_another_has_followed_releases_nothing(place: Place) -> None:
    first = Hand(place.cluster)
    runs = on(place, 0)
    Hand(place.cluster)
    (error,) = first.say(Released()).messages
    assert getattr(error, "code", None) is ErrorCode.SUPERSEDED
    assert (status(runs), Cluster.objects.get().connected) == ("queued", True)


@pytest.mark.django_db
@pytest.mark.parametrize("was_released", [False, True])
def test_a_farewell_invites_no_work_and_is_no_agent_in_touch(
    place: Place, monkeypatch: pytest.MonkeyPatch, was_released: bool
) -> None:
    seen_at = timezone.now() - timedelta(hours=1)
    released_at = seen_at if was_released else None
    Cluster.objects.update(connected=False, last_seen_at=seen_at, released_at=released_at)
    rung: list[bool] = []
    monkeypatch.setattr("chamber.live.ring", lambda: rung.append(True))
    hand, poll = Hand(place.cluster, hello=False), Hand(place.cluster, hello=False)
    poll.connection = hand.connection

    for _ in range(2):  # the first was cut short
        (full,) = hand.say(hand.farewell()).messages
        assert isinstance(full, Desired)
        assert hand.say(Observed(reports=())).messages == []
        assert poll.say(poll.heartbeat(full.generation)).messages == []
        told = Cluster.objects.values_list("connected", "last_seen_at", "released_at").get()
        assert (told, rung) == ((False, seen_at, released_at), [])

    assert hand.say(Released()).messages == [Ack(released=True)]
    assert not Cluster.objects.get().connected
    late = Hand(place.cluster, hello=False)
    late.connection = hand.connection
    (error,) = late.say(late.heartbeat(1)).messages
    assert getattr(error, "code", None) is ErrorCode.NO_HELLO


@pytest.mark.django_db
def test_nothing_is_placed_there_any_more_nor_while_it_is_let_go_of(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    tried: list[object] = []

    def lock_late(ids: Iterable[UUID]) -> object:
        """Stand in for a plan that is written after the workloads there were read."""
        found = list(ids)
        with pytest.raises(ClusterReleased, match="An operator let go of east: nothing is placed there"):
            tried.append(on(place, 0))
        return lock(found)

    monkeypatch.setattr(releasing, "lock", lock_late)
    hand.say(Released())
    monkeypatch.undo()
    with pytest.raises(ClusterReleased):
        on(place, 0)
    assert (tried, Assignment.objects.count(), Attempt.objects.count()) == ([], 0, 0)
    Hand(place.cluster)
    assert status(on(place, 0)) == "queued"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("transport", ["websocket", "long-poll"])
async def test_what_had_ended_by_itself_is_told_before(place: Place, transport: Transport) -> None:
    def begin() -> tuple[Attempt, Attempt, str]:
        both = on(place, 0), on(place, 1)
        Hand(place.cluster).say(
            Observed(reports=tuple(report(each, ReportedPhase.RUNNING, 1) for each in both))
        )
        place.cluster.refresh_from_db()
        return *both, make_token(place.cluster)

    def released() -> Cluster:
        return Cluster.objects.get(connected=False, released_at__isnull=False)

    ended, stopped, secret = await in_database(begin)
    now = timezone.now()
    seen = [
        Observation(
            workload=each.workload_id, attempt=each.pk, number=1, phase=phase, exit_code=code,
            created_at=now, running_at=now, ended_at=now,
        )
        for each, phase, code in ((ended, ReportedPhase.SUCCEEDED, 0), (stopped, ReportedPhase.GONE, None))
    ]  # fmt: skip
    async with serving() as url:
        assert await tell(ServerAddress(url, lambda: secret, transport), "u", seen, within_seconds=60) == ""
        assert (
            await tell(ServerAddress(url, lambda: "cha_none", transport), "u", ())
            == "The agent token is unknown"
        )
    statuses = [await in_database(status, each) for each in (ended, stopped)]
    assert statuses == [Status.COMPLETED, Status.PENDING]
    await in_database(stopped.refresh_from_db)
    assert (stopped.end_reason, stopped.end_detail["code"]) == (EndReason.LOST, "cluster-released")
    assert (
        await in_database(released)
    ).last_seen_at == place.cluster.last_seen_at  # its hello was a farewell


async def test_a_server_that_is_not_there_is_told_of() -> None:
    why = await tell(ServerAddress("http://127.0.0.1:9", lambda: "cha_x"), "u", (), within_seconds=0.5)
    assert "http://127.0.0.1:9" in why or "did not answer" in why
