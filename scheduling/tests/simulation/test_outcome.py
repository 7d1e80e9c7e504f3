"""What a plan makes of workloads when it is carried out at once."""

from scheduling.engine import OpenStatus, Snapshot, WorkloadInfo, schedule
from scheduling.simulation.outcome import carried_out

from .builder import MINUTE, scenario

RESERVING = "teams: [{name: a}, {name: r, reservations: {main: 4}}]"
FOUR = "pools: [{name: main, nodes: [{name: n0, gpus: 4}]}]"


def after(rows: str, *, teams: str = "teams: [{name: a}]") -> dict[str, WorkloadInfo]:
    described = scenario(rows, pools=FOUR, teams=teams)
    plan = schedule(described.snapshot, described.now)
    found: Snapshot = carried_out(described.snapshot, plan, described.now + MINUTE)
    assert all((each.started_at or 0) <= described.now + MINUTE for each in found.workloads)
    return {each.id: each for each in found.workloads}


def test_who_starts_runs_where_the_plan_says() -> None:
    found = after("name: x, team: a, gpus: 2")["x"]
    assert (found.status, found.pool) == (OpenStatus.RUNNING, "main")
    assert sum(pod.milli for pod in found.placements) == 2000
    assert found.started_at == scenario("name: x, team: a").now + MINUTE


def test_what_was_on_its_way_has_arrived() -> None:
    found = after(
        "name: x, team: a, status: queued\nname: y, team: a, status: starting\nname: z, team: a, status: stopping"
    )
    assert {name: each.status for name, each in found.items()} == {
        "x": OpenStatus.RUNNING,
        "y": OpenStatus.RUNNING,
    }


def test_a_victim_waits_again_with_its_original_submission() -> None:
    rows = """\
name: x, team: a, gpus: 4, status: running, submitted: -2h, checkpointed: -1m
name: y, team: r, priority: 100"""
    found = after(rows, teams=RESERVING)["x"]
    assert (found.status, found.pool, found.placements) == (OpenStatus.PENDING, None, ())
    assert (found.started_at, found.checkpointed_at, found.preemptions_24h) == (None, None, 1)
    assert (
        found.submitted_at == scenario("name: x, team: a, submitted: -2h").snapshot.workloads[0].submitted_at
    )


def test_a_victim_that_is_to_stop_is_gone() -> None:
    rows = "name: x, team: a, gpus: 4, status: running, on_preemption: stop\nname: y, team: r, priority: 100"
    assert after(rows, teams=RESERVING).keys() == {"y"}


def test_pods_above_a_minimum_go_and_come() -> None:
    rows = "name: x, team: a, pods: 4, min_pods: 1, status: running\nname: y, team: r, priority: 100, gpus: 2"
    assert len(after(rows, teams=RESERVING)["x"].placements) == 2
    grown = after("name: x, team: a, pods: 4, min_pods: 1, status: running, nodes: [n0, n0]")["x"]
    assert [pod.pod_index for pod in grown.placements] == [0, 1, 2, 3]
