"""The agent's planning and the simulated cluster together, whatever is lost, late, doubled, restarted or broken.

A model of the server desires, stops and hears; the truths hold after every step, and at the end, when messages flow
again, everything converges.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.core import AgentPlan, Core
from agentlink.protocol import (
    Ack,
    AssignedPod,
    AssignedShare,
    Desired,
    DesiredAttempt,
    Report,
    StopOrder,
    Taken,
)
from agentlink.tests.agents import nodes

DEVICES = tuple((f"n{node}", index) for node in (1, 2) for index in range(2))
T = TypeVar("T")


def wait(step: Coroutine[Any, Any, T]) -> T:
    """Run a step that waits for nothing."""
    try:
        step.send(None)
    except StopIteration as stopped:
        result: T = stopped.value
        return result
    raise AssertionError("the simulated cluster waited")


class CountingCluster(SimulatedCluster):
    """Counts how often pods of an attempt were created while it had none."""

    created: dict[UUID, int]

    async def create(self, assignment: DesiredAttempt, pods: Sequence[AssignedPod]) -> None:
        count = self.created.setdefault(assignment.attempt, 0)
        self.created[assignment.attempt] = count + 1
        await super().create(assignment, pods)


@dataclass
class Row:
    """What the server has of an attempt."""

    assignment: DesiredAttempt
    generation: int
    wanted: bool = True
    gone: bool = False
    sequence: int = 0


class Convergence(RuleBasedStateMachine):
    """One server, one cluster, and agents that come and go; messages wait in two queues until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_700_000_000.0
        self.cluster = CountingCluster(nodes(2, gpus=2), clock=lambda: self.now)
        self.cluster.created = {}
        self.rows: dict[UUID, Row] = {}
        self.generation = 1
        self.numbers: dict[UUID, int] = {}
        self.to_agent: list[Desired | Ack] = []
        self.old_to_agent: list[Desired | Ack] = []
        self.to_server: list[Report] = []
        self.hellos = 0
        self.start_agent()

    # The agent

    @rule()
    def start_agent(self) -> None:
        """A new process: nothing remembered, nothing under way."""
        self.core, self.seen = Core(), -1
        self.reconnect()

    @rule()
    def reconnect(self) -> None:
        self.hellos += 1
        self.core.connected(self.connection)
        self.to_server = list(self.core.unacknowledged())
        # What an earlier connection carried does not come over this one.
        self.to_agent, self.old_to_agent = [self.full()], []
        self.sent = self.generation

    @rule()
    def converge(self) -> None:
        self.seen, found = wait(self.cluster.observe(self.seen))
        self.core.observe(found)
        self.perform(self.core.plan())

    def perform(self, plan: AgentPlan) -> None:
        for stop in plan.stops:
            wait(self.cluster.stop(stop.attempt, stop.pods, stop.notice))
        for create in plan.creates:
            wait(self.cluster.create(create.assignment, create.pods))
        for attempt in plan.forgets:
            wait(self.cluster.forget(attempt))
        self.to_server += plan.reports

    @precondition(lambda self: self.to_agent)
    @rule()
    def hear(self) -> None:
        message = self.to_agent.pop(0)
        self.old_to_agent = [*self.old_to_agent[-3:], message]
        self.give(message)

    @precondition(lambda self: self.old_to_agent)
    @rule(data=st.data())
    def hear_again(self, data: st.DataObject) -> None:
        self.give(data.draw(st.sampled_from(self.old_to_agent)))

    def give(self, message: Desired | Ack) -> None:
        if isinstance(message, Ack):
            self.core.acknowledge(message)
        elif not self.core.desire(message):
            self.reconnect()
        elif message.base is None:
            self.to_server += self.core.unacknowledged()

    # The server

    @rule(index=st.integers(0, 2), device=st.sampled_from(DEVICES), seconds=st.sampled_from([1, 20, 500]))
    def admit(self, index: int, device: tuple[str, int], seconds: int) -> None:
        """Start a workload's next attempt, where its last one is over and the device is free or emptying."""
        workload = UUID(int=index + 1)
        holders = [row for row in self.rows.values() if not row.gone and self.device(row) == device]
        if any(row.wanted and row.assignment.workload == workload for row in self.rows.values()):
            return
        if any(row.wanted for row in holders):
            return
        number = self.numbers[workload] = self.numbers.get(workload, 0) + 1
        pod = AssignedPod(
            index=0, node=device[0], devices=(AssignedShare(index=device[1], share_milli=1000),)
        )
        assignment = DesiredAttempt(
            workload=workload, slug="w", attempt=UUID(int=1000 * (index + 1) + number), number=number, pods=(pod,),
            let_go=not holders, image="i", command=(f"sleep {seconds}",), grace_seconds=2,
        )  # fmt: skip
        self.generation += 1
        self.rows[assignment.attempt] = Row(assignment, self.generation)

    @precondition(lambda self: any(row.wanted for row in self.rows.values()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Cancel or preempt."""
        row = data.draw(st.sampled_from([row for row in self.rows.values() if row.wanted]))
        self.stop(row)

    def stop(self, row: Row) -> None:
        self.generation += 1
        row.wanted, row.generation = False, self.generation
        row.gone = not row.assignment.let_go

    @precondition(lambda self: self.to_server)
    @rule(twice=st.booleans(), late=st.booleans())
    def take_report(self, twice: bool, late: bool) -> None:
        report = self.to_server.pop(-1 if late else 0)
        for _ in range(2 if twice else 1):
            self.take(report)

    @precondition(lambda self: self.to_server)
    @rule()
    def lose_reports(self) -> None:
        self.reconnect()

    def take(self, report: Report) -> None:
        row = self.rows[report.attempt]
        if report.sequence > row.sequence:
            row.sequence = report.sequence
            if report.frees_devices:
                if row.wanted:
                    self.stop(row)
                row.gone = True
                self.let_go(self.device(row))
        self.to_agent.append(Ack(reports=(Taken(attempt=report.attempt, sequence=report.sequence),)))

    def let_go(self, device: tuple[str, int]) -> None:
        holders = [row for row in self.rows.values() if not row.gone and self.device(row) == device]
        if len(holders) == 1 and holders[0].wanted and not holders[0].assignment.let_go:
            self.generation += 1
            holders[0].generation = self.generation
            holders[0].assignment = holders[0].assignment.model_copy(update={"let_go": True})

    @rule()
    def send_news(self) -> None:
        if self.generation > self.sent:
            rows = [row for row in self.rows.values() if row.generation > self.sent]
            self.to_agent.append(self.message(rows, base=self.sent))
            self.sent = self.generation

    @property
    def connection(self) -> UUID:
        return UUID(int=self.hellos)

    def full(self) -> Desired:
        return self.message([row for row in self.rows.values() if row.wanted or not row.gone], base=None)

    def message(self, rows: list[Row], base: int | None) -> Desired:
        return Desired(
            connection=self.connection, generation=self.generation, base=base, part=0, last=True,
            assignments=tuple(
                row.assignment.model_copy(update={"reported": row.sequence}) for row in rows if row.wanted
            ),
            stop=tuple(
                StopOrder(workload=row.assignment.workload, attempt=row.assignment.attempt,
                          number=row.assignment.number, reported=row.sequence)
                for row in rows if not row.wanted and not row.gone
            ),
            forget=tuple(row.assignment.attempt for row in rows if row.gone),
        )  # fmt: skip

    @staticmethod
    def device(row: Row) -> tuple[str, int]:
        pod = row.assignment.pods[0]
        return pod.node, pod.devices[0].index

    # The world

    @rule(seconds=st.sampled_from([0.1, 0.5, 3, 30]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=st.sampled_from(["n1", "n2"]))
    def node_fails_and_comes_back(self, name: str) -> None:
        self.cluster.set_down(name)
        self.cluster.set_up(name)

    # What holds

    @invariant()
    def no_device_is_over_capacity_and_none_is_taken_before_it_is_free(self) -> None:
        assert all(milli <= 1000 for milli in self.cluster.used_milli().values())
        _, found = wait(self.cluster.observe(-1))
        assert not [seen for seen in found if "left for" in seen.message]

    @invariant()
    def an_attempt_runs_at_most_once_and_a_workload_in_one_place(self) -> None:
        assert all(count == 1 for count in self.cluster.created.values())
        assert all(len(attempts) == 1 for attempts in self.cluster.living_attempts().values())

    @invariant()
    def no_device_is_free_for_the_server_while_pods_have_it(self) -> None:
        living = {attempt for attempts in self.cluster.living_attempts().values() for attempt in attempts}
        assert not any(self.rows[attempt].gone for attempt in living)

    def teardown(self) -> None:
        """Let everything through: what is wanted runs or has run, the rest is gone and forgotten."""
        self.reconnect()
        for _ in range(12):
            self.converge()
            while self.to_server:
                self.take_report(twice=False, late=False)
            self.send_news()
            while self.to_agent:
                self.hear()
            self.now += 3
        living = {attempt for attempts in self.cluster.living_attempts().values() for attempt in attempts}
        wanted = {attempt for attempt, row in self.rows.items() if row.wanted}
        assert living == wanted
        assert not [attempt for attempt, row in self.rows.items() if not row.wanted and not row.gone]
        assert {seen.attempt for seen in wait(self.cluster.observe(-1))[1]} == wanted


Convergence.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConvergence = Convergence.TestCase
