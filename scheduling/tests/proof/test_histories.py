"""A cut of the random histories: the kept state and one made anew give the same plans, which break no rule."""

from __future__ import annotations

from collections import Counter

from scheduling.tests.proof.histories import run

SEEDS = range(60)


def test_a_state_that_is_kept_decides_as_one_that_is_made_anew() -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS:
        met.update(run(seed, checked=True))
    assert met["starts"] > 100
    assert met["victims"] > 5
    assert {"applied twice", "heard nonsense first", "crashed before it applied"} <= set(met)
