"""What of a plan stands when rows have changed since its snapshot, and who is given up."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from scheduling.engine import schedule
from scheduling.engine import types as engine
from scheduling.picture import Picture
from scheduling.settle import Decision, settle, upkeep
from scheduling.tests.engine.build import NOW, node, snapshot, team, waiting

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


def given_up(*nodes: engine.Node, **limits: Any) -> list[str]:
    """The code with which a gang of two pods of 8 GPUs is given up that asked to fail where it can never run."""
    rows = snapshot(nodes, [team("a", **limits)], [waiting("w", "a", 8, pods=2)])
    row: Any = SimpleNamespace(
        id=UUID(int=1), version=1, fail_if_impossible=True, reason_code="", status="pending"
    )
    picture = Picture(1, datetime.fromtimestamp(NOW / 1000, UTC), rows, {"w": row}, {})
    return [failure.code for failure in upkeep(picture, schedule(rows, NOW)).failures]


NEAR = node("near", 4)
AWAY = node("away", cluster="west", cluster_online=False)
AWAY_AND_CORDONED = node("cordoned", cluster="west", cluster_online=False, cordoned=True)


def test_who_fits_once_a_cluster_is_back_and_its_nodes_take_work_again_is_not_given_up() -> None:
    assert given_up(NEAR, AWAY, AWAY_AND_CORDONED) == []
    assert given_up(NEAR, AWAY) == ["larger-than-pool"]


def test_who_does_not_even_then_is_given_up_whatever_is_away() -> None:
    """It is larger than its team's maximum, which shows only where all nodes are counted in."""
    assert given_up(NEAR, AWAY, AWAY_AND_CORDONED, maximum=8) == ["exceeds-ceiling"]
