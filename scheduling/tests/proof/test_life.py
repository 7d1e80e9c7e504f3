"""A living organisation: whatever happens to it in whatever order, no plan breaks a rule and no device is crowded."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduling.engine import decide, schedule
from scheduling.engine.checker import check
from scheduling.tests.proof.histories import Keeper, as_bytes
from scheduling.tests.proof.organisation import Organisation

chances = st.randoms(use_true_random=False)


class Life(RuleBasedStateMachine):
    """Submit, start, finish, cancel, fail, drain, lose a node or a cluster, edit the tree, move the clock,
    reschedule."""

    @initialize(chance=chances)
    def found(self, chance: Random) -> None:
        self.organisation = Organisation(chance)
        self.keeper = Keeper(self.organisation.snapshot)

    @rule(chance=chances, times=st.integers(1, 4))
    def submit(self, chance: Random, times: int) -> None:
        for _ in range(times):
            self.organisation.submit(chance)

    @rule(chance=chances, times=st.integers(1, 6))
    def start(self, chance: Random, times: int) -> None:
        for _ in range(times):
            self.organisation.start(chance)

    @rule(chance=chances)
    def finish(self, chance: Random) -> None:
        self.organisation.finish(chance)

    @rule(chance=chances)
    def cancel(self, chance: Random) -> None:
        self.organisation.cancel(chance)

    @rule(chance=chances)
    def fail(self, chance: Random) -> None:
        self.organisation.fail(chance)

    @rule(chance=chances)
    def clean_up(self, chance: Random) -> None:
        self.organisation.clean_up(chance)

    @rule(chance=chances)
    def hold_or_release(self, chance: Random) -> None:
        self.organisation.hold_or_release(chance)

    @rule(chance=chances)
    def add_node(self, chance: Random) -> None:
        self.organisation.add_node(chance)

    @rule(chance=chances)
    def drain(self, chance: Random) -> None:
        self.organisation.drain(chance)

    @rule(chance=chances)
    def lose_node(self, chance: Random) -> None:
        self.organisation.lose_node(chance)

    @rule(chance=chances)
    def disconnect(self, chance: Random) -> None:
        self.organisation.disconnect(chance)

    @rule(chance=chances)
    def checkpoint(self, chance: Random) -> None:
        self.organisation.checkpoint(chance)

    @rule(chance=chances)
    def book_usage(self, chance: Random) -> None:
        self.organisation.book_usage(chance)

    @rule(chance=chances)
    def edit_tree(self, chance: Random) -> None:
        self.organisation.edit_tree(chance)

    @rule(chance=chances)
    def edit_policy(self, chance: Random) -> None:
        self.organisation.edit_policy(chance)

    @rule(chance=chances)
    def wait(self, chance: Random) -> None:
        self.organisation.wait(chance)

    @rule(chance=chances, carried_out=st.sampled_from((True, True, True, False)))
    def reschedule(self, chance: Random, carried_out: bool) -> None:
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
TestLife.settings = settings(max_examples=80, stateful_step_count=40, deadline=None, derandomize=True)
