"""Who may pass the first blocked workload."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import ElasticPreemption, OpenStatus, Plan, Queueing, WorkloadInfo
from scheduling.engine.backfill.start_reservation import reserve_start
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, plan, pool, started, team, waiting, waits

A = [team("a")]
EIGHT = [node("n0", 8)]


def running(limit: int | None = 60) -> WorkloadInfo:
    """Six GPUs until half an hour from now."""
    fields: dict[str, Any] = {} if limit is None else {"limit": limit}
    return placed("busy", "a", 6, on="n0:0,1,2,3,4,5", started=30, **fields)


def decided(*rows: WorkloadInfo, queueing: Queueing = Queueing.BACKFILL, **policy: Any) -> Plan:
    return plan(EIGHT, A, rows, pool(queueing=queueing, **policy))


HEAD = waiting("head", "a", 8, submitted=90)


def test_the_first_blocked_workload_gets_a_start_reservation_and_an_eta() -> None:
    found = decided(running(), HEAD)
    reservation = found.reservations[0]
    assert (reservation.workload, reservation.nodes, reservation.at) == ("head", ("n0",), NOW + 30 * MINUTE)
    assert found.waits[0].eta.earliest == found.waits[0].eta.latest == NOW + 30 * MINUTE


def test_others_may_pass_if_they_end_in_time() -> None:
    found = decided(running(), HEAD, waiting("short", "a", limit=30), waiting("long", "a", limit=31))
    assert started(found) == {"short"}
    assert waits(found) == {"head": "waiting-for-gpus", "long": "behind-reservation"}


def test_the_pools_default_limit_counts_for_those_without_one() -> None:
    found = decided(running(None), HEAD, waiting("next", "a"), default_time_limit_ms=20 * MINUTE)
    assert found.reservations[0].at == NOW
    found = decided(running(), HEAD, waiting("next", "a"), default_time_limit_ms=20 * MINUTE)
    assert started(found) == {"next"}


def test_others_may_pass_if_they_take_nothing_the_reservation_needs() -> None:
    head = waiting("head", "a", 5, submitted=90)
    rows = [waiting("two", "a", 2), waiting("one", "a", 1, submitted=1)]
    found = decided(running(), head, *rows)
    assert started(found) == {"two"}
    assert waits(found)["one"] == "waiting-for-gpus"


def test_the_spare_room_is_used_once() -> None:
    head = waiting("head", "a", 7, submitted=90)
    found = decided(running(), head, waiting("first", "a", submitted=9), waiting("second", "a", submitted=8))
    assert started(found) == {"first"}
    assert waits(found)["second"] == "behind-reservation"


def test_without_ends_the_nodes_where_least_is_missing_are_kept() -> None:
    nodes = [node("n0", 4), node("n1", 4)]
    busy = [placed("x", "a", 3, on="n0:0,1,2"), placed("y", "a", 2, on="n1:0,1")]
    found = plan(
        nodes, A, [*busy, waiting("head", "a", 4, submitted=90), waiting("w", "a", 1), waiting("v", "a", 2)]
    )
    assert found.reservations[0].nodes == ("n1",)
    assert found.reservations[0].at is None
    assert started(found) == {"w"}
    assert waits(found)["v"] == "behind-reservation"


def test_others_may_pass_if_the_head_could_preempt_them_anyway() -> None:
    found = decided(running(), HEAD, waiting("low", "a", priority=10))
    assert started(found) == {"low"}


def test_but_not_before_somebody_who_was_held_back_and_could_use_what_they_take() -> None:
    found = decided(running(), HEAD, waiting("equal", "a"), waiting("low", "a", priority=10))
    assert started(found) == set()
    assert waits(found)["low"] == "behind-reservation"


def test_who_asks_the_same_as_one_who_was_held_back_is_held_back_as_long_as_there_is_a_place() -> None:
    first, second = waiting("first", "a", submitted=5), waiting("second", "a", submitted=1)
    for gpus, why in ((1, "behind-reservation"), (2, "waiting-for-gpus")):
        found = decided(running(), HEAD, first, waiting("short", "a", gpus, limit=30, submitted=3), second)
        assert started(found) == {"short"}
        assert waits(found) == {"head": "waiting-for-gpus", "first": "behind-reservation", "second": why}


def test_and_not_when_they_would_be_protected_at_that_time() -> None:
    low = waiting("low", "a", priority=10)
    assert started(decided(running(), HEAD, low, min_runtime_ms=31 * MINUTE)) == set()
    assert started(decided(running(), HEAD, low, min_runtime_ms=30 * MINUTE)) == {"low"}


def test_who_waits_for_quota_keeps_nothing() -> None:
    teams = [team("a", maximum=6), team("b")]
    rows = [running(), waiting("quota", "a", 6, priority=90), waiting("w", "b", 1)]
    found = plan(EIGHT, teams, rows, pool(elastic_preemption=ElasticPreemption.NEVER))
    assert (started(found), found.reservations) == ({"w"}, ())
    assert waits(found) == {"quota": "waiting-for-ceiling"}


def test_best_effort_starts_whoever_fits() -> None:
    found = decided(running(), HEAD, waiting("w", "a"), queueing=Queueing.BEST_EFFORT_FIFO)
    assert (started(found), found.reservations) == ({"w"}, ())


def test_under_strict_fifo_nobody_passes() -> None:
    low, short = waiting("low", "a", priority=10), waiting("short", "a", limit=1)
    found = decided(running(), HEAD, low, short, queueing=Queueing.STRICT_FIFO)
    assert started(found) == set()
    assert waits(found) == {
        "head": "waiting-for-gpus",
        "low": "behind-reservation",
        "short": "behind-reservation",
    }


def test_under_strict_fifo_who_waits_for_quota_may_be_passed() -> None:
    teams = [team("a", maximum=6), team("b")]
    rows = [running(), waiting("quota", "a", 6, priority=90), waiting("w", "b", 1)]
    policy = pool(queueing=Queueing.STRICT_FIFO, elastic_preemption=ElasticPreemption.NEVER)
    assert started(plan(EIGHT, teams, rows, policy)) == {"w"}


def test_nodes_reserved_for_reserved_work_are_reckoned_without_the_elastic_on_them() -> None:
    """The reserved newcomer waits for the reserved four; the elastic four it can have at any time."""
    teams = [team("a", reserved=16)]
    rows = [
        placed("hard", "a", 4, on="n0:0,1,2,3", priority=100, started=30, limit=60),
        placed("soft", "a", 4, on="n0:4,5,6,7"),
        waiting("head", "a", 8, priority=100),
    ]
    found = plan(EIGHT, teams, rows)
    assert (started(found), found.reservations[0].at) == (set(), NOW + 30 * MINUTE)


def held_after(
    ledger: KeptLedger, request: PodRequest, over: list[WorkloadInfo]
) -> dict[tuple[str, ...], dict[int, int]]:
    """By domain how many pods each node holds when these are over, found by looking at all of them."""
    free = [node_free.copy() for node_free in ledger.later.free]
    for workload in over:
        for pod in workload.placements:
            rank, picks = ledger.spot(pod) or (0, ())
            free[rank].change(picks, 0, 0, 1)
    return {
        domain.key: {rank: pods_in(free[rank], costs, request) for rank, costs in ledger.nodes.ranks(domain)}
        for domain in ledger.nodes.domains(request)[-1]
    }


ENDS = st.lists(st.one_of(st.none(), st.integers(1, 4)), min_size=4, max_size=8)


@given(ENDS, st.integers(2, 4), st.sampled_from([1, 2]))
@settings(deadline=None)
def test_a_start_is_reserved_where_the_pods_fit_first_whatever_held_none_before(
    ends: list[int | None], pods: int, gpus: int
) -> None:
    """Four nodes in two clusters. Each of their GPUs is in use until that hour, or free."""
    nodes = [node(f"n{at}", 2, cluster="east" if at < 2 else "west") for at in range(4)]
    rows = [(end, placed(f"w{at}", "a", on=f"n{at // 2}:{at % 2}")) for at, end in enumerate(ends) if end]
    rows.sort(key=lambda row: (row[0], row[1].id))
    fleet, request = Nodes(pool(), nodes, ()), PodRequest.of(waiting("head", "a", gpus, pods=pods))
    ledger = KeptLedger(fleet, [row for _, row in rows])
    tally = IndexedPods(ledger, request, fleet.domains(request)[-1])
    leaving = [(end, row, row.placements) for end, row in rows]
    kept = reserve_start(ledger, request, pods, leaving, (), tally=tally)
    for count, (at, _) in enumerate(rows, 1):
        held = held_after(ledger, request, [row for _, row in rows[:count]])
        fitting = {key: nodes for key, nodes in held.items() if sum(nodes.values()) >= pods}
        if fitting:
            best = min(fitting, key=lambda key: (sum(fitting[key].values()), key))
            there = [fitting[best].get(rank, 0) for rank in kept.extra]
            assert (kept.at, 0 in there) == (at, False)
            assert sum(there) >= pods > sum(there) - min(there)
            return
    assert kept.at is None


def test_a_head_that_starts_in_another_pool_keeps_no_start_reservation() -> None:
    """What taker's victim leaves over in main is given to w, which has been the head of spare until then."""
    nodes = [node("n0", 4, pool="spare"), node("n1", 4)]
    rows = [
        placed("old", "a", on="n1:0 n1:1 n1:2"),
        placed("rest", "a", 0.5, on="n1:3 n1:3", min_pods=1, status=OpenStatus.QUEUED, preemptions_24h=1),
        placed("x", "c", 0.5, on="n0:2 n0:2 n0:3", min_pods=2, pool="spare"),
        waiting("first", "b", 2, limit=10),
        waiting("w", "d", pods=2),
        waiting("taker", "c", priority=10),
    ]
    pools = (
        pool(elastic_preemption=ElasticPreemption.FAIR_SHARE, max_preemptions=1),
        pool("spare"),
    )
    found = plan(nodes, [team(name) for name in "abcd"], rows, *pools)
    assert started(found) == {"first", "taker", "w"}
    assert not found.reservations
