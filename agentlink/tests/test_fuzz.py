"""Whatever an agent sends, by socket or by long poll: an answer of the protocol, counted, and nobody else's rows.

Hypothesis draws whole conversations: valid messages in any order, twice, late, with values exchanged for others that
are wrong in a way that matters, then bytes that are no messages at all. `CHAMBER_FUZZ_EXAMPLES=20000 python -m pytest
agentlink/tests/test_fuzz.py` looks longer than the suite does.
"""

import copy
import json
import logging
import os
import random
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from django.db.models import Model, QuerySet
from django.test import RequestFactory
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlink import protocol, views_sync
from agentlink.models import AgentToken, Assignment, Cluster, Device, Node, Placement
from agentlink.protocol import (
    CLOSE_CODES,
    Discovered,
    DiscoveredJob,
    Error,
    Heartbeat,
    Hello,
    InvalidMessage,
    Message,
    NoteReport,
    NotesReport,
    Observed,
    RefusedNotes,
    ReportedPhase,
    UsageFigure,
    UsageReport,
)
from agentlink.session import Answer, Session, authenticate
from agentlink.tests.agents import admit, as_dict, cancel, devices_of, make_token, nodes, report
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.notes import NoteKind, NoteProblem
from workloads.models import Attempt, Event, Workload

pytestmark = pytest.mark.django_db

EXAMPLES = int(os.environ.get("CHAMBER_FUZZ_EXAMPLES", "150"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip

FAR = 2**53 - 1
CONNECTIONS = [uuid.UUID(int=number) for number in (1, 2, 3)]
DEEP = "[" * 3000 + "]" * 3000

values = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2, 2**31, FAR, FAR + 1, 2**63, 2**64, 10**40, -(10**40), 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "\x00", "a\x00b", "\ud800", "\udfff", "é" * 300, "x" * 70_000, "1", "NaN", "n1"])
    | st.sampled_from([[], {}, [None] * 50, {"": {}}, [[[[[[]]]]]], {"\x00": 1}, {"index": 0, "state": "running"}])
    | st.sampled_from([phase.value for phase in ReportedPhase])
    | st.sampled_from(["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", 1e300])
)  # fmt: skip


@dataclass
class World:
    """Ours, `east`, which is spoken for; and `west`, of which no row may change."""

    east: Cluster
    west: Cluster
    attempts: list[Attempt]
    secret: str

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """What an agent may rightly say here, and what it may not say of others; always the same, to be drawn from."""
        found: list[Message] = [
            Hello(connection=each, agent_version="1", cluster_uid="u", nodes=2, gpus=8) for each in CONNECTIONS
        ]  # fmt: skip
        generations = (0, 1, 3, Cluster.objects.get(pk=self.east.pk).desired_generation, 2**40, FAR)
        found += [
            Heartbeat(connection=each, generation=generation)
            for each in CONNECTIONS
            for generation in generations
        ]
        found += list(protocol.inventory_in_parts(nodes(2), generation=2))
        found += [
            part.model_copy(update={"part": number, "last": last, "generation": generation})
            for part in protocol.inventory_in_parts(nodes(1, name="p"), generation=3)
            for number, last, generation in ((0, False, 4), (1, True, 4), (7, True, 4), (0, True, FAR))
        ]
        found += [
            Observed(reports=(report(attempt, phase, sequence, generation=generations[sequence % 5]),))
            for attempt in self.attempts
            for sequence, phase in enumerate(ReportedPhase, start=1)
        ]
        found += [
            Observed(reports=tuple(report(each, ReportedPhase.RUNNING, FAR) for each in self.attempts * 2))
        ]
        found += [Discovered(jobs=(DiscoveredJob(uid="u", namespace="n", name="j"),))]
        usage = UsageFigure(workload=uuid.uuid4(), at=timezone.now(), utilisation_percent=3, memory_mib=1)
        found += [UsageReport(figures=(usage,))]
        known = (usage.model_copy(update={"workload": each.workload_id}) for each in self.attempts)
        found += [
            UsageReport(figures=(figure, figure.model_copy(update={"devices": {"g": 2}}))) for figure in known
        ]
        note = NoteReport(attempt=uuid.uuid4(), at=timezone.now(), kind=NoteKind.CHECKPOINT, step=3)
        found += [NotesReport(notes=(note,))]
        for each in self.attempts:
            noted = [note.model_copy(update={"attempt": each.pk, "of_attempt": of}) for of in (None, 1, 7)]
            refused = RefusedNotes(attempt=each.pk, problem=NoteProblem.LINK, message="No.", count=9)
            found += [NotesReport(notes=tuple(noted), refused=(refused, refused))]
        return [as_dict(message) for message in found]


@pytest.fixture
def world(place: Place) -> Iterator[World]:
    """Return both clusters, each with an attempt that runs, one that leaves and one that waits for it."""
    west = make_cluster("west")
    make_node(west, "n1", gpus=4, pool=place.pool)
    attempts = []
    for cluster in (place.cluster, west):
        first, second, *_ = devices_of(cluster, "n1")
        leaving = admit(place.team, place.owner, place.pool, cluster, [first])
        cancel(leaving)
        attempts += [leaving, *(
            admit(place.team, place.owner, place.pool, cluster, [device]) for device in (first, second)
        )]  # fmt: skip
    logging.disable(logging.ERROR)  # what is refused is logged, tens of thousands of times
    yield World(place.cluster, west, attempts, make_token(place.cluster))
    logging.disable(logging.NOTSET)


def untouched(cluster: Cluster) -> list[list[dict[str, Any]]]:
    """Return all rows that belong to a cluster."""
    workloads = Workload.objects.filter(attempts__assignment__cluster=cluster)
    rows: list[QuerySet[Any]] = [
        Cluster.objects.filter(pk=cluster.pk), AgentToken.objects.filter(cluster=cluster),
        Node.objects.filter(cluster=cluster), Device.objects.filter(node__cluster=cluster),
        Assignment.objects.filter(cluster=cluster), Placement.objects.filter(device__node__cluster=cluster),
        Attempt.objects.filter(assignment__cluster=cluster), workloads.distinct(),
        Event.objects.filter(workload__in=workloads),
    ]  # fmt: skip
    return [list(found.order_by("pk").values()) for found in rows]


Entry = Callable[[list[str]], Answer]


def by_socket(secret: str) -> Entry:
    session = session_of(secret)

    def take(texts: list[str]) -> Answer:
        answers = [session.take(text.encode("utf-8", "surrogatepass")) for text in texts]
        return Answer([message for answer in [*answers, session.news()] for message in answer.messages])

    return take


def by_long_poll(secret: str) -> Entry:
    def take(texts: list[str]) -> Answer:
        body = f"[{','.join(texts)}]".encode("utf-8", "surrogatepass")
        request = RequestFactory().post("/agent/v1/sync", body, content_type="application/json")
        sent, session = views_sync._texts(request), session_of(secret)
        answer = session.refuse(sent) if isinstance(sent, Error) else views_sync._take_all(session, sent)
        assert isinstance(json.loads(views_sync._respond(answer).content), list)
        return answer

    return take


def session_of(secret: str) -> Session:
    token = authenticate(f"Bearer {secret}")
    assert isinstance(token, AgentToken)
    session = Session(token)
    session.check_seconds = -1.0
    return session


ENTRIES = st.sampled_from([by_socket, by_long_poll])


def check(world: World, entry: Entry, texts: list[str]) -> None:
    """Say the texts; all that must hold of the answer and of the tables."""
    theirs = untouched(world.west)
    before = Cluster.objects.get(pk=world.east.pk).rejected_messages
    answer = entry(texts)
    for message in answer.messages:
        written = protocol.encode(message)
        assert len(written.encode()) <= protocol.MAX_BYTES
        assert not isinstance(protocol.from_server(written), InvalidMessage)
    refused = [
        each
        for each in answer.messages
        if isinstance(each, Error) and (each.code not in CLOSE_CODES or each.about == "hello")
    ]
    assert Cluster.objects.get(pk=world.east.pk).rejected_messages - before == len(refused)
    assert untouched(world.west) == theirs
    assert not Device.objects.exclude(
        occupied_milli__range=(0, 1000), allocated_milli__range=(0, 1000)
    ).exists()


@st.composite
def changed(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """Return the message with up to three values exchanged, added, left out or doubled."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 3))):
        place: Any = body
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
            if not isinstance(place[key], dict | list) or draw(st.integers(0, 2)) == 0:
                change(draw, place, key)
                break
            place = place[key]
    return body


def change(draw: st.DrawFn, place: Any, key: Any) -> None:
    act = draw(st.sampled_from(["exchange", "exchange", "add", "leave out", "double"]))
    if act == "exchange":
        # A copy: what is changed within it next must not change what is drawn later.
        place[key] = copy.deepcopy(draw(values))
    elif act == "leave out":
        del place[key]
    elif isinstance(place, list):
        place += place[key : key + 1]
    else:
        place[draw(st.sampled_from([*place, "\x00", "\ud800", "unknown", "pods"]))] = copy.deepcopy(
            draw(values)
        )


@fuzzed
@given(data=st.data(), entry=ENTRIES)
def test_any_conversation_is_answered_counted_and_kept_to_its_cluster(
    world: World, data: st.DataObject, entry: Callable[[str], Entry]
) -> None:
    known = world.messages
    said = data.draw(st.lists(st.sampled_from(known).flatmap(changed), max_size=6))
    twice = data.draw(st.lists(st.sampled_from(said), max_size=3)) if said else []
    begun = [known[0]] if data.draw(st.booleans()) else []
    check(world, entry(world.secret), [json.dumps(message) for message in [*begun, *said, *twice]])


@st.composite
def bad_text(draw: st.DrawFn) -> str:
    """Return text that is a message no more, or never was one."""
    whole = json.dumps(as_dict(Heartbeat(connection=CONNECTIONS[0], generation=1)))
    at = draw(st.integers(0, len(whole)))
    return draw(
        st.text(max_size=30)
        | st.binary(max_size=30).map(lambda data: data.decode("latin-1"))
        | st.sampled_from([DEEP, "[" * 3000, '{"a":' * 3000, "1" * 5000, "NaN", '"' + "\\ud800" + '"', ""])
        | st.just(whole[:at])
        | st.characters().map(lambda one: whole[:at] + one + whole[at + 1 :])
        | st.just('{"type":"hello","connection":' + DEEP + "}")
        | st.just('{"type":"usage","x":"' + "y" * protocol.MAX_BYTES + '"}')
    )


@fuzzed
@given(texts=st.lists(bad_text(), min_size=1, max_size=4), entry=ENTRIES)
def test_any_bytes_are_answered_counted_and_change_nothing(
    world: World, texts: list[str], entry: Callable[[str], Entry]
) -> None:
    check(world, entry(world.secret), texts)


def test_memory_does_not_grow_with_what_is_refused(world: World) -> None:
    chance = random.Random(7)
    known = world.messages
    session = session_of(world.secret)

    def talk(times: int) -> None:
        for _ in range(times):
            body = {**chance.choice(known), chance.choice(["x", "generation", "reports"]): chance.random()}
            session.take(json.dumps(body))
            session.take(json.dumps(chance.choice(known)))

    talk(150)
    tracemalloc.start()
    try:
        talk(50)
        before, _ = tracemalloc.get_traced_memory()
        talk(300)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1024 * 1024


def test_the_comparison_sees_each_table_of_a_cluster(world: World) -> None:
    changes: list[tuple[type[Model], dict[str, Any]]] = [
        (Cluster, {"rejected_messages": 9}), (AgentToken, {"prefix": "z"}), (Node, {"ready": False}),
        (Device, {"foreign": True}), (Assignment, {"report_sequence": 9}), (Attempt, {"exit_code": 9}),
        (Workload, {"version": 99}),
    ]  # fmt: skip
    make_token(world.west)
    before = untouched(world.west)
    for model, fields in changes:
        model._default_manager.update(**fields)
        now = untouched(world.west)
        assert now != before
        before = now
