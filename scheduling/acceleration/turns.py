"""Whose turn it is among the victims of one tier: always one of the team most above its entitlement (section 7).

As workloads leave, what their branches are above their entitlements only falls. So the turns below a branch are those
of its children, merged: sorted by how far each child is above its entitlement as one of it leaves. That is done level
by level, from the leaves up, for many places at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.quota.tree import ROOT, Tree

NO_BRANCH = -1


@dataclass(frozen=True, slots=True)
class LeavingRows:
    """Those of one tier, row by row: in which place (by number) they are looked at, their leaf, what leaves with them
    (milli-GPUs), and how many come before them in the order inside a team."""

    place: Ints
    leaf: Ints
    milli: Ints
    key: Ints


def paths_of(tree: Tree, leaf: Ints) -> Ints:
    """The ways down to some leaves, a row for each, filled up with :data:`NO_BRANCH`."""
    among = np.zeros(len(tree), np.bool_)
    among[leaf] = True
    paths = [tree.paths[each] for each in np.flatnonzero(among).tolist()]
    depth = max(map(len, paths), default=0)
    filled = [(*path, *[NO_BRANCH] * (depth - len(path))) for path in paths]
    rows: Ints = np.array(filled, np.int64).reshape(len(paths), depth)
    number: Ints = np.cumsum(among) - 1
    return rows[number[leaf]]


def in_turn(
    preemption_policy: PreemptionPolicy, preemptor: WorkloadClaim, leaving_rows: LeavingRows, gone: Ints
) -> Ints:
    """The rows in the order in which they leave, place after place. ``gone`` is what has left before, by place and
    branch."""
    tree = preemption_policy.accounts.tree
    size, paths = len(tree), paths_of(tree, leaving_rows.leaf)
    entitled = np.array(preemption_policy.entitled, np.int64)
    used = np.array(preemption_policy.accounts.usage.used, np.int64)
    used[list(tree.paths[preemptor.leaf])] += preemptor.milli
    left = used - gone
    order = np.lexsort((leaving_rows.key, leaving_rows.leaf, leaving_rows.place))
    for depth in reversed(range(paths.shape[1])):
        place, branch = leaving_rows.place[order], paths[order, depth]
        inside = branch != NO_BRANCH
        branch = np.where(inside, branch, leaving_rows.leaf[order])
        group = place * size + branch
        starts = np.diff(group, prepend=-1) != 0
        number = np.cumsum(starts) - 1
        before = np.cumsum(leaving_rows.milli[order]) - leaving_rows.milli[order]
        before -= before[starts][number]
        above = _minus_above(left[place, branch] - before, entitled[branch])
        parent = np.where(inside, paths[order, depth - 1] if depth else ROOT, branch)
        order = order[np.lexsort((_lowest(leaving_rows.key[order], number), above, place * size + parent))]
    return order


def _minus_above(used: Ints, entitled: Ints) -> NDArray[np.float64]:
    """Minus U/E, as in :meth:`~scheduling.engine.preemption.policy.PreemptionPolicy.above`."""
    without = np.where(used > 0, -np.inf, 0.0)
    return np.where(entitled != 0, -used / np.where(entitled != 0, entitled, 1), without)


def _lowest(key: Ints, group: Ints) -> Ints:
    """The lowest key of a row's group from the row on; the groups come one after the other."""
    span = int(key.max(initial=0)) + 1
    return np.minimum.accumulate((key + group * span)[::-1])[::-1] - group * span
