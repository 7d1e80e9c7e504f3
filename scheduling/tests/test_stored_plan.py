"""What a plan tells is stored small, and read back as the plan had it."""

import json
import zlib
from datetime import UTC, datetime

from hypothesis import given, settings

from scheduling import engine
from scheduling.engine import schedule
from scheduling.explain.last_cycle import LastCycle
from scheduling.explain.stored_plan import pack, tell, unpack
from scheduling.tests.engine import worlds
from scheduling.tests.engine.build import NOW

AT = datetime(2026, 1, 1, tzinfo=UTC)


def stored(plan: engine.Plan, snapshot: engine.Snapshot) -> LastCycle:
    """Return what another process reads of the plan."""
    content = unpack(pack(tell(plan, snapshot)))
    assert content is not None
    return LastCycle(1, AT, lambda: content)


@given(worlds.worlds(most_pending=8))
@settings(max_examples=80, deadline=None)
def test_what_is_read_back_is_what_the_plan_says(snapshot: engine.Snapshot) -> None:
    plan = schedule(snapshot, NOW)

    for last in (stored(plan, snapshot), LastCycle.of(1, AT, plan, snapshot)):
        assert [last.waits.get(wait.workload) for wait in plan.waits] == list(plan.waits)
        assert {keep.workload: last.placed(keep.workload) for keep in plan.keeps} == {
            keep.workload: keep.reason for keep in plan.keeps
        }
        assert [last.placed(start.workload) for start in plan.starts] == [each.reason for each in plan.starts]
        assert last.reservations == list(plan.reservations)
        assert list(last.pools.values()) == list(plan.pools)
        assert {(each.team, each.pool): each for each in plan.teams} == last.teams
        for pool in snapshot.pools:
            here = [wait for wait in plan.waits if wait.pool == pool.id and wait.position is not None]
            assert last.queue(pool.id) == [wait.workload for wait in here]


@given(worlds.worlds(most_pending=8))
@settings(max_examples=40, deadline=None)
def test_who_waits_is_counted_with_every_team_above(snapshot: engine.Snapshot) -> None:
    plan = schedule(snapshot, NOW)
    parents = {team.id: team.parent for team in snapshot.teams}
    teams = {workload.id: workload.team for workload in snapshot.workloads}

    for pool in snapshot.pools:
        expected: dict[str, tuple[int, int]] = {}
        for wait in plan.waits:
            team = teams[wait.workload] if wait.pool == pool.id and wait.position is not None else None
            while team is not None:
                count, milli = expected.get(team, (0, 0))
                expected[team] = count + 1, milli + (wait.reason.asked_milli or 0)
                team = parents[team]
        assert stored(plan, snapshot).waiting(pool.id) == expected


def test_what_another_release_wrote_is_not_read() -> None:
    assert unpack(zlib.compress(json.dumps({"form": 1}).encode())) is None


def test_a_workload_that_no_plan_knows_has_no_wait() -> None:
    last = stored(engine.Plan(), engine.Snapshot((), (), (), ()))

    assert last.waits.get("nobody") is None
    assert last.placed("nobody") is None
    assert last.queue("nowhere") == []
    assert last.outside("nowhere") == []
