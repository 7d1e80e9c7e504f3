"""What differs between two futures: figures, who starts, who yields and for whom, who waits otherwise."""

from typing import Any

from scheduling.engine import (
    AfterPreemption,
    FindingCode,
    OpenStatus,
    Policy,
    Rule,
    Slicing,
    Snapshot,
    WorkloadInfo,
)
from scheduling.tests.engine.build import NOW, node, placed, snapshot, team, waiting
from scheduling.whatif.draft import DraftEdits, TeamDraft
from scheduling.whatif.effect import Change, Effect, between
from scheduling.whatif.future import Oracle

EIGHT = "0,1,2,3,4,5,6,7"


def organisation(
    *workloads: WorkloadInfo, nodes: int = 1, research: float = 0, production: float = 0
) -> Snapshot:
    """Return one pool of eights.

    acme
    ├── research
    └── production
    """
    rows = [node(f"n{number}") for number in range(nodes)]
    teams = [
        team("acme"),
        team("research", "acme", reserved=research),
        team("production", "acme", reserved=production),
    ]
    return snapshot(rows, teams, workloads)


def full_of(of: str, **fields: Any) -> list[WorkloadInfo]:
    return [placed(f"run-{number}", of, on=f"n0:{number}", **fields) for number in range(8)]


def effect(before: Snapshot, draft: DraftEdits) -> Effect:
    oracle, after = Oracle(before), draft.on(before)
    futures = oracle.future(before, NOW), oracle.future(after, NOW)
    return between(*futures, before, after, newcomers=draft.newcomers, draining=draft.draining(before))


def reserving(team_name: str, gpus: int) -> DraftEdits:
    return DraftEdits(teams={team_name: TeamDraft(shares={"main": {"reservation_milli": gpus * 1000}})})


def changes(found: Effect) -> dict[str, Change]:
    return {row.workload: row.change for row in found.workloads}


def test_a_draft_of_nothing_changes_nothing() -> None:
    rows = organisation(*full_of("research"), waiting("w", "production"))

    assert not effect(rows, DraftEdits())
    assert DraftEdits().on(rows) == rows


def test_a_guarantee_tells_figures_of_its_team_and_of_those_above() -> None:
    found = effect(organisation(waiting("w", "research", 4)), reserving("research", 4))

    rows = {row.team: row for row in found.teams}
    assert set(rows) == {"acme", "research"}
    assert (rows["research"].before.guarantee_milli, rows["research"].after.guarantee_milli) == (0, 4000)


def test_who_reclaims_starts_and_the_victims_are_named_with_rule_and_beneficiary() -> None:
    rows = organisation(*full_of("research"), waiting("mine", "production", 2, priority=100))
    found = effect(rows, reserving("production", 2))

    assert changes(found)["mine"] is Change.STARTS
    victims = [row for row in found.workloads if row.change is Change.PREEMPTED]
    assert [(row.yielding.by, row.yielding.rule) for row in victims if row.yielding] == [
        ("mine", Rule.RESERVED)
    ] * 2
    assert {(count.change, count.team): count.gpus_milli for count in found.counts} == {
        (Change.PREEMPTED, "research"): 2000,
        (Change.STARTS, "production"): 2000,
    }


def test_a_victim_that_finds_another_place_in_the_next_cycle_comes_back() -> None:
    """Topology keeps the newcomer off the idle node; its victim runs there one cycle later."""
    rows = organisation(
        placed("victim", "research", 8, on=f"n0:{EIGHT}"),
        waiting("mine", "production", 8, priority=100, node_selector=(("kind", "fast"),)),
    )
    fast = node("n0", labels={"kind": "fast"})
    rows = snapshot([fast, node("n1")], rows.teams, rows.workloads)
    found = effect(rows, reserving("production", 8))

    (victim,) = [row for row in found.workloads if row.change is Change.PREEMPTED]
    assert (victim.workload, victim.comes_back) == ("victim", True)
    assert found.cycles == 2
    assert found.settled


def test_a_victim_that_wants_no_second_try_ends() -> None:
    rows = organisation(
        placed("victim", "research", 8, on=f"n0:{EIGHT}", on_preemption=AfterPreemption.STOP),
        waiting("mine", "production", 8, priority=100),
    )
    found = effect(rows, reserving("production", 8))

    (victim,) = [row for row in found.workloads if row.change is Change.PREEMPTED]
    assert (victim.ends, victim.comes_back) == (True, False)


def test_who_would_be_preempted_anyway_is_no_difference_and_who_is_not_any_more_is_spared() -> None:
    rows = organisation(*full_of("research", priority=10), waiting("mine", "production", 3, priority=60))
    found = effect(rows, DraftEdits(pools={"main": {"policy": Policy(max_preemptions=5)}}))
    spared = effect(rows, DraftEdits(pools={"main": {"policy": Policy(min_runtime_ms=10**12)}}))

    assert not found
    assert [row.change for row in spared.workloads].count(Change.SPARED) == 3
    assert changes(spared)["mine"] is Change.NO_LONGER_STARTS


def test_a_gang_that_gives_up_pods_is_shrunk() -> None:
    rows = organisation(
        placed("gang", "research", 2, min_pods=2, on="n0:0,1 n0:2,3 n0:4,5 n0:6,7"),
        waiting("mine", "production", 2, priority=100),
    )
    found = effect(rows, reserving("production", 2))

    assert changes(found)["gang"] is Change.SHRUNK


def test_another_reason_is_told_with_both() -> None:
    rows = organisation(*full_of("research"), waiting("w", "production", 2, priority=10))
    found = effect(rows, DraftEdits(pools={"main": {"paused": True}}))

    (row,) = found.workloads
    assert row.change is Change.OTHER_REASON
    assert row.before is not None
    assert row.after is not None
    assert (row.before.reason.code, row.after.reason.code) == ("waiting-for-gpus", "pool-paused")


def test_who_falls_back_in_the_queue_waits_longer_and_who_passes_him_less() -> None:
    rows = organisation(
        *full_of("research", priority=70),
        waiting("one", "research", 2, submitted=9),
        waiting("two", "production", 2, submitted=5),
    )
    found = effect(rows, reserving("research", 8))

    assert changes(found) == {"one": Change.WAITS_LESS, "two": Change.WAITS_LONGER}


def test_guarantees_above_the_capacity_are_found_with_whose_they_are() -> None:
    found = effect(organisation(research=5, production=2), reserving("production", 6))

    (finding,) = found.findings
    assert finding.code is FindingCode.OVERSUBSCRIBED
    assert {row.team: row.guarantee_milli for row in found.guarantees} == {
        "research": 5000,
        "production": 6000,
    }


def test_a_warning_that_stood_before_is_not_told_again() -> None:
    assert not effect(organisation(research=9), reserving("research", 9)).findings


def test_a_cordoned_node_takes_its_gpus_out_and_keeps_what_it_runs() -> None:
    rows = organisation(placed("run", "research", 4, on="n0:0,1,2,3"), waiting("w", "research", 8), nodes=2)
    found = effect(rows, DraftEdits(cordoned={"n1": True}))

    (row,) = found.pools
    assert (row.before.capacity_milli, row.after.capacity_milli) == (16_000, 8000)
    assert changes(found) == {"w": Change.NO_LONGER_STARTS}


def test_a_drained_node_sends_elastic_work_elsewhere_or_back_and_waits_for_reserved() -> None:
    rows = organisation(
        placed("moves", "research", 4, on="n0:0,1,2,3", priority=60),
        placed("waits", "research", 2, on="n0:4,5"),
        placed("ends", "research", on="n0:6", on_preemption=AfterPreemption.STOP),
        placed("firm", "production", on="n0:7", priority=100),
        placed("other", "research", 4, on="n1:0,1,2,3"),
        nodes=2,
        production=1,
    )
    found = effect(rows, DraftEdits(drained=frozenset({"n0"})))

    (pool,) = found.pools
    assert (pool.after.capacity_milli, pool.after.in_use_milli) == (8000, 9000)
    assert changes(found) == {
        "firm": Change.BLOCKS,
        "moves": Change.PREEMPTED,
        "waits": Change.PREEMPTED,
        "ends": Change.PREEMPTED,
    }
    by_name = {row.workload: row for row in found.workloads}
    assert [by_name[name].comes_back for name in ("moves", "waits", "ends")] == [True, False, False]
    assert (by_name["waits"].after is not None, by_name["ends"].ends) == (True, True)


def test_a_gang_on_several_nodes_leaves_a_drained_one_by_the_pods_above_its_minimum() -> None:
    rows = organisation(
        placed("wide", "research", on="n1:0 n1:1 n0:0", min_pods=2),
        placed("narrow", "research", on="n0:1 n1:2", min_pods=1, status=OpenStatus.QUEUED),
        nodes=2,
    )
    found = effect(rows, DraftEdits(drained=frozenset({"n0"})))

    assert changes(found) == {"wide": Change.SHRUNK, "narrow": Change.PREEMPTED}


def test_a_newcomer_says_what_becomes_of_it() -> None:
    rows = organisation(*full_of("research", priority=10))
    found = effect(rows, DraftEdits(newcomers=(waiting("new", "production", 2, priority=60),)))
    never = effect(rows, DraftEdits(newcomers=(waiting("new", "production", 9),)))

    assert found.newcomers["new"].pool == "main"
    assert [row.change for row in found.workloads] == [Change.PREEMPTED] * 2
    assert set(never.newcomers) == {"new"}
    assert not never.workloads


def test_many_are_counted_and_the_first_hundred_named() -> None:
    rows = organisation(*[waiting(f"w{number:03d}", "production", 1) for number in range(150)], nodes=20)
    found = effect(rows, DraftEdits(pools={"main": {"paused": True}}))

    assert len(found.workloads) == 100
    assert [count.workloads for count in found.counts] == [150]


def test_who_starts_on_slices_counts_with_their_share() -> None:
    """Two pods that name a slice are less than one GPU."""
    cut = node("cut", 2, gpu_type="mig", slices=Slicing.MIG, share=429)
    sliced = waiting("sliced", "research", pods=2, priority=100, gpu_types=("mig",))
    rows = snapshot([cut], [team("acme"), team("research", "acme")], [sliced])

    (row,) = effect(rows, reserving("research", 1)).workloads

    assert (row.workload, row.change, row.gpus_milli) == ("sliced", Change.STARTS, 858)
    assert (row.slices, row.slices_milli) == (2, 858)


def test_slices_count_with_their_share_also_of_those_in_no_queue_and_of_the_preempted() -> None:
    """Of a paused pool nobody is in the queue; a replica goes to a part of a GPU that names none."""
    cut = node("cut", 2, gpu_type="mig", slices=Slicing.MIG, share=429)
    replicas = node("replicas", 1, gpu_type="shared", slices=Slicing.REPLICAS, share=500)
    rows = snapshot(
        [cut, replicas, node("n0", 1)],
        [team("acme"), team("research", "acme", reserved=1), team("production", "acme")],
        [
            waiting("sliced", "research", pods=2, gpu_types=("mig",)),
            placed("part", "production", 0.5, on="replicas:0", share=500),
            placed("gpu", "production", on="n0:0"),
        ],
    )

    paused = {
        row.workload: row for row in effect(rows, DraftEdits(pools={"main": {"paused": True}})).workloads
    }
    found = effect(rows, DraftEdits(newcomers=(waiting("new", "research", 0.5, priority=100),)))

    assert (paused["sliced"].gpus_milli, paused["sliced"].slices) == (2 * 429, 2)
    (count,) = found.counts
    assert (count.change, count.gpus_milli, count.slices, count.slices_milli) == (
        Change.PREEMPTED,
        500,
        1,
        500,
    )
