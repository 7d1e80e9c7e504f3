"""Choosing victims for a preemptor that may take any elastic workload: a reserved one under its ceilings (section 7).

What :class:`~scheduling.engine.preemption.search.Search` does step by step is done here a tier at a time, in all
places at once: a tier that does not make room goes as a whole, whatever the order in it; only in the last one the
teams take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.free_arrays import FreeArrays, filled
from scheduling.acceleration.search_context import SearchContext
from scheduling.acceleration.takeable import NEVER, PlaceNodes, PlaceVictims
from scheduling.acceleration.turns import LeavingRows, in_turn, paths_of
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.preemption.search import PreemptionRequest
from scheduling.engine.preemption.victims import Cost, PlacedWorkload, Tier, Victim

Mask = NDArray[np.bool_]


class Sweeps:
    """What goes in each of some domains ("places", by number), for several pods that need one.

    ``last`` is the tier that makes room there, ``going`` are all below it and those of it that had their turn before
    there was room; ``missed`` says how many pods there would be less, at least, if one of them stayed, ``pods`` how
    many the nodes hold, ``needed`` what is lost by those without which a node would hold less, each counted on one such
    node.
    """

    def __init__(
        self, context: SearchContext, preemptor: PreemptionRequest, places: Sequence[Domain]
    ) -> None:
        self.context = context
        self.preemptor = preemptor
        self.places = places
        self.holdings = context.eligible.holdings
        self.place_nodes = _place_nodes(context, preemptor, places)
        self.place_victims = PlaceVictims(self.holdings, self.place_nodes)
        self.last = self._sweep()
        self.turn = self.turns(self.place_victims.tier == self.last[self.place_victims.place])
        self.going = self._chosen()
        self.free = self.place_victims.free(self.going)
        self.pods = self.free.pods()
        self._missed = self.place_victims.missed(self.going, self.free)
        self.missed = np.zeros(len(self.going), np.int64)
        np.maximum.at(self.missed, self.place_victims.row_of, self._missed)
        self.needed = self._needed()

    def by_bound(self) -> list[Sweep]:
        """The places that could do, the one whose dearest victim is the least dear first."""
        able = np.flatnonzero(self.last < NEVER)
        return [Sweep(self, at) for at in able[np.argsort(self.last[able], kind="stable")].tolist()]

    def _totals(self, going: Mask) -> Ints:
        """How many pods each place holds when these go."""
        pods = self.place_victims.free(going).pods()
        return np.bincount(self.place_nodes.place, pods, len(self.places)).astype(np.int64)

    def _sweep(self) -> Ints:
        """Let tier after tier go until it makes room: the last one by place."""
        last = np.full(len(self.places), NEVER)
        for tier in np.unique(self.place_victims.tier).tolist():
            makes_room = self._totals(self.place_victims.tier <= tier) >= self.preemptor.pods
            last[makes_room & (last == NEVER)] = tier
            if makes_room.all():
                break
        return last

    def turns(self, leaving: Mask) -> Ints:
        """Which turn each of these has in its place, all below its tier gone; of the others, none."""
        found, rows = self.place_victims, np.flatnonzero(leaving)
        leaving_rows = LeavingRows(found.place[rows], found.leaf[rows], found.milli[rows], found.key[rows])
        tiers = np.zeros(len(self.places), np.int64)
        tiers[leaving_rows.place] = found.tier[rows]
        before = found.tier < tiers[found.place]
        order = in_turn(
            self.context.preemption_policy, self.preemptor.claim, leaving_rows, self._gone(before)
        )
        turn = np.full(len(found.tier), -1)
        place = leaving_rows.place[order]
        turn[rows[order]] = np.arange(len(rows)) - np.searchsorted(place, place)
        return turn

    def _gone(self, going: Mask) -> Ints:
        """What goes with these, by place and branch."""
        tree, found, rows = (
            self.context.preemption_policy.accounts.tree,
            self.place_victims,
            np.flatnonzero(going),
        )
        gone = np.zeros((len(self.places), len(tree)), np.int64)
        for branch in paths_of(tree, found.leaf[rows]).T:
            inside = branch >= 0
            here = rows[inside]
            np.add.at(gone, (found.place[here], branch[inside]), found.milli[here])
        return gone

    def _chosen(self) -> Mask:
        """The victims in each place: of the last tier as few as make room, turn by turn, at least one."""
        swept = self.place_victims.tier < self.last[self.place_victims.place]
        first = self.place_victims.first_with_room(swept, self.turn, self.preemptor.pods)
        return swept | ((self.turn >= 0) & (self.turn <= first[self.place_victims.place]))

    def _needed(self) -> Ints:
        found, rows = self.place_victims, np.flatnonzero(self._missed)
        local, first = np.unique(found.row_of[rows], return_index=True)
        needed = np.zeros(len(self.pods), np.int64)
        np.add.at(needed, found.node[rows[first]], found.lost[local])
        return needed


class Sweep:
    """The victims inside one of the places; of the pods that it holds, some may be more than are needed."""

    def __init__(self, sweeps: Sweeps, at: int) -> None:
        self._all = sweeps
        self._place_victims = sweeps.place_victims
        self._at = at
        self.place = sweeps.places[at]
        self._more = int(sweeps.pods[sweeps.place_nodes.place == at].sum()) - sweeps.preemptor.pods
        self._mine = np.flatnonzero(sweeps.going & (self._place_victims.place == at))
        self._free: dict[int, NodeFree] = {}
        self._come_back: set[int] = set()

    @property
    def tier(self) -> Tier:
        """What the dearest victim is."""
        return self._place_victims.tier_of(int(self._all.last[self._at]))

    def least_lost(self) -> int:
        """How many GPU-milliseconds are lost at least, before any workload is spared: by all without which there would
        be fewer pods, but for those on as many nodes as there may be fewer. One that is spared makes it fewer on the
        node where it counts."""
        needed = np.sort(self._all.needed[self._all.place_nodes.place == self._at])
        return int(needed[: max(0, len(needed) - self._more)].sum())

    @cached_property
    def placed_workloads(self) -> list[PlacedWorkload]:
        """The workloads that are touched."""
        all_ = self._all.holdings.placed_workloads
        return [all_[owner] for owner in dict.fromkeys(self._place_victims.owner[self.chosen].tolist())]

    @cached_property
    def cost(self) -> Cost:
        """What the victims cost."""
        found, chosen = self._place_victims, self.chosen
        return (
            found.tier_of(max(found.tier[chosen].tolist())),
            sum(found.lost[chosen].tolist()),
            sum(found.milli[chosen].tolist()),
            tuple(sorted([placed.workload.id for placed in self.placed_workloads])),
        )

    def victims(self) -> tuple[Victim, ...]:
        """The victims, tier by tier and in the order inside a team."""
        return tuple([self._unit(local) for local in self.chosen])

    @cached_property
    def chosen(self) -> list[int]:
        """The same, by number."""
        found = self._place_victims
        left = self._of_use()
        self._whole = set(found.owner[left[found.whole[left]]].tolist())
        open_ = left[self._all.missed[left] <= self._more]
        spared: set[int] = set()
        for tier in np.unique(found.tier[open_])[::-1].tolist():
            might_stay = self._might_stay(open_[found.tier[open_] == tier])
            for local in self._last_first(tier, might_stay):
                if self._is_spared(local):
                    spared.add(local)
        order: list[int] = left[np.lexsort((found.key[left], found.tier[left]))].tolist()
        return [local for local in order if local not in spared]

    def _of_use(self) -> Ints:
        """Those that do not leave only nodes where no pod fits all the same; such are spared, whichever others are.
        Pods of a workload that goes as a whole go too."""
        found, mine = self._place_victims, self._mine
        leaves = np.zeros(len(found.tier), np.bool_)
        leaves[found.row_of[self._all.pods[found.node] > 0]] = True
        whole = found.owner[mine[found.whole[mine] & leaves[mine]]]
        return mine[leaves[mine] | (~found.whole[mine] & np.isin(found.owner[mine], whole))]

    def _might_stay(self, those: Ints) -> Ints:
        """Those without which there might be room: one that is needed is so for good, as others come back."""
        found = self._place_victims
        near = np.zeros(len(found.tier), np.bool_)
        near[found.row_of[np.isin(found.node, list(self._come_back))]] = True
        return those[(self._all.missed[those] <= self._more) | near[those]]

    def _last_first(self, tier: int, those: Ints) -> list[int]:
        """Some of a tier, last chosen first; those that leave only nodes where no pod fits do not wait for others."""
        turn, rivals = self._all.turn, [local for local in those.tolist() if self._serves(local)]
        if len(rivals) > 1 and tier < self._all.last[self._at]:
            found = self._place_victims
            turn = self._all.turns((found.place == self._at) & (found.tier == tier))
        order: list[int] = those[np.argsort(-turn[those])].tolist()
        return order

    def _serves(self, local: int) -> bool:
        """Whether it leaves a node where a pod fits."""
        return any(
            pods_in(self._free[node], self._costs(node), self._all.preemptor.request)
            if node in self._free
            else self._all.pods[node]
            for node in self._place_victims.nodes(local)
        )

    def _costs(self, node: int) -> list[int]:
        """The cost of a pod on a node's devices."""
        costs: list[int] = self._all.free.costs[node].tolist()
        return costs

    def _is_spared(self, local: int) -> bool:
        """Whether there is room without it; it comes back then."""
        found, owner = self._place_victims, int(self._place_victims.owner[local])
        if not found.whole[local] and owner in self._whole:
            return False
        nodes = found.nodes(local)
        if self._all.missed[local] > self._more and self._come_back.isdisjoint(nodes):
            return False
        self._change(local, -1)
        if self._more < 0:
            self._change(local, 1)
            return False
        self._come_back.update(nodes)
        if found.whole[local]:
            self._whole.discard(owner)
        return True

    def _change(self, local: int, sign: int) -> None:
        """Let one go (1) or come back (-1)."""
        left, request = self._all.free, self._all.preemptor.request
        for node, picks, cpu, memory in self._place_victims.spots(local):
            node_free = self._free.get(node)
            if node_free is None:
                gpu = left.gpu[node].tolist()
                node_free = self._free[node] = NodeFree(gpu, int(left.cpu[node]), int(left.memory[node]))
            costs = self._costs(node)
            before = pods_in(node_free, costs, request)
            node_free.change(picks, cpu, memory, sign)
            self._more += pods_in(node_free, costs, request) - before

    def _unit(self, local: int) -> Victim:
        """What a local is of its workload."""
        found, owner = self._place_victims, int(self._place_victims.owner[local])
        placed = self._all.holdings.placed_workloads[owner]
        *spare, whole = placed.as_victims(self._all.context.ledger)
        if not found.whole[local]:
            return next(victim for victim in spare if victim.pods[0].pod_index == found.pod[local])
        if not spare:
            return whole
        here = (found.owner == owner) & (found.place == self._at) & ~found.whole
        gone = frozenset(found.pod[here].tolist())
        return whole.without(gone) if gone else whole


def _place_nodes(
    context: SearchContext, preemptor: PreemptionRequest, places: Sequence[Domain]
) -> PlaceNodes:
    """The nodes of the places that are not closed, as they are left when all that stop are gone."""
    nodes, grid = context.ledger.nodes, context.ledger.later.grid.refresh()
    ranks: list[int] = []
    kinds = [(number, usable) for number, place in enumerate(places) for usable in place.usable]
    counts = []
    for number, usable in kinds:
        open_ = [rank for rank in nodes.members_in(places[number], usable) if rank not in preemptor.closed]
        counts.append(len(open_))
        ranks.extend(open_)
    costs = filled([usable.costs for _, usable in kinds], grid.shapes.width)
    at = np.array(ranks, np.int64)
    return PlaceNodes(
        at,
        np.repeat([number for number, _ in kinds], counts),
        FreeArrays(
            preemptor.request, np.repeat(costs, counts, 0), grid.gpu[at], grid.cpu[at], grid.memory[at]
        ),
        np.array([all(usable.uniform for usable in place.usable) for place in places], np.bool_),
    )
