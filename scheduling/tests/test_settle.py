"""What of a plan stands when rows have changed since its snapshot."""

from collections.abc import Sequence

import pytest

from scheduling.engine import types as engine
from scheduling.settle import Decision, settle

REASON = engine.Reason(engine.ReasonCode.PREEMPTED, engine.ReasonKind.WAIT, "", "")


def start(name: str, pool: str, *victims: str) -> engine.Start:
    return engine.Start(name, pool, (), (), victims, bool(victims), None)


def preemption(name: str, pool: str, by: str) -> engine.Preemption:
    return engine.Preemption(name, pool, 1000, by, "t", engine.Rule.RESERVED, None, 0, REASON)


PLAN = engine.Plan(
    starts=(start("alone", "a"), start("taker", "a", "victim"), start("elsewhere", "b")),
    grows=(engine.Grow("grower", "a", (), ()),),
    preemptions=(preemption("victim", "a", "taker"),),
)


@pytest.mark.parametrize(
    ("changed", "stands", "left_out"),
    [
        (set(), {"alone", "taker", "elsewhere", "grower", "victim"}, 0),
        ({"alone"}, {"taker", "elsewhere", "grower", "victim"}, 1),
        ({"grower"}, {"alone", "taker", "elsewhere", "victim"}, 1),
        ({"victim"}, {"elsewhere"}, 4),
        ({"taker"}, {"elsewhere"}, 4),
        ({"elsewhere"}, {"alone", "taker", "grower", "victim"}, 1),
    ],
)
def test_who_changed_is_left_out_with_all_that_depended_on_it(
    changed: set[str], stands: set[str], left_out: int
) -> None:
    standing = settle(PLAN, lambda name: name not in changed)

    kinds: tuple[Sequence[Decision], ...] = (standing.starts, standing.grows, standing.preemptions)
    assert {decision.workload for kind in kinds for decision in kind} == stands
    assert (standing.decisions, standing.left_out) == (len(stands), left_out)
