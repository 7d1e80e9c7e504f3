"""When waiting workloads are told to start."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.engine import (
    ElasticPreemption,
    Eta,
    NodeInfo,
    OpenStatus,
    PeakHours,
    Queueing,
    TeamInfo,
    Topology,
    WeeklyHours,
    WorkloadInfo,
)
from scheduling.engine.reasons import eta
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, plan, pool, team, waiting
from scheduling.tests.proof.faults.times import NOW_MINUTE

A = (team("a"),)
EIGHT = [node("n0", 8)]


def etas(
    nodes: list[NodeInfo], teams: tuple[TeamInfo, ...], *rows: WorkloadInfo, **policy: Any
) -> dict[str, Eta]:
    """What everybody who waits is told."""
    topology = policy.pop("topology", ())
    found = plan(nodes, teams, rows, pool(topology=topology, **policy))
    return {wait.workload: wait.eta for wait in found.waits}


def minutes(found: dict[str, Eta]) -> dict[str, int | None]:
    """The same in minutes from now; a start is told as one time."""
    assert all(each.earliest == each.latest for each in found.values())
    return {
        name: None if each.latest is None else (each.latest - NOW) // MINUTE for name, each in found.items()
    }


def busy(gpus: int = 6, limit: int | None = 60, first: int = 0, **fields: Any) -> WorkloadInfo:
    """So many GPUs of the node n0, since half an hour."""
    on = ",".join(str(first + each) for each in range(gpus))
    if limit is not None:
        fields["limit"] = limit
    return placed(f"busy{first}", fields.pop("team", "a"), gpus, on=f"n0:{on}", started=30, **fields)


def test_behind_a_start_reservation_nobody_is_told_a_time_before_it() -> None:
    """The head has all eight GPUs from minute 30 to 90; the short one passes, the long one comes after."""
    rows = [
        busy(),
        waiting("head", "a", 8, limit=60, submitted=90),
        waiting("short", "a", limit=10),
        waiting("long", "a", limit=120),
    ]
    assert minutes(etas(EIGHT, A, *rows)) == {"head": 30, "long": 90}


def test_behind_the_head_nobody_is_told_a_time_in_the_peak() -> None:
    """Two GPUs come free in 30 minutes, the others in 60. The large ones are kept out from minute 15 to 180."""
    peak = PeakHours((WeeklyHours(NOW_MINUTE + 15, NOW_MINUTE + 180),), "UTC", 3000)
    rows = [
        busy(6, 60),
        busy(2, 90, first=6),
        waiting("head", "a", 8, limit=60, submitted=9),
        waiting("large", "a", 4, limit=60, submitted=8),
    ]
    assert minutes(etas(EIGHT, A, *rows, peak=peak, elastic_preemption=ElasticPreemption.NEVER)) == {
        "head": 180,
        "large": 240,
    }


def test_those_ahead_have_their_places_first() -> None:
    """Four GPUs come free at 10, four at 30: first and second take them, third follows the first of them to end."""
    rows = [
        busy(4, 40),
        busy(4, 60, first=4),
        waiting("first", "a", 4, limit=60, submitted=9),
        waiting("second", "a", 4, limit=20, submitted=8),
        waiting("third", "a", 4, limit=60, submitted=7),
    ]
    assert minutes(etas(EIGHT, A, *rows)) == {"first": 10, "second": 30, "third": 50}


def test_who_never_ends_leaves_nothing_to_those_behind() -> None:
    rows = [
        busy(8, 40),
        waiting("for ever", "a", 8, submitted=9),
        waiting("next", "a", 4, limit=1, submitted=8, priority=49),
        waiting("last", "a", 1, limit=1, submitted=7, priority=49),
    ]
    found = etas(EIGHT, A, *rows)
    assert minutes(found) == {"for ever": 10, "next": None, "last": None}
    assert found["next"] == eta.NO_ENDS
    assert found["last"].why == "next is ahead of it, and when that starts is not known."


def test_of_what_is_kept_without_a_time_nothing_comes_free_for_others() -> None:
    """The head needs all of n0, of which half never ends; n1 is for the other."""
    rows = [
        busy(4, None, priority=60),
        busy(4, 40, first=4, priority=60),
        placed("other", "a", 4, on="n1:0,1,2,3", started=30, limit=80, priority=60),
        waiting("head", "a", 8, submitted=9),
        waiting("next", "a", 4, submitted=8, limit=10),
    ]
    assert minutes(etas([*EIGHT, node("n1", 4)], A, *rows)) == {"head": None, "next": 50}


def test_the_pools_default_limit_counts() -> None:
    rows = [busy(8, None), waiting("first", "a", 8), waiting("next", "a", 8, submitted=9)]
    found = etas(EIGHT, A, *rows, default_time_limit_ms=45 * MINUTE)
    assert minutes(found) == {"first": 15, "next": 60}


def test_reserved_work_is_not_kept_waiting_by_elastic() -> None:
    """It can have the elastic GPUs at any time; the elastic one waits for both."""
    teams = (team("a", reserved=16), team("b"))
    rows = [
        busy(4, 60, priority=100),
        busy(4, 600, first=4, team="b"),
        waiting("hard", "a", 8, priority=100, limit=60),
        waiting("soft", "b", 1, limit=60),
    ]
    assert minutes(etas(EIGHT, teams, *rows)) == {"hard": 30, "soft": 90}


def test_a_gang_is_told_when_its_last_pod_fits_in_one_domain() -> None:
    nodes = [node(f"n{index}", 4, labels={"rack": f"r{index // 2}"}) for index in range(4)]
    ends = (40, 50, 35, 90)
    rows = [
        placed(f"x{index}", "a", 4, on=f"n{index}:0,1,2,3", started=30, limit=end)
        for index, end in enumerate(ends)
    ]
    gang = waiting("gang", "a", 4, pods=2, limit=30, submitted=9, topology=Topology(required="rack"))
    single = waiting("single", "a", 4, limit=30, submitted=8)
    assert minutes(etas(nodes, A, *rows, gang, single, topology=["rack"])) == {"gang": 20, "single": 5}


def test_fractions_share_what_comes_free() -> None:
    rows = [
        placed("x", "a", 0.5, on="n0:0", started=30, limit=40),
        placed("y", "a", 0.5, on="n0:0", started=30, limit=60),
        waiting("half", "a", 0.5, submitted=9, limit=60),
        waiting("quarter", "a", 0.25, submitted=8, limit=60),
        waiting("whole", "a", 1, submitted=7, limit=60),
    ]
    assert minutes(etas([node("n0", 1)], A, *rows)) == {"half": 10, "quarter": 30, "whole": 90}


def test_cpu_and_memory_come_free_too() -> None:
    nodes = [node("n0", 8, cpu_milli=8000, memory_mib=100)]
    rows = [
        busy(1, 40, cpu_milli=8000),
        busy(1, 60, first=1, memory_mib=100),
        waiting("cpu", "a", cpu_milli=4000, limit=60, submitted=9),
        waiting("memory", "a", memory_mib=50, limit=60, submitted=8),
        waiting("both", "a", cpu_milli=8000, memory_mib=50, limit=60, submitted=7),
    ]
    assert minutes(etas(nodes, A, *rows)) == {"cpu": 10, "memory": 30, "both": 70}


def test_who_waits_for_a_ceiling_is_told_when_it_has_room() -> None:
    teams = (team("top", maximum=4), team("a", "top"), team("b", "top"))
    rows = [
        busy(2, 50),
        busy(2, 90, first=2, team="b"),
        waiting("two", "a", 2, limit=60, submitted=9),
        waiting("four", "b", 4, limit=60, submitted=8, priority=40),
    ]
    assert minutes(etas(EIGHT, teams, *rows)) == {"two": 20, "four": 80}


def test_who_waits_for_a_burst_limit_is_told_when_it_has_room() -> None:
    teams = (team("a", reserved=4, burst_limit_percent=50),)
    rows = [busy(4, 50), busy(2, 90, first=4), waiting("w", "a", 3, limit=60)]
    assert minutes(etas(EIGHT, teams, *rows)) == {"w": 20}


def test_who_waits_for_a_guarantee_is_told_when_a_reserved_workload_of_it_ends() -> None:
    """Of the four that top lends, one is left; a's own two are in use until 20 and 60."""
    teams = (team("top", reserved=6), team("a", "top", reserved=2), team("b", "top"))
    rows = [
        busy(1, 50, priority=100),
        busy(1, 90, first=1, priority=100),
        busy(3, 120, first=2, team="b", priority=100),
        waiting("two", "a", 2, priority=100, limit=60, submitted=9),
        waiting("three", "a", 3, priority=100, limit=60, submitted=8),
    ]
    assert minutes(etas(EIGHT, teams, *rows)) == {"two": 20, "three": 80}


def test_who_is_above_a_ceiling_already_has_to_come_below_it_first() -> None:
    teams = (team("a", maximum=2),)
    rows = [busy(2, 50), busy(2, 90, first=2), waiting("w", "a", 1, limit=60)]
    assert minutes(etas(EIGHT, teams, *rows)) == {"w": 60}


def test_under_strict_fifo_nobody_is_told_a_time_before_those_ahead() -> None:
    rows = [
        busy(4, 60),
        busy(4, 40, first=4),
        waiting("head", "a", 8, limit=60, submitted=9),
        waiting("next", "a", 1, limit=1, submitted=8),
    ]
    found = etas(EIGHT, A, *rows, queueing=Queueing.STRICT_FIFO)
    assert minutes(found) == {"head": 30, "next": 90}


def test_where_whoever_fits_starts_only_single_gpus_are_told_a_time() -> None:
    rows = [
        busy(8, 40),
        waiting("eight", "a", 8, limit=60, submitted=9),
        waiting("one", "a", 1, limit=60, submitted=8),
    ]
    found = etas(EIGHT, A, *rows, queueing=Queueing.BEST_EFFORT_FIFO)
    assert (found["eight"], minutes(found)["one"]) == (eta.ANYBODY_PASSES, 70)


def test_far_back_in_the_queue_nobody_is_told_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eta, "REACH", 2)
    rows = [busy(8, 40), *(waiting(f"w{index}", "a", 8, limit=10) for index in range(3))]
    found = etas(EIGHT, A, *rows)
    assert minutes(found) == {"w0": 10, "w1": 20, "w2": None}
    assert found["w2"] == eta.FAR


def test_who_is_stopping_is_as_good_as_gone() -> None:
    rows = [
        placed("gone", "a", 4, on="n0:0,1,2,3", status=OpenStatus.STOPPING),
        busy(4, 40, first=4),
        waiting("w", "a", 8, limit=10),
    ]
    assert minutes(etas(EIGHT, A, *rows)) == {"w": 10}
