"""What the doctor says of other processes, by what they leave behind."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink import epochs
from agentlink.models import AgentToken, Cluster
from agentlink.tests.agents import admit, devices_of
from agentlink.tests.conftest import Place, place
from agentlink.tests.factories import make_cluster, make_node
from chamber import __version__, marks
from chamber.doctor import processes
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.models import Mark
from rig import servers
from scheduling.models import Turn
from teams import audit
from teams.actors import Actor
from teams.tests.factories import make_pool

__all__ = ["place"]

pytestmark = pytest.mark.django_db


def only(check: Callable[[], Iterator[DoctorFinding | Fact]]) -> DoctorFinding:
    [found] = check()
    assert isinstance(found, DoctorFinding)
    return found


@pytest.fixture
def bell(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """A Redis that the settings name, and that counts as one that runs for long."""
    monkeypatch.setattr(processes, "BACK_SECONDS", 0.0)
    with servers.redis() as running, redis.Redis.from_url(running.url) as client:
        settings.REDIS = running.url
        yield client


@pytest.fixture
def embedded(settings: Settings) -> None:
    settings.REDIS = ""


def looked(**ago: float) -> None:
    Turn.objects.update_or_create(pk=1, defaults={"looked_at": timezone.now() - timedelta(**ago)})


@pytest.mark.usefixtures("embedded")
def test_a_beat_and_a_scheduler_that_live() -> None:
    marks.beaten(now=timezone.now())
    looked(seconds=5)
    assert list(processes.duties()) == list(processes.scheduler()) == []


@pytest.mark.usefixtures("embedded")
def test_the_embedded_default_that_was_never_started() -> None:
    assert only(processes.duties) == DoctorFinding(
        "Nobody has carried out a duty yet.", "Start `chamber serve --part all`."
    )


@pytest.mark.redis
def test_of_a_redis_that_has_just_come_back_nobody_is_accused(
    bell: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "BACK_SECONDS", 3600.0)
    marks.beaten(now=timezone.now() - timedelta(seconds=75))
    found = only(processes.duties)
    assert found.problem.startswith("Nobody has carried out a duty for 75 seconds. Redis runs for ")
    assert found.advice.startswith("Run this again in half a minute")


def connect(bell: redis.Redis, name: str) -> None:
    """Have a process of this name be connected, for as long as the test runs."""
    bell.client_setname(name)


@pytest.mark.redis
def test_neither_beat_nor_workers(bell: redis.Redis) -> None:
    marks.beaten(now=timezone.now() - timedelta(minutes=5))
    looked(seconds=90)
    told = DoctorFinding(
        "Nobody has carried out a duty for 5 minutes. Neither the beat nor a worker for duties is connected to Redis.",
        "Start `chamber beat` and `chamber worker --queue duties`, or look into their logs.",
    )
    assert only(processes.duties) == told
    assert only(processes.scheduler) == DoctorFinding(
        "Nobody has run a cycle for 90 seconds. No worker for cycles is connected to Redis.",
        "Start `chamber worker --queue scheduling`, or look into its log.",
    )
    bell.rpush("celery", "1")  # of before
    assert only(processes.duties) == told


@pytest.mark.redis
def test_a_silent_beat(bell: redis.Redis) -> None:
    connect(bell, "chamber-worker-duties")
    marks.beaten(now=timezone.now() - timedelta(minutes=5))
    assert only(processes.duties) == DoctorFinding(
        "Nobody has carried out a duty for 5 minutes. No message waits in the queue, so the beat is silent.",
        "Start `chamber beat`, or look into its log.",
    )


@pytest.mark.redis
def test_no_worker_for_the_duties(bell: redis.Redis) -> None:
    connect(bell, "chamber-beat")
    marks.beaten(now=timezone.now() - timedelta(minutes=5))
    bell.rpush("celery", "1", "2", "3")
    assert only(processes.duties) == DoctorFinding(
        "Nobody has carried out a duty for 5 minutes. 3 messages wait in the queue, "
        "so the beat sends but no worker takes them.",
        "Start `chamber worker --queue duties`.",
    )


@pytest.mark.redis
def test_no_worker_for_cycles(bell: redis.Redis) -> None:
    connect(bell, "chamber-beat")
    looked(seconds=90)
    bell.rpush("scheduling", "1")
    found = only(processes.scheduler)
    assert found.problem.startswith("Nobody has run a cycle for 90 seconds. 1 message waits")
    assert found.advice == "Start `chamber worker --queue scheduling`."


@pytest.mark.redis
def test_of_a_scheduler_that_a_silent_beat_does_not_ring_the_beat_is_told(bell: redis.Redis) -> None:
    marks.beaten(now=timezone.now() - timedelta(minutes=5))
    looked(seconds=90)
    connect(bell, "chamber-worker-scheduling")
    assert list(processes.scheduler()) == []
    connect(bell, "chamber-worker-duties")
    assert only(processes.duties).advice == "Start `chamber beat`, or look into its log."


@pytest.mark.redis
def test_a_scheduler_that_is_rung_and_ends_no_cycle(bell: redis.Redis) -> None:
    marks.beaten(now=timezone.now())
    looked(seconds=90)
    assert only(processes.scheduler) == DoctorFinding(
        "Nobody has run a cycle for 90 seconds. The beat sends and a worker takes what it sends, but no cycle ends.",
        "Look into the log of `chamber worker --queue scheduling`.",
    )


@pytest.mark.usefixtures("embedded")
def test_two_beats() -> None:
    now = timezone.now()
    for sender, seconds in (("gen7@a", 12), ("gen9@b", 10), ("gen7@a", 7), ("gen9@b", 5)):
        marks.beaten(now=now - timedelta(seconds=seconds), sent_by=sender, run_by="w")
    assert only(processes.duties) == DoctorFinding(
        "2 beats run at once: gen7@a, gen9@b.", "Stop all but one."
    )


@pytest.mark.usefixtures("embedded")
def test_a_worker_whose_clock_is_ahead() -> None:
    marks.beaten(now=timezone.now() + timedelta(minutes=10), run_by="duties@b", sent_by="duties@b")
    assert only(processes.duties).problem == (
        "The clock of the worker duties@b is 10 minutes ahead of the database's."
    )


def test_a_node_with_a_problem() -> None:
    cluster = Cluster.objects.create(name="east", connected=True, last_seen_at=timezone.now())
    make_node(cluster, "n1")
    cluster.nodes.update(problem="GPU 0 is tainted by its driver: no claim gets it.")
    assert only(processes.clusters) == DoctorFinding(
        "The node n1 of the cluster east: GPU 0 is tainted by its driver: no claim gets it.",
        "Mend that there.",
    )


def test_a_cluster_that_never_connected() -> None:
    cluster = Cluster.objects.create(name="east")
    assert only(processes.clusters) == DoctorFinding(
        "The cluster east has never connected.", "Make a token for its agent and start it: `chamber agent`."
    )
    AgentToken.objects.create(cluster=cluster, token_hash="x", prefix="cha_")
    assert only(processes.clusters).advice == "Start its agent: `chamber agent`."


def test_a_cluster_that_fell_silent() -> None:
    seen = timezone.now() - timedelta(minutes=7)
    cluster = Cluster.objects.create(name="east", connected=False, last_seen_at=seen, protocol=1)
    AgentToken.objects.create(cluster=cluster, token_hash="x", prefix="cha_")
    assert only(processes.heartbeats).problem == (
        "The agent of the cluster east was last heard 7 minutes ago; nothing starts there."
    )
    assert list(processes.clusters()) == [], "told once, and not while no agent can be heard"


@pytest.mark.parametrize(
    ("revoked", "why"),
    [(0, "It has no token."), (1, "Its only token was revoked."), (2, "All its tokens were revoked.")],
)
def test_a_cluster_whose_token_was_revoked(revoked: int, why: str) -> None:
    now = timezone.now()
    cluster = Cluster.objects.create(name="east", last_seen_at=now - timedelta(minutes=7), protocol=1)
    for number in range(revoked):
        AgentToken.objects.create(cluster=cluster, token_hash=f"{number}", prefix="cha_", revoked_at=now)
    assert only(processes.clusters) == DoctorFinding(
        f"The agent of the cluster east was last heard 7 minutes ago; nothing starts there. {why}",
        "Make a token on the cluster's page, and give it to its agent.",
    )


def test_an_agent_of_another_protocol() -> None:
    Cluster.objects.create(name="east", connected=True, last_seen_at=timezone.now(), protocol=2)
    assert only(processes.clusters).problem == (
        "The agent of the cluster east speaks protocol 2, this version speaks 1."
    )


def test_nodes_that_are_labelled_for_a_pool_that_their_cluster_is_not_bound_to() -> None:
    seen = {"connected": True, "last_seen_at": timezone.now(), "protocol": 1}
    make_node(make_cluster("lab", **seen), "n1", refused_pool=make_pool("Secret"))
    assert only(processes.clusters).problem.startswith(
        "By their labels 1 node of lab would be in the pool Secret, which lab is not bound to"
    )


def test_an_agent_that_is_refused() -> None:
    seen = {"connected": True, "last_seen_at": timezone.now(), "protocol": 1}
    Cluster.objects.create(name="east", refusal="It is west.", refused_at=timezone.now(), **seen)
    assert only(processes.clusters).problem == (
        "An agent that comes with a token of the cluster east is refused: It is west."
    )
    Cluster.objects.update(refused_at=timezone.now() - timedelta(minutes=6))
    assert list(processes.clusters()) == []


def test_a_database_that_was_restored_is_told_for_a_day() -> None:
    now = timezone.now()
    seen = {"connected": True, "last_seen_at": now, "protocol": 1}
    Cluster.objects.create(name="east", restored_at=now, restored_from=now - timedelta(days=2), **seen)
    cluster = Cluster.objects.get()
    audit.record(by=Actor.system("agent link"), action=epochs.RECOGNISED, target=cluster)
    (fact,) = processes.clusters()
    assert isinstance(fact, Fact)  # a restore of one's own leaves no red exit
    assert f"restored from a backup of about {now - timedelta(days=2):%Y-%m-%d %H:%M} UTC" in fact.sentence
    audit.record(by=Actor.system("agent link"), action=epochs.RECOGNISED, target=cluster)
    found = only(processes.clusters)
    assert "found that 2 times within a day" in found.problem
    assert "no two servers use copies of one database" in found.advice
    Cluster.objects.update(restored_at=now - timedelta(hours=25))
    assert list(processes.clusters()) == []


def test_a_cluster_that_was_let_go_of_is_no_fault() -> None:
    now = timezone.now()
    seen = {"connected": False, "last_seen_at": now - timedelta(days=3), "protocol": 1}
    Cluster.objects.create(name="east", released_at=now - timedelta(days=2), **seen)
    (fact,) = processes.clusters()
    assert isinstance(fact, Fact)
    assert fact.sentence == "An operator let go of the cluster east 2 days ago; nothing runs or starts there."


def test_a_cluster_in_touch() -> None:
    Cluster.objects.create(name="east", connected=True, last_seen_at=timezone.now(), protocol=1)
    assert list(processes.clusters()) == []


@pytest.mark.parametrize(
    ("ahead_ms", "told"),
    [(61_000, "61 s ahead of this server's"), (-7_200_400, "7,200 s behind this server's")],
)
def test_an_agent_whose_clock_is_wrong(ahead_ms: int, told: str) -> None:
    given = {"connected": True, "last_seen_at": timezone.now(), "protocol": 1}
    Cluster.objects.create(name="east", clock_ahead_ms=ahead_ms, **given)
    Cluster.objects.create(name="west", clock_ahead_ms=4900, **given)
    assert only(processes.clusters).problem == f"The clock of the agent of the cluster east is {told}."


@pytest.fixture
def shared(settings: Settings) -> None:
    settings.REDIS = "redis://nobody.invalid/0"


@pytest.mark.usefixtures("shared")
def test_web_and_live_that_say_that_they_live() -> None:
    now = timezone.now()
    marks.part_lives("web", now=now)
    assert list(processes.web()) == []
    assert (
        only(processes.live).problem
        == "No process of the part live runs: open pages and agents are not reached."
    )
    marks.part_lives("all", now=now)
    assert list(processes.live()) == []


@pytest.mark.usefixtures("shared")
def test_a_part_that_fell_silent_and_one_that_stopped_in_order() -> None:
    marks.part_lives("live", now=timezone.now() - timedelta(minutes=5))
    assert only(processes.live).problem == (
        "No process of the part live was heard for 5 minutes: open pages and agents are not reached."
    )
    assert only(processes.live).advice == "Start `chamber serve --part live`, or look into its log."
    marks.part_leaves("live")
    assert "runs" in only(processes.live).problem


@pytest.mark.usefixtures("shared")
def test_parts_of_two_versions() -> None:
    marks.part_lives("live", now=timezone.now())
    Mark.objects.create(name="part:web:b", at=timezone.now(), said_by="b:1", details={"version": "9.0.0"})
    assert list(processes.live()) == [], "sockets are looked at all the same"
    assert (
        only(processes.versions).problem == f"Processes of the versions {__version__}, 9.0.0 answer at once."
    )


def test_a_part_that_is_long_gone_is_forgotten() -> None:
    Mark.objects.create(name="part:web:gone", at=timezone.now() - timedelta(days=2), said_by="gone:1")
    marks.part_lives("live", now=timezone.now())
    assert not Mark.objects.filter(name="part:web:gone").exists()


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("0.1.0", None),
        ("", None),
        ("0.9.0", DoctorFinding),
        ("0.0.9", Fact),
        ("0.1.0.dev3", Fact),
    ],
)
def test_an_agents_version_is_the_servers_or_the_one_before(
    agent: str, told: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "__version__", "0.1.0")
    Cluster.objects.create(name="east", agent_version=agent)
    assert [type(found) for found in processes.agents()] == ([told] if told else [])


def test_an_agent_that_cannot_tell_of_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "__version__", "0.2.1")
    for name, version in (("east", "0.1.0"), ("west", "0.2.0")):
        Cluster.objects.create(name=name, agent_version=version)
    east, west = (found.sentence for found in processes.agents() if isinstance(found, Fact))
    assert "what had ended after the backup would run again, unsaid. Upgrade it before you restore." in east
    assert west.endswith("that works, until the server's next minor version.")


def test_an_agent_two_minor_versions_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "__version__", "1.4.2")
    Cluster.objects.create(name="east", agent_version="1.2.9")
    [found] = processes.agents()
    assert isinstance(found, DoctorFinding)
    assert found.problem == (
        "The agent of the cluster east is 1.2.9, this server 1.4.2: more than 1 minor version behind."
    )


def test_what_is_placed_in_a_cluster_that_was_let_go_of_is_a_problem(place: Place) -> None:
    admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    now = timezone.now()
    Cluster.objects.update(
        connected=False, last_seen_at=now, released_at=now - timedelta(hours=3), agent_version=__version__
    )
    assert only(processes.clusters).problem == (
        "An operator let go of the cluster east 3 hours ago, and 1 workload is placed there all the same."
    )
