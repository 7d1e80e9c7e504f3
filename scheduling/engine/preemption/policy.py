"""Who may preempt whom (section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.model.plan import Rule
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import ElasticPreemption, Policy
from scheduling.engine.quota.tree import ROOT, Accounts

BY_ENTITLEMENT, BY_GUARANTEE, BY_NEXT_ENTITLEMENT = 1, 2, 4
"""By what the fair-share rule measures what is due to a branch, as bits."""
ANY_DUE = BY_ENTITLEMENT | BY_GUARANTEE
"""By either, whichever gives more."""
NONE = -UNLIMITED
"""The surplus of a branch that the fair-share rule takes nothing from."""


@dataclass(frozen=True, slots=True)
class Party:
    """A workload as far as the rules look at it. ``milli`` is what it takes with its minimum of pods."""

    id: str
    leaf: int
    priority: int
    reserved: bool
    milli: int


@dataclass(frozen=True, slots=True)
class Rights:
    """The rules of one pool, over what its branches use at the moment.

    ``leaving`` is, by branch, what goes of it for the newcomer. ``next_entitled`` is what the next cycle will entitle
    the branches to, as far as this one can tell: what starts in this cycle may shift it.
    """

    policy: Policy
    accounts: Accounts
    entitled: Sequence[int]
    next_entitled: Sequence[int]

    def rule(
        self,
        newcomer: Party,
        victim: Party,
        leaving: Mapping[int, int],
        before: Mapping[int, int] | None = None,
    ) -> Rule | None:
        """By which right the newcomer may preempt the victim; ``None`` if by none.

        ``leaving`` are all victims of the newcomer, ``before`` those of them that go before this one (all, if not
        given).
        """
        if victim.reserved:
            return None
        if newcomer.reserved:
            return Rule.RESERVED
        mode = self.policy.elastic_preemption
        if mode is ElasticPreemption.NEVER:
            return None
        same_team = newcomer.leaf == victim.leaf
        if victim.priority < newcomer.priority and (mode is ElasticPreemption.PRIORITY or same_team):
            return Rule.PRIORITY
        if not self.by_shares(newcomer, victim):
            return None
        branch = self.branch_beside(newcomer.leaf, victim.leaf)
        gone = (leaving if before is None else before).get(branch, 0)
        return Rule.FAIR_SHARE if self.surplus(newcomer, branch, leaving) > gone else None

    def by_shares(self, newcomer: Party, victim: Party) -> bool:
        """Whether it is for the fair-share rule to say if the newcomer may preempt the victim."""
        mode = self.policy.elastic_preemption
        if newcomer.reserved or victim.reserved or newcomer.leaf == victim.leaf:
            return False
        return mode is ElasticPreemption.FAIR_SHARE or (
            mode is ElasticPreemption.PRIORITY and victim.priority == newcomer.priority
        )

    # --- The fair-share rule ---------------------------------------------------------------------------------

    def surplus(self, newcomer: Party, branch: int, leaving: Mapping[int, int], dues: int = ANY_DUE) -> int:
        """Milli-GPUs that a branch beside the newcomer's own uses beyond what is due to it; ``NONE``, if it is safe.

        This is the fair-share rule. Due is the entitlement or the guarantee, whichever gives more, as far as it counts
        for the newcomer: see :meth:`dues_by_depth`.
        """
        parting = self.accounts.tree.parting(newcomer.leaf, branch)
        for depth, kept in self.dues_by_depth(newcomer, leaving, dues):
            if depth == parting:
                return self.excess(branch, kept)
        return NONE

    def dues_by_depth(
        self, newcomer: Party, leaving: Mapping[int, int], dues: int = ANY_DUE
    ) -> Iterator[tuple[int, int]]:
        """The dues that count beside each branch of the newcomer's own, from its team upwards: the depth of the branch
        and the dues.

        A due counts only if the newcomer's own branches, from its team up to this one, stay within theirs once it has
        started and ``leaving`` has left.
        """
        used, path = self.accounts.usage.used, self.accounts.tree.paths[newcomer.leaf]
        for depth in range(len(path) - 1, -1, -1):
            own = path[depth]
            after = used[own] + newcomer.milli - leaving.get(own, 0)
            if dues & BY_ENTITLEMENT and after > self.entitled[own]:
                dues &= ~BY_ENTITLEMENT
            if dues & BY_GUARANTEE and after > self.accounts.quotas.guarantee[own]:
                dues &= ~BY_GUARANTEE
            if dues & BY_NEXT_ENTITLEMENT and after > self.next_entitled[own]:
                dues &= ~BY_NEXT_ENTITLEMENT
            if not dues:
                return
            yield depth, dues

    def fair_branches(
        self, newcomer: Party, leaving: Mapping[int, int], above: Sequence[Sequence[int]] | None = None
    ) -> list[list[int]]:
        """The branches that the fair-share rule takes from when so much is leaving, by the depth of the newcomer's own
        branch that they stand beside.

        ``above`` are those of :meth:`above_beside`, if they are known: no others have a surplus.
        """
        above = self.above_beside(newcomer) if above is None else above
        found: list[list[int]] = [[] for _ in above]
        for depth, dues in self.dues_by_depth(newcomer, leaving):
            found[depth] = [each for each in above[depth] if self.excess(each, dues) > leaving.get(each, 0)]
        return found

    def above_beside(self, newcomer: Party) -> list[list[int]]:
        """The branches beside each of the newcomer's own that are above what is due to them, by any due."""
        tree = self.accounts.tree
        return [
            [each for each in tree.children[tree.parents[own]] if each != own and self.is_above(each)]
            for own in tree.paths[newcomer.leaf]
        ]

    def branch_beside(self, leaf: int, other: int) -> int:
        """The branch of the other leaf where the two part: it stands beside one of the leaf's own."""
        return self.accounts.tree.paths[other][self.accounts.tree.parting(leaf, other)]

    def excess(self, branch: int, by: int = ANY_DUE) -> int:
        """By how much a branch is above what is due to it, by whichever of these dues is least."""
        if by == BY_NEXT_ENTITLEMENT:
            due = self.next_entitled[branch]
        else:
            guarantee = self.accounts.quotas.guarantee[branch]
            due = guarantee if by == BY_GUARANTEE else self.entitled[branch]
            if by == ANY_DUE and guarantee < due:
                due = guarantee
        return self.accounts.usage.used[branch] - due

    def is_above(self, branch: int) -> bool:
        """Whether a branch has more than its entitlement, or than its guarantee."""
        return self.excess(branch) > 0

    def returns(self, newcomer: Party, victim: Party, leaving: Mapping[int, int]) -> bool:
        """Whether the victim, once the newcomer has its place, could lawfully take it back from him."""
        after = dict(leaving)
        for branch in (ROOT, *self.accounts.tree.paths[newcomer.leaf]):
            after[branch] = after.get(branch, 0) - newcomer.milli
        if self.rule(victim, newcomer, after) is not None:
            return True
        comparable = self.policy.elastic_preemption is ElasticPreemption.FAIR_SHARE
        comparable = comparable or victim.priority == newcomer.priority
        if not comparable or victim.leaf == newcomer.leaf:
            return False
        branch = self.branch_beside(victim.leaf, newcomer.leaf)
        return self.surplus(victim, branch, after, BY_NEXT_ENTITLEMENT) > after[branch]

    def level(self, newcomer: Party, victim: Party) -> str | None:
        """The team where the two branches part; ``None`` for the nameless root."""
        parting = self.accounts.tree.parting(newcomer.leaf, victim.leaf)
        return (
            self.accounts.tree.team_id(self.accounts.tree.paths[victim.leaf][parting - 1])
            if parting
            else None
        )

    def above(self, branch: int, newcomer: Party, leaving: Mapping[int, int]) -> float:
        """How far a branch is above its entitlement, the newcomer counted in and his victims taken out: U/E."""
        used = self.accounts.usage.used[branch] - leaving.get(branch, 0)
        if branch in self.accounts.tree.paths[newcomer.leaf]:
            used += newcomer.milli
        entitled = self.entitled[branch]
        if entitled:
            return used / entitled
        return float("inf") if used > 0 else 0.0
