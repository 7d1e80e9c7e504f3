"""The order of the queue: one total order per pool, worked out while the cycle admits (section 4).

1. reserved before elastic
2. higher priority
3. the fairer team: from the root down into the branch with the lowest ratio that has candidates
4. earlier original submission
5. id

Where elastic work is not preempted by priority (``fair-share``, ``never``), 3 comes before 2 for elastic workloads.
Keys 1 and 2, as far as they come before 3, make the *level* of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Generic, TypeVar

from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    HOUR_MS,
    RESERVED_PRIORITY,
    ElasticPreemption,
    Fairness,
    Policy,
)
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.quota.tree import ROOT, QuotaAccounts, Tree

C = TypeVar("C", bound=Candidate)

Ratio = Callable[[int, int], float]
"""How well served a branch is, given the milli-GPUs its next candidate would add (never less with more); lower comes
first."""
Line = Mapping[int, Sequence[C]]
"""Candidates that differ in keys 3 to 5 only, by leaf; those of a leaf by their own keys."""
Level = tuple[bool, int]
"""Keys 1 and 2 of the order, as far as they come before 3: whether elastic, and minus the priority."""


def level_of(policy: Policy, candidate: Candidate) -> Level:
    """The level of a candidate."""
    return level_at(policy, -candidate.key[0])


def level_at(policy: Policy, priority: int) -> Level:
    """The level of candidates with a priority."""
    reserved = priority >= RESERVED_PRIORITY
    ordered = reserved or policy.elastic_preemption is ElasticPreemption.PRIORITY
    return (not reserved, -priority if ordered else 0)


def lined_up(policy: Policy, candidates: Iterable[C]) -> dict[Level, dict[int, list[C]]]:
    """The candidates by level and leaf, those of a leaf by their own keys."""
    levels: dict[Level, dict[int, list[C]]] = {}
    for candidate in candidates:
        leaves = levels.setdefault(level_of(policy, candidate), {})
        leaves.setdefault(candidate.leaf, []).append(candidate)
    for leaves in levels.values():
        for line in leaves.values():
            line.sort(key=attrgetter("key"))
    return levels


def fairness_ratio(
    policy: Policy, accounts: QuotaAccounts, entitled: Sequence[int], given: Sequence[int]
) -> Ratio:
    """The pool's ratio: ``(U + the candidate) / E`` of entitlements, or decayed usage over weight.

    Infinite where nothing is due to a branch. ``given`` are the milli-GPUs that this cycle has given each branch.
    """
    weights, decayed, used = accounts.quotas.weight, accounts.quotas.usage_gpu_ms, accounts.usage.used

    def by_entitlement(branch: int, candidate_milli: int) -> float:
        due = entitled[branch]
        return (used[branch] + candidate_milli) / due if due else inf

    def by_usage(branch: int, _: int) -> float:
        weight = weights[branch]
        return (decayed[branch] + given[branch] * HOUR_MS // GPU_MILLI) / weight if weight else inf

    return by_usage if policy.fairness is Fairness.USAGE else by_entitlement


def branch_key(branch: int, head: Candidate, ratio: Ratio) -> tuple[float, int, str]:
    """The place of a branch among those beside it, by its ratio and its next candidate: keys 3 to 5."""
    _, submitted_at, id_ = head.key
    return (ratio(branch, head.next_milli), submitted_at, id_)


class CandidateQueue(Generic[C]):
    """Candidates of one pool, taken one by one in the order of this page, by the ratios of the moment."""

    def __init__(self, tree: Tree, ratio: Ratio, levels: Mapping[Level, Line[C]]) -> None:
        self._tree = tree
        self._ratio = ratio
        self._levels = {
            level: {leaf: list(row) for leaf, row in levels[level].items()} for level in sorted(levels)
        }

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when none is left."""
        for line in self._levels.values():
            first = self._first(ROOT, line)
            if first is not None:
                return first
        return None

    def _first(self, branch: int, line: Line[C]) -> C | None:
        """The next candidate below a branch: that of the child with the lowest key."""
        children = self._tree.children[branch]
        if not children:
            row = line.get(branch)
            return row[0] if row else None
        firsts = [
            (branch_key(child, first, self._ratio), first)
            for child in children
            if (first := self._first(child, line)) is not None
        ]
        return min(firsts, key=lambda each: each[0])[1] if firsts else None

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        for line in self._levels.values():
            if candidate in (row := line.get(candidate.leaf, [])):
                row.remove(candidate)

    def touch(self, leaf: int) -> None:
        """Nothing to do: each look is a new one."""
