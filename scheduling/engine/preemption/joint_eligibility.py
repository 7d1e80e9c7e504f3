"""A preemptor's victims as a set: whether it may have all of them, in some order of leaving (section 7).

By the fair-share rule a branch is above what is due to it before each of its victims leaves. For a set that is so in
some order if it is so when the largest leaves last. A workload that goes whole leaves at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduling.engine.model.plan import Rule
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.victims import Victim

Sizes = dict[tuple[str, int], int]
"""What leaves at once, by the workload's id and the pod's index (-1: all of them)."""
WHOLE = -1


class JointEligibility:
    """The victims of one preemptor. ``leaving`` is what each branch gives up for it."""

    def __init__(
        self, policy: PreemptionPolicy, preemptor: WorkloadClaim, leaving: Mapping[int, int]
    ) -> None:
        self._policy = policy
        self._preemptor = preemptor
        self._leaving = leaving

    def rules(self, victims: Sequence[Victim]) -> list[Rule] | None:
        """By which rule each of the victims may be taken; ``None`` if one of them may not."""
        before = {branch: _before_the_last(sizes) for branch, sizes in self.shared(victims).items()}
        found = []
        for victim in victims:
            rule = self._rule(victim.claim, before)
            if rule is None:
                return None
            found.append(rule)
        return found

    def _rule(self, victim: WorkloadClaim, before: Mapping[int, int]) -> Rule | None:
        """The rule for one victim, when so much leaves its branch ``before`` it."""
        return self._policy.rule(self._preemptor, victim, self._leaving, before)

    def _shared_branch(self, victim: WorkloadClaim) -> int | None:
        """The branch that the fair-share rule takes a victim from; ``None`` where another rule decides."""
        if not self._policy.by_shares(self._preemptor, victim):
            return None
        return self._policy.branch_beside(self._preemptor.leaf, victim.leaf)

    def shared(self, victims: Iterable[Victim]) -> dict[int, Sizes]:
        """What the victims take by the fair-share rule, by the branch that it is taken from."""
        found: dict[int, Sizes] = {}
        for victim in victims:
            branch = self._shared_branch(victim.claim)
            if branch is None:
                continue
            id_, milli = victim.placed.workload.id, victim.milli
            sizes = found.setdefault(branch, {})
            if victim.whole:
                milli += sum([sizes.pop((id_, pod.pod_index), 0) for pod in victim.placed.pods])
            key = (id_, WHOLE if victim.whole or (id_, WHOLE) in sizes else victim.pods[0].pod_index)
            sizes[key] = sizes.get(key, 0) + milli
        return found

    def allowance(self, branch: int, sizes: Sizes) -> int:
        """Less than this may still be taken from a branch beside what is taken, if it is not to leave last."""
        return self._policy.surplus(self._preemptor, branch, self._leaving) - _before_the_last(sizes)

    def allowances(self, shared: Mapping[int, Sizes]) -> dict[int, int]:
        """That of the branches beside which all that is taken of the others may go in some order."""
        found = {branch: self.allowance(branch, sizes) for branch, sizes in shared.items()}
        lacking = {branch for branch, allowance in found.items() if allowance <= 0}
        return {branch: allowance for branch, allowance in found.items() if lacking <= {branch}}


def _before_the_last(sizes: Sizes) -> int:
    return sum(sizes.values()) - max(sizes.values())
