"""A living organisation: whatever happens to it in whatever order, no plan breaks a rule and no device is crowded."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduling.checker import check
from scheduling.engine import decide, schedule
from scheduling.tests.proof.histories import Keeper, as_bytes
from scheduling.tests.proof.organisation import HAPPENINGS, Organisation

chances = st.integers(0, 2**32 - 1).map(Random)
acts = st.sampled_from([act for weight, act in HAPPENINGS for _ in range(weight)])


class Life(RuleBasedStateMachine):
    """Submit, start, finish, cancel, fail, drain, lose a node or a cluster, edit the tree, move the clock: some of it,
    then a cycle. They are one rule, since of many hypothesis seldom chooses the one that decides."""

    @initialize(chance=chances)
    def found(self, chance: Random) -> None:
        self.organisation = Organisation(chance)
        for _ in range(6):
            self.organisation.submit(chance)
        self.keeper = Keeper(self.organisation.snapshot)

    @rule(
        chance=chances,
        happenings=st.lists(acts, max_size=8),
        carried_out=st.sampled_from((True, True, False)),
    )
    def go_on(
        self, chance: Random, happenings: list[Callable[[Organisation, Random], None]], carried_out: bool
    ) -> None:
        for act in happenings:
            act(self.organisation, chance)
        snapshot, now = self.organisation.snapshot, self.organisation.now
        self.keeper.hear(snapshot, chance)
        plan = decide(self.keeper.state, now)
        assert check(snapshot, plan, now) == ()
        assert as_bytes(schedule(snapshot, now)) == as_bytes(plan)
        if carried_out:
            self.organisation.carry_out(plan)

    @invariant()
    def nobody_starts_before_others_are_gone(self) -> None:
        assert self.organisation.crowded() == []


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=80, stateful_step_count=25, deadline=None, derandomize=True)
