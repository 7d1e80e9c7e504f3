"""What a database could hold although it cannot be: read as the nearest thing that can, and told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduling.checker import check
from scheduling.engine import (
    Changes,
    DeviceShare,
    Fairness,
    Finding,
    OpenStatus,
    Plan,
    PodPlacement,
    Slicing,
    Snapshot,
    State,
    TeamInfo,
    TeamShare,
    WorkloadInfo,
    decide,
    schedule,
)
from scheduling.tests.engine.build import (
    MINUTE,
    NOW,
    node,
    placed,
    plan,
    pool,
    preempted,
    snapshot,
    started,
    team,
    waiting,
    waits,
)

A = (team("a"),)


def codes(found: Plan) -> list[str]:
    return [str(finding.code) for finding in found.findings]


def messages(findings: Iterable[Finding]) -> list[str]:
    return [finding.message for finding in findings]


def test_a_sound_snapshot_has_no_findings() -> None:
    rows = [
        placed("x", "a", on="n0:0"),
        placed("y", "a", on="n0:0", status=OpenStatus.QUEUED),
        waiting("w", "a"),
    ]
    rows[0] = replace(rows[0], status=OpenStatus.STOPPING)
    assert plan([node("n0")], A, rows).findings == ()


def test_who_runs_on_a_missing_node_counts_and_holds_nothing() -> None:
    rows = [
        placed("x", "a", 2, on="gone:0,1"),
        placed("y", "a", on="gone:2"),
        waiting("w", "a"),
        waiting("v", "a"),
    ]
    found = plan([node("n0", 2)], (team("a", maximum=4),), rows)
    assert ({row.workload for row in found.keeps}, started(found)) == ({"x", "y"}, {"v"})
    assert waits(found) == {"w": "waiting-for-ceiling"}
    assert messages(found.findings) == [
        "2 workloads lie on devices of the node gone that the pool has not; what they have counts for their teams."
    ]


def test_a_missing_node_is_no_reason_to_take_him_as_a_victim_of_no_use() -> None:
    rows = [placed("x", "a", 2, on="gone:0,1", priority=1), waiting("w", "a", 2, priority=100)]
    found = plan([node("n0", 1)], (team("a", reserved=4),), rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "larger-than-any-node"})


def moved(status: OpenStatus = OpenStatus.RUNNING) -> Snapshot:
    """x lies on a node that is another pool's by now, where w would like to run; y is left in the old one."""
    old, new = pool(), replace(pool(), id="new", name="new")
    nodes = [node("n0", 1), replace(node("n1", 2), pool="new")]
    rows = [
        placed("x", "a", on="n1:0", status=status, priority=1),
        placed("y", "a", on="n0:0"),
        replace(waiting("w", "a", priority=90), pools=("new",)),
        replace(waiting("v", "a"), pools=("new",)),
    ]
    return replace(snapshot(nodes, A, rows), pools=(old, new))


def test_who_lies_on_a_node_that_is_another_pools_by_now_holds_his_devices_there() -> None:
    """He is no victim there: he is of the old pool, and counts in it."""
    world = moved()
    found = schedule(world, NOW)
    assert (started(found), preempted(found), waits(found)) == ({"w"}, set(), {"v": "waiting-for-gpus"})
    assert [share.index for pod in found.starts[0].placements for share in pod.devices] == [1]
    assert [(row.pool, row.in_use_milli, row.free_milli) for row in found.pools] == [
        ("main", 2_000, 0),
        ("new", 1_000, 0),
    ]
    assert messages(found.findings) == [
        "1 workload lies on devices of the node n1 that the pool has not; what they have counts for their "
        "teams."
    ]
    assert check(world, found, NOW) == ()


def test_what_he_held_there_is_free_when_he_is_gone() -> None:
    """Stopping he holds it still; a kept state sees it as one that is made anew does."""
    state = State.of(moved())
    for status in (OpenStatus.RUNNING, OpenStatus.STOPPING, None):
        rows = tuple(row for row in moved(status or OpenStatus.RUNNING).workloads if status or row.id != "x")
        state.apply(Changes.between(state.snapshot, replace(moved(), workloads=rows)))
        found = decide(state, NOW)
        assert found == schedule(state.snapshot, NOW)
        assert {start.workload for start in found.starts if not start.waits_for_victims} == (
            {"w"} if status else {"w", "v"}
        )


def test_two_on_one_device_are_kept_and_nothing_is_put_beside_them() -> None:
    rows = [placed("x", "a", on="n0:0"), placed("y", "a", on="n0:0"), waiting("w", "a"), waiting("v", "a")]
    found = plan([node("n0", 2)], A, rows)
    assert (len(found.keeps), started(found), waits(found)) == (2, {"v"}, {"w": "waiting-for-gpus"})
    assert messages(found.findings) == ["On the device 0 of the node n0 lie 2 GPUs, but it has 1."]
    assert (found.pools[0].free_milli, found.pools[0].in_use_milli) == (0, 3_000)


def test_who_holds_a_slice_as_if_it_were_a_gpu_keeps_it_and_leaves_all_of_it_when_he_goes() -> None:
    """As it was counted before slices were told apart: with one GPU for each."""
    cut = node("cut", 3, gpu_type="mig", slices=Slicing.MIG, share=143)
    rows = [
        placed("before", "a", on="cut:0"),
        placed("two", "a", 2, on="cut:1,2", priority=100),
        waiting("w", "a", gpu_types=("mig",)),
        waiting("v", "a", gpu_types=("mig",), priority=60),
    ]
    found = plan([cut], A, rows)
    assert (started(found), waits(found)) == ({"v"}, {"w": "waiting-for-gpus"})
    assert [(start.victims, start.placements[0].milli) for start in found.starts] == [(("before",), 143)]
    assert "On the device 0 of the node cut lies 1 GPU, but it has 0.143." in messages(found.findings)
    assert found.pools[0].free_milli == 0


def test_what_is_held_and_what_is_promised_are_looked_at_apart() -> None:
    """A stopping and a queued one may share a device, two queued ones may not."""
    fine = [
        placed("x", "a", on="n0:0", status=OpenStatus.STOPPING),
        placed("y", "a", on="n0:0", status=OpenStatus.QUEUED),
    ]
    assert codes(plan([node("n0")], A, fine)) == []
    assert codes(plan([node("n0")], A, [*fine, placed("z", "a", on="n0:0", status=OpenStatus.QUEUED)])) == [
        "overcommitted"
    ]
    assert codes(plan([node("n0")], A, [*fine, placed("z", "a", on="n0:0", status=OpenStatus.STOPPING)])) == [
        "overcommitted"
    ]


def test_a_pod_on_a_device_that_others_use_is_told() -> None:
    found = plan([node("n0", 2, foreign=1)], A, [placed("x", "a", on="n0:1")])
    assert messages(found.findings) == [
        "On the device 1 of the node n0 lies 1 GPU, but it is used by others."
    ]


def test_an_overcommitted_device_comes_back_when_enough_have_gone() -> None:
    """Of the two on it the elastic one goes; the reserved newcomer needs the other device as well."""
    rows = [
        placed("x", "a", on="n0:0", priority=1),
        placed("y", "a", on="n0:0", priority=1),
        waiting("w", "a", 2, priority=100),
    ]
    found = plan([node("n0", 2)], (team("a", reserved=2),), rows)
    assert (started(found), preempted(found)) == ({"w"}, {"x", "y"})


def test_who_began_in_the_future_counts_as_just_begun() -> None:
    """The clock went back an hour: he is protected as if he had just started, and ends a limit from now."""
    rows = [placed("x", "a", on="n0:0", started=-60, limit=30, priority=1), waiting("w", "a", priority=90)]
    found = plan([node("n0", 1)], A, rows, pool(min_runtime_ms=10 * MINUTE))
    assert (preempted(found), found.waits[0].eta.latest) == (set(), NOW + 30 * MINUTE)
    assert messages(found.findings) == ["x began later than now; it counts as just begun."]


def test_who_waits_on_a_node_that_is_another_pools_by_now_is_told_so_and_does_not_grow() -> None:
    """Somebody stops where his first pod is to be; nothing lies there twice."""
    old, new = pool(), replace(pool(), id="new", name="new")
    leaving = placed("leaving", "a", on="n1:0", status=OpenStatus.STOPPING)
    gang = placed("gang", "a", on="n0:0 n1:0", status=OpenStatus.QUEUED, pods=3, min_pods=2)
    nodes = [node("n0", 2), replace(node("n1", 1), pool="new")]
    for rows in ([leaving, gang], [replace(leaving, pool="new"), gang]):
        world = replace(snapshot(nodes, A, rows), pools=(old, new))
        found = schedule(world, NOW)
        told = {keep.workload: keep.reason.code for keep in found.keeps if keep.reason}
        assert (told, found.grows) == ({"gang": "waiting-for-victims"}, ())
        assert {finding.code for finding in found.findings} == {"missing-node"}
        assert check(world, found, NOW) == ()
    state = State.of(world)
    decide(state, NOW)
    state.apply(Changes.between(state.snapshot, replace(world, workloads=(gang,))))
    found = decide(state, NOW)
    assert [grow.workload for grow in found.grows] == ["gang"]
    assert found == schedule(state.snapshot, NOW)


def test_of_those_who_have_just_begun_who_was_submitted_first_was_admitted_first() -> None:
    """The clock went back an hour after ``x`` began: it and ``y`` began just now, and ``x`` has the team's own part."""
    x = placed("x", "a", on="n0:0", started=-60, submitted=90, priority=100)
    y = placed("y", "a", on="n0:1", started=0, submitted=80, priority=100)
    teams = [team("top", reserved=2), team("a", "top", reserved=1)]
    world = snapshot([node("n0", 2)], teams, [x, y])
    found = schedule(world, NOW)
    assert {row.workload: row.allocation[0].team for row in found.keeps} == {"x": "a", "y": "top"}
    assert check(world, found, NOW) == ()


def test_a_clock_that_goes_back_between_two_cycles_is_noticed() -> None:
    world = snapshot([node("n0", 1)], A, [placed("x", "a", on="n0:0", started=30), waiting("w", "a")])
    state = State.of(world)
    assert codes(decide(state, NOW)) == []
    assert decide(state, NOW - 60 * MINUTE) == schedule(world, NOW - 60 * MINUTE)
    assert codes(decide(state, NOW - 60 * MINUTE)) == ["clock"]


def test_a_parent_that_is_not_there_is_none() -> None:
    found = plan([node("n0")], (team("a", "gone", reserved=2),), [waiting("w", "a", priority=100)])
    assert started(found) == {"w"}
    assert messages(found.findings) == [
        "The team a is below gone, which is not there; it counts as a top team."
    ]


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_teams_in_a_circle_are_opened_at_the_first(names: tuple[str, ...]) -> None:
    teams = [team(name, names[at - 1], reserved=1) for at, name in enumerate(names)]
    teams.append(team("below", names[-1], reserved=1))
    rows = [waiting("w", "a"), waiting("v", "below", priority=100)]
    found = plan([node("n0")], teams, rows)
    assert started(found) == {"w", "v"}
    assert messages(found.findings) == ["The team a is its own ancestor; it counts as a top team."]
    assert len(found.teams) == len(names) + 1


def test_a_team_that_is_not_there_is_a_top_team_without_a_share() -> None:
    rows = [placed("x", "gone", on="n0:0"), waiting("w", "gone"), waiting("v", "gone", priority=100)]
    found = plan([node("n0")], A, rows)
    assert (started(found), waits(found)) == ({"w"}, {"v": "exceeds-reservation"})
    assert codes(found) == ["unknown-team"]


def test_a_pool_that_is_not_there_keeps_who_lies_in_it() -> None:
    rows = [placed("x", "a", on="n9:0", pool="gone"), placed("y", "a", on="n0:0")]
    found = plan([node("n0"), node("n9", pool="gone")], A, rows)
    assert {(keep.workload, keep.pool) for keep in found.keeps} == {("x", "gone"), ("y", "main")}
    assert codes(found) == ["unknown-pool", "unknown-pool"]


@pytest.mark.parametrize(
    "odd",
    [
        {"pods": 0, "min_pods": 0},
        {"pods": -3, "min_pods": -3},
        {"pods": 1, "min_pods": 7},
        {"cpu_milli": -1000},
        {"memory_mib": -1},
        {"time_limit_ms": -5},
        {"preemptions_24h": -1},
    ],
)
def test_numbers_below_what_can_be_count_as_the_least_that_can(odd: dict[str, int]) -> None:
    """It starts with one pod, as the sound one would, and nothing comes free by it."""
    nodes = [node("n0", 2, cpu_milli=1000, memory_mib=10)]
    rows = [replace(waiting("w", "a"), **odd), waiting("v", "a", cpu_milli=1001)]  # type: ignore[arg-type]
    found = plan(nodes, A, rows)
    assert [len(start.placements) for start in found.starts] == [1]
    assert waits(found) == {"v": "larger-than-any-node"}
    assert messages(found.findings) == [
        "w has numbers that cannot be; it is read as if they were the nearest that can."
    ]


def test_numbers_of_teams_below_zero_or_none_at_all_count_as_zero() -> None:
    share = TeamShare("main", -4_000, None, float("nan"))  # type: ignore[arg-type]
    odd = TeamInfo("odd", "odd", weight=-2, burst_limit_percent=-50, shares=(share,))
    teams = (odd, *(team(name, usage_hours=1) for name in ("a", "b")))
    rows = [waiting("w", "odd"), waiting("v", "a"), waiting("u", "b"), waiting("t", "odd", priority=100)]
    found = plan([node("n0", 1)], teams, rows, pool(fairness=Fairness.USAGE))
    assert codes(found) == ["impossible-number"]
    assert waits(found)["w"] == "bursting-disabled"
    assert waits(found)["t"] == "exceeds-reservation"
    assert next(row for row in found.teams if row.team == "odd").guarantee_milli == 0


@pytest.mark.parametrize("usage", [float("nan"), float("inf"), -1.0])
def test_the_order_by_usage_does_not_depend_on_rows_whatever_the_usage(usage: float) -> None:
    shares = [TeamShare("main", 0, None, usage), TeamShare("main", 0, None, 5), TeamShare("main", 0, None, 1)]  # type: ignore[arg-type]
    teams = [TeamInfo(name, name, shares=(share,)) for name, share in zip("abc", shares, strict=True)]
    rows = [waiting(f"w-{name}", name) for name in "abc"]
    world = snapshot([node("n0", 2)], teams, rows, pool(fairness=Fairness.USAGE))
    turned = Snapshot(world.pools, world.teams[::-1], world.nodes, world.workloads[::-1])
    assert schedule(world, NOW) == schedule(turned, NOW)
    assert started(schedule(world, NOW)) == {"w-a", "w-c"}


@pytest.mark.parametrize("huge", [2**31, 2**53, 2**62, 10**30])
def test_enormous_numbers_are_too_much_and_nothing_worse(huge: int) -> None:
    teams = (TeamInfo("a", "a", weight=huge, shares=(TeamShare("main", huge, huge, 0),)), team("b"))
    rows = [
        placed("x", "b", on="n0:0", limit=huge, cpu_milli=huge),
        waiting("cpu", "a", cpu_milli=huge),
        waiting("memory", "a", memory_mib=huge),
        waiting("pods", "a", pods=huge, min_pods=1),
        waiting("gang", "a", pods=huge, min_pods=huge),
        waiting("fine", "b", limit=huge),
    ]
    found = plan([node("n0", 3, cpu_milli=1000, memory_mib=10)], teams, rows)
    assert started(found) == {"pods", "fine"}
    assert waits(found) == {
        "cpu": "larger-than-any-node",
        "memory": "larger-than-any-node",
        "gang": "larger-than-pool",
    }


def test_a_device_that_the_node_has_not_is_held_by_nobody() -> None:
    stray = replace(
        placed("x", "a", on="n0:0"), placements=(PodPlacement(0, "n0", (DeviceShare(99, 1000),)),)
    )
    found = plan([node("n0", 1)], A, [stray, waiting("w", "a")])
    assert started(found) == {"w"}
    assert codes(found) == ["missing-node"]


def test_oddities_come_and_go_with_the_rows() -> None:
    """Whatever came before, the plan is that of the rows as they are."""
    sound = [placed("x", "a", on="n0:0"), waiting("w", "a")]
    odd: list[WorkloadInfo] = [
        placed("x", "a", on="gone:0"),
        waiting("v", "gone"),
        waiting("u", "a", cpu_milli=-1),
    ]
    worlds = [
        snapshot([node("n0", 1)], A, rows) for rows in (sound, odd, sound, [*sound, odd[2]], odd[1:], sound)
    ]
    state = State.of(worlds[0])
    for before, after in pairwise(worlds):
        decide(state, NOW)
        state.apply(Changes.between(before, after))
        assert decide(state, NOW) == schedule(after, NOW)
    assert decide(state, NOW).findings == ()
