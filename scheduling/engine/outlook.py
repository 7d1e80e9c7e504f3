"""How many pods of an ask each node holds, and which node is best for the next one (section 5)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.fragmentation import Ints
from scheduling.engine.quantities import in_arrays
from scheduling.engine.room import pods_in
from scheduling.engine.types import GPU_MILLI, Placement

if TYPE_CHECKING:
    from scheduling.engine.ask import Ask
    from scheduling.engine.grid import Grid
    from scheduling.engine.space import Space

NOWHERE = np.iinfo(np.int64).max
"""The key of a node that holds no pod of the ask."""
PART = 1_000_000
"""All of a device, or of all of a node's devices, in millionths."""
MANY_NODES = 64
"""From so many nodes on it is worth while to ask which are alike."""
FEW_NODES = 16
"""Up to so many nodes are looked at one by one."""
FEW_NOTES = 256
"""Up to so many notes are read to find those few nodes."""
MOST_KNOWN = 16_384
"""So many keys are remembered by what is left on a node."""
MANY = 1 << 30
"""Pods without GPUs that a node holds, as far as its devices are concerned."""


class Outlook:
    """For one ask, by node: ``pods``, how many fit, and ``keys``, lower for a better node.

    Keys order the nodes for binpack by (1) the score of what fragmentation falls there, highest first (all the same
    without typical requests), (2) the part of the node's devices that is free, twice, plus the part of the device that
    a share leaves over, least first; for spread by what is free, most first. Equal ones go by rank, that is by the
    node's id. What counts is what is left now: how it came about makes no difference.
    """

    def __init__(self, space: Space, grid: Grid, ask: Ask) -> None:
        fleet = space.fleet
        usable = fleet.usable(ask)
        self._space = space
        self._ask = ask
        self._cpu, self._memory = in_arrays(ask.cpu_milli), in_arrays(ask.memory_mib)
        self._whole = in_arrays(ask.whole)
        self._grid = grid
        self._placement = fleet.pool.policy.placement
        self._kind_row: Ints = np.full(len(fleet.kinds), -1, np.int64)
        self._costs: Ints = np.zeros((len(usable), grid.gpu.shape[1]), np.int64)
        for row, each in enumerate(usable):
            self._kind_row[each.kind] = row
            self._costs[row, : len(each.costs)] = each.costs
        self._ranks = fleet.ranks_of(usable)
        self.pods: Ints = np.zeros(len(fleet.nodes), np.int64)
        self.keys: Ints = np.full(len(fleet.nodes), NOWHERE, np.int64)
        self._known: dict[Hashable, int] = {}
        self._seen = -1

    def refresh(self) -> Outlook:
        """Bring it up to date, and return it."""
        changed = self._space.changed
        if self._seen < len(changed):
            few = self._few_stale(changed)
            if few is None:
                self._look_at_stale()
            else:
                for rank in few:
                    self._look_at(rank)
            self._seen = len(changed)
        return self

    def _few_stale(self, changed: Sequence[int]) -> set[int] | None:
        """The nodes that have changed since the last look, if they are few."""
        if self._ask.bare or self._seen < max(0, len(changed) - FEW_NOTES):
            return None
        ranks = set(changed[self._seen :])
        return ranks if len(ranks) <= FEW_NODES else None

    def _look_at(self, rank: int) -> None:
        """Work out pods and key of one node; the key only if no node had as much left of all that decides it."""
        costs = self._space.fleet.costs_on(self._ask, rank)
        if costs is None:
            return
        room = self._space.rooms[rank]
        self.pods[rank] = pods = pods_in(room, costs, self._ask)
        if not pods:
            self.keys[rank] = NOWHERE
            return
        left = self._grid.decisive(rank, self._cpu, self._memory)
        key = self._known.get(left)
        if key is None:
            self._grid.refresh()
            self._look(np.array([rank], np.int64))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[left] = int(self.keys[rank])
        else:
            self.keys[rank] = key

    def _look_at_stale(self) -> None:
        """Work out pods and keys of all nodes that have changed since the last look."""
        grid = self._grid.refresh()
        stale = self._ranks[grid.stamp[self._ranks] > self._seen]
        if len(stale) > MANY_NODES:
            self._look_once(stale)
        elif len(stale):
            self._look(stale)

    def _look_once(self, ranks: Ints) -> None:
        """Work out pods and keys of these nodes, of those that are alike once."""
        alike = self._grid.alike[ranks]
        chosen = np.full(self._grid.numbers, -1, np.int64)
        chosen[alike] = ranks
        self._look(chosen[chosen >= 0])
        self.pods[ranks] = self.pods[chosen[alike]]
        self.keys[ranks] = self.keys[chosen[alike]]

    def _look(self, ranks: Ints) -> None:
        """Work out pods and keys of these nodes."""
        grid = self._grid
        gpu = grid.gpu[ranks]
        costs = self._costs[self._kind_row[grid.kinds[ranks]]]
        pods = self._on_devices(gpu, costs)
        if self._cpu:
            pods = np.minimum(pods, np.maximum(grid.cpu[ranks], 0) // self._cpu)
        if self._memory:
            pods = np.minimum(pods, np.maximum(grid.memory[ranks], 0) // self._memory)
        self.pods[ranks] = pods
        self.keys[ranks] = NOWHERE
        fits = pods > 0
        if fits.any():
            self.keys[ranks[fits]] = self._keys(ranks[fits], gpu[fits], costs[fits])

    def _on_devices(self, gpu: Ints, costs: Ints) -> Ints:
        """How many pods the devices hold."""
        if self._ask.bare:
            return np.full(len(gpu), MANY, np.int64)
        if self._whole:
            free: Ints = ((gpu == GPU_MILLI) & (costs > 0)).sum(1)
            return free // self._whole
        pods: Ints = np.where(costs > 0, gpu // np.maximum(costs, 1), 0).sum(1)
        return pods

    def _keys(self, ranks: Ints, gpu: Ints, costs: Ints) -> Ints:
        """How good the nodes are, which all hold a pod."""
        grid = self._grid
        if self._placement is Placement.SPREAD:
            return -grid.free[ranks]
        after = self._after(gpu, costs)
        left = np.where(after < gpu, after, 0).sum(1) * (PART // GPU_MILLI)
        tied: Ints = 2 * (grid.free[ranks] * (PART // GPU_MILLI) // np.maximum(grid.devices[ranks], 1)) + left
        if not grid.typical:
            return tied
        lost = grid.lost(ranks, after, self._cpu, self._memory)
        return tied - grid.typical.scores(grid.fragments[ranks] - lost) * (3 * PART + 1)

    def _after(self, gpu: Ints, costs: Ints) -> Ints:
        """What the devices would have left, as :func:`~scheduling.engine.room.pick_devices` picks them."""
        if self._ask.bare:
            return gpu
        if self._whole:
            free = (gpu == GPU_MILLI) & (costs > 0)
            taken: NDArray[np.bool_] = free & (np.cumsum(free, axis=1) <= self._whole)
            return np.where(taken, 0, gpu)
        fits = (costs > 0) & (gpu >= costs)
        tightness = np.where(fits, (gpu == GPU_MILLI) * GPU_MILLI + gpu - costs, NOWHERE)
        at = np.argmin(tightness, axis=1)
        after, rows = gpu.copy(), np.arange(len(gpu))
        after[rows, at] -= costs[rows, at]
        return after
