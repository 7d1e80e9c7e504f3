"""A newcomer's victims as a set: whether he may take all of them, in whatever order they leave (section 7).

By the fair-share rule a branch is above what is due to it before each of its victims leaves. For a set that is so in
some order if it is so when the largest leaves last. A workload that goes whole leaves at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.rights import Party, Rights
from scheduling.engine.standing import Unit
from scheduling.engine.types import Rule

Sizes = dict[tuple[str, int], int]
"""What leaves at once, by the workload's id and the pod's index (-1: all of them)."""
WHOLE = -1


@dataclass(frozen=True, slots=True)
class Lawful:
    """Whom one newcomer takes. ``leaving`` is what goes of each branch for him, as in :class:`Rights`."""

    rights: Rights
    newcomer: Party
    leaving: Mapping[int, int]

    def rules(self, units: Sequence[Unit]) -> list[Rule] | None:
        """By which rule each of the units may be taken; ``None`` if one of them may not."""
        before = {branch: _before_the_last(sizes) for branch, sizes in self.shared(units).items()}
        found = []
        for unit in units:
            rule = self.rights.rule(self.newcomer, unit.party, self.leaving, before)
            if rule is None:
                return None
            found.append(rule)
        return found

    def shared(self, units: Iterable[Unit]) -> dict[int, Sizes]:
        """What the units take by the fair-share rule, by the branch that it is taken from."""
        found: dict[int, Sizes] = {}
        whole = {unit.standing.workload.id for unit in units if unit.whole}
        for unit in units:
            if self.rights.by_shares(self.newcomer, unit.party):
                id_ = unit.standing.workload.id
                key = (id_, WHOLE if id_ in whole else unit.pods[0].pod_index)
                sizes = found.setdefault(self.branch(unit.standing.leaf), {})
                sizes[key] = sizes.get(key, 0) + unit.milli
        return found

    def branch(self, leaf: int) -> int:
        """The branch of a leaf where it parts from the newcomer's."""
        tree = self.rights.accounts.tree
        path = tree.paths[leaf]
        return path[min(tree.parting(self.newcomer.leaf, leaf), len(path) - 1)]

    def room(self, branch: int, sizes: Sizes) -> int:
        """Less than this may still be taken from a branch beside what is taken, if it is not to leave last."""
        return self.rights.leeway(self.newcomer, branch, self.leaving) - _before_the_last(sizes)


def _before_the_last(sizes: Sizes) -> int:
    return sum(sizes.values()) - max(sizes.values())
