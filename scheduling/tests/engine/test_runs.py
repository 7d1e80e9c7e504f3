"""Candidates that follow each other have their turns at once if these change nothing: the plan is that of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduling.acceleration.heap_queue import HeapQueue
from scheduling.engine import ElasticPreemption, OpenStatus, Snapshot, State, WorkloadInfo, decide, schedule
from scheduling.engine.model.state import Changes
from scheduling.engine.queue.candidate import Candidate
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, plan, pool, snapshot, team, waiting
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen

SEEDS = (*range(30), 50, 60, 64, 86, 89, 97)
TEAMS = [team("a"), team("b"), team("res", reserved=1)]
BUSY = placed("busy", "res", on="n0:0", priority=100)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many turns each run had that was skipped."""
    found: list[int] = []
    remove_run = HeapQueue.remove_run

    def noting(self: HeapQueue[Candidate], run: Sequence[Candidate]) -> None:
        if run:
            found.append(len(run))
        remove_run(self, run)

    monkeypatch.setattr(HeapQueue, "remove_run", noting)
    return found


def by_rules(world: Snapshot, now: int = NOW) -> bytes:
    """The plan by the rules alone: each candidate has its own turn."""
    return as_bytes(schedule(world, now, accelerate=False))


def crowd(world: Snapshot, chance: Random, most: int = 30) -> Snapshot:
    """The same with many who ask what one asks who waits, submitted before and after him."""
    rows: list[WorkloadInfo] = []
    for row in world.workloads:
        for number in range(chance.randint(0, most) if row.status is OpenStatus.PENDING else 0):
            at = row.submitted_at + chance.randint(-5, 5) * MINUTE
            name = f"{row.id}-{number:02d}"
            rows.append(
                replace(row, id=name, name=name, submitted_at=at, preemptions_24h=chance.randrange(2))
            )
    return replace(world, workloads=(*world.workloads, *rows))


def crowds(seed: int) -> Iterator[tuple[Snapshot, int]]:
    """Moments in the life of an organisation where many wait: any policy, ceilings, time limits, several pools."""
    chance = Random(seed)
    organisation = Organisation(chance)
    for _ in range(chance.randint(6, 14)):
        organisation.submit(chance)
    for _ in range(3):
        happen(organisation, chance, chance.choice((1, 2, 4)))
        yield crowd(organisation.snapshot, Random(seed)), organisation.now
        organisation.carry_out(schedule(organisation.snapshot, organisation.now))


def rows(team: str, count: int, **fields: Any) -> list[WorkloadInfo]:
    """So many who ask the same, the first one submitted first."""
    return [waiting(f"{team}{at:02d}", team, submitted=90 - at, **fields) for at in range(count)]


def test_no_run_shows_in_a_plan(runs: list[int]) -> None:
    for seed in SEEDS:
        for world, now in crowds(seed):
            assert as_bytes(schedule(world, now)) == by_rules(world, now), seed
    assert sum(each > 1 for each in runs) > len(SEEDS) / 3


def test_no_run_shows_in_what_is_kept_from_cycle_to_cycle(runs: list[int]) -> None:
    for seed in SEEDS:
        before, now = next(crowds(seed))
        state = State.of(before)
        for world, now in crowds(seed):
            state.apply(Changes.between(state.snapshot, world))
            decide(state, now)
            assert as_bytes(decide(state, now)) == by_rules(world, now), seed
    assert runs


def test_a_run_has_requests_of_several_kinds(runs: list[int]) -> None:
    busy = placed("busy", "res", on="n0:0,1", gpus=2, priority=100)
    many = [waiting(f"w{at:02d}", "a", 1 + at % 2, limit=10 + at % 3, submitted=90 - at) for at in range(80)]
    world = snapshot([node("n0", 2)], [team("a"), team("res", reserved=2)], [busy, *many])
    assert as_bytes(schedule(world, NOW)) == by_rules(world)
    assert max(runs) > 50


def test_a_run_ends_where_another_leaf_comes_first(runs: list[int]) -> None:
    """Each team is due 2 and has none, so a smaller request comes first: those of a for 1, then those of b."""
    busy = placed("busy", "c", on="n0:0,1,2,3,4,5", gpus=6, priority=90)
    large = [waiting(f"a9{at}", "a", 3, submitted=10 - at) for at in range(5)]
    few = rows("b", 40, gpus=2)
    world = snapshot([node("n0", 6)], [team(name) for name in "abc"], [busy, *rows("a", 40), *large, *few])
    found = schedule(world, NOW)
    assert as_bytes(found) == by_rules(world)
    assert [wait.workload[0] for wait in found.waits] == ["a"] * 40 + ["b"] * 40 + ["a"] * 5
    assert max(runs) <= 40


def test_where_two_leaves_take_turns_a_run_is_one_turn(runs: list[int]) -> None:
    busy = placed("busy", "c", on="n0:0,1,2,3,4,5", gpus=6, priority=90)
    world = snapshot([node("n0", 6)], [team(name) for name in "abc"], [busy, *rows("a", 40), *rows("b", 40)])
    state = State.of(world)
    for _ in range(2):
        found = decide(state, NOW)
        assert as_bytes(found) == by_rules(world)
        assert [wait.workload[0] for wait in found.waits] == ["a", "b"] * 40
    assert set(runs) == {1}


def test_a_candidate_of_two_queues_has_its_own_turn() -> None:
    many = [replace(each, pools=("main",)) for each in rows("a", 80)]
    anywhere = replace(many[50], pools=None)
    nodes = [node("n0", 1), node("n1", 1, pool="spare")]
    for row, starts in ((many[50], []), (anywhere, ["a50"])):
        world = snapshot(nodes, TEAMS, [BUSY, *many[:50], row, *many[51:]], pool(), pool("spare"))
        found = schedule(world, NOW)
        assert as_bytes(found) == by_rules(world)
        assert [start.workload for start in found.starts] == starts


@pytest.mark.parametrize("limits", [False, True])
def test_a_candidate_that_ends_before_the_head_starts_has_its_turn(limits: bool, runs: list[int]) -> None:
    """The head needs both devices, of which one is free until the other is."""
    busy = placed("busy", "res", on="n0:0", priority=100, limit=60, started=30)
    head = waiting("head", "b", 2, priority=60)
    many = rows("a", 40, limit=50)
    if limits:
        many.append(waiting("short", "a", submitted=1, limit=20))
    world = snapshot([node("n0", 2)], TEAMS, [busy, head, *many], pool(min_runtime_ms=60 * MINUTE))
    found = schedule(world, NOW)
    assert as_bytes(found) == by_rules(world)
    assert [start.workload for start in found.starts] == ["short"] * limits
    assert runs


@pytest.mark.parametrize(("most", "first", "starts"), [(None, 1, ["a00"]), (1, 0, ["a00"]), (1, 1, [])])
def test_what_may_not_be_preempted_again_passes_no_head_that_could_use_its_place(
    most: int | None, first: int, starts: list[str]
) -> None:
    """What the head could preempt may take the idle device, but not once something was held back that wants it."""
    busy = placed("busy", "res", on="n0:0,1", gpus=2, priority=100, limit=60)
    head = waiting("head", "b", 3, priority=60)
    many = [replace(each, preemptions_24h=(at + first) % 2) for at, each in enumerate(rows("a", 40))]
    world = snapshot([node("n0", 3)], TEAMS, [busy, head, *many], pool(max_preemptions=most))
    found = schedule(world, NOW)
    assert as_bytes(found) == by_rules(world)
    assert [start.workload for start in found.starts] == starts


def test_under_a_ceiling_each_has_its_own_turn(runs: list[int]) -> None:
    teams = [team("a", maximum=1), team("b"), team("res", reserved=1)]
    found = plan([node("n0", 1), node("n1", 2)], teams, [BUSY, *rows("a", 40)])
    assert [start.workload for start in found.starts] == ["a00"]
    assert {str(wait.reason.code) for wait in found.waits} == {"waiting-for-ceiling"}
    assert not runs


def test_a_run_ends_before_a_priority_that_may_preempt() -> None:
    """In one level of several priorities, what is above the running one of its own team takes its place."""
    mine = placed("mine", "a", on="n0:0", priority=50)
    many = [
        *rows("a", 40, priority=50),
        *[replace(each, id=f"z{each.id}", priority=40) for each in rows("a", 40)],
    ]
    world = snapshot(
        [node("n0", 1)], TEAMS[:2], [mine, *many], pool(elastic_preemption=ElasticPreemption.FAIR_SHARE)
    )
    assert as_bytes(schedule(world, NOW)) == by_rules(world)
    above = replace(world, workloads=(*world.workloads, waiting("above", "a", priority=60, submitted=1)))
    found = schedule(above, NOW)
    assert as_bytes(found) == by_rules(above)
    assert [start.workload for start in found.starts] == ["above"]
