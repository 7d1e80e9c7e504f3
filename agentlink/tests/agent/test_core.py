"""The agent's planning: what is desired and what is there in, instructions out; no cluster, no server."""

from uuid import UUID

import pytest

from agentlink.agent.backends.base import Observation
from agentlink.agent.core import AgentPlan, Core, Stop
from agentlink.protocol import (
    Ack,
    AssignedPod,
    AssignedShare,
    Desired,
    DesiredAttempt,
    Error,
    ErrorCode,
    PodReport,
    PodState,
    ReportedPhase,
    StopOrder,
    Taken,
)

WORKLOAD = UUID(int=1)
HELLO = UUID(int=7)


def attempt(number: int) -> UUID:
    return UUID(int=100 + number)


def assignment(number: int = 1, *, pods: int = 1, let_go: bool = True, reported: int = 0) -> DesiredAttempt:
    return DesiredAttempt(
        workload=WORKLOAD, slug="w", attempt=attempt(number), number=number, let_go=let_go, image="i",
        grace_seconds=5, reported=reported,
        pods=tuple(
            AssignedPod(index=index, node="n1", devices=(AssignedShare(index=index, share_milli=1000),))
            for index in range(pods)
        ),
    )  # fmt: skip


def order(number: int = 1, *, reported: int = 0) -> StopOrder:
    return StopOrder(workload=WORKLOAD, attempt=attempt(number), number=number, reported=reported)


def full(*assignments: DesiredAttempt, stop: tuple[StopOrder, ...] = (), generation: int = 1) -> Desired:
    return Desired(
        connection=HELLO,
        generation=generation,
        base=None,
        part=0,
        last=True,
        assignments=assignments,
        stop=stop,
    )


def delta(
    generation: int,
    *assignments: DesiredAttempt,
    stop: tuple[StopOrder, ...] = (),
    forget: tuple[UUID, ...] = (),
) -> Desired:
    return Desired(
        connection=HELLO, generation=generation, base=generation - 1, part=0, last=True, assignments=assignments,
        stop=stop, forget=forget,
    )  # fmt: skip


def seen(
    phase: ReportedPhase, number: int = 1, *, pods: int | None = None, exit_code: int | None = None
) -> Observation:
    living = phase in (ReportedPhase.STARTING, ReportedPhase.RUNNING, ReportedPhase.STOPPING)
    count = pods if pods is not None else (1 if living else 0)
    state = PodState.RUNNING if phase is not ReportedPhase.STARTING else PodState.PENDING
    return Observation(
        workload=WORKLOAD, attempt=attempt(number), number=number, phase=phase, exit_code=exit_code,
        pods=tuple(PodReport(index=index, node="n1", state=state) for index in range(count)),
    )  # fmt: skip


def core_with(message: Desired, *observations: Observation) -> tuple[Core, AgentPlan]:
    core = Core()
    core.connected(HELLO)
    core.observe(observations)
    assert core.desire(message)
    return core, core.plan()


def ack(core: Core, plan: AgentPlan) -> AgentPlan:
    core.acknowledge(Ack(reports=tuple(Taken(attempt=r.attempt, sequence=r.sequence) for r in plan.reports)))
    return core.plan()


def then(core: Core, *observations: Observation) -> AgentPlan:
    core.observe(observations)
    return core.plan()


# What is created


def test_an_attempt_that_is_let_go_is_created_once() -> None:
    core, plan = core_with(full(assignment(pods=2)))
    assert [len(create.pods) for create in plan.creates] == [2]
    assert core.plan() == AgentPlan()
    assert core.desire(delta(2, assignment(pods=2)))
    assert core.plan() == AgentPlan()


def test_an_attempt_that_waits_is_created_when_it_is_let_go() -> None:
    core, plan = core_with(full(assignment(let_go=False)))
    assert plan == AgentPlan()
    assert core.desire(delta(2, assignment()))
    assert len(core.plan().creates) == 1


def test_nothing_is_done_before_both_sides_were_looked_at() -> None:
    core = Core()
    core.connected(HELLO)
    assert core.desire(full(assignment(reported=3)))
    assert core.plan() == AgentPlan()
    assert then(core, seen(ReportedPhase.RUNNING)).creates == ()
    other = Core()
    assert then(other, seen(ReportedPhase.RUNNING)) == AgentPlan()


def test_an_agent_that_comes_back_does_nothing_before_it_is_told_anew() -> None:
    core, _ = core_with(full(assignment(let_go=False)))
    core.connected(HELLO)
    assert core.desire(delta(2, assignment()))
    assert (core.plan(), core.works_by) == (AgentPlan(), 0)
    assert core.desire(full(generation=5))
    assert core.plan() == AgentPlan()


@pytest.mark.parametrize("phase", [ReportedPhase.SUCCEEDED, ReportedPhase.FAILED, ReportedPhase.GONE])
def test_an_attempt_that_is_over_is_never_created_again(phase: ReportedPhase) -> None:
    core, plan = core_with(full(assignment()), seen(phase, exit_code=0))
    assert plan.creates == ()
    assert ack(core, plan).creates == ()
    assert core.desire(delta(2, assignment()))
    assert core.plan().creates == ()


def test_an_attempt_that_was_reported_once_and_is_not_there_is_gone_and_not_created() -> None:
    _, plan = core_with(full(assignment(reported=4)))
    assert plan.creates == ()
    assert [(report.phase, report.sequence) for report in plan.reports] == [(ReportedPhase.GONE, 5)]


def test_a_lower_attempt_is_never_created_after_a_higher_one_was_seen() -> None:
    core, _ = core_with(full(assignment(2)), seen(ReportedPhase.RUNNING, 2))
    assert core.desire(delta(2, assignment(1)))
    assert core.plan().creates == ()


def test_a_higher_attempt_waits_until_the_pods_of_the_lower_one_are_gone() -> None:
    core, plan = core_with(full(assignment(2), stop=(order(1),)), seen(ReportedPhase.RUNNING, 1))
    assert plan.stops == (Stop(attempt(1), None),)
    assert plan.creates == ()
    assert then(core, seen(ReportedPhase.STOPPING, 1)).creates == ()
    plan = then(core, seen(ReportedPhase.GONE, 1))
    assert [create.assignment.number for create in plan.creates] == [2]


# What is stopped


@pytest.mark.parametrize("message", [full(), full(stop=(order(),))], ids=["unknown", "ordered"])
def test_what_is_not_desired_is_stopped_once(message: Desired) -> None:
    core, plan = core_with(message, seen(ReportedPhase.RUNNING))
    assert plan.stops == (Stop(attempt(1), None),)
    assert then(core, seen(ReportedPhase.STOPPING)).stops == ()


def test_what_was_asked_for_a_moment_ago_is_stopped_too() -> None:
    core, _ = core_with(full(assignment()))
    assert core.desire(delta(2, stop=(order(),)))
    assert core.plan().stops == (Stop(attempt(1), None),)


def test_the_pods_left_of_a_failed_gang_are_stopped() -> None:
    _, plan = core_with(full(assignment(pods=2)), seen(ReportedPhase.FAILED, pods=1, exit_code=1))
    assert plan.stops == (Stop(attempt(1), None),)


def test_a_gang_grows_and_shrinks_as_it_is_desired() -> None:
    core, _ = core_with(full(assignment(pods=1)), seen(ReportedPhase.RUNNING, pods=1))
    assert core.desire(delta(2, assignment(pods=3)))
    assert [pod.index for create in core.plan().creates for pod in create.pods] == [1, 2]
    assert then(core, seen(ReportedPhase.RUNNING, pods=3)).creates == ()
    assert core.desire(delta(3, assignment(pods=2)))
    assert core.plan().stops == (Stop(attempt(1), frozenset({2})),)
    assert then(core, seen(ReportedPhase.RUNNING, pods=3)).stops == ()
    assert then(core, seen(ReportedPhase.RUNNING, pods=2)).stops == ()
    assert core.desire(delta(4, assignment(pods=3)))
    assert [pod.index for create in core.plan().creates for pod in create.pods] == [2]


# What is reported


def test_a_report_stands_until_it_is_acknowledged_and_is_made_once() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.RUNNING))
    assert [report.sequence for report in plan.reports] == [1]
    assert core.unacknowledged() == plan.reports
    assert then(core, seen(ReportedPhase.RUNNING)).reports == ()
    ack(core, plan)
    assert core.unacknowledged() == ()


def test_sequences_go_on_from_the_servers() -> None:
    _, plan = core_with(full(assignment(reported=7)), seen(ReportedPhase.RUNNING))
    assert [report.sequence for report in plan.reports] == [8]


def test_the_record_of_an_end_is_kept_until_its_report_is_acknowledged() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.SUCCEEDED, exit_code=0))
    assert plan.forgets == ()
    assert then(core).forgets == ()
    plan = ack(core, plan)
    assert plan.forgets == (attempt(1),)
    assert core.desire(delta(2, forget=(attempt(1),)))
    assert core.plan() == AgentPlan()


def test_an_acknowledgement_of_an_older_report_does_not_do() -> None:
    core, first = core_with(full(assignment()), seen(ReportedPhase.RUNNING))
    last = then(core, seen(ReportedPhase.SUCCEEDED, exit_code=0))
    assert ack(core, first).forgets == ()
    assert ack(core, last).forgets == (attempt(1),)


def test_a_stop_order_for_what_is_not_here_is_answered_by_gone_until_acknowledged() -> None:
    core, plan = core_with(full(stop=(order(reported=2),)))
    assert [(report.phase, report.sequence) for report in plan.reports] == [(ReportedPhase.GONE, 3)]
    core.connected(HELLO)
    assert core.desire(full(stop=(order(reported=2),)))
    assert core.unacknowledged() == plan.reports
    assert ack(core, plan) == AgentPlan()
    assert core.unacknowledged() == ()


def test_what_the_server_has_lost_again_is_reported_again() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.RUNNING))
    ack(core, plan)
    core.connected(HELLO)
    assert core.desire(full(assignment(reported=0), generation=2))
    assert core.unacknowledged() == plan.reports


def test_a_report_that_the_server_knows_nothing_of_is_not_made_again() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.RUNNING))
    core.refuse(Error(code=ErrorCode.UNKNOWN_ATTEMPT, message="?", attempt=plan.reports[0].attempt))
    assert core.unacknowledged() == ()
    core.refuse(Error(code=ErrorCode.UNKNOWN_ATTEMPT, message="?", attempt=UUID(int=9)))


# Messages


def test_a_gap_is_noticed_and_what_is_old_is_ignored() -> None:
    core, _ = core_with(full(generation=5))
    assert not core.desire(delta(7, assignment()))
    assert core.desire(delta(5, assignment()))
    assert core.desire(full(assignment(), generation=4))
    assert core.plan() == AgentPlan()
    assert core.desire(delta(6, assignment()))
    assert len(core.plan().creates) == 1


def test_a_set_in_parts_counts_when_it_is_whole() -> None:
    core = Core()
    core.connected(HELLO)
    core.observe([])
    pieces = [
        assignment(pods=3).model_copy(update={"pods": assignment(pods=3).pods[i : i + 1]}) for i in range(3)
    ]
    parts = [
        Desired(connection=HELLO, generation=3, base=None, part=part, last=part == 2, assignments=(piece,))
        for part, piece in enumerate(pieces)
    ]
    for part in parts:
        assert core.plan() == AgentPlan()
        assert core.desire(part)
    assert [len(create.pods) for create in core.plan().creates] == [3]


@pytest.mark.parametrize("sent", [(1,), (0, 2), (0, 0, 2)])
def test_a_part_that_is_missing_is_noticed(sent: tuple[int, ...]) -> None:
    core = Core()
    core.connected(HELLO)
    parts = [
        Desired(connection=HELLO, generation=3, base=None, part=part, last=part == 2) for part in range(3)
    ]
    assert [core.desire(parts[part]) for part in sent][-1] is False
    assert core.generation == 0


@pytest.mark.parametrize("times", [2, 3])
def test_every_part_may_come_several_times(times: int) -> None:
    core = Core()
    core.connected(HELLO)
    core.observe([])
    parts = [
        Desired(connection=HELLO, generation=3, base=None, part=part, last=part == 2, assignments=(piece,))
        for part, piece in enumerate(
            assignment().model_copy(update={"attempt": UUID(int=500 + n), "workload": UUID(int=n)})
            for n in range(3)
        )
    ]
    assert all(core.desire(part) for part in parts for _ in range(times))
    assert (core.works_by, len(core.plan().creates)) == (3, 3)


def test_what_answers_an_earlier_hello_does_not_count() -> None:
    core = Core()
    core.connected(UUID(int=8))
    core.observe([])
    assert core.desire(full(assignment()))
    assert (core.works_by, core.plan()) == (0, AgentPlan())


# A server that was put back to an earlier state


def test_a_restored_server_counts_attempts_from_where_it_was() -> None:
    core, _ = core_with(full(assignment(5), generation=90), seen(ReportedPhase.RUNNING, 5))
    core.connected(HELLO)
    assert core.desire(full(assignment(2), generation=7))
    plan = core.plan()
    assert (plan.stops, plan.creates) == ((Stop(attempt(5), None),), ())
    assert [create.assignment.number for create in then(core, seen(ReportedPhase.GONE, 5)).creates] == [2]
    assert core.works_by == 7


def test_an_attempt_that_had_pods_has_ended_for_a_server_that_forgot_it() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.SUCCEEDED, exit_code=0))
    assert ack(core, plan).forgets == (attempt(1),)
    assert core.desire(delta(2, forget=(attempt(1),)))
    core.plan()
    core.connected(HELLO)
    assert core.desire(full(assignment(), generation=1))
    plan = core.plan()
    assert plan.creates == ()
    (report,) = plan.reports
    assert (report.phase, report.exit_code, report.generation) == (
        ReportedPhase.SUCCEEDED,
        0,
        1,
    )  # as it remembers


def test_the_oldest_ends_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentlink.agent.core.MOST_LAST_REPORTS", 0)
    core, plan = core_with(full(assignment()), seen(ReportedPhase.SUCCEEDED, exit_code=0))
    assert ack(core, plan).forgets == (attempt(1),)
    assert core.desire(delta(2, forget=(attempt(1),)))
    core.plan()
    core.connected(HELLO)
    assert core.desire(full(assignment(), generation=1))
    assert [report.phase for report in core.plan().reports] == [ReportedPhase.GONE]


def test_what_another_agent_said_last_is_said_anew() -> None:
    core, plan = core_with(full(assignment()), seen(ReportedPhase.RUNNING))
    ack(core, plan)
    core.connected(HELLO)
    assert core.desire(full(assignment(reported=6), generation=2))
    assert [report.sequence for report in core.plan().reports] == [7]


# Pods that come and go under a report


def test_pods_that_were_asked_for_are_told_as_pending() -> None:
    core, _ = core_with(full(assignment(pods=1)), seen(ReportedPhase.RUNNING, pods=1))
    assert core.desire(delta(2, assignment(pods=2)))
    (report,) = core.plan().reports
    assert [(pod.index, pod.state) for pod in report.pods] == [(0, PodState.RUNNING), (1, PodState.PENDING)]
    assert report.generation == 2


def test_what_is_there_is_told_again_when_other_pods_should_be() -> None:
    core, plan = core_with(full(assignment(pods=2)), seen(ReportedPhase.RUNNING, pods=1))
    ack(core, plan)
    assert core.desire(delta(2, assignment(pods=1)))
    told = core.plan().reports or then(core, seen(ReportedPhase.RUNNING, pods=1)).reports
    assert [(report.generation, len(report.pods)) for report in told][-1][0] == 2
