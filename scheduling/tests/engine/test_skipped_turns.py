"""Turns that are known to bring nothing are skipped: the queue comes to the same as if each had been tried."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from scheduling.acceleration.infeasible_turns import InfeasibleTurns
from scheduling.acceleration.kept_cycle import KeptCycle
from scheduling.engine import Snapshot, schedule
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.queue.candidate import Candidate, Cause, PoolRequest
from scheduling.tests.engine.build import (
    MINUTE,
    NOW,
    node,
    placed,
    preempted,
    snapshot,
    started,
    team,
    waiting,
)
from scheduling.tests.engine.worlds import worlds

ASKS = PodRequests()


def candidate(name: str = "w", gpus: float = 1, *, leaf: int = 1, limit: int = 60) -> Candidate:
    workload = waiting(name, "a", gpus, limit=limit)
    return Candidate(
        workload,
        leaf,
        PoolRequest("main", ASKS.of(workload), round(gpus * 1000), 1, 1, workload.time_limit_ms),
    )


@given(worlds(most_pending=30))
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
def test_a_plan_is_that_of_trying_everybody(world: Snapshot) -> None:
    passing = schedule(world, NOW)
    len(passing.waits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptCycle, "skip_turns", lambda _: False)
        assert schedule(world, NOW) == passing


def test_of_many_alike_only_the_first_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    try_start = KeptCycle.try_start

    def noting(self: KeptCycle, each: Candidate) -> object:
        tried.append(each.id)
        return try_start(self, each)

    monkeypatch.setattr(KeptCycle, "try_start", noting)
    rows = [waiting(f"w{index:02}", "a", submitted=99 - index) for index in range(20)]
    busy = placed("busy", "b", on="n0:0", priority=100)
    world = snapshot([node("n0", 1)], [team("a"), team("b", reserved=1)], [busy, *rows])
    found = schedule(world, NOW)
    assert [wait.workload for wait in found.waits] == [row.id for row in rows]
    assert len(tried) < len(rows) / 2


def test_what_keeps_one_from_a_place_keeps_all_of_his_kind() -> None:
    infeasible = InfeasibleTurns()
    infeasible.found_no_place(candidate("first"), Cause.BEHIND)
    assert infeasible.keeps_from_place(candidate("alike", leaf=2)) is Cause.BEHIND
    assert infeasible.keeps_from_place(candidate("larger", 2)) is None
    assert infeasible.keeps_from_place(candidate("shorter", limit=MINUTE)) is None


def test_a_search_fails_again_for_the_same_team_and_pods_on_the_same_side_of_the_head() -> None:
    infeasible = InfeasibleTurns()
    infeasible.failed_search(candidate("first"), ())
    assert infeasible.has_failed(candidate("alike"), ())
    assert not infeasible.has_failed(candidate("alike"), (0,))
    assert not infeasible.has_failed(candidate("elsewhere", leaf=2), ())


def test_all_is_forgotten_when_something_changes() -> None:
    infeasible = InfeasibleTurns()
    infeasible.found_no_place(candidate(), Cause.PLACE)
    infeasible.failed_search(candidate(), ())
    infeasible.note_without_victims((True, -50), frozenset())
    assert infeasible.is_without_victims((True, -50), candidate().leaf)
    infeasible.forget()
    assert infeasible.keeps_from_place(candidate()) is None
    assert not infeasible.has_failed(candidate(), ())
    assert not infeasible.is_without_victims((True, -50), candidate().leaf)


def test_a_look_at_all_who_are_left_tells_who_has_nobody_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """h and t hold 3 GPUs each and are due 3. Nobody of h may have more; s, which has none of t's, may take one of u's,
    and its turn comes last. The others of h are passed by without asking again for each whom it could take."""
    asked: list[str] = []
    might_preempt = KeptCycle.might_preempt

    def noting(self: KeptCycle, each: Candidate) -> bool:
        asked.append(each.id)
        return might_preempt(self, each)

    monkeypatch.setattr(KeptCycle, "might_preempt", noting)
    rows = [placed(f"h{at}", "h", on=f"n0:{at}") for at in range(3)]
    rows += [placed(f"u{at}", "u", on=f"n1:{at}") for at in range(3)]
    rows += [waiting(f"w{index:02}", "h", submitted=99 - index) for index in range(20)]
    rows += [waiting("last", "s", submitted=1)]
    teams = [team("h"), team("t"), team("s", "t"), team("u", "t")]
    found = schedule(snapshot([node("n0", 3), node("n1", 3)], teams, rows), NOW)
    assert (started(found), len(preempted(found) & {"u0", "u1", "u2"})) == ({"last"}, 1)
    assert "w19" not in asked
