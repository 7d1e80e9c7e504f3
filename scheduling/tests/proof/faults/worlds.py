"""Worlds in which faults show, and what the tables of faults have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scheduling.checker import BrokenRule
from scheduling.engine import (
    DeviceShare,
    Fairness,
    OpenStatus,
    Plan,
    PoolInfo,
    ReasonCode,
    Snapshot,
    Topology,
    WorkloadInfo,
)
from scheduling.tests.engine.build import node, placed, pool, snapshot, team, waiting
from scheduling.tests.proof.plants import Plant, garbled

A, B = team("a"), team("b")


@dataclass(frozen=True)
class Fault:
    """One planted fault."""

    name: str
    rule: BrokenRule
    world: Snapshot
    plant: Plant


def world(*rows: Any, pools: tuple[PoolInfo, ...] = (), teams: tuple[Any, ...] = (A, B)) -> Snapshot:
    """A world of nodes and workloads, in any order."""
    nodes = [row for row in rows if not isinstance(row, WorkloadInfo)]
    return snapshot(nodes, teams, [row for row in rows if isinstance(row, WorkloadInfo)], *pools)


def each(kind: str, change: Callable[[Any], Any]) -> Plant:
    """A plan of which the rows of a kind are handed out changed."""

    def garble(plan: Plan) -> Plan:
        rows = tuple(change(row) for row in getattr(plan, kind))
        return replace(plan, **{kind: tuple(row for row in rows if row is not None)})

    return garbled(garble)


def reason(code: ReasonCode) -> Callable[[Any], Any]:
    """Rows with another code."""
    return lambda row: replace(row, reason=replace(row.reason, code=code))


def without(kind: str) -> Plant:
    return garbled(lambda plan: replace(plan, **{kind: ()}))


def off_by_one(row: Any) -> Any:
    return replace(row, entitlement_milli=row.entitlement_milli + (row.team == "a"))


def on_device_0(row: Any) -> Any:
    pods = tuple(replace(pod, devices=(DeviceShare(0, pod.milli),)) for pod in row.placements)
    return replace(row, placements=pods)


def sharing_a_device(id_: str) -> WorkloadInfo:
    return placed(id_, "a", 0.5, on="n:0")


FULL = world(node("n", 2), placed("r", "a", on="n:0 n:1"), waiting("w", "a"))
RACKS = world(
    node("n0", 2, labels={"rack": "r0"}),
    node("n1", 2, labels={"rack": "r1"}),
    placed("r0", "a", on="n0:0"),
    placed("r1", "a", on="n1:0"),
    waiting("w", "a", pods=2, topology=Topology(required="rack")),
    pools=(pool(topology=["rack"]),),
)
NEAR = world(
    node("n0", 2, labels={"rack": "r0"}),
    node("n1", 2, labels={"rack": "r1"}),
    placed("r0", "a", on="n0:0"),
    waiting("w", "a", pods=2, topology=Topology(preferred="rack")),
    pools=(pool(topology=["rack"]),),
)
STOPPING = world(node("n", 1), placed("s", "a", on="n:0", status=OpenStatus.STOPPING), waiting("w", "b"))
PROMISED = world(
    node("n", 2),
    placed("s", "a", on="n:0", status=OpenStatus.STOPPING),
    placed("w", "b", on="n:0", status=OpenStatus.QUEUED, pods=2, min_pods=1),
)
RESERVE = world(
    node("n", 4),
    placed("r", "b", on="n:0 n:1 n:2 n:3", pods=4, min_pods=4),
    waiting("w", "a", 2, priority=100),
    teams=(team("top"), team("a", "top", reserved=2), team("b", "top")),
)
FAMILY = (team("top", reserved=4), team("a", "top", reserved=1), team("b", "top", reserved=2))
GUARANTEES = world(node("n", 8), waiting("w", "a", 2, priority=100), teams=FAMILY)
BEYOND = world(node("n", 8), waiting("w", "a", 3, priority=100), teams=FAMILY)
MAXIMUM = world(node("n", 8), placed("r", "a", on="n:0"), waiting("w", "a", 2), teams=(team("a", maximum=2),))
BURST = world(
    node("n", 8),
    placed("r", "a", on="n:0"),
    waiting("w", "a", 2),
    teams=(team("a", reserved=1, burst_limit_percent=100),),
)
UNDER_TOP = world(
    node("n", 8),
    placed("r", "b", 2, on="n:0,1"),
    waiting("w", "a", 2),
    teams=(team("top", maximum=3), team("a", "top"), team("b", "top")),
)
WANTED = (
    *(waiting(f"wa{i}", "a") for i in range(5)),
    *(waiting(f"wb{i}", "b", priority=40) for i in range(5)),
)
SHARES = world(
    node("n", 5),
    *(placed(f"r{i}", "a", on=f"n:{i}") for i in range(5)),
    *WANTED,
    teams=(team("a", weight=3), team("b", weight=1)),
)
QUEUE = world(
    node("n", 1),
    placed("r", "a", on="n:0", priority=90),
    waiting("old", "a", priority=50, submitted=90),
    waiting("new", "a", priority=60, submitted=10),
    waiting("newer", "a", priority=60, submitted=5),
)
USED = world(
    node("n", 2),
    placed("ra", "a", on="n:0", priority=90),
    placed("rb", "b", on="n:1", priority=90),
    waiting("wa", "a", submitted=10),
    waiting("wb", "b", submitted=20),
    pools=(pool(fairness=Fairness.USAGE),),
    teams=(team("a", usage_hours=1), team("b", usage_hours=3)),
)
LARGE_FIRST = (
    node("n", 4),
    placed("r", "a", on="n:0 n:1", pods=2, min_pods=2, priority=90),
    waiting("large", "a", 4, priority=60),
    waiting("small", "b", priority=50),
)
IMPORTANT = (
    node("n", 2),
    placed("one", "a", on="n:0", priority=10, started=30, preemptions_24h=1),
    placed("two", "a", on="n:1", priority=20, started=30, preemptions_24h=1),
    waiting("w", "b", priority=60),
)
GANG = world(
    node("n", 3),
    placed("r", "a", on="n:0 n:1 n:2", pods=3, min_pods=3, priority=10),
    waiting("w", "b", priority=60),
)
GROWS = world(node("n", 4), placed("r", "a", on="n:0", pods=3, min_pods=1))
EQUAL = world(
    node("n", 4),
    *(placed(f"a{i}", "a", on=f"n:{i}") for i in (0, 1)),
    *(placed(f"b{i}", "b", on=f"n:{i}") for i in (2, 3)),
    waiting("w", "b"),
)
IN_THE_WAY = world(
    node("n0", 2),
    node("n1", 2),
    node("n2", 2),
    placed("low", "b", on="n0:0", priority=10),
    placed("firm", "a", on="n0:1", priority=100),
    placed("x", "b", on="n1:0", priority=20),
    placed("y", "b", on="n1:1", priority=20),
    waiting("w", "b", 2, pods=2, priority=60),
    teams=(team("a", reserved=1), B),
)
