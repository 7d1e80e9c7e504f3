"""The preemption policy: the fair-share rule as a function of values."""

from __future__ import annotations

from random import Random

from scheduling.engine import ElasticPreemption, Policy
from scheduling.engine.model.plan import Rule
from scheduling.engine.preemption.policy import (
    BY_GUARANTEE,
    EITHER_BASE,
    NONE,
    PreemptionPolicy,
    WorkloadClaim,
)
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.tests.engine.build import team

FAIR = Policy(elastic_preemption=ElasticPreemption.FAIR_SHARE)
TREE = Tree([team("top"), team("a", "top"), team("b", "top"), team("other")])
A, B, OTHER, TOP = (TREE.team_branch[name] for name in ("a", "b", "other", "top"))
ASKING = WorkloadClaim("w", A, 50, False, 1_000)


def preemption_policy(
    used: dict[int, int], entitled: dict[int, int], guarantee: dict[int, int]
) -> PreemptionPolicy:
    """The policy over these figures, 0 elsewhere; the next cycle entitles to as much."""
    accounts = QuotaAccounts.of(TREE, "main")
    for branch in range(len(TREE)):
        accounts.usage.used[branch] = used.get(branch, 0)
        accounts.quotas.guarantee[branch] = guarantee.get(branch, 0)
    due = [entitled.get(branch, 0) for branch in range(len(TREE))]
    return PreemptionPolicy(FAIR, accounts, due, due)


def test_a_due_counts_only_up_to_where_an_own_branch_would_pass_it() -> None:
    """By entitlement only a has space for the workload, by guarantee top has it too."""
    found = preemption_policy({}, {A: 1_000}, {A: 1_000, TOP: 1_000})
    assert list(found.bases_by_depth(ASKING, {})) == [(1, EITHER_BASE), (0, BY_GUARANTEE)]


def test_what_is_leaving_makes_space_in_an_own_branch() -> None:
    found = preemption_policy({A: 500, B: 3_000}, {A: 1_000, B: 2_000}, {})
    assert found.surplus(ASKING, B, {}) == NONE
    assert found.surplus(ASKING, B, {A: 500}) == 1_000


def test_a_branch_is_safe_if_no_due_counts_whatever_it_uses() -> None:
    """More than nothing is used of b, and less than nothing leaves it, as where a victim is the one who asks."""
    found = preemption_policy({B: 3_000}, {}, {})
    assert found.rule(ASKING, WorkloadClaim("v", B, 50, False, 1_000), {B: -1_000}) is None


def test_a_branch_gives_no_more_than_its_surplus() -> None:
    found, victim = (
        preemption_policy({B: 3_000}, {A: 1_000, B: 2_000}, {}),
        WorkloadClaim("v", B, 90, False, 1_000),
    )
    assert found.rule(ASKING, victim, {}) is Rule.FAIR_SHARE
    assert found.rule(ASKING, victim, {B: 999}) is Rule.FAIR_SHARE
    assert found.rule(ASKING, victim, {B: 1_000}) is None


def test_the_branches_that_give_a_victim_are_those_whose_victims_the_rule_gives() -> None:
    random, given = Random(1), 0

    def figures() -> dict[int, int]:
        return {branch: random.randrange(0, 4_001, 500) for branch in range(len(TREE))}

    for _ in range(500):
        found, leaving = preemption_policy(figures(), figures(), figures()), figures()
        beside = TREE.beside(ASKING.leaf)
        fair = {branch for level in found.fair_branches(ASKING, leaving, beside) for branch in level}
        victims = {
            branch: WorkloadClaim("v", branch, 50, False, 1_000) for branch in (B, OTHER, TREE.leaf_of["top"])
        }
        assert fair == {branch for branch, each in victims.items() if found.rule(ASKING, each, leaving)}
        given += len(fair)
    assert given > 50
