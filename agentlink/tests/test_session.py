"""The server's side of a conversation: what each message is answered, and that nothing whatever breaks it."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink import protocol
from agentlink import session as sessions
from agentlink.models import AgentToken, Assignment, Cluster, Node
from agentlink.protocol import (
    Ack,
    Desired,
    Error,
    ErrorCode,
    Heartbeat,
    Inventory,
    Observed,
    ReportedPhase,
)
from agentlink.session import Answer, authenticate
from agentlink.tests.agents import Hand, admit, as_dict, cancel, devices_of, make_token, nodes, report
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber import logs
from chamber.ids import new_id
from workloads.models import Attempt, Status, Workload

pytestmark = pytest.mark.django_db


def start(place: Place, index: int = 0) -> Attempt:
    return admit(place.team, place.owner, place.pool, place.cluster, [devices_of(place.cluster, "n1")[index]])


def desired(answer: Answer) -> list[Desired]:
    return [message for message in answer.messages if isinstance(message, Desired)]


def codes(answer: Answer) -> list[ErrorCode]:
    return [message.code for message in answer.messages if isinstance(message, Error)]


# Tokens


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic abc", "Bearer cha_unknown", "Bearer \xff"]
)
def test_without_a_token_that_is_known_nobody_gets_in(header: str) -> None:
    answer = authenticate(header)
    assert isinstance(answer, Error)
    assert answer.code is ErrorCode.NOT_AUTHORISED


def test_a_token_that_is_unknown_is_said_once_in_a_while_without_showing_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_told", logs.Seldom(every_seconds=60))
    for _ in range(5):
        authenticate("Bearer cha_0123456789abcdef")

    (record,) = caplog.records
    assert record.getMessage() == "An agent came with a token that is unknown: cha_01234567…"


@pytest.mark.parametrize("field", ["expires_at", "revoked_at"])
def test_an_expired_or_revoked_token_does_not_get_in(field: str) -> None:
    secret = make_token(make_cluster(), **{field: timezone.now() - timedelta(seconds=1)})
    assert isinstance(authenticate(f"Bearer {secret}"), Error)


def test_a_token_that_gets_in_is_marked_as_used() -> None:
    token = authenticate(f"bearer {make_token(make_cluster())}")
    assert isinstance(token, AgentToken)
    assert AgentToken.objects.get().last_used_at is not None


@pytest.mark.parametrize("field", ["expires_at", "revoked_at"])
def test_a_token_that_ends_ends_the_conversation(place: Place, field: str) -> None:
    hand = Hand(place.cluster)
    AgentToken.objects.update(**{field: timezone.now()})
    for answer in (hand.say(hand.heartbeat()), hand.session.news()):
        assert answer.closes is ErrorCode.NOT_AUTHORISED


def test_a_token_is_looked_at_every_second_and_at_once_when_announced(place: Place) -> None:
    hand = Hand(place.cluster)
    hand.session.check_seconds = sessions.CHECK_SECONDS
    hand.session.news()
    with CaptureQueriesContext(connection) as queries:
        hand.session.take("nonsense")
    assert not [query for query in queries if "agenttoken" in query["sql"]]
    AgentToken.objects.update(revoked_at=timezone.now())
    assert hand.session.news().closes is ErrorCode.NOT_AUTHORISED
    assert hand.say(hand.heartbeat()).closes is ErrorCode.NOT_AUTHORISED


def test_a_token_that_expires_between_two_looks_ends_the_conversation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    hand.session.check_seconds = 3600.0
    expires_at = timezone.now() + timedelta(hours=1)
    AgentToken.objects.update(expires_at=expires_at)
    hand.session.news()
    assert hand.say(hand.heartbeat()).closes is None
    monkeypatch.setattr("agentlink.session.timezone", SimpleNamespace(now=lambda: expires_at))
    assert hand.say(hand.heartbeat()).closes is ErrorCode.NOT_AUTHORISED


def test_a_token_of_another_cluster_speaks_for_that_one_alone(place: Place) -> None:
    attempt = start(place)
    west = make_cluster("west")
    hand = Hand(west)
    assert desired(hand.greeting)[0].assignments == ()
    assert codes(hand.say(Observed(reports=(report(attempt, ReportedPhase.SUCCEEDED, 1),)))) == [
        ErrorCode.UNKNOWN_ATTEMPT
    ]
    assert Workload.objects.get().status == Status.QUEUED
    assert Cluster.objects.get(name="east").connection is None


@pytest.mark.parametrize("spoken", [0, 2, "1", None])
def test_an_agent_of_another_protocol_is_told_which_one_is_spoken(place: Place, spoken: object) -> None:
    hand = Hand(place.cluster, hello=False)
    (error,) = hand.session.take(json.dumps(as_dict(hand.hello()) | {"protocol": spoken})).messages
    assert isinstance(error, Error)
    assert (error.code, error.about) == (ErrorCode.INVALID, "hello")
    assert "is not spoken here, only 1" in error.message
    assert Cluster.objects.values_list("rejected_messages", "connection").get() == (1, None)


def test_while_the_database_is_away_the_agent_is_asked_to_say_it_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    with monkeypatch.context() as away:
        away.setattr(AgentToken.objects, "select_related", Mock(side_effect=OperationalError("gone")))
        (fault,) = hand.say(hand.heartbeat()).messages
        assert isinstance(fault, Error)
        assert (fault.code, fault.message) == (
            ErrorCode.FAULT,
            "The server's database cannot be used now; send the message again.",
        )
        assert hand.session.news().messages == []
        refusal = Error(code=ErrorCode.TOO_LARGE, message="Too large.")
        assert hand.session.refuse(refusal).messages == [refusal]
    assert hand.say(hand.heartbeat()).messages == []


# Hello and the desired set


def test_news_that_cannot_be_told_do_not_end_the_conversation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    start(place)
    with monkeypatch.context() as broken:
        broken.setattr("agentlink.desired.since", Mock(side_effect=ValueError("poison")))
        assert hand.session.news() == Answer()
        assert hand.say(hand.heartbeat()) == Answer()
    assert desired(hand.session.news())[0].assignments


def test_hello_is_answered_by_the_full_set_and_the_cluster_is_connected(place: Place) -> None:
    Cluster.objects.update(connected=False)
    attempt = start(place)
    hand = Hand(place.cluster)
    (full,) = desired(hand.greeting)
    assert (full.base, full.last) == (None, True)
    (assignment,) = full.assignments
    assert (assignment.attempt, assignment.let_go, assignment.number) == (attempt.pk, True, 1)
    assert [(pod.node, pod.devices[0].index, pod.devices[0].share_milli) for pod in assignment.pods] == [
        ("n1", 0, 1000)
    ]
    cluster = Cluster.objects.get()
    assert (cluster.connected, cluster.uid, cluster.connection) == (True, "u", hand.connection)


def test_after_the_full_set_only_what_changes_is_sent(place: Place) -> None:
    first = start(place)
    hand = Hand(place.cluster)
    assert hand.session.news().messages == []
    second = start(place, 1)
    (delta,) = desired(hand.session.news())
    assert delta.base == desired(hand.greeting)[-1].generation
    assert [assignment.attempt for assignment in delta.assignments] == [second.pk]
    cancel(first)
    (delta,) = desired(hand.session.news())
    assert [order.attempt for order in delta.stop] == [first.pk]
    assert hand.session.news().messages == []


def test_what_was_never_let_go_is_forgotten_rather_than_stopped(place: Place) -> None:
    cancel(start(place))
    hand = Hand(place.cluster)
    waits = start(place)
    (delta,) = desired(hand.session.news())
    assert not delta.assignments[0].let_go
    cancel(waits)
    (delta,) = desired(hand.session.news())
    assert (delta.stop, delta.forget) == ((), (waits.pk,))


def test_a_full_set_names_what_must_stop_until_it_is_gone(place: Place) -> None:
    attempt = start(place)
    cancel(attempt)
    assert [order.attempt for order in desired(Hand(place.cluster).greeting)[0].stop] == [attempt.pk]
    hand = Hand(place.cluster)
    hand.say(Observed(reports=(report(attempt, ReportedPhase.GONE, 1),)))
    assert desired(Hand(place.cluster).greeting)[0].stop == ()


def test_nothing_but_hello_is_heard_before_hello(place: Place) -> None:
    hand = Hand(place.cluster, hello=False)
    attempt = start(place)
    answer = hand.say(Observed(reports=(report(attempt, ReportedPhase.RUNNING, 1),)))
    assert codes(answer) == [ErrorCode.NO_HELLO]
    assert Workload.objects.get().status == Status.QUEUED


def test_the_newest_hello_is_the_one_that_is_heard(place: Place) -> None:
    old = Hand(place.cluster)
    new = Hand(place.cluster)
    assert old.say(old.heartbeat()).closes is ErrorCode.SUPERSEDED
    assert old.session.news().closes is ErrorCode.SUPERSEDED
    assert new.say(new.heartbeat()).closes is None


def test_a_token_of_another_cluster_opens_nothing_and_the_clusters_own_agent_goes_on(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    own = Hand(place.cluster)
    attempt = start(place)
    own.say(Observed(reports=(report(attempt, ReportedPhase.RUNNING, 1),)))
    for connected in (True, False):
        Cluster.objects.update(connected=connected)
        before = Cluster.objects.values_list("last_seen_at", "connected", "uid", "connection").get()
        stranger = Hand(place.cluster, uid="v")
        assert stranger.greeting.closes is ErrorCode.NOT_AUTHORISED
        assert desired(stranger.greeting) == []
        assert Cluster.objects.values_list("last_seen_at", "connected", "uid", "connection").get() == before
    assert "belongs to the cluster east, which is u; this agent runs in v" in caplog.text
    assert Cluster.objects.get().rejected_messages == 2
    assert own.say(own.heartbeat()).closes is None
    assert Workload.objects.get().status == Status.RUNNING


def test_the_clusters_page_says_who_was_refused_and_what_to_do(place: Place, client: Client) -> None:
    Hand(place.cluster)
    client.force_login(place.owner)
    path = f"/clusters/{place.cluster.name}/"
    assert "was refused" not in client.get(path).content.decode()
    Hand(place.cluster, uid="v")
    page = client.get(path).content.decode()
    assert "An agent that came with a token of this cluster was refused" in page
    assert "this agent runs in v. Give it a token of its own cluster." in page
    Cluster.objects.update(refused_at=timezone.now() - timedelta(minutes=6))
    assert "was refused" not in client.get(path).content.decode()


def test_a_fault_of_the_server_is_no_refusal_of_an_agent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("canceling statement due to lock timeout")

    with monkeypatch.context() as patch:
        patch.setattr("agentlink.refusals.of", fail)
        Hand(place.cluster)
    cluster = Cluster.objects.get()
    assert (cluster.rejected_messages, cluster.refusal_now) == (1, "")


def test_open_pages_are_told_once_that_an_agent_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[str] = []
    Hand(place.cluster)
    monkeypatch.setattr("chamber.live.announce", lambda *topics: announced.extend(topics))
    Hand(place.cluster, uid="v")
    Hand(place.cluster, uid="v")
    assert announced == ["pools"]


def test_who_has_not_said_hello_is_not_taken_for_the_cluster(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hand(place.cluster)
    monkeypatch.setattr(sessions, "_begun", {})  # as after a restart, or in another process
    Cluster.objects.update(connected=False)
    before = Cluster.objects.values_list("last_seen_at", "connected").get()
    stranger = Hand(place.cluster, hello=False, uid="v")
    assert stranger.say(stranger.heartbeat()).messages
    assert stranger.say(Observed(reports=())).messages
    assert Cluster.objects.values_list("last_seen_at", "connected").get() == before


def test_a_cluster_that_was_made_anew_is_taken_once_nothing_is_known_to_be_there(place: Place) -> None:
    Hand(place.cluster)
    start(place)
    Cluster.objects.update(connected=False)
    assert Hand(place.cluster, uid="v").greeting.closes is ErrorCode.NOT_AUTHORISED
    Assignment.objects.update(given_up=True)
    assert Hand(place.cluster, uid="v").greeting.closes is None
    assert Cluster.objects.get().uid == "v"


def test_a_heartbeat_goes_on_with_a_conversation_that_it_names(place: Place) -> None:
    first = Hand(place.cluster)
    generation = desired(first.greeting)[-1].generation
    attempt = start(place)
    second = Hand(place.cluster, hello=False)
    second.connection = first.connection
    (delta,) = desired(second.say(second.heartbeat(generation)))
    assert [assignment.attempt for assignment in delta.assignments] == [attempt.pk]
    third = Hand(place.cluster, hello=False)
    assert third.say(third.heartbeat(generation)).closes is ErrorCode.SUPERSEDED


def test_a_heartbeat_lets_go_whom_a_lost_process_left_waiting(place: Place) -> None:
    old = start(place)
    cancel(old)
    new = start(place)
    hand = Hand(place.cluster)
    old.placements.update(hold="released")
    assert not Assignment.objects.get(attempt=new).let_go
    answer = hand.say(hand.heartbeat())
    assert Assignment.objects.get(attempt=new).let_go
    assert desired(answer)[0].assignments[0].let_go


# Reports and inventories


def test_reports_are_acknowledged_and_strange_ones_counted(place: Place) -> None:
    hand = Hand(place.cluster)
    attempt = start(place)
    strange = report(attempt, ReportedPhase.RUNNING, 1).model_copy(update={"attempt": new_id()})
    answer = hand.say(Observed(reports=(report(attempt, ReportedPhase.RUNNING, 1), strange)))
    assert codes(answer) == [ErrorCode.UNKNOWN_ATTEMPT]
    acks = [message for message in answer.messages if isinstance(message, Ack)]
    assert [taken.attempt for taken in acks[0].reports] == [attempt.pk]
    assert Cluster.objects.get().rejected_messages == 1


def test_an_inventory_is_acknowledged_when_it_is_whole(place: Place) -> None:
    hand = Hand(place.cluster)
    first, second = (
        Inventory(generation=3, part=part, last=part == 1, nodes=tuple(nodes(1, name=f"p{part}-")))
        for part in (0, 1)
    )
    assert hand.say(first).messages == []
    assert hand.say(second).messages == [Ack(inventory=3)]
    assert Node.objects.filter(cluster=place.cluster, gone_at__isnull=True).count() == 2
    assert hand.say(second).messages == [Ack(inventory=3)]
    missing = second.model_copy(update={"generation": 4})
    assert codes(hand.say(missing)) == [ErrorCode.INVENTORY_GAP]


def test_a_fault_of_the_server_is_answered_and_the_conversation_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(place.cluster)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("agentlink.reports.take", fail)
        assert codes(hand.say(Observed(reports=()))) == [ErrorCode.FAULT]
    assert "could not be taken" in caplog.text
    assert hand.say(hand.heartbeat()).closes is None


def test_an_agent_that_is_wrong_again_and_again_is_a_line_and_a_count(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(place.cluster)
    for _ in range(5):
        hand.session.take("no message")
    told = [line for line in caplog.records if "sent what cannot be taken" in line.getMessage()]
    assert (len(told), Cluster.objects.get().rejected_messages) == (1, 5)


# Whatever comes


@pytest.mark.parametrize(
    "data", ["", "nonsense", "[]", b"\x00\xff", "{" * 9999, "x" * (protocol.MAX_BYTES + 1)]
)
def test_what_is_no_message_is_answered_counted_and_survived(place: Place, data: str | bytes) -> None:
    hand = Hand(place.cluster)
    (code,) = codes(hand.session.take(data))
    assert code in (ErrorCode.INVALID, ErrorCode.TOO_LARGE)
    assert Cluster.objects.get().rejected_messages == 1
    assert hand.say(hand.heartbeat()).closes is None


@st.composite
def mangled(draw: st.DrawFn, valid: list[dict[str, Any]]) -> str:
    """Return a valid message with some values exchanged for others of the same kind or any."""
    body = json.loads(json.dumps(draw(st.sampled_from(valid))))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = body
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
            if not isinstance(place[key], dict | list) or draw(st.booleans()):
                place[key] = draw(
                    st.none() | st.integers(-1, 5) | st.text(max_size=5) | st.uuids().map(str) | st.just([])
                    | st.just({}) | st.sampled_from([phase.value for phase in ReportedPhase])
                )  # fmt: skip
                break
            place = place[key]
    return json.dumps(body)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_message_breaks_the_session_or_touches_another_cluster(place: Place, data: st.DataObject) -> None:
    west = Cluster.objects.filter(name="west").first() or make_cluster("west")
    if not west.nodes.exists():
        make_node(west, "n1", pool=place.pool)
    theirs = Attempt.objects.filter(assignment__cluster=west).first() or admit(
        place.team, place.owner, place.pool, west, devices_of(west, "n1")[:1]
    )
    ours = Attempt.objects.filter(assignment__cluster=place.cluster).first() or start(place)
    hand = Hand(place.cluster)
    reported = [report(attempt, phase, 5) for attempt in (ours, theirs) for phase in ReportedPhase]
    valid = [as_dict(Observed(reports=(one,))) for one in reported]
    valid += [as_dict(part) for part in protocol.inventory_in_parts(nodes(1), generation=1)]
    valid += [as_dict(hand.hello()), as_dict(hand.heartbeat(3))]
    before = untouched(west)
    for text in data.draw(st.lists(mangled(valid), max_size=4)):
        answer = hand.session.take(text)
        assert all(len(protocol.encode(message)) <= protocol.MAX_BYTES for message in answer.messages)
    assert untouched(west) == before


def untouched(cluster: Cluster) -> list[list[Any]]:
    """Return all rows of a cluster that its own agent alone may change."""
    return [
        list(Cluster.objects.filter(pk=cluster.pk).values()),
        list(Node.objects.filter(cluster=cluster).values()),
        list(Assignment.objects.filter(cluster=cluster).values()),
        list(Attempt.objects.filter(assignment__cluster=cluster).values()),
        list(Workload.objects.filter(attempts__assignment__cluster=cluster).values()),
    ]


def test_a_heartbeat_tells_how_wrong_the_agents_clock_is(place: Place, client: Client) -> None:
    hand, now = Hand(place.cluster), timezone.now()
    client.force_login(place.owner)
    path = f"/clusters/{place.cluster.name}/"

    def beat(at: datetime | None) -> int | None:
        hand.say(Heartbeat(connection=hand.connection, generation=1, at=at))
        place.cluster.refresh_from_db()
        return place.cluster.clock_ahead_ms

    assert beat(None) is None
    ahead = beat(now + timedelta(hours=2))
    assert ahead is not None
    assert 6_600_000 < ahead <= 7_200_000
    assert "ahead of this server&#x27;s" in client.get(path).content.decode()
    assert beat(datetime(1970, 1, 1, tzinfo=UTC)) == -(2**31) + 1
    assert beat(datetime(9999, 1, 1, tzinfo=UTC)) == 2**31 - 1
    place.cluster.clock_ahead_ms = 400
    assert not place.cluster.clock_problem


def test_small_differences_of_the_clock_are_not_written_each_time(place: Place) -> None:
    hand = Hand(place.cluster)
    hand.say(Heartbeat(connection=hand.connection, generation=1, at=timezone.now()))
    with CaptureQueriesContext(connection) as made:
        hand.say(Heartbeat(connection=hand.connection, generation=1, at=timezone.now()))
    assert not [query for query in made if 'clock_ahead_ms" =' in query["sql"]]
