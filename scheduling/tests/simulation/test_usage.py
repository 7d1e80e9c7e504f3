"""Use that decays while the clock runs."""

import pytest

from scheduling.engine import HOUR_MS, Fairness, Policy, PoolInfo, Snapshot, TeamInfo, TeamShare
from scheduling.simulation.usage import Meter, TeamUsage

from .builder import HOUR, run, scenario


def test_what_is_held_for_ever_approaches_the_half_life_over_ln_2() -> None:
    meter = Meter(half_life_ms=HOUR_MS, at=0, held_milli=1000)
    assert meter.read(100 * HOUR_MS) == pytest.approx(HOUR_MS * 1.442695)


def test_use_halves_every_half_life() -> None:
    meter = Meter(half_life_ms=HOUR_MS, at=0, used_gpu_ms=8.0)
    assert meter.read(3 * HOUR_MS) == 1.0


def test_it_makes_no_difference_when_somebody_looks() -> None:
    often, once = (Meter(half_life_ms=HOUR_MS, at=0, used_gpu_ms=5e6, held_milli=2500) for _ in range(2))
    for minute in range(1, 120):
        often.read(minute * 60_000)
    assert often.read(2 * HOUR_MS) == pytest.approx(once.read(2 * HOUR_MS))


def test_only_pools_whose_fairness_is_by_usage_count() -> None:
    by_usage = PoolInfo("u", "u", Policy(fairness=Fairness.USAGE, usage_half_life_ms=HOUR_MS))
    teams = (
        TeamInfo("a", "a", shares=(TeamShare("p", usage_gpu_ms=4), TeamShare("u", 3000, usage_gpu_ms=4))),
    )
    usage = TeamUsage(Snapshot((by_usage, PoolInfo("p", "p")), teams, (), ()), 0)
    usage.hold("a", "p", 1000, 0)
    assert (usage.counts("u"), usage.counts("p")) == (True, False)
    assert usage.teams(HOUR_MS)[0].shares == (
        TeamShare("p", usage_gpu_ms=4),
        TeamShare("u", 3000, usage_gpu_ms=2),
    )


def test_who_has_used_less_comes_first() -> None:
    pools = "pools: [{name: main, policy: {fairness: usage}, nodes: [{name: n0, gpus: 1}]}]"
    rows = """\
name: "x-{i}", count: 3, team: a, duration: 10m, submitted: -1h
name: "y-{i}", count: 3, team: b, duration: 20m, submitted: 0s"""
    _, diary = run(scenario(rows, pools=pools, teams="teams: [{name: a}, {name: b}]"), 2 * HOUR)
    assert [name[0] for _, name in diary.starts] == ["x", "y", "x", "x", "y", "y"]
