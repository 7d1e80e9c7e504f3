"""Turns worked out all at once are those that come of one leaving after the other."""

from __future__ import annotations

from random import Random

import numpy as np

from scheduling.acceleration.turns import LeavingRows, in_turn
from scheduling.engine import Policy, TeamInfo
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.quota.tree import ROOT, QuotaAccounts, Tree

TEAMS = [
    *[TeamInfo(name, name, None) for name in "abc"],
    *[TeamInfo(name, name, name[0]) for name in ("aa", "ab", "ba", "bb", "bc")],
    *[TeamInfo(name, name, name[:2]) for name in ("aaa", "aab", "bba")],
]
PLACES = 2


def drawn(chance: Random) -> tuple[PreemptionPolicy, WorkloadClaim, LeavingRows]:
    """Workloads of all teams, in two places, who have about what is due to them."""
    tree = Tree(TEAMS)
    accounts = QuotaAccounts.of(tree, "main")
    leaves = sorted(tree.leaf_of.values())
    place, leaf = (np.array(chance.choices(among, k=30), np.int64) for among in (range(PLACES), leaves))
    milli = np.array(chance.choices((0, 500, 1000), k=30), np.int64)
    for each, held in zip(leaf.tolist(), milli.tolist(), strict=True):
        accounts.usage.add(each, held, reserved=False)
    entitled = [chance.choice((0, 1000, 2000, 4000)) for _ in range(len(tree))]
    keys = np.array(chance.sample(range(100), 30), np.int64)
    newcomer = WorkloadClaim("new", chance.choice(leaves), 100, True, chance.choice((1000, 3000)))
    preemption_policy = PreemptionPolicy(Policy(), accounts, entitled, entitled)
    return preemption_policy, newcomer, LeavingRows(place, leaf, milli, keys)


def one_by_one(
    preemption_policy: PreemptionPolicy, newcomer: WorkloadClaim, leaving_rows: LeavingRows, place: int
) -> list[int]:
    """The turns of a place: from the root down into the branch most above its entitlement, of equal ones the one with
    the lowest key, as one leaves after the other."""
    tree, turns = preemption_policy.accounts.tree, []
    leaving: dict[int, int] = {}
    left = [row for row in range(len(leaving_rows.key)) if leaving_rows.place[row] == place]
    while left:
        branch = ROOT
        while tree.children[branch]:
            below = {
                child: min(keys)
                for child in tree.children[branch]
                if (
                    keys := [
                        leaving_rows.key[row] for row in left if child in tree.paths[leaving_rows.leaf[row]]
                    ]
                )
            }
            branch = min(
                below, key=lambda each: (-preemption_policy.above(each, newcomer, leaving), below[each])
            )
        row = min(
            (row for row in left if leaving_rows.leaf[row] == branch),
            key=lambda row: int(leaving_rows.key[row]),
        )
        for each in tree.paths[branch]:
            leaving[each] = leaving.get(each, 0) + int(leaving_rows.milli[row])
        left.remove(row)
        turns.append(row)
    return turns


def test_all_at_once_they_are_those_of_one_after_the_other() -> None:
    for seed in range(100):
        preemption_policy, newcomer, leaving_rows = drawn(Random(seed))
        gone = np.zeros((PLACES, len(preemption_policy.accounts.tree)), np.int64)
        found = in_turn(preemption_policy, newcomer, leaving_rows, gone).tolist()
        expected = [one_by_one(preemption_policy, newcomer, leaving_rows, place) for place in range(PLACES)]
        assert found == [row for turns in expected for row in turns], seed
