"""Where the engine stops early, or refuses a search for victims, it decides and says the same as if it did neither."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from scheduling.engine import Snapshot, schedule
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.fair import shared
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen

SEEDS = range(75)


def worlds() -> Iterator[tuple[int, Snapshot, int]]:
    """Moments in the lives of organisations, and full pools with one newcomer, each with its seed and time."""
    for seed in SEEDS:
        chance = Random(seed)
        yield seed, shared(Random(seed)), NOW
        organisation = Organisation(chance)
        for _ in range(chance.randint(5, 14)):
            organisation.submit(chance)
        for _ in range(3):
            happen(organisation, chance, chance.choice((1, 2, 4)))
            yield seed, organisation.snapshot, organisation.now
            organisation.carry_out(schedule(organisation.snapshot, organisation.now))


def test_no_short_cut_shows_in_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.acceleration.kept_cycle.FIRST_LOOK", 1)
    monkeypatch.setattr("scheduling.acceleration.kept_cycle.NEXT_LOOK", 1)
    victims = 0
    for seed, snapshot, now in worlds():
        plan = schedule(snapshot, now)
        victims += len(plan.preemptions) + len(plan.shrinks)
        found = as_bytes(plan)
        with monkeypatch.context() as patch:
            patch.setattr("scheduling.acceleration.early_stop.nothing_left", lambda _: False)
            patch.setattr("scheduling.acceleration.search_context.SearchContext.might_take", lambda *_: True)
            patch.setattr(
                "scheduling.acceleration.kept_backfill.KeptBackfill.keeps_out_again", lambda *_: None
            )
            slow = as_bytes(schedule(snapshot, now))
        assert found == slow, seed
    assert victims > 10
