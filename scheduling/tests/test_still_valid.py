"""What of a plan stands when rows have changed since its snapshot, and who is given up."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from scheduling import engine
from scheduling.cycle.still_valid import Decision, settle, upkeep
from scheduling.engine import schedule
from scheduling.reading.picture import SnapshotPicture
from scheduling.tests.engine.build import NOW, node, snapshot, team, waiting
from workloads.lifecycle import WaitingFailure

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


def given_up(*nodes: engine.NodeInfo, **limits: Any) -> list[str]:
    """The code with which a gang of two pods of 8 GPUs is given up that asked to fail where it can never run."""
    rows = snapshot(nodes, [team("a", **limits)], [waiting("w", "a", 8, pods=2)])
    return [failure.code for failure in failures(rows, schedule(rows, NOW))]


def failures(rows: engine.Snapshot, plan: engine.Plan) -> list[WaitingFailure]:
    """Who is given up of those who asked to fail where they can never run, which is everybody."""
    row: Any = SimpleNamespace(
        id=UUID(int=1), version=1, fail_if_impossible=True, reason_code="", status="pending"
    )
    picture = SnapshotPicture(1, datetime.fromtimestamp(NOW / 1000, UTC), rows, {"w": row}, {})
    return upkeep(picture, plan).failures


NEAR = node("near", 4)
AWAY = node("away", cluster="west", cluster_online=False)
AWAY_AND_CORDONED = node("cordoned", cluster="west", cluster_online=False, cordoned=True)


def test_who_fits_once_a_cluster_is_back_and_its_nodes_take_work_again_is_not_given_up() -> None:
    assert given_up(NEAR, AWAY, AWAY_AND_CORDONED) == []
    assert given_up(NEAR, AWAY) == ["larger-than-pool"]


def test_who_does_not_even_then_is_given_up_whatever_is_away() -> None:
    """It is larger than its team's maximum, which shows only where all nodes are counted in."""
    assert given_up(NEAR, AWAY, AWAY_AND_CORDONED, maximum=8) == ["exceeds-ceiling"]


def test_who_is_given_up_is_told_what_is_so_with_all_nodes_in_service() -> None:
    """The plan spoke of nodes that are out of service: of these a failure says nothing."""
    world = snapshot([NEAR, AWAY_AND_CORDONED], [team("a")], [waiting("w", "a", 8, pods=2)])
    plan = schedule(snapshot([NEAR], [team("a")], [waiting("w", "a", 8, pods=2)]), NOW)
    (failure,) = failures(world, plan)
    assert plan.waits[0].reason.message == "A pod asks for 8 GPUs, but the largest node it may use has 4."
    assert (failure.code, failure.message, failure.next_step) == (
        "larger-than-pool",
        "It needs 2 pods of 8 GPUs at once, but no one cluster of the pool main has room for more than 1 of them "
        "even when empty.",
        "Ask for fewer pods, or a smaller minimum of pods.",
    )
