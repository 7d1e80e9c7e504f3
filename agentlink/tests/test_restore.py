"""A database that was put back to an earlier state, and messages that come twice, late or not at all: what server and
agent make of what the other does not know any more.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone

from agentlink import session as sessions
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.core import Core
from agentlink.agent.memory import AgentMemory
from agentlink.models import Assignment, Cluster, Device
from agentlink.protocol import (
    Ack,
    Desired,
    Epoch,
    Error,
    ErrorCode,
    Heartbeat,
    Observed,
    Report,
    ReportedPhase,
)
from agentlink.session import Answer
from agentlink.tests.agent.test_convergence import wait
from agentlink.tests.agents import Hand, admit, cancel, devices_of, nodes, report
from agentlink.tests.conftest import Place
from chamber.ids import new_id
from teams.models import AuditEvent
from workloads.models import Attempt, EndReason, Event, Status, Workload

pytestmark = pytest.mark.django_db


def backup() -> str:
    """Return a point to which the database can be put back."""
    return transaction.savepoint()


restore = transaction.savepoint_rollback


class Machine:
    """An agent with its cluster, in the process of the test; each step's messages go through the whole server."""

    def __init__(self, place: Place, state_file: Path | None = None) -> None:
        self.place, self.now, self.state_file = place, timezone.now().timestamp(), state_file
        self.core, self.seen = Core(), -1
        self.memory = AgentMemory()
        self.load()
        self.hand = Hand(place.cluster, hello=False)

    def load(self) -> None:
        """Have the cluster as its state file tells, where it has one."""
        self.cluster = SimulatedCluster(nodes(2), clock=lambda: self.now, state_file=self.state_file)
        self.memory = self.cluster.memory or self.memory

    def start_anew(self) -> None:
        """End the agent's process as SIGTERM does, and start another one with the same state file."""
        self.cluster.save()
        self.core, self.seen, self.memory = Core(), -1, AgentMemory()
        self.load()
        self.reconnect()

    def hello(self) -> None:
        self.hand.connection = new_id()
        self.core.connected(self.hand.connection)
        self.hear(self.hand.say(self.hand.hello().model_copy(update={"epoch": self.memory.epoch})))

    def reconnect(self, *, forgetting: bool = False) -> None:
        """A new conversation; `forgetting`, of a new process, which finds what is written on the lease."""
        if forgetting:
            self.core, self.seen = Core(), -1
            before, self.memory = self.memory, AgentMemory()
            self.memory.recall(before.text())
        self.hand = Hand(self.place.cluster, hello=False)
        self.hello()

    def hear(self, answer: Answer) -> None:
        for message in answer.messages:
            if isinstance(message, Desired):
                awaited = not self.core.works_by
                if not self.core.desire(message):
                    self.hello()
                elif awaited and self.core.works_by:
                    self.tell(self.core.unacknowledged())
            elif isinstance(message, Ack):
                self.core.acknowledge(message)
                if message.epoch is not None:
                    self.memory.learn(message.epoch)
            elif isinstance(message, Error) and message.code is ErrorCode.NO_HELLO:
                self.hello()
            elif isinstance(message, Error):
                self.core.refuse(message)

    def tell(self, reports: tuple[Report, ...]) -> None:
        for one in reports:
            self.hear(self.hand.say(Observed(reports=(one,))))

    def step(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.seen, found = wait(self.cluster.observe(self.seen))
        self.core.observe(found)
        plan = self.core.plan()
        for stop in plan.stops:
            wait(self.cluster.stop(stop.attempt, stop.pods, stop.notice))
        for create in plan.creates:
            wait(self.cluster.create(create.assignment, create.pods))
        for attempt in plan.forgets:
            wait(self.cluster.forget(attempt))
        self.tell(plan.reports)
        self.hear(self.hand.say(self.beat()))

    def beat(self) -> Heartbeat:
        beat = self.hand.heartbeat(self.core.works_by)
        return beat.model_copy(update={"epoch": self.memory.epoch})

    def steps(self, count: int = 8) -> None:
        for _ in range(count):
            self.step()

    def start(self, device: int, seconds: int, **fields: Any) -> Attempt:
        row = devices_of(self.place.cluster, "n1")[device]
        command = fields.pop("command", ["sleep", str(seconds)])
        return admit(
            self.place.team, self.place.owner, self.place.pool, self.place.cluster, [row], command=command, **fields
        )  # fmt: skip

    def status(self, attempt: Attempt) -> str:
        return Workload.objects.get(pk=attempt.workload_id).status

    def converged(self) -> bool:
        """Return whether the cluster runs exactly what the tables say, on just the devices that they say."""
        living = {attempt for found in self.cluster.living_attempts().values() for attempt in found}
        wanted = set(Assignment.objects.filter(wanted=True).values_list("attempt", flat=True))
        devices = Device.objects.filter(node__cluster=self.place.cluster)
        taken = {
            (name, index): milli
            for name, index, milli in devices.values_list("node__name", "index", "occupied_milli")
            if milli
        }
        return living == wanted and self.cluster.used_milli() == taken and not (
            Assignment.objects.filter(wanted=False, gone=False).exists()
        )  # fmt: skip


@pytest.fixture
def machine(place: Place) -> Machine:
    found = Machine(place)
    found.hello()
    return found


@pytest.mark.parametrize("forgetting", [False, True], ids=["same agent", "new agent"])
def test_after_a_restore_cluster_and_tables_are_one_again(machine: Machine, forgetting: bool) -> None:
    runs = machine.start(0, 5000)
    machine.steps(3)
    dump = backup()
    cancel(runs)  # was stopped after the backup: runs for the restored server, and is gone here
    later = machine.start(1, 5000)  # is not known to the restored server, and runs here
    machine.steps()
    assert machine.status(later) == Status.RUNNING
    restore(dump)
    machine.reconnect(forgetting=forgetting)
    machine.steps()
    assert machine.converged()
    assert machine.status(runs) == Status.PENDING
    assert ended(runs) == (EndReason.DISPLACED, "ended-after-backup")
    again = machine.start(1, 5000)
    machine.steps()
    assert machine.status(again) == Status.RUNNING
    assert machine.converged()


def ended(attempt: Attempt) -> tuple[str, str]:
    attempt.refresh_from_db()
    return attempt.end_reason, attempt.end_detail.get("code", "")


@pytest.mark.parametrize("command", ["sleep 2", "exit 3"])
def test_what_ended_after_the_backup_ends_as_the_agent_remembers_it(machine: Machine, command: str) -> None:
    attempt = machine.start(0, 2, command=["sh", "-c", command])
    dump = backup()  # before the agent said anything of it
    machine.steps(200)
    before = machine.status(attempt), *ended(attempt)
    assert before[0] in (Status.COMPLETED, Status.FAILED)
    restore(dump)
    assert Assignment.objects.get(attempt=attempt).report_sequence == 0
    machine.reconnect()
    machine.steps()
    assert (machine.status(attempt), *ended(attempt)) == before
    assert machine.converged()


def test_what_ended_after_the_backup_and_nobody_remembers_is_displaced_and_told_so(machine: Machine) -> None:
    attempt = machine.start(0, 50)
    machine.steps(20)
    assert machine.status(attempt) == Status.RUNNING
    dump = backup()
    machine.steps(60)
    assert machine.status(attempt) == Status.COMPLETED
    restore(dump)
    of = Cluster.objects.get().last_seen_at
    machine.reconnect(forgetting=True)
    machine.steps()
    assert machine.status(attempt) == Status.PENDING
    assert ended(attempt) == (EndReason.DISPLACED, "ended-after-backup")
    cluster = Cluster.objects.get()
    assert of is not None
    assert attempt.end_detail["message"] == (
        f"It ended after the backup of about {of:%Y-%m-%d %H:%M} UTC from which the database was restored; "
        "its result is not known."
    )
    assert cluster.restored_at is not None
    assert "was restored from a backup of about" in cluster.restored_now
    assert machine.converged()


def test_a_simulated_agent_that_starts_anew_after_the_restore_tells_of_it(
    place: Place, tmp_path: Path
) -> None:
    machine = Machine(place, tmp_path / "east.json")
    machine.hello()
    attempt = machine.start(0, 50)
    machine.steps(20)
    dump = backup()
    machine.steps(60)
    assert machine.status(attempt) == Status.COMPLETED
    restore(dump)
    machine.start_anew()
    machine.steps()
    assert ended(attempt) == (EndReason.DISPLACED, "ended-after-backup")
    assert Cluster.objects.get().restored_at is not None
    assert machine.converged()


def test_a_restore_is_recognised_once_and_a_restart_of_the_agent_is_none(machine: Machine) -> None:
    machine.steps(2)
    dump = backup()
    machine.reconnect(forgetting=True)
    machine.steps(3)
    assert Cluster.objects.get().restored_at is None
    restore(dump)
    machine.reconnect(forgetting=True)
    first = Cluster.objects.get().restored_at
    assert first is not None
    machine.reconnect(forgetting=True)
    machine.steps(3)
    assert Cluster.objects.get().restored_at == first
    assert AuditEvent.objects.filter(action="cluster.restore-recognised").count() == 1


def test_a_restore_under_a_conversation_is_seen_with_the_next_heartbeat(machine: Machine) -> None:
    dump = backup()
    machine.steps(2)
    restore(dump)
    (error,) = machine.hand.say(machine.beat()).messages
    assert isinstance(error, Error)
    assert error.code is ErrorCode.NO_HELLO
    machine.hear(Answer([error]))
    machine.steps()
    assert Cluster.objects.get().restored_at is not None
    assert machine.converged()


def test_late_and_doubled_messages_and_other_databases_are_no_restore(machine: Machine) -> None:
    late = machine.beat()
    machine.steps(2)
    for _ in range(2):
        machine.hand.say(late)
    assert machine.memory.epoch.number > 0
    machine.memory.epoch = Epoch(of=new_id(), number=10**6)  # of another database, or another cluster's row
    machine.reconnect()
    machine.steps(2)
    assert Cluster.objects.get().restored_at is None
    assert machine.memory.epoch.of == machine.place.cluster.pk


def test_pods_that_vanish_some_time_after_a_restore_were_deleted(machine: Machine) -> None:
    attempt = machine.start(0, 5000)
    machine.steps(3)
    dump = backup()
    machine.steps(3)
    restore(dump)
    machine.reconnect()
    machine.steps(2)
    earlier = timezone.now() - timedelta(minutes=6)
    assert Assignment.objects.filter(unheard_since__isnull=False).update(unheard_since=earlier) == 1
    machine.cluster.delete_pods(attempt.pk)
    machine.steps(2)
    assert ended(attempt) == (EndReason.DISPLACED, "pods-vanished")


@pytest.mark.parametrize(("version", "is_told"), [("0.1.0", True), ("0.2.0", False)])
def test_an_agent_that_remembers_no_epoch_leaves_open_whether_it_was_a_restore(
    machine: Machine, version: str, *, is_told: bool
) -> None:
    attempt = machine.start(0, 5000)
    machine.steps(3)
    Cluster.objects.update(agent_version=version)
    machine.cluster.delete_pods(attempt.pk)
    machine.steps(2)
    assert ended(attempt) == (EndReason.DISPLACED, "pods-vanished")
    doubt = (
        f"or it had ended after the backup, if the database was restored: its agent {version} cannot tell."
    )
    assert (doubt in attempt.end_detail["message"]) is is_told


def test_an_agent_that_remembers_nothing_is_told_no_epoch(machine: Machine) -> None:
    old = Hand(machine.place.cluster)
    assert not [message for message in old.greeting.messages if isinstance(message, Ack)]
    assert old.say(old.heartbeat()).messages == []


ANY = UUID(int=7)


@pytest.mark.parametrize("text", ["", "x", "x:1", ":", f"{ANY}:-1", f"{ANY}:{10**30}", f"{ANY}:²"])
def test_what_is_written_on_a_lease_and_cannot_be_read_is_nothing(text: str) -> None:
    memory = AgentMemory()
    memory.recall(text)
    assert memory.text() == ""


def test_reports_that_the_restored_server_lost_are_said_again_and_none_counts_twice(machine: Machine) -> None:
    attempt = machine.start(0, 5000)
    dump = backup()
    machine.steps(3)
    sequence = Assignment.objects.get(attempt=attempt).report_sequence
    assert sequence > 0
    restore(dump)
    assert machine.status(attempt) == Status.QUEUED
    machine.reconnect()
    machine.steps(2)
    assert machine.status(attempt) == Status.RUNNING
    assert Assignment.objects.get(attempt=attempt).report_sequence >= sequence
    told = Event.objects.filter(workload=attempt.workload_id).values_list("message", flat=True)
    assert len([message for message in told if message == "All its pods run."]) == 1


def test_a_higher_attempt_of_a_lost_time_keeps_no_new_one_out(machine: Machine) -> None:
    first = machine.start(0, 5000)
    machine.steps(3)
    workload = Workload.objects.get(pk=first.workload_id)
    dump = backup()
    for _ in range(3):  # attempts 2 to 4, of which the restored server knows nothing
        cancel(Attempt.objects.filter(workload=workload).latest("number"))
        machine.steps(4)
        Workload.objects.filter(pk=workload.pk).update(status=Status.PENDING, finished_at=None)
        last = machine.start(1, 5000, workload=workload)
        machine.steps(4)
    assert last.number == 4
    restore(dump)
    machine.reconnect()
    machine.steps()
    Workload.objects.filter(pk=workload.pk).update(status=Status.PENDING, finished_at=None)
    new = machine.start(0, 5000, workload=workload)
    assert new.number == 2
    machine.steps()
    assert machine.status(new) == Status.RUNNING
    assert machine.converged()


def test_a_server_put_back_under_a_conversation_asks_for_another_hello(machine: Machine) -> None:
    kept = machine.start(0, 5000)
    machine.steps(3)
    dump = backup()
    gone = machine.start(1, 5000)
    machine.steps(3)
    restore(dump)  # the conversation is the same before and after: only generations tell
    (error,) = machine.hand.session.news().messages
    assert isinstance(error, Error)
    assert error.code is ErrorCode.NO_HELLO
    machine.hear(Answer([error]))
    machine.steps()
    assert machine.converged()
    assert set(machine.cluster.living_attempts()) == {kept.workload_id}
    assert gone.workload_id not in machine.cluster.living_attempts()


def test_a_long_poll_goes_on_only_where_the_process_knows_its_hello(machine: Machine) -> None:
    attempt = machine.start(0, 5000)
    machine.steps(3)
    poll = Hand(machine.place.cluster, hello=False)
    poll.connection = machine.hand.connection
    assert poll.say(poll.heartbeat(machine.core.works_by)).messages == []
    sessions._begun.clear()  # another process, or this one started anew
    other = Hand(machine.place.cluster, hello=False)
    other.connection = machine.hand.connection
    (error,) = other.say(other.heartbeat(machine.core.works_by)).messages
    assert isinstance(error, Error)
    assert error.code is ErrorCode.NO_HELLO
    (full,) = other.say(other.hello()).messages
    assert isinstance(full, Desired)
    assert [each.attempt for each in full.assignments] == [attempt.pk]


def test_what_a_heartbeat_shows_not_to_have_arrived_is_told_again(machine: Machine) -> None:
    machine.steps(2)
    before = machine.core.works_by
    attempt = machine.start(0, 5000)
    lost = machine.hand.session.news()
    assert [type(message) for message in lost.messages] == [Desired]
    beat = machine.hand.heartbeat(before)
    assert machine.hand.say(beat).messages == []  # may be under way still
    machine.hear(machine.hand.say(beat))
    machine.steps(2)
    assert machine.status(attempt) == Status.RUNNING


def test_a_stop_that_got_lost_is_told_again(machine: Machine) -> None:
    attempt = machine.start(0, 5000)
    machine.steps(3)
    cancel(attempt)
    machine.hand.session.news()  # is never heard
    machine.steps()
    assert machine.cluster.living_attempts() == {}
    assert Attempt.objects.get(pk=attempt.pk).released_at is not None


def test_a_heartbeat_of_the_future_changes_nothing_and_begins_anew(machine: Machine) -> None:
    machine.steps(1)
    before = Cluster.objects.values_list("seen_generation", "desired_generation").get()
    (error,) = machine.hand.say(machine.hand.heartbeat(10**9)).messages
    assert isinstance(error, Error)
    assert error.code is ErrorCode.NO_HELLO
    assert Cluster.objects.values_list("seen_generation", "desired_generation").get() == before
    machine.hear(Answer([error]))
    machine.start(0, 5000)
    machine.steps()
    assert machine.converged()


def test_a_hello_that_comes_late_a_second_time_is_followed_by_another(machine: Machine) -> None:
    old = machine.hand.hello()
    machine.hello()
    machine.hand.say(old)  # once more, after the newer one
    machine.start(0, 5000)
    machine.steps(3)  # what is told now is for the old hello; the heartbeat shows it
    machine.steps()
    assert machine.converged()
    assert len(machine.cluster.living_attempts()) == 1


def test_an_old_full_set_does_not_bring_back_what_is_over(machine: Machine) -> None:
    attempt = machine.start(0, 2)
    (full,) = Hand(machine.place.cluster).greeting.messages
    machine.reconnect()
    machine.steps()
    assert machine.status(attempt) == Status.COMPLETED
    assert isinstance(full, Desired)
    for late in (full, full.model_copy(update={"connection": machine.hand.connection})):
        assert machine.core.desire(late)
        machine.steps(2)
    assert machine.cluster.living_attempts() == {}


@pytest.mark.parametrize("seconds", [2, 5000])
def test_everything_twice_changes_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    say, hear = Hand.say, Machine.hear

    def say_twice(self: Hand, message: Any) -> Answer:
        first = say(self, message)
        return Answer([*first.messages, *say(self, message).messages])

    def hear_twice(self: Machine, answer: Answer) -> None:
        hear(self, Answer([message for message in answer.messages for _ in range(2)]))

    monkeypatch.setattr(Hand, "say", say_twice)
    monkeypatch.setattr(Machine, "hear", hear_twice)
    machine.reconnect()
    attempts = [machine.start(device, seconds) for device in range(3)]
    machine.steps()
    expected = Status.COMPLETED if seconds == 2 else Status.RUNNING
    assert {machine.status(attempt) for attempt in attempts} == {expected}
    assert machine.converged()
    for attempt in attempts:
        told = list(Event.objects.filter(workload=attempt.workload_id).values_list("message", flat=True))
        assert len(told) == len(set(told))


def test_reports_may_be_half_a_minute_late(machine: Machine) -> None:
    attempt = machine.start(0, 5000)
    late = [
        report(attempt, phase, sequence)
        for sequence, phase in enumerate((ReportedPhase.STARTING, ReportedPhase.RUNNING), 1)
    ]
    machine.steps(3)
    Cluster.objects.update(connected=False, last_seen_at=timezone.now() - timedelta(seconds=40))
    machine.tell(tuple(late))
    assert machine.status(attempt) == Status.RUNNING
    assert Cluster.objects.get().connected


def test_only_agents_that_know_classes_are_told_which_work_is_reserved(machine: Machine) -> None:
    machine.start(0, 5000, priority=100)
    told = []
    for release in ("0.1.0", "0.2.0"):
        hand = Hand(machine.place.cluster, hello=False)
        (full, *_) = hand.say(hand.hello().model_copy(update={"agent_version": release})).messages
        assert isinstance(full, Desired)
        told.append([each.reserved for each in full.assignments])
    assert told == [[False], [True]]
