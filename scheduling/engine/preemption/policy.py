"""Preemption policy: which placed workloads a preemptor may have as victims (section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.model.plan import Rule
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import ElasticPreemption, Policy
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.quota.tree import ROOT, QuotaAccounts

BY_ENTITLEMENT, BY_GUARANTEE, BY_NEXT_ENTITLEMENT = 1, 2, 4
"""By what the fair-share rule measures what is due to a branch, as bits."""
EITHER_BASE = BY_ENTITLEMENT | BY_GUARANTEE
"""By either, whichever gives more."""
NONE = -UNLIMITED
"""The surplus of a branch that the fair-share rule takes nothing from."""


@dataclass(frozen=True, slots=True)
class WorkloadClaim:
    """A workload as the policy sees it. ``milli`` is what its minimum of pods takes."""

    id: str
    leaf: int
    priority: int
    reserved: bool
    milli: int


def claim_of(candidate: Candidate) -> WorkloadClaim:
    """A candidate as the policy sees it."""
    return WorkloadClaim(
        candidate.id, candidate.leaf, candidate.priority, candidate.reserved, candidate.next_milli
    )


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """The policy of one pool, over what its branches use at the moment.

    ``leaving`` is what the preemptor's victims give back, by branch. ``next_entitled`` are the entitlements of the next
    cycle as far as this one can tell: what starts in this cycle may shift them.
    """

    policy: Policy
    accounts: QuotaAccounts
    entitled: Sequence[int]
    next_entitled: Sequence[int]

    def rule(
        self,
        preemptor: WorkloadClaim,
        victim: WorkloadClaim,
        leaving: Mapping[int, int],
        before: Mapping[int, int] | None = None,
    ) -> Rule | None:
        """The rule by which the preemptor may preempt the victim; ``None`` if there is none.

        ``leaving`` counts all victims, ``before`` those that leave before this one (default: all).
        """
        if victim.reserved:
            return None
        if preemptor.reserved:
            return Rule.RESERVED
        if not self.may_preempt(preemptor):
            return None
        if victim.priority < preemptor.priority and self.lower_in(preemptor) in (ROOT, victim.leaf):
            return Rule.PRIORITY
        if not self.by_shares(preemptor, victim):
            return None
        branch = self.branch_beside(preemptor.leaf, victim.leaf)
        gone = (leaving if before is None else before).get(branch, 0)
        return Rule.FAIR_SHARE if self.surplus(preemptor, branch, leaving) > gone else None

    def may_preempt(self, preemptor: WorkloadClaim | Candidate) -> bool:
        """Whether it may have victims at all."""
        return preemptor.reserved or self.has_elastic_preemption

    @property
    def has_elastic_preemption(self) -> bool:
        """Whether elastic workloads may have victims."""
        return self.policy.elastic_preemption is not ElasticPreemption.NEVER

    def lower_in(self, preemptor: WorkloadClaim) -> int:
        """The branch of which an elastic preemptor may take all of lower priority: any team's, or its own team's."""
        return ROOT if self.policy.elastic_preemption is ElasticPreemption.PRIORITY else preemptor.leaf

    def equal_only(self) -> bool:
        """Whether the fair-share rule decides between equal priorities only."""
        return self.policy.elastic_preemption is not ElasticPreemption.FAIR_SHARE

    def highest_victim(self, priority: int) -> int | None:
        """The highest priority of a victim that an elastic preemptor of this priority may have; ``None``: any."""
        return priority if self.equal_only() else None

    def by_shares(self, preemptor: WorkloadClaim, victim: WorkloadClaim) -> bool:
        """Whether the fair-share rule decides: between teams and, under ``priority``, equal priorities."""
        if preemptor.reserved or victim.reserved or preemptor.leaf == victim.leaf:
            return False
        return self.may_preempt(preemptor) and self._comparable(preemptor, victim)

    def _comparable(self, one: WorkloadClaim, other: WorkloadClaim) -> bool:
        return one.priority == other.priority or not self.equal_only()

    # --- The fair-share rule ---------------------------------------------------------------------------------

    def surplus(
        self, preemptor: WorkloadClaim, branch: int, leaving: Mapping[int, int], bases: int = EITHER_BASE
    ) -> int:
        """Milli-GPUs that a branch beside the preemptor's own uses beyond what is due to it; ``NONE``, if it is safe.

        This is the fair-share rule. Due is the entitlement or the guarantee, whichever gives more, as far as it counts
        for the preemptor: see :meth:`bases_by_depth`.
        """
        parting = self.accounts.tree.parting(preemptor.leaf, branch)
        for depth, kept in self.bases_by_depth(preemptor, leaving, bases):
            if depth == parting:
                return self.excess(branch, kept)
        return NONE

    def bases_by_depth(
        self, preemptor: WorkloadClaim, leaving: Mapping[int, int], bases: int = EITHER_BASE
    ) -> Iterator[tuple[int, int]]:
        """The bases that count beside each of the preemptor's own branches, from its team upwards, with its depth.

        A due counts only if the preemptor's own branches, from its team up to this one, stay within theirs once it has
        started and ``leaving`` has left.
        """
        used, path = self.accounts.usage.used, self.accounts.tree.paths[preemptor.leaf]
        for depth in range(len(path) - 1, -1, -1):
            own = path[depth]
            after = used[own] + preemptor.milli - leaving.get(own, 0)
            if bases & BY_ENTITLEMENT and after > self.entitled[own]:
                bases &= ~BY_ENTITLEMENT
            if bases & BY_GUARANTEE and after > self.accounts.quotas.guarantee[own]:
                bases &= ~BY_GUARANTEE
            if bases & BY_NEXT_ENTITLEMENT and after > self.next_entitled[own]:
                bases &= ~BY_NEXT_ENTITLEMENT
            if not bases:
                return
            yield depth, bases

    def fair_branches(
        self, preemptor: WorkloadClaim, leaving: Mapping[int, int], beside: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """The branches ``beside`` the preemptor's own, by depth, that the fair-share rule takes from at this point."""
        found: list[list[int]] = [[] for _ in beside]
        for depth, bases in self.bases_by_depth(preemptor, leaving):
            found[depth] = [each for each in beside[depth] if self.excess(each, bases) > leaving.get(each, 0)]
        return found

    def branch_beside(self, leaf: int, other: int) -> int:
        """The other leaf's branch where the two part: it stands beside one of the leaf's own."""
        path = self.accounts.tree.paths[other]
        return path[min(self.accounts.tree.parting(leaf, other), len(path) - 1)]

    def excess(self, branch: int, by: int = EITHER_BASE) -> int:
        """By how much a branch is above what is due to it, by whichever of these bases is least."""
        if by == BY_NEXT_ENTITLEMENT:
            due = self.next_entitled[branch]
        else:
            guarantee = self.accounts.quotas.guarantee[branch]
            due = guarantee if by == BY_GUARANTEE else self.entitled[branch]
            if by == EITHER_BASE and guarantee < due:
                due = guarantee
        return self.accounts.usage.used[branch] - due

    def loops(self, preemptor: WorkloadClaim, victim: WorkloadClaim, leaving: Mapping[int, int]) -> bool:
        """Whether the victim could at once preempt the preemptor in turn: a preemption loop."""
        after = dict(leaving)
        for branch in (ROOT, *self.accounts.tree.paths[preemptor.leaf]):
            after[branch] = after.get(branch, 0) - preemptor.milli
        if self.rule(victim, preemptor, after) is not None:
            return True
        if not self._comparable(preemptor, victim) or victim.leaf == preemptor.leaf:
            return False
        branch = self.branch_beside(victim.leaf, preemptor.leaf)
        return self.surplus(victim, branch, after, BY_NEXT_ENTITLEMENT) > after[branch]

    def level(self, preemptor: WorkloadClaim, victim: WorkloadClaim) -> str | None:
        """The team where the two branches part; ``None`` for the nameless root."""
        parting = self.accounts.tree.parting(preemptor.leaf, victim.leaf)
        return (
            self.accounts.tree.team_id(self.accounts.tree.paths[victim.leaf][parting - 1])
            if parting
            else None
        )

    def above(self, branch: int, preemptor: WorkloadClaim, leaving: Mapping[int, int]) -> float:
        """How far a branch is above its entitlement, with the preemptor and without its victims: U/E."""
        used = self.accounts.usage.used[branch] - leaving.get(branch, 0)
        if branch in self.accounts.tree.paths[preemptor.leaf]:
            used += preemptor.milli
        entitled = self.entitled[branch]
        if entitled:
            return used / entitled
        return float("inf") if used > 0 else 0.0
