"""Groups of pools: who belongs together, and that changes arrive where decisions are made."""

from dataclasses import replace

import pytest

from scheduling.engine import GpuShare, OpenStatus, PoolInfo, Snapshot, TeamInfo, WorkloadInfo
from scheduling.simulation.group import PoolGroup, divided

from .builder import scenario

THREE = tuple(PoolInfo(name, name) for name in "pqr")
TEAM = (TeamInfo("a", "a"),)


def using(*pools: tuple[str, ...] | None) -> list[WorkloadInfo]:
    return [WorkloadInfo(str(n), str(n), "a", GpuShare(1000), pools=names) for n, names in enumerate(pools)]


@pytest.mark.parametrize(
    ("workloads", "parts"),
    [
        (using(("p",), ("q",)), ["p", "q", "r"]),
        (using(("p", "r")), ["pr", "q"]),
        (using(("r", "q"), ("q", "p")), ["pqr"]),
        (using(("p",), None), ["pqr"]),
        (using(("gone",), ("gone", "q")), ["p", "q", "r"]),
    ],
)
def test_pools_that_somebody_may_choose_from_are_one_group(
    workloads: list[WorkloadInfo], parts: list[str]
) -> None:
    here, later = workloads[:1], workloads[1:]
    found = divided(Snapshot(THREE, TEAM, (), tuple(here)), later)
    assert ["".join(pool.id for pool in part.pools) for part in found] == parts
    assert [each.id for part in found for each in part.workloads] == ["0"]


def test_an_organisation_without_pools_is_one_group() -> None:
    empty = Snapshot((), TEAM, (), tuple(using(None)))
    assert divided(empty, ()) == [empty]


def group() -> PoolGroup:
    return PoolGroup(scenario("name: x, team: a, status: running\nname: y, team: a").snapshot)


def test_a_group_decides_on_what_was_put_and_dropped() -> None:
    found = group()
    now = scenario("name: x, team: a").now
    assert found.plan(now).starts == ()
    found.drop("x")
    found.put(replace(found.workloads["y"], id="z", submitted_at=0))
    found.put(replace(found.workloads["y"], id="brief"))
    found.drop("brief")
    assert [start.workload for start in found.plan(now).starts] == ["z"]
    assert {each.id for each in found.snapshot().workloads} == {"y", "z"}


def test_one_that_went_may_come_back_at_once() -> None:
    found = group()
    workload = found.drop("x")
    found.put(workload)
    assert {each.id for each in found.snapshot().workloads} == {"x", "y"}


def test_a_group_is_idle_while_nobody_waits_or_could_grow() -> None:
    found = group()
    assert not found.idle
    waiting = found.drop("y")
    assert found.idle
    found.put(replace(found.workloads["x"], pods=2))
    assert not found.idle
    found.put(replace(found.workloads["x"], status=OpenStatus.STOPPING))
    assert found.idle
    found.put(waiting)
    assert not found.idle


def test_a_group_decides_with_the_teams_it_was_given() -> None:
    found = group()
    found.use_teams((replace(TEAM[0], weight=7),))
    assert found.snapshot().teams[0].weight == 7
