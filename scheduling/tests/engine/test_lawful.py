"""A newcomer's victims as a set: together they are lawful in some order, and each of them is needed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from scheduling.engine import OpenStatus, Policy, TeamInfo, schedule
from scheduling.engine.preemption.joint_eligibility import JointEligibility
from scheduling.engine.preemption.policy import NONE, PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.search import Search
from scheduling.engine.preemption.victims import Tier, Victim
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.tests.engine.build import NOW, node, placed, plan, preempted, started, team, waiting, waits
from scheduling.tests.proof.fair import shared

SOMEBODY_LEAVES_EARLIER = (1713, 2162, 3694, 3959, 4093, 5407, 5850, 7291, 7364, 7640)


def test_who_has_to_go_so_that_others_may_be_taken_is_not_spared() -> None:
    """4 GPUs; for b's two there is room without x, but only without x is top within what it is due.

    top (2)            c (2)  runs a gang of 3
    |- a  runs x
    |- b (2)
    """
    teams = [team("top"), team("a", "top"), team("b", "top", reserved=2), team("c", reserved=2)]
    rows = [placed("x", "a", on="n0:0"), placed("gang", "c", on="n0:1 n0:2 n0:3"), waiting("w", "b", 2)]
    found = plan([node("n0", 4)], teams, rows)
    assert (preempted(found), started(found)) == ({"x", "gang"}, {"w"})


def test_a_workload_goes_whole_at_once_though_its_pods_were_looked_at_one_by_one() -> None:
    """n0: one free, three of wide, which may shrink to one pod; n1: two of c. c (due 2) has 5.

    Shrunk by two, wide leaves c at 3; once more, and c is at what it is due. But w needs all of n0.
    """
    rows = [
        placed("wide", "c", on="n0:1 n0:2 n0:3", min_pods=1),
        placed("y", "c", on="n1:0"),
        waiting("w", "b", 4),
    ]
    found = plan([node("n0", 4), node("n1", 2)], [team("b", reserved=4), team("c")], rows)
    assert (preempted(found), found.shrinks, started(found)) == ({"wide"}, (), {"w"})


def test_the_smaller_one_leaves_first_where_the_larger_one_comes_first_in_the_order() -> None:
    """c (due 2) has 4 on n0: after the gang of three it is at 1, and may not lose one more; after the one it may lose
    the gang."""
    rows = [
        placed("gang", "c", on="n0:0 n0:1 n0:2", status=OpenStatus.STARTING),
        placed("one", "c", on="n0:3"),
        waiting("w", "b", 4),
    ]
    found = plan([node("n0", 4), node("n1", 2)], [team("b", reserved=4), team("c")], rows)
    assert (preempted(found), started(found)) == ({"gang", "one"}, {"w"})


def test_nobody_is_taken_beyond_that() -> None:
    """The same, but c is due 3: after either of them it has no more than that."""
    rows = [
        placed("gang", "c", on="n0:0 n0:1 n0:2", status=OpenStatus.STARTING),
        placed("one", "c", on="n0:3"),
        waiting("w", "b", 4),
    ]
    teams = [team("b", reserved=4), team("c", reserved=3)]
    found = plan([node("n0", 4), node("n1", 3)], teams, rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "waiting-for-gpus"})


def test_the_surplus_is_by_whichever_due_gives_more() -> None:
    """b asks 1 of 2 guaranteed; c holds 5, is guaranteed 2 and entitled to 4."""
    tree = Tree([TeamInfo("b", "b", None), TeamInfo("c", "c", None)])
    accounts = QuotaAccounts.of(tree, "main")
    b, c = tree.leaf_of["b"], tree.leaf_of["c"]
    accounts.quotas.guarantee[b], accounts.quotas.guarantee[c] = 2000, 2000
    accounts.usage.used[c] = 5000
    entitled = [0] * len(tree)
    entitled[b], entitled[c] = 1000, 4000
    policy = PreemptionPolicy(Policy(), accounts, entitled, entitled)
    lawful = JointEligibility(policy, WorkloadClaim("w", b, 50, False, 1000), {})
    assert lawful.allowance(c, {("x", 0): 1000, ("y", 0): 2000}) == 3000 - 1000
    assert policy.surplus(WorkloadClaim("w", b, 50, False, 3000), c, {}) == NONE


def test_there_is_room_in_a_branch_only_if_what_is_taken_of_the_others_may_go_in_some_order() -> None:
    """c and d hold 5 each and are due 2; so far 3 may go of each before the last."""
    tree = Tree([TeamInfo(name, name, None) for name in "bcd"])
    accounts = QuotaAccounts.of(tree, "main")
    b, c, d = (tree.leaf_of[name] for name in "bcd")
    for branch, guarantee, used in ((b, 2000, 0), (c, 2000, 5000), (d, 2000, 5000)):
        accounts.quotas.guarantee[branch], accounts.usage.used[branch] = guarantee, used
    none = [0] * len(tree)
    lawful = JointEligibility(
        PreemptionPolicy(Policy(), accounts, none, none), WorkloadClaim("w", b, 50, False, 1000), {}
    )
    one, all_ = {("x", 0): 1000, ("y", 0): 1000}, {("x", 0): 3000, ("y", 0): 3000}
    assert lawful.allowances({c: one, d: one}) == {c: 2000, d: 2000}
    assert lawful.allowances({c: one, d: all_}) == {d: 0}
    assert lawful.allowances({c: all_, d: all_}) == {}


def test_who_could_have_left_earlier_is_told_as_by_judging_the_whole_set_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, found, none = Search._next_in_another_order, 0, 0

    def judged(search: Search) -> Victim | None:
        """The same victim, which must be the first of its leaf that may, of the first tier that has one."""
        nonlocal found, none
        victim = original(search)
        lawful = [each for tier in search._tiers for each in _lawful_together(search, tier)]
        if victim is None:
            assert not lawful
            none += 1
        else:
            assert victim.tier == lawful[0].tier
            assert victim is next(each for each in lawful if each.placed.leaf == victim.placed.leaf)
            found += 1
        return victim

    monkeypatch.setattr(Search, "_next_in_another_order", judged)
    for seed in (*range(200), *SOMEBODY_LEAVES_EARLIER):
        schedule(shared(Random(seed)), NOW)
    assert found > 10
    assert none > 0


def _lawful_together(search: Search, tier: Tier) -> Iterator[Victim]:
    """Those of a tier that are of use and may go together with those who were chosen."""
    branches, passed = search._joint.shared(search._chosen), search._passed()
    victims = search._index.of_tier(tier)
    for leaf in search._tree.leaf_of.values():
        below = passed is not None and passed in search._tree.paths[leaf]
        if search._policy.branch_beside(search._preemptor.leaf, leaf) in branches and (
            below or not search._capacity.enough
        ):
            for victim in victims.of_leaf(leaf):
                taken = search._taken.get(victim.placed.workload.id)
                rest = victim.without(frozenset(taken)) if taken and victim.whole else victim
                if search._serves(victim, any_will_do=below) and search._joint.rules([*search._chosen, rest]):
                    yield victim
