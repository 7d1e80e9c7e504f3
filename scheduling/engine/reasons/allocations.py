"""Allocations as they are told: whose guarantee each workload counts against (section 3)."""

from __future__ import annotations

from scheduling.engine.model.plan import Allocation
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.quota.charging import admission_order

Parts = tuple[Allocation, ...]


class Allocations:
    """Whose guarantee each workload counts against: what reserved ones leave of a team's own part its elastic ones use,
    in order of admission, and burst with the rest."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        self._elastic: dict[tuple[int, bool], dict[str, Parts]] = {}
        self._alike: dict[tuple[str, int, int], Parts] = {}
        self._started: dict[int, list[PlacedWorkload]] = {}
        for placed in cycle.started.values():
            if not placed.reserved:
                self._started.setdefault(placed.leaf, []).append(placed)

    def of(self, placed: PlacedWorkload) -> Parts:
        """That of a workload."""
        if placed.reserved:
            return tuple(self._cycle.allocations.get(placed.workload.id, ()))
        key = (placed.leaf, placed.fresh)
        found = self._elastic.get(key)
        if found is None:
            found = self._elastic[key] = self._in_team(placed)
        return found[placed.workload.id]

    def _in_team(self, one: PlacedWorkload) -> dict[str, Parts]:
        """Those of all elastic workloads of a team that have just started, if that is one of them, or of all that were
        there before."""
        cycle, team = self._cycle, one.workload.team
        left = cycle.charges.left[cycle.tree.team_branch[team]]
        elastic = list(cycle.state.elastic_on(one.leaf))
        if one.fresh:
            left = max(0, left - sum([each.milli for each in elastic]))
            elastic = self._started[one.leaf]
        elif left:  # else all burst, whoever was first
            elastic.sort(key=lambda each: admission_order(each.workload))
        found = {}
        for placed in elastic:
            inside = min(placed.milli, left)
            left -= inside
            found[placed.workload.id] = self._parts(team, inside, placed.milli - inside)
        return found

    def _parts(self, team: str, inside: int, bursts: int) -> Parts:
        """So much inside a team's own part, and so much that bursts: one object for all with the same."""
        found = self._alike.get((team, inside, bursts))
        if found is None:
            parts = (Allocation(team, inside), Allocation(None, bursts))
            found = self._alike[team, inside, bursts] = tuple([part for part in parts if part.milli])
        return found
