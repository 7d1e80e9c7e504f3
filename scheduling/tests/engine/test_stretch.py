"""Those who follow each other in vain are looked at by sort: nothing else comes of it than if each had his turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduling.acceleration.kept_blocked_queue import KeptBlockedQueue
from scheduling.acceleration.kept_cycle import KeptCycle
from scheduling.acceleration.skipped_run import SkippedRun
from scheduling.engine import ElasticPreemption, OpenStatus, Snapshot, State, WorkloadInfo, decide, schedule
from scheduling.engine.model.state import Changes
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, plan, pool, snapshot, team, waiting
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen

SEEDS = (*range(30), 50, 60, 64, 86, 89, 97)
FEW = "scheduling.acceleration.kept_cycle.FEW_TURNS"
TEAMS = [team("a"), team("b"), team("res", reserved=1)]
BUSY = placed("busy", "res", on="n0:0", priority=100)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[SkippedRun]:
    """The stretches that are taken."""
    found: list[SkippedRun] = []
    add_all = KeptBlockedQueue.add_all

    def noting(self: KeptBlockedQueue, skipped: SkippedRun) -> None:
        found.append(skipped)
        add_all(self, skipped)

    monkeypatch.setattr(KeptBlockedQueue, "add_all", noting)
    return found


def one_by_one(world: Snapshot, now: int = NOW) -> bytes:
    """The plan if everybody has his own turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptCycle, "_skip_run", lambda _: None)
        return as_bytes(schedule(world, now))


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


@pytest.mark.parametrize("few", [1, 2])
def test_no_stretch_shows_in_a_plan(
    few: int, monkeypatch: pytest.MonkeyPatch, taken: list[SkippedRun]
) -> None:
    monkeypatch.setattr(FEW, few)
    for seed in SEEDS:
        for world, now in crowds(seed):
            assert as_bytes(schedule(world, now)) == one_by_one(world, now), seed
    assert len(taken) > len(SEEDS) / 3
    assert any(len(each.causes) > 1 for each in taken)


def test_no_stretch_shows_in_what_is_kept_from_cycle_to_cycle(
    monkeypatch: pytest.MonkeyPatch, taken: list[SkippedRun]
) -> None:
    monkeypatch.setattr(FEW, 1)
    for seed in SEEDS:
        before, now = next(crowds(seed))
        state = State.of(before)
        for world, now in crowds(seed):
            state.apply(Changes.between(state.snapshot, world))
            decide(state, now)
            assert as_bytes(decide(state, now)) == one_by_one(world, now), seed
    assert taken


def test_those_of_many_sorts_are_passed_by_at_once(taken: list[SkippedRun]) -> None:
    busy = placed("busy", "res", on="n0:0,1", gpus=2, priority=100)
    many = [waiting(f"w{at:02d}", "a", 1 + at % 2, limit=10 + at % 3, submitted=90 - at) for at in range(80)]
    world = snapshot([node("n0", 2)], [team("a"), team("res", reserved=2)], [busy, *many])
    assert as_bytes(schedule(world, NOW)) == one_by_one(world)
    assert [(len(each.causes), each.ahead) for each in taken] == [(6, "w00")]
    assert len(taken[0].candidates) > 60


def test_a_stretch_ends_where_somebody_of_another_leaf_comes_first(taken: list[SkippedRun]) -> None:
    """Each team is due 2 and has none, so who asks for less comes first: those of a who ask for 1, then those of b."""
    busy = placed("busy", "c", on="n0:0,1,2,3,4,5", gpus=6, priority=90)
    large = [waiting(f"a9{at}", "a", 3, submitted=10 - at) for at in range(5)]
    few = rows("b", 40, gpus=2)
    world = snapshot([node("n0", 6)], [team(name) for name in "abc"], [busy, *rows("a", 40), *large, *few])
    found = schedule(world, NOW)
    assert as_bytes(found) == one_by_one(world)
    assert [wait.workload[0] for wait in found.waits] == ["a"] * 40 + ["b"] * 40 + ["a"] * 5
    assert [{each.id[:2] for each in skipped.candidates} & {"a9", "b3"} for skipped in taken] == [
        set(),
        {"b3"},
    ]


def test_where_two_leaves_take_turns_a_stretch_is_one_turn(
    monkeypatch: pytest.MonkeyPatch, taken: list[SkippedRun]
) -> None:
    monkeypatch.setattr(FEW, 1)
    busy = placed("busy", "c", on="n0:0,1,2,3,4,5", gpus=6, priority=90)
    world = snapshot([node("n0", 6)], [team(name) for name in "abc"], [busy, *rows("a", 40), *rows("b", 40)])
    state = State.of(world)
    for _ in range(2):
        found = decide(state, NOW)
        assert as_bytes(found) == one_by_one(world)
        assert [wait.workload[0] for wait in found.waits] == ["a", "b"] * 40
    assert {len(each.candidates) for each in taken} == {1}


def test_who_stands_in_two_queues_has_his_own_turn(taken: list[SkippedRun]) -> None:
    many = [replace(each, pools=("main",)) for each in rows("a", 80)]
    anywhere = replace(many[50], pools=None)
    nodes = [node("n0", 1), node("n1", 1, pool="spare")]
    for row, stretches in ((many[50], 1), (anywhere, 0)):
        world = snapshot(nodes, TEAMS, [BUSY, *many[:50], row, *many[51:]], pool(), pool("spare"))
        taken.clear()
        found = schedule(world, NOW)
        assert as_bytes(found) == one_by_one(world)
        assert ([start.workload for start in found.starts], len(taken)) == (
            [] if stretches else ["a50"],
            stretches,
        )


@pytest.mark.parametrize("limits", [False, True])
def test_who_is_over_before_the_head_starts_has_his_turn(limits: bool, taken: list[SkippedRun]) -> None:
    """The head needs both devices, of which one is free until the other is."""
    busy = placed("busy", "res", on="n0:0", priority=100, limit=60, started=30)
    head = waiting("head", "b", 2, priority=60)
    many = rows("a", 40, limit=50)
    if limits:
        many.append(waiting("short", "a", submitted=1, limit=20))
    world = snapshot([node("n0", 2)], TEAMS, [busy, head, *many], pool(min_runtime_ms=60 * MINUTE))
    found = schedule(world, NOW)
    assert as_bytes(found) == one_by_one(world)
    assert [start.workload for start in found.starts] == ["short"] * limits
    assert taken
    assert "short" not in {each.id for skipped in taken for each in skipped.candidates}


@pytest.mark.parametrize(
    ("most", "first", "starts", "stretches"),
    [(None, 1, ["a00"], 1), (1, 0, ["a00"], 0), (1, 1, [], 1)],
)
def test_who_may_not_be_preempted_again_is_not_like_the_others_unless_somebody_is_held_back(
    most: int | None, first: int, starts: list[str], stretches: int, taken: list[SkippedRun]
) -> None:
    """Whoever the head could preempt may take the idle device, but not once somebody was held back who wants it."""
    busy = placed("busy", "res", on="n0:0,1", gpus=2, priority=100, limit=60)
    head = waiting("head", "b", 3, priority=60)
    many = [replace(each, preemptions_24h=(at + first) % 2) for at, each in enumerate(rows("a", 40))]
    world = snapshot([node("n0", 3)], TEAMS, [busy, head, *many], pool(max_preemptions=most))
    found = schedule(world, NOW)
    assert as_bytes(found) == one_by_one(world)
    assert ([start.workload for start in found.starts], len(taken)) == (starts, stretches)


def test_under_a_ceiling_everybody_has_his_own_turn(taken: list[SkippedRun]) -> None:
    teams = [team("a", maximum=1), team("b"), team("res", reserved=1)]
    found = plan([node("n0", 1), node("n1", 2)], teams, [BUSY, *rows("a", 40)])
    assert [start.workload for start in found.starts] == ["a00"]
    assert {str(wait.reason.code) for wait in found.waits} == {"waiting-for-ceiling"}
    assert not taken


def test_where_priorities_share_a_level_they_are_different_sorts(taken: list[SkippedRun]) -> None:
    """Whoever is above the one who runs in his team takes his place; those below him cannot."""
    mine = placed("mine", "a", on="n0:0", priority=50)
    many = [
        *rows("a", 40, priority=50),
        *[replace(each, id=f"z{each.id}", priority=40) for each in rows("a", 40)],
    ]
    world = snapshot(
        [node("n0", 1)], TEAMS[:2], [mine, *many], pool(elastic_preemption=ElasticPreemption.FAIR_SHARE)
    )
    assert as_bytes(schedule(world, NOW)) == one_by_one(world)
    assert [len(each.causes) for each in taken] == [2]
    above = replace(world, workloads=(*world.workloads, waiting("above", "a", priority=60, submitted=1)))
    found = schedule(above, NOW)
    assert as_bytes(found) == one_by_one(above)
    assert [start.workload for start in found.starts] == ["above"]
