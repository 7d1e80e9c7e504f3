"""Whether a newcomer could find victims at all."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from scheduling.acceleration.search_context import SearchContext
from scheduling.engine import Changes, Snapshot, State, decide, labels_of, schedule
from scheduling.tests.engine.build import NOW, node, placed, plan, pool, preempted, team, waiting
from scheduling.tests.engine.worlds import worlds


@given(worlds())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_who_would_find_victims_is_refused_a_search(
    monkeypatch: pytest.MonkeyPatch, world: Snapshot
) -> None:
    found = schedule(world, NOW)
    with monkeypatch.context() as patch:
        patch.setattr(SearchContext, "might_take", lambda *_: True)
        assert schedule(world, NOW) == found


def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The answers that newcomers get from now on."""
    answers: list[bool] = []
    asked = SearchContext.might_take

    def might_take(*args: object) -> bool:
        answers.append(asked(*args))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(SearchContext, "might_take", might_take)
    return answers


def test_where_all_lawful_victims_leave_too_little_nobody_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """w needs a whole GPU: on either device one half may go, and the other is reserved."""
    answers = searches(monkeypatch)
    rows = [placed(f"a{at}", "a", 0.5, on=f"n0:{at}", priority=10) for at in range(2)]
    rows += [placed(f"r{at}", "r", 0.5, on=f"n0:{at}", priority=100) for at in range(2)]
    found = plan([node("n0", 2)], [team("a"), team("r", reserved=1)], [*rows, waiting("w", "a")])
    assert (answers, preempted(found)) == ([False], set())


def test_where_the_only_victims_lie_on_what_is_kept_for_the_head_nobody_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The head waits for all of n0; w, who comes after it, could have the GPU of low there, but is not let to it."""
    answers = searches(monkeypatch)
    rows = [placed("low", "a", on="n0:0", priority=10), placed("r", "r", on="n0:1", priority=100)]
    rows += [waiting("head", "a", 2, submitted=90), waiting("w", "a", 1, submitted=9)]
    found = plan([node("n0", 2)], [team("a"), team("r", reserved=1)], rows)
    assert (answers, preempted(found)) == ([False, False], set())


def test_a_branch_gives_no_more_than_it_has_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """a is 0.5 above its 1.5 of 4 GPUs: one half may go, then no other; w needs both halves of a device."""
    answers = searches(monkeypatch)
    rows = [placed(f"a{at}", "a", 0.5, on=f"n0:{at // 2}") for at in range(4)]
    rows += [placed("b", "b", 1, on="n0:2"), placed("c", "c", 0.5, on="n0:3", priority=100)]
    rows += [waiting("w", "b", 1), waiting("v", "a", 1, priority=1)]
    teams = [team("a", reserved=1.5), team("b", reserved=2), team("c", reserved=0.5)]
    found = plan([node("n0", 4)], teams, rows)
    assert (answers[0], preempted(found)) == (False, set())


def test_a_branch_gives_more_than_it_has_too_much_if_its_last_victim_is_as_large() -> None:
    """b is 0.5 above its 0.5 of 2 GPUs; v has both halves of a device, and leaves with both pods at once."""
    rows = [placed("v", "b", 0.5, on="n0:0 n0:0"), placed("c", "c", 0.5, on="n0:1", priority=100)]
    teams = [team("a", reserved=1), team("b", reserved=0.5), team("c", reserved=0.5)]
    assert preempted(plan([node("n0", 2)], teams, [*rows, waiting("w", "a", 1)])) == {"v"}


def test_it_may_leave_so_where_others_of_lower_priority_lie_beside_it() -> None:
    """The same, and low of lower priority lies on the node, which is looked at with all that lie there."""
    rows = [placed("v", "b", 0.5, on="n0:0 n0:0"), placed("c", "c", 0.5, on="n0:1", priority=100)]
    rows.append(placed("low", "d", 0.25, on="n0:1", priority=10))
    teams = [team("a", reserved=1), team("b", reserved=0.5), team("c", reserved=0.5), team("d")]
    assert preempted(plan([node("n0", 2)], teams, [*rows, waiting("w", "a", 1)])) == {"v"}


def test_where_too_little_stands_below_a_ceiling_nobody_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """a may have 2 GPUs: 1.5 of them are reserved work, and the half that could go is less than w needs."""
    answers = searches(monkeypatch)
    rows = [placed("r", "a", 1, on="n0:0", priority=100), placed("s", "a", 0.5, on="n0:1", priority=100)]
    rows += [placed("low", "a", 0.5, on="n0:1", priority=10), waiting("w", "a", 1)]
    found = plan([node("n0", 3)], [team("a", reserved=2, maximum=2)], rows)
    assert (answers, preempted(found)) == ([False], set())


def test_who_finds_nobody_finds_him_who_starts_later_in_another_branch() -> None:
    """w waits for the GPU of r; when x of lower priority, of another top team, has it instead, x goes."""
    r, x = placed("r", "b", on="n0:0", priority=50), placed("x", "b", on="n0:0", priority=10)
    world = Snapshot((pool(),), (team("a"), team("b")), (node("n0", 1),), (r, waiting("w", "a", priority=40)))
    state = State.of(world)
    assert not decide(state, NOW).preemptions
    state.apply(Changes(workloads=(x,), gone_workloads=("r",)))
    assert [gone.workload for gone in decide(state, NOW).preemptions] == ["x"]


def test_a_gang_that_was_hopeless_is_not_when_a_node_comes_free() -> None:
    """The gang of s may take u's GPU, as s is within its guarantee, but needs two. When r2 ends there is another; r3
    and big, which come first, can use neither."""
    rows = [placed("r1", "r", 2, on="n0:0,1", priority=100), placed("r2", "r", on="n2:0", priority=100)]
    rows += [placed("u", "u", on="n1:0"), waiting("big", "h", 2, priority=60), waiting("gang", "s", pods=2)]
    rows += [waiting("r3", "r", priority=100, node_selector=labels_of({"disk": "fast"}))]
    teams = (team("r", reserved=3), team("h"), team("t"), team("s", "t", reserved=2), team("u", "t"))
    nodes = (node("n0", 2, labels={"disk": "fast"}), node("n1", 1), node("n2", 1))
    state = State.of(Snapshot((pool(),), teams, nodes, tuple(rows)))
    assert not decide(state, NOW).preemptions
    state.apply(Changes(gone_workloads=("r2",)))
    assert [gone.workload for gone in decide(state, NOW).preemptions] == ["u"]


TEAMS = (team("r", reserved=1), team("s", reserved=2), team("u"), team("v"))
PAIR = (node("n0", 2), node("n1", 1))


def test_two_branches_may_leave_a_node_together() -> None:
    """u and v have a GPU of n0 each and nothing is due to them; s, within its guarantee, needs both."""
    rows = [placed("u", "u", on="n0:0"), placed("v", "v", on="n0:1"), waiting("s", "s", 2)]
    assert preempted(plan(PAIR, TEAMS, rows)) == {"u", "v"}


def test_a_branch_comes_to_lie_beside_another() -> None:
    """The reserved r1 and the only one of v change places: now u and v have a GPU of n0 each, and s needs both."""
    rows = [placed("u", "u", on="n0:0"), placed("r1", "r", on="n0:1", priority=100)]
    rows += [placed("v1", "v", on="n1:0"), waiting("s", "s", 2)]
    state = State.of(Snapshot((pool(),), TEAMS, PAIR, tuple(rows)))
    assert not decide(state, NOW).preemptions
    fresh = (placed("r2", "r", on="n1:0", priority=100), placed("v2", "v", on="n0:1"))
    state.apply(Changes(workloads=fresh, gone_workloads=("r1", "v1")))
    assert {gone.workload for gone in decide(state, NOW).preemptions} == {"u", "v2"}
