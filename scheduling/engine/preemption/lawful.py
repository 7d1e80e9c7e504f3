"""A preemptor's victims as a set: whether it may have all of them, in some order of leaving (section 7).

By the fair-share rule a branch is above what is due to it before each of its victims leaves. For a set that is so in
some order if it is so when the largest leaves last. A workload that goes whole leaves at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.engine.model.plan import Rule
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.victims import Unit

Sizes = dict[tuple[str, int], int]
"""What leaves at once, by the workload's id and the pod's index (-1: all of them)."""
WHOLE = -1


@dataclass(frozen=True, slots=True)
class Lawful:
    """The victims of one preemptor. ``leaving`` is what each branch gives up for it."""

    preemption_policy: PreemptionPolicy
    preemptor: WorkloadClaim
    leaving: Mapping[int, int]
    _branches: dict[int, int] = field(default_factory=dict)

    def rules(self, units: Sequence[Unit]) -> list[Rule] | None:
        """By which rule each of the units may be taken; ``None`` if one of them may not."""
        before = {branch: _before_the_last(sizes) for branch, sizes in self.shared(units).items()}
        found = []
        for unit in units:
            rule = self.preemption_policy.rule(self.preemptor, unit.claim, self.leaving, before)
            if rule is None:
                return None
            found.append(rule)
        return found

    def shared(self, units: Iterable[Unit]) -> dict[int, Sizes]:
        """What the units take by the fair-share rule, by the branch that it is taken from."""
        found: dict[int, Sizes] = {}
        for unit in units:
            self.share(unit, found)
        return found

    def share(self, unit: Unit, shared: dict[int, Sizes]) -> None:
        """Add a unit to what is taken by the fair-share rule, if it is that which gives it."""
        if not self.preemption_policy.by_shares(self.preemptor, unit.claim):
            return
        id_, milli = unit.placed.workload.id, unit.milli
        sizes = shared.setdefault(self.branch(unit.placed.leaf), {})
        if unit.whole:
            milli += sum([sizes.pop((id_, pod.pod_index), 0) for pod in unit.placed.pods])
        key = (id_, WHOLE if unit.whole or (id_, WHOLE) in sizes else unit.pods[0].pod_index)
        sizes[key] = sizes.get(key, 0) + milli

    def without(self, unit: Unit, shared: Mapping[int, Sizes], others: Iterable[Unit]) -> dict[int, Sizes]:
        """What is taken by the fair-share rule if a unit is not, but these others of its workload are."""
        rest, branch = dict(shared), self.branch(unit.placed.leaf)
        sizes = rest.pop(branch, {})
        left = {key: milli for key, milli in sizes.items() if key[0] != unit.placed.workload.id}
        if left:
            rest[branch] = left
        for each in others:
            self.share(each, rest)
        return rest

    def branch(self, leaf: int) -> int:
        """The branch of a leaf where it parts from the preemptor's."""
        found = self._branches.get(leaf)
        if found is None:
            tree = self.preemption_policy.accounts.tree
            path = tree.paths[leaf]
            depth = min(tree.parting(self.preemptor.leaf, leaf), len(path) - 1)
            found = self._branches[leaf] = path[depth]
        return found

    def allowance(self, branch: int, sizes: Sizes) -> int:
        """Less than this may still be taken from a branch beside what is taken, if it is not to leave last."""
        return self.preemption_policy.surplus(self.preemptor, branch, self.leaving) - _before_the_last(sizes)

    def allowances(self, shared: Mapping[int, Sizes]) -> dict[int, int]:
        """That of the branches beside which all that is taken of the others may go in some order."""
        found = {branch: self.allowance(branch, sizes) for branch, sizes in shared.items()}
        lacking = {branch for branch, allowance in found.items() if allowance <= 0}
        return {branch: allowance for branch, allowance in found.items() if lacking <= {branch}}


def _before_the_last(sizes: Sizes) -> int:
    return sum(sizes.values()) - max(sizes.values())
