"""Who may preempt whom (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model.plan import Rule
from scheduling.engine.model.snapshot import ElasticPreemption, Policy
from scheduling.engine.quota.tree import ROOT, Accounts

BY_ENTITLEMENT, BY_GUARANTEE = 1, 2
"""By what the fair-share rule measures what is due to a branch; their sum: by whichever gives more."""
ANY_DUE = BY_ENTITLEMENT | BY_GUARANTEE


@dataclass(frozen=True, slots=True)
class Party:
    """A workload as far as the rules look at it. ``milli`` is what it takes with its minimum of pods."""

    id: str
    leaf: int
    priority: int
    reserved: bool
    milli: int


class Step(NamedTuple):
    """One branch of a newcomer's own, at a depth of the tree: by how much it would be above what is due to it with him,
    and by how much those beside it are that are above."""

    mine: int
    depth: int
    excess: int
    above: Sequence[tuple[int, int]]


def fair_now(ways: Iterable[Iterable[Step]], leaving: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The branches, with their depths, that the fair-share rule gives a newcomer when so much is leaving for him: as
    far up each way as his own branches stay within what is due to them."""
    for way in ways:
        for step in way:
            if leaving.get(step.mine, 0) < step.excess:
                break
            for other, excess in step.above:
                if leaving.get(other, 0) < excess:
                    yield other, step.depth


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
        before = leaving if before is None else before
        dues = (self.entitled, self.accounts.quotas.guarantee)
        return (
            Rule.FAIR_SHARE
            if any(self._fair(newcomer, victim, leaving, before, due) for due in dues)
            else None
        )

    def by_shares(self, newcomer: Party, victim: Party) -> bool:
        """Whether it is for the fair-share rule to say if the newcomer may preempt the victim."""
        mode = self.policy.elastic_preemption
        if newcomer.reserved or victim.reserved or newcomer.leaf == victim.leaf:
            return False
        return mode is ElasticPreemption.FAIR_SHARE or (
            mode is ElasticPreemption.PRIORITY and victim.priority == newcomer.priority
        )

    def leeway(self, newcomer: Party, branch: int, leaving: Mapping[int, int]) -> int:
        """By how much a branch beside the newcomer's way down is above what is due to it, by entitlements or by
        guarantees: the more of those within which his own branches stay; zero, if neither."""
        used, depth = self.accounts.usage.used, self.accounts.tree.parting(newcomer.leaf, branch)
        mine = self.accounts.tree.paths[newcomer.leaf][depth:]
        return max(
            (
                used[branch] - due[branch]
                for due in (self.entitled, self.accounts.quotas.guarantee)
                if all(used[each] + newcomer.milli - leaving.get(each, 0) <= due[each] for each in mine)
            ),
            default=0,
        )

    def _fair(
        self,
        newcomer: Party,
        victim: Party,
        leaving: Mapping[int, int],
        before: Mapping[int, int],
        due: Sequence[int],
    ) -> bool:
        """The fair-share rule, by what is ``due`` to each branch: its entitlement or its guarantee."""
        parting = self.accounts.tree.parting(newcomer.leaf, victim.leaf)
        mine = self.accounts.tree.paths[newcomer.leaf][parting:]
        theirs = self.accounts.tree.paths[victim.leaf][parting]
        used = self.accounts.usage.used
        return used[theirs] - before.get(theirs, 0) > due[theirs] and all(
            used[branch] + newcomer.milli - leaving.get(branch, 0) <= due[branch] for branch in mine
        )

    def excess(self, branch: int, by: int = ANY_DUE) -> int:
        """By how much a branch is above its entitlement, or its guarantee, whichever of those asked for is less."""
        guarantee = self.accounts.quotas.guarantee[branch]
        due = guarantee if by == BY_GUARANTEE else self.entitled[branch]
        if by == ANY_DUE and guarantee < due:
            due = guarantee
        return self.accounts.usage.used[branch] - due

    def is_above(self, branch: int) -> bool:
        """Whether a branch has more than its entitlement, or than its guarantee."""
        return self.excess(branch) > 0

    def fair_steps(self, newcomer: Party) -> list[list[Step]]:
        """The newcomer's way up from his leaf, by each due, while nobody has left for him."""
        tree, used = self.accounts.tree, self.accounts.usage.used
        path = tree.paths[newcomer.leaf]
        ways = []
        for due in (self.entitled, self.accounts.quotas.guarantee):
            way = []
            for depth in range(len(path) - 1, -1, -1):
                mine = path[depth]
                beside = [
                    other for other in tree.children[path[depth - 1] if depth else ROOT] if other != mine
                ]
                above = [(other, used[other] - due[other]) for other in beside if used[other] > due[other]]
                way.append(Step(mine, depth, used[mine] + newcomer.milli - due[mine], above))
            ways.append(way)
        return ways

    def returns(self, newcomer: Party, victim: Party, leaving: Mapping[int, int]) -> bool:
        """Whether the victim, once the newcomer has its place, could lawfully take it back from him."""
        after = dict(leaving)
        for branch in (ROOT, *self.accounts.tree.paths[newcomer.leaf]):
            after[branch] = after.get(branch, 0) - newcomer.milli
        if self.rule(victim, newcomer, after) is not None:
            return True
        comparable = self.policy.elastic_preemption is ElasticPreemption.FAIR_SHARE
        comparable = comparable or victim.priority == newcomer.priority
        return (
            comparable
            and victim.leaf != newcomer.leaf
            and self._fair(victim, newcomer, after, after, self.next_entitled)
        )

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
