"""VictimSet for gangs that may take anybody, in one domain of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling.acceleration import find_victims as searched
from scheduling.acceleration import kept_cycle
from scheduling.acceleration.search_context import SearchContext
from scheduling.acceleration.sweep import Mask, Sweep
from scheduling.acceleration.takeable import NEVER, PlaceVictims
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine import OpenStatus, Snapshot, Topology, WorkloadInfo, schedule
from scheduling.engine.preemption.search import PreemptionRequest, VictimSet
from scheduling.tests.engine.build import (
    NOW,
    node,
    nodes_of,
    placed,
    plan,
    pool,
    preempted,
    snapshot,
    team,
    waiting,
)

RACKS = ("x", "y", "z")
TEAMS = [team("t"), team("a", "t"), team("b", "t"), team("c"), team("res", reserved=8)]


@st.composite
def full_racks(draw: st.DrawFn) -> Snapshot:
    """Three racks of nodes that are full of all sorts of workloads, and a reserved gang that needs one of them."""
    nodes = [node(f"{rack}{at}", 2, labels={"rack": rack}) for rack in RACKS for at in range(2)]
    rows: list[WorkloadInfo] = []
    for place in nodes:
        for device in range(2):
            for part in draw(st.sampled_from([(0.5,), (0.5,), (0.5, 0.25), (0.75,)])):
                rows.append(_pods_on(draw, len(rows), f"{place.id}:{device}", part))
    rows += [_wide(draw, 0, nodes[0].id, nodes[2].id), _wide(draw, 1, nodes[4].id, nodes[5].id)]
    size = draw(st.sampled_from([(2, 2), (4, 1), (3, 1), (2, 1), (4, 0.5), (7, 0.25), (9, 0.25)]))
    gang = waiting("gang", "res", size[1], pods=size[0], priority=100, topology=Topology(required="rack"))
    return snapshot(nodes, TEAMS, [*rows, gang], pool(topology=["rack"]))


def _pods_on(draw: st.DrawFn, number: int, on: str, gpus: float) -> WorkloadInfo:
    fields: dict[str, Any] = {
        "priority": draw(st.sampled_from([10, 50, 50, 90])),
        "started": draw(st.sampled_from([1, 10, 10, 60])),
        "status": draw(
            st.sampled_from([OpenStatus.RUNNING, OpenStatus.RUNNING, OpenStatus.STARTING, OpenStatus.QUEUED])
        ),
    }
    return placed(f"w{number:02}", draw(st.sampled_from("abc")), gpus, on=on, **fields)


def _wide(draw: st.DrawFn, number: int, *on: str) -> WorkloadInfo:
    """A workload with pods on two nodes, of which it may give one."""
    spots = " ".join(f"{name}:{number}" for name in on)
    return placed(
        f"wide{number}", draw(st.sampled_from("abc")), 0.25, on=spots, min_pods=draw(st.integers(1, 2))
    )


@given(full_racks())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tier_by_tier_it_finds_victims_where_the_step_by_step_search_does_none_of_them_dearer(
    monkeypatch: pytest.MonkeyPatch, world: Snapshot
) -> None:
    with monkeypatch.context() as patch:
        swept = _dearest(patch, world)
        patch.setattr(searched, "_cheapest_domain", lambda *_: None)
        assert _dearest(patch, world) == swept


def _dearest(patch: pytest.MonkeyPatch, world: Snapshot) -> list[Any]:
    """The tier of the dearest victim of each newcomer that finds some."""
    dearest: list[Any] = []

    def find_victims(context: SearchContext, request: PreemptionRequest) -> VictimSet | None:
        found = searched.find_victims(context, request)
        dearest.append(found and found.cost[0])
        return found

    patch.setattr(kept_cycle, "find_victims", find_victims)
    schedule(world, NOW)
    return dearest


@given(full_racks())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_victims_go_if_it_is_tried_with_each_whether_he_can_be_spared(
    monkeypatch: pytest.MonkeyPatch, world: Snapshot
) -> None:
    found = schedule(world, NOW)
    with monkeypatch.context() as patch:
        patch.setattr(PlaceVictims, "missed", lambda self, *_: np.zeros(len(self.row_of), np.int64))
        assert schedule(world, NOW) == found


@given(full_racks())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_victims_go_if_every_place_is_looked_at_turn_by_turn(
    monkeypatch: pytest.MonkeyPatch, world: Snapshot
) -> None:
    found, first_with_room = schedule(world, NOW), PlaceVictims.first_with_room

    def checked(*args: Any) -> Ints:
        first = first_with_room(*args)
        assert first.tolist() == _turn_by_turn(*args).tolist()
        return first

    with monkeypatch.context() as patch:
        patch.setattr(PlaceVictims, "first_with_room", checked)
        patch.setattr(Sweep, "least_lost", lambda _: 0)
        assert schedule(world, NOW) == found


def _turn_by_turn(found: PlaceVictims, gone: Mask, turn: Ints, pods: int) -> Ints:
    """What :meth:`PlaceVictims.first_with_room` finds, by letting go one turn after the other."""
    place = found.place_nodes.place
    first = np.full(len(found.place_nodes.uniform), NEVER)
    for each in range(int(turn.max(initial=-1)) + 1):
        held = np.bincount(place, found.free(gone | ((turn >= 0) & (turn <= each))).pods(), len(first))
        first = np.where((held >= pods) & (first == NEVER), each, first)
    return first


def test_a_workload_has_its_place_in_the_order_by_what_all_its_pods_lose() -> None:
    """A pod of a goes first; then b and c, who lose 30 and 35 GPU-minutes, come before all of a, which loses 40."""
    rows = [placed("a", "a", on="x0:0 x0:1", min_pods=1, started=20), placed("b", "a", on="x1:0", started=30)]
    rows += [placed("c", "a", on="x1:1", started=35)]
    rows += [placed(f"r{at}", "res", on=f"y{at // 2}:{at % 2}", priority=100) for at in range(4)]
    rows.append(waiting("gang", "res", pods=3, priority=100, topology=Topology(required="rack")))
    nodes = [node(f"{rack}{at}", 2, labels={"rack": rack}) for rack in "xy" for at in range(2)]
    found = plan(nodes, TEAMS, rows, pool(topology=["rack"]))
    assert preempted(found) == {"b", "c"}
    assert [(row.workload, row.pods) for row in found.shrinks] == [("a", (1,))]


def test_of_the_cheapest_domain_those_are_spared_without_whom_another_does() -> None:
    """Emptying x costs less than what the order takes in y: the halves of c first. As a and b go from x they also go
    from y, and there is place for the gang without d."""
    rows = [placed("d", "a", on="x0:0", started=10)]
    rows += [placed(name, "a", on=f"x0:{at} y0:{at}", started=10) for at, name in ((1, "a"), (2, "b"))]
    rows += [placed(name, "c", 0.5, on="y0:0", started=100) for name in ("h", "i")]
    rows.append(waiting("gang", "res", pods=3, priority=100, topology=Topology(required="rack")))
    nodes = [node("x0", 3, labels={"rack": "x"}), node("y0", 4, labels={"rack": "y"})]
    teams = [team("a", reserved=5), team("c"), team("res", reserved=3)]
    found = plan(nodes, teams, rows, pool(topology=["rack"]))
    assert (preempted(found), nodes_of(found, "gang")) == ({"a", "b"}, ["y0"])


def test_a_preferred_level_counts_inside_the_domain_where_the_victims_were() -> None:
    """A gang of two needs a block and would like a rack: b1 is emptied, and it goes to one rack of it."""
    nodes = [
        node(f"{block}{rack}{at}", 1, labels={"block": block, "rack": f"{block}{rack}"})
        for block in ("b0", "b1")
        for rack in "xy"
        for at in range(2)
    ]
    rows = [
        placed(each.id, "a", on=f"{each.id}:0", priority=100) for each in nodes if each.id.startswith("b0")
    ]
    rows += [placed("wide", "c", on="b1x0:0 b1y0:0 b1y1:0")]
    gang = waiting("gang", "res", pods=2, priority=100, topology=Topology(required="block", preferred="rack"))
    teams = [team("a", reserved=4), team("c"), team("res", reserved=2)]
    found = plan(
        nodes, teams, [*rows, placed("one", "c", on="b1x1:0"), gang], pool(topology=["block", "rack"])
    )
    assert nodes_of(found, "gang") == ["b1y0", "b1y1"]


def test_who_leaves_a_device_that_is_of_no_use_any_more_is_spared_too() -> None:
    """Three of x's GPUs are needed; r, p, q and wide leave all four. Without q there are three; then p is in vain."""
    nodes = [node("x0", 4, labels={"rack": "x"}), node("y0", 1, labels={"rack": "y"})]
    rows = [
        placed("r", "c", on="x0:3", started=1),
        placed("p", "c", 0.5, on="x0:0", started=10),
        placed("q", "c", 0.5, on="x0:0", started=20),
        placed("wide", "c", on="x0:1 x0:2", started=60),
        placed("other", "a", on="y0:0", priority=100),
    ]
    gang = waiting("gang", "res", pods=3, priority=100, topology=Topology(required="rack"))
    teams = [team("a", reserved=1), team("c"), team("res", reserved=3)]
    assert preempted(plan(nodes, teams, [*rows, gang], pool(topology=["rack"]))) == {"r", "wide"}


def test_no_victims_are_sought_in_a_domain_that_is_kept_whole_for_somebody_else() -> None:
    """first waits for all of rack x, where somebody reserved lies; what second could take there is not for it."""
    nodes = [node(f"x{at}", 2, labels={"rack": "x"}) for at in range(2)] + [
        node("y0", 1, labels={"rack": "y"})
    ]
    rows = [placed(f"held{at}", "res", on=f"x{at}:0", priority=100) for at in range(2)]
    rows += [placed(f"lent{at}", "a", on=f"x{at}:1") for at in range(2)] + [placed("other", "a", on="y0:0")]
    rack = Topology(required="rack")
    rows += [waiting("first", "res", 2, pods=2, priority=110, topology=rack)]
    rows += [waiting("second", "res", pods=2, priority=100, topology=rack)]
    found = plan(nodes, TEAMS, rows, pool(topology=["rack"]))
    assert (found.starts, found.preemptions) == ((), ())
    assert {wait.workload for wait in found.waits} == {"first", "second"}
