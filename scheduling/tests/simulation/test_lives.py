"""What workloads go through, and that all of it is counted."""

import pytest

from .builder import HOUR, MINUTE, run, scenario, summary

RESERVING = "teams: [{name: a}, {name: r, reservations: {main: 1}}]"
URGENT = "name: urgent, team: r, priority: 100, submitted: 10m, duration: 5m"


def test_a_dependent_starts_when_all_it_waits_for_is_over() -> None:
    pools = "pools: [{name: main, nodes: [{name: n0, gpus: 4}]}]"
    rows = """\
name: x, team: a, duration: 10m
name: y, team: a, submitted: 5m, duration: 10m
name: z, team: a, depends_on: [x, y]
name: late, team: a, submitted: 30m, depends_on: [x]"""
    assert run(scenario(rows, pools=pools), HOUR)[1].starts == [(0, "x"), (5, "y"), (15, "z"), (30, "late")]


def test_a_dependent_of_a_victim_that_is_stopped_never_starts() -> None:
    rows = f"name: x, team: a, on_preemption: stop\nname: z, team: a, depends_on: [x]\n{URGENT}"
    ending, diary = run(scenario(rows, teams=RESERVING), HOUR)
    assert [name for _, name in diary.starts] == ["x", "urgent"]
    assert [(wait.workload, wait.reason.code) for wait in ending.plan.waits] == [("z", "dependency-failed")]


@pytest.mark.parametrize(
    ("checkpointed", "lost_hours", "over_at"), [("", 0.5, 95), (", checkpointed: -5m", 0.25, 80)]
)
def test_what_a_victim_lost_is_done_again_and_counted(
    checkpointed: str, lost_hours: float, over_at: float
) -> None:
    rows = f"name: x, team: a, status: running, started: -20m, duration: 80m{checkpointed}\n{URGENT}"
    found = summary(rows, 3 * HOUR, teams=RESERVING)
    assert found.everything.preemptions == 1
    assert found.everything.lost_gpu_hours == lost_hours
    assert found.teams["a"].makespan_seconds == over_at * 60


def test_all_of_its_waits_are_one_workloads_wait() -> None:
    rows = f"name: x, team: a, submitted: 1m, duration: 30m\n{URGENT}"
    found = summary(rows, HOUR, teams=RESERVING).teams["a"]
    assert (found.submitted, found.started, found.finished) == (1, 1, 1)
    assert found.queue_seconds.mean == found.queue_seconds.max == 300


def test_the_wait_of_those_who_still_wait_counts_up_to_the_end() -> None:
    found = summary("name: x, team: a, submitted: 0s\nname: y, team: a, submitted: 15m", HOUR).everything
    assert (found.submitted, found.started, found.finished, found.held_gpus_end) == (2, 1, 0, 1)
    assert (found.queue_seconds.p50, found.queue_seconds.max) == (0, 45 * 60)


@pytest.mark.parametrize("facts", ["held: true", "depends_on: [x]"])
def test_who_is_held_or_waits_for_another_stands_in_no_queue(facts: str) -> None:
    found = summary(f"name: x, team: a\nname: y, team: a, {facts}", HOUR).everything
    assert (found.submitted, found.started, found.queue_seconds.max) == (2, 1, 2)


def test_a_gang_that_grows_holds_more() -> None:
    pools = "pools: [{name: main, nodes: [{name: n0, gpus: 4}]}]"
    rows = "name: x, team: a, gpus: 3, duration: 30m\nname: gang, team: a, pods: 4, min_pods: 1"
    ending, diary = run(scenario(rows, pools=pools), HOUR)
    assert diary.starts == [(0, "gang"), (0, "x")]
    assert [len(each.placements) for each in ending.snapshot.workloads] == [4]
    (count,) = ending.tally.counts.values()
    assert count.held_milli_ms == 4000 * 30 * MINUTE + 4000 * 30 * MINUTE
