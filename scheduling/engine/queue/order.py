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
from typing import Protocol, TypeVar

from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    HOUR_MS,
    RESERVED_PRIORITY,
    ElasticPreemption,
    Fairness,
    Policy,
)
from scheduling.engine.queue.candidate import OwnKey
from scheduling.engine.quota.tree import QuotaAccounts


class Queued(Protocol):
    """What the order has to know of a candidate."""

    @property
    def id(self) -> str:
        """Its id, the last key."""

    @property
    def leaf(self) -> int:
        """Its team's leaf of the tree."""

    @property
    def reserved(self) -> bool:
        """Its class."""

    @property
    def key(self) -> OwnKey:
        """Its place inside its team."""

    @property
    def next_milli(self) -> int:
        """What it takes when its turn comes."""


C = TypeVar("C", bound=Queued)

Ratio = Callable[[int, int], float]
"""How well served a branch is, given the milli-GPUs its next candidate would add (never less with more); lower comes
first."""
Line = Mapping[int, Sequence[C]]
"""Candidates that differ in keys 3 to 5 only, by leaf; those of a leaf by their own keys."""
Level = tuple[bool, int]
"""Keys 1 and 2 of the order, as far as they come before 3: whether elastic, and minus the priority."""


def level_of(policy: Policy, candidate: Queued) -> Level:
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


def branch_key(branch: int, head: Queued, ratio: Ratio) -> tuple[float, int, str]:
    """The place of a branch among those beside it, by its ratio and its next candidate: keys 3 to 5."""
    _, submitted_at, id_ = head.key
    return (ratio(branch, head.next_milli), submitted_at, id_)
