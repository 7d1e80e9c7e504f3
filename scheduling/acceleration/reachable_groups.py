"""Which workloads a preemptor could ever have as victims (section 7): kept, and looked at again where that could be
more than before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.acceleration.eligible_victims import EligibleVictims, Joined
from scheduling.acceleration.group_bounds import GroupBoundsIndex
from scheduling.acceleration.victim_groups import EVERY_WORKLOAD, VictimGroup
from scheduling.engine.preemption.policy import BY_ENTITLEMENT, BY_GUARANTEE, PreemptionPolicy, WorkloadClaim
from scheduling.engine.quota.tree import ROOT


class Full(NamedTuple):
    """A branch of a preemptor's own that is too full for it, by one of the bases: so it is while it lacks less than
    ``room`` of what is due to it.

    ``relieved``: with what has joined the index below it, all of which might leave for it.
    """

    branch: int
    by: int
    relieved: bool
    slack: int


@dataclass(slots=True)
class ReachableVictims:
    """What the preemptors of one leaf, priority and size could take, as things stood at some ``time``.

    ``at_once`` are those that they could take first, by branch and priority; ``group`` those that they could ever. It
    is so, or they could take fewer, as long as the branches in ``full`` are too full for them: so it was when it was
    ``seen`` last.
    """

    time: int
    at_once: list[tuple[int, int | None]]
    group: VictimGroup
    full: tuple[Full, ...] = ()
    seen: int = -1


class ReachableIndex:
    """The reaches of the preemptors of one class, reserved or elastic, in one pool; the bounds are told what to look at
    again.

    ``gains`` counts what could give a preemptor more: a branch that comes to be above what is due to it, or is above it
    by more where that matters; a branch that has more room; a workload that joins the index; devices that are given
    back.
    """

    def __init__(
        self, preemption_policy: PreemptionPolicy, eligible: EligibleVictims, bounds: GroupBoundsIndex
    ) -> None:
        self._preemption_policy = preemption_policy
        self._eligible = eligible
        self._bounds = bounds
        self._tree = preemption_policy.accounts.tree
        self._usage = preemption_policy.accounts.usage
        self._reachable: dict[tuple[int, int, int], ReachableVictims] = {}
        self.time = 0
        self.gains = 0
        self._changed = [0] * len(self._tree)
        self._joined = [0] * len(self._tree)
        self._entitled = list(preemption_policy.entitled)
        self._used = list(self._usage.used)
        self._above = [self._bases_passed(branch) for branch in range(len(self._tree))]
        self._above_in: dict[tuple[int, int], list[int]] = {}
        self._due_by = {
            BY_ENTITLEMENT: preemption_policy.entitled,
            BY_GUARANTEE: preemption_policy.accounts.quotas.guarantee,
        }
        self._seen = (len(self._usage.changed), len(eligible.joined))

    def renew(self) -> None:
        """Take note of what is due and used by now: entitlements were worked out anew, or a cycle was taken back."""
        entitled, used = self._preemption_policy.entitled, self._usage.used
        if self._entitled != entitled or self._used != used:
            self.time += 1
            rows = enumerate(zip(self._entitled, entitled, self._used, used, strict=True))
            self._note([at for at, (due, now_due, had, has) in rows if due != now_due or had != has])

    def _bases_passed(self, branch: int) -> int:
        """Which of entitlement and guarantee a branch is above."""
        used, guarantee = self._usage.used[branch], self._preemption_policy.accounts.quotas.guarantee[branch]
        return (BY_ENTITLEMENT if used > self._entitled[branch] else 0) | (
            BY_GUARANTEE if used > guarantee else 0
        )

    # --- What could give more than before -------------------------------------------------------------------

    def catch_up(self) -> None:
        """Note where a branch came to be above what is due to it, or a workload joined, since the last look."""
        changed, joined = self._usage.changed, self._eligible.joined
        if self._seen != (len(changed), len(joined)):
            self.time += 1
            paths = self._tree.paths
            self._note({branch for leaf in set(changed[self._seen[0] :]) for branch in paths[leaf]})
            self._welcome(joined[self._seen[1] :])
            self._seen = (len(changed), len(joined))
        if self._bounds.catch_up():
            self.gains += 1

    def _welcome(self, joined: Iterable[Joined]) -> None:
        """Note what has joined the index: it may leave for a preemptor; a preemptor that takes from its own team
        only, or where no workload had such a priority, has more to take."""
        fresh: Counter[int] = Counter()
        for each in joined:
            fresh[each.priority] += each.milli
            self._changed[each.leaf] = self.time
            for branch in self._tree.paths[each.leaf]:
                self._joined[branch] += each.milli
        if any(self._eligible.milli(ROOT, priority) <= milli for priority, milli in fresh.items()):
            self._changed[ROOT] = self.time

    def _note(self, branches: Iterable[int]) -> None:
        """Note which of the branches came to be above what is due to them, and whether that gives a preemptor more. One
        with less room in a branch of its own takes no more than before."""
        entitled = self._preemption_policy.entitled
        for branch in branches:
            used, due = self._usage.used[branch], entitled[branch]
            gains = used < self._used[branch] or due != self._entitled[branch]
            self._used[branch], self._entitled[branch] = used, due
            above = self._bases_passed(branch)
            if branch and above != self._above[branch]:
                parent = self._tree.parents[branch]
                if above & ~self._above[branch]:
                    # For those beside it, and all below them.
                    self._changed[parent] = self.time
                    gains = True
                self._above[branch] = above
                for by in self._due_by:
                    self._above_in.pop((parent, by), None)
            if self._bounds.note_excess(branch) or gains:
                self.gains += 1

    def last_change(self, leaf: int) -> int:
        """When something changed last that could give the preemptors of a leaf more."""
        changed = self._changed
        return max(changed[ROOT], *[changed[branch] for branch in self._tree.paths[leaf]])

    def of(self, claim: WorkloadClaim) -> ReachableVictims:
        """That of a preemptor."""
        self.catch_up()
        key = (claim.leaf, claim.priority, claim.milli)
        found = self._reachable.get(key)
        if found is not None and found.seen == self.time:
            return found
        if found is None or self.last_change(claim.leaf) > found.time or not self.are_full(found.full):
            found = self._reachable[key] = self._look(claim)
        found.seen = self.time
        return found

    def look_anew(self, claim: WorkloadClaim) -> None:
        """Have it worked out anew what a preemptor could take: what is kept may be more than it is by now."""
        self._reachable.pop((claim.leaf, claim.priority, claim.milli), None)

    def are_full(self, full: Iterable[Full]) -> bool:
        """Whether branches are still too full for a preemptor."""
        used, joined, bases = self._usage.used, self._joined, self._due_by
        for branch, by, relieved, slack in full:
            if bases[by][branch] - used[branch] + (joined[branch] if relieved else 0) >= slack:
                return False
        return True

    # --- What it could take ---------------------------------------------------------------------------------

    def _look(self, claim: WorkloadClaim) -> ReachableVictims:
        """Work out what a preemptor could take: those of lower priority, those that the fair-share rule gives it, and
        those of which it could as soon as others have left that are nearer to it in the tree."""
        if claim.reserved:
            return ReachableVictims(self.time, [(ROOT, None)], EVERY_WORKLOAD)
        top, equal = (
            self._preemption_policy.lower_in(claim),
            self._preemption_policy.highest_victim(claim.priority),
        )
        own = None if top == ROOT else top
        fair = self._fair(claim, [0] * len(self._tree.paths[claim.leaf]))
        at_once = [(branch, equal) for branch in fair]
        at_once.extend((top, priority) for priority in self._eligible.lower(top, claim.priority))
        full = self._full(claim, None)
        if not at_once:
            return ReachableVictims(self.time, at_once, VictimGroup(claim.priority, own), full)
        lower = self._lower(claim, own)
        relief = lower
        if any(lower):
            fair = self._fair(claim, lower)
        while True:
            relief = self._relief(lower, fair, equal)
            more = self._fair(claim, relief)
            if more == fair:
                break
            fair = more
        group = VictimGroup(
            claim.priority, own, tuple(sorted((each, by) for each, (_, by) in more.items())), equal
        )
        return ReachableVictims(self.time, at_once, group, (*full, *self._full(claim, relief)))

    def _full(self, claim: WorkloadClaim, relief: Sequence[int] | None) -> tuple[Full, ...]:
        """The lowest of a preemptor's own branches, by each due, that is too full for it even when so much has left of
        those on its way down."""
        used, path = self._usage.used, self._tree.paths[claim.leaf]
        found = []
        for by, due in self._due_by.items():
            for depth in range(len(path) - 1, -1, -1):
                mine = path[depth]
                slack = claim.milli if relief is None else claim.milli - relief[depth]
                if due[mine] - used[mine] < slack:
                    more = 0 if relief is None else self._joined[mine]
                    found.append(Full(mine, by, relief is not None, slack + more))
                    break
        return tuple(found)

    def _fair(self, claim: WorkloadClaim, relief: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The branches that the fair-share rule gives it when so much has left of those on its way down: where each
        parts from its own, and by which bases."""
        path = self._tree.paths[claim.leaf]
        leaving = dict(zip(path, relief, strict=True))
        found: dict[int, tuple[int, int]] = {}
        for depth, bases in self._preemption_policy.bases_by_depth(claim, leaving):
            for by in (BY_ENTITLEMENT, BY_GUARANTEE):
                for branch in self._children_above(self._tree.parents[path[depth]], by) if by & bases else ():
                    if branch != path[depth]:
                        found[branch] = (depth, by | found[branch][1] if branch in found else by)
        return found

    def _children_above(self, branch: int, by: int) -> list[int]:
        """The children of a branch that are above what is due to them."""
        found = self._above_in.get((branch, by))
        if found is None:
            found = [child for child in self._tree.children[branch] if self._above[child] & by]
            self._above_in[branch, by] = found
        return found

    def _lower(self, me: WorkloadClaim, own: int | None) -> list[int]:
        """What those of lower priority hold that a preemptor may take, of each branch on its way down."""
        eligible = self._eligible
        below = self._tree.paths[me.leaf] if own is None else [own] * len(self._tree.paths[me.leaf])
        return [sum([eligible.milli(at, each) for each in eligible.lower(at, me.priority)]) for at in below]

    def _relief(
        self, lower: Sequence[int], fair: Mapping[int, tuple[int, int]], equal: int | None
    ) -> list[int]:
        """What would leave each branch on a preemptor's way down if all went of lower priority, and all of the fair
        branches."""
        relief = list(lower)
        for branch, (parting, _) in fair.items():
            milli = self._eligible.milli(branch, equal)
            for depth in range(parting):
                relief[depth] += milli
        return relief
