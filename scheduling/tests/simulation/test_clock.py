"""The clock: what happens when, and how often a cycle."""

import pytest

from scheduling.engine import OpenStatus

from .builder import HOUR, MINUTE, SECOND, run, scenario, summary

RESERVING = "teams: [{name: a}, {name: r, reservations: {main: 1}}]"


def test_workloads_run_one_after_the_other_for_as_long_as_they_say() -> None:
    ending, diary = run(
        scenario("name: x, team: a, duration: 10m\nname: y, team: a, duration: 20m\nname: z, team: a"), HOUR
    )
    assert diary.starts == [(0, "x"), (10, "y"), (30, "z")]
    assert [workload.id for workload in ending.snapshot.workloads] == ["z"]
    assert ending.now - ending.tally.start == HOUR


def test_who_is_submitted_later_arrives_then() -> None:
    _, diary = run(
        scenario("name: x, team: a, submitted: 90s, duration: 1m\nname: y, team: a, submitted: 90s"), HOUR
    )
    assert diary.starts == [(1.5, "x"), (2.5, "y")]


@pytest.mark.parametrize(
    ("facts", "ended_after"),
    [
        ("duration: 10m", 10),
        ("duration: 10m, time_limit: 4m", 4),
        ("duration: 3m, time_limit: 4m", 3),
        ("time_limit: 4m", 4),
    ],
)
def test_a_run_ends_by_itself_or_at_its_time_limit(facts: str, ended_after: int) -> None:
    _, diary = run(scenario(f"name: x, team: a, {facts}\nname: y, team: a"), HOUR)
    assert diary.starts == [(0, "x"), (ended_after, "y")]


def test_what_runs_already_has_run_since_it_started() -> None:
    rows = "name: x, team: a, status: running, started: -8m, duration: 10m\nname: y, team: a"
    assert run(scenario(rows), HOUR)[1].starts == [(2, "y")]


def test_what_should_have_ended_before_ends_at_once() -> None:
    rows = "name: x, team: a, status: running, started: -20m, duration: 10m\nname: y, team: a"
    assert run(scenario(rows), HOUR)[1].starts == [(0, "y")]


def test_devices_of_who_is_stopping_are_free_after_the_first_cycle() -> None:
    ending, diary = run(scenario("name: x, team: a, status: stopping\nname: y, team: a"), MINUTE)
    assert diary.starts == [(0, "y")]
    assert [(each.id, each.status) for each in ending.snapshot.workloads] == [("y", OpenStatus.RUNNING)]


def test_cycles_are_at_least_the_interval_apart() -> None:
    rows = (
        'name: x, team: a\nname: "y-{i}", count: 1, team: a, submitted: 10s\nname: z, team: a, submitted: 20s'
    )
    _, diary = run(scenario(rows), HOUR, interval=30 * SECOND)
    assert diary.cycles == [0, 0.5]


def test_where_nobody_waits_there_is_no_cycle() -> None:
    _, diary = run(scenario("name: x, team: a, duration: 1m\nname: y, team: a, submitted: 30m"), HOUR)
    assert diary.cycles == [0, 30]


def test_a_victim_goes_back_to_the_queue_and_begins_anew() -> None:
    rows = """\
name: x, team: a, duration: 30m
name: urgent, team: r, priority: 100, submitted: 10m, duration: 5m"""
    ending, diary = run(scenario(rows, teams=RESERVING), 2 * HOUR)
    assert diary.preemptions == [(10, "x")]
    assert diary.starts == [(0, "x"), (10, "urgent"), (15, "x")]
    assert ending.snapshot.workloads == ()


def test_a_preemption_is_forgotten_after_a_day() -> None:
    rows = "name: x, team: a\nname: urgent, team: r, priority: 100, submitted: 10m, duration: 5m"
    early, _ = run(scenario(rows, teams=RESERVING), 24 * HOUR)
    late, _ = run(scenario(rows, teams=RESERVING), 25 * HOUR)
    assert [each.workload for each in early.plan.keeps] == ["x"]
    assert [each.preemptions_24h for each in (*early.snapshot.workloads, *late.snapshot.workloads)] == [1, 0]


def test_a_minimal_runtime_that_is_over_is_a_change() -> None:
    pools = "pools: [{name: main, policy: {min_runtime: 20m}, nodes: [{name: n0, gpus: 1}]}]"
    rows = "name: x, team: a\nname: better, team: a, priority: 60, submitted: 5m"
    assert run(scenario(rows, pools=pools), HOUR)[1].preemptions == [(20, "x")]


def test_a_later_start_is_a_change_and_no_time_in_the_queue() -> None:
    rows = "name: x, team: a, start_after: 10m, duration: 5m"
    assert run(scenario(rows), HOUR)[1].starts == [(10, "x")]
    assert summary(rows, HOUR).pools["main"].queue_seconds.max == 0


def test_who_has_not_started_by_its_deadline_ends_then_and_lets_those_fail_that_need_it() -> None:
    rows = """\
name: x, team: a, duration: 30m
name: late, team: a, deadline: 20m
name: after, team: a, depends_on: [late]
name: y, team: a, deadline: 40m"""
    ending, diary = run(scenario(rows), HOUR)
    assert diary.starts == [(0, "x"), (30, "y")]
    assert {wait.workload: wait.reason.code for wait in ending.plan.waits} == {"after": "dependency-failed"}
    assert summary(rows, HOUR).pools["main"].submitted == 3


def test_a_victim_that_had_started_by_its_deadline_comes_back_after_it() -> None:
    rows = """\
name: x, team: a, duration: 30m, deadline: 5m
name: urgent, team: r, priority: 100, submitted: 10m, duration: 5m"""
    assert run(scenario(rows, teams=RESERVING), HOUR)[1].starts == [(0, "x"), (10, "urgent"), (15, "x")]


def test_the_end_of_peak_hours_is_a_change() -> None:
    pools = """\
pools:
  - {name: main, nodes: [{name: n0, gpus: 4}],
     policy: {peak: {hours: ["mon-sun 23:00-01:00", "thu 02:00-04:00"], max_gpus: 2}}}"""
    rows = "name: large, team: a, gpus: 4, duration: 90m\nname: again, team: a, gpus: 4, submitted: 30m"
    assert run(scenario(rows, pools=pools), 12 * HOUR)[1].starts == [(60, "large"), (240, "again")]


def test_the_last_plan_shows_the_end_and_is_not_carried_out() -> None:
    ending, _ = run(scenario("name: x, team: a\nname: y, team: a, submitted: 10s"), MINUTE, interval=HOUR)
    assert [wait.workload for wait in ending.plan.waits] == ["y"]
    assert ending.cycles == 1


def test_the_clock_tells_how_far_it_is() -> None:
    from scheduling.simulation.clock import SimulationClock

    described = scenario("name: x, team: a, submitted: 1m, duration: 1m")
    told: list[int] = []
    SimulationClock(described).run(HOUR, tell=told.append)
    assert [at - described.now for at in told] == [0, MINUTE, 2 * MINUTE]
