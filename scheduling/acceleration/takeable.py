"""What a reserved preemptor could take in each of several places, as arrays (section 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.free_arrays import FreeArrays
from scheduling.acceleration.holdings import Holdings
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.placement.free import Picks
from scheduling.engine.preemption.victims import Tier

SPAN = 1 << 40
"""More than any two priorities are apart."""
NEVER = np.iinfo(np.int64).max
"""The last tier, or turn, of a place where all together do not make room."""
STATUSES = 4
"""More than there are costs of a status."""


@dataclass(frozen=True, slots=True)
class PlaceNodes:
    """The nodes of the places, row by row: their rank, the place each is in (by number), and what is free; ``uniform``
    says which of the places have nodes only whose devices all cost the same."""

    ranks: Ints
    place: Ints
    free: FreeArrays
    uniform: NDArray[np.bool_]


class PlaceVictims:
    """What can be taken at once in one of the places: a pod above its workload's minimum, or the workload, less those.

    Of each: ``owner``, the number of the workload, ``place``, the ``pod`` that it is, by index (or :data:`WHOLE`),
    ``leaf``, ``milli``, what is ``lost`` (GPU-milliseconds), ``tier`` as a number, and ``key``, how many come before it
    in the order inside a team. ``row_of`` and ``node`` name, for each pod that it has in the place, the local and the
    row of its node.
    """

    WHOLE = -1

    def __init__(self, holdings: Holdings, ground: PlaceNodes) -> None:
        self.place_nodes = ground
        self._width = ground.free.gpu.shape[1]
        pods, owners, places = holdings.pods, holdings.owners, len(ground.uniform)
        kept, node = _in_place(holdings, ground)
        owner, place, spare = pods.owner[kept], ground.place[node], pods.spare[kept]
        pairs, which = np.unique(owner * places + place, return_inverse=True)
        self.owner: Ints = np.concatenate((pairs // places, owner[spare]))
        self.place: Ints = np.concatenate((pairs % places, place[spare]))
        self.pod: Ints = np.concatenate((np.full(len(pairs), self.WHOLE), pods.index[kept][spare]))
        self.whole: NDArray[np.bool_] = self.pod == self.WHOLE
        self.leaf: Ints = owners.leaf[self.owner]
        milli = pods.milli[kept][spare]
        self.milli: Ints = np.concatenate((owners.milli[pairs // places], milli))
        np.subtract.at(self.milli, which[spare], milli)
        lost_ms = np.maximum(holdings.now - owners.since[self.owner], 0)
        self.lost: Ints = self.milli * lost_ms // GPU_MILLI
        status = self.whole * STATUSES + owners.cost[self.owner]
        self.tier: Ints = status * SPAN + owners.priority[self.owner] + SPAN // 2
        self.key: Ints = np.empty(len(self.owner), np.int64)
        # What the whole would lose, also where pods above its minimum go before it.
        by_loss = np.where(self.whole, owners.milli[self.owner], self.milli) * lost_ms // GPU_MILLI
        order = np.lexsort((-self.pod, holdings.by_id()[self.owner], by_loss))
        self.key[order] = np.arange(len(order))
        self._lay(holdings, kept, node, np.where(spare, len(pairs) + np.cumsum(spare) - 1, which))

    def _lay(self, holdings: Holdings, kept: Ints, node: Ints, local: Ints) -> None:
        """Note where the pods lie, in the order of the locals."""
        order = np.argsort(local, kind="stable")
        kept, shares = kept[order], holdings.shares
        self.row_of: Ints = local[order]
        self.node: Ints = node[order]
        owner = holdings.pods.owner[kept]
        self._cpu, self._memory = holdings.owners.cpu[owner], holdings.owners.memory[owner]
        row = np.full(len(holdings.pods.owner), -1)
        row[kept] = np.arange(len(kept))
        found = np.flatnonzero(row[shares.pod] >= 0)
        found = found[np.argsort(row[shares.pod[found]], kind="stable")]
        self._row, self._at, self._share = row[shares.pod[found]], shares.at[found], shares.milli[found]
        self._device: Ints = self.node[self._row] * self._width + self._at
        self._first = np.searchsorted(self.row_of, np.arange(len(self.owner) + 1))
        self._first_share = np.searchsorted(self._row, np.arange(len(kept) + 1))

    def tier_of(self, number: int) -> Tier:
        """The tier that a number stands for."""
        status, priority = divmod(number, SPAN)
        return (status >= STATUSES, status % STATUSES, priority - SPAN // 2)

    def free(self, going: NDArray[np.bool_]) -> FreeArrays:
        """What is left on the nodes when these go."""
        rows, nodes = going[self.row_of], len(self.place_nodes.ranks)
        shares = np.flatnonzero(rows[self._row])
        gpu = np.zeros(nodes * self._width, np.int64)
        np.add.at(gpu, self._device[shares], self._share[shares])
        cpu, memory = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        np.add.at(cpu, self.node[rows], self._cpu[rows])
        np.add.at(memory, self.node[rows], self._memory[rows])
        return self.place_nodes.free.with_more(gpu.reshape(nodes, self._width), cpu, memory)

    def missed(self, going: NDArray[np.bool_], free: FreeArrays) -> Ints:
        """For each pod of those that go, how many pods its node would hold less if it stayed: as many at least."""
        rows = np.flatnonzero(going[self.row_of])
        number = np.full(len(self.row_of), -1)
        number[rows] = np.arange(len(rows))
        shares = np.flatnonzero(number[self._row] >= 0)
        gpu = np.zeros((len(rows), self._width), np.int64)
        gpu[number[self._row[shares]], self._at[shares]] = -self._share[shares]
        on = free.on(self.node[rows])
        missed = np.zeros(len(self.row_of), np.int64)
        missed[rows] = on.pods() - on.with_more(gpu, -self._cpu[rows], -self._memory[rows]).pods()
        return missed

    def first_with_room(self, gone: NDArray[np.bool_], turn: Ints, pods: int) -> Ints:
        """By place, the turn after which it holds so many pods, when these are gone before and the others go turn by
        turn (below 0: never); :data:`NEVER` where it never does. One place at a time would find the same: a
        workload that goes changes what its own nodes hold, and never to less."""
        rows = np.flatnonzero(turn[self.row_of] >= 0)
        rows = rows[np.lexsort((turn[self.row_of[rows]], self.node[rows]))]
        node, turns = self.node[rows], turn[self.row_of[rows]]
        number = np.full(len(self.row_of), -1)
        number[rows] = np.arange(len(rows))
        shares = np.flatnonzero(number[self._row] >= 0)
        gpu = np.zeros((len(rows), self._width), np.int64)
        np.add.at(gpu, (number[self._row[shares]], self._at[shares]), self._share[shares])
        first = np.searchsorted(node, node)
        before = self.free(gone)
        so_far = [_summed(each, first) for each in (gpu, self._cpu[rows], self._memory[rows])]
        held = before.on(node).with_more(*so_far).pods()
        on_node = np.concatenate((before.pods(), held))
        last = np.where(
            first < np.arange(len(rows)), len(self.place_nodes.ranks) + np.arange(len(rows)) - 1, node
        )
        more, place = held - on_node[last], self.place_nodes.place[node]
        order = np.lexsort((turns, place))
        place, turns = place[order], turns[order]
        totals = np.bincount(self.place_nodes.place, before.pods(), len(self.place_nodes.uniform)).astype(
            np.int64
        )
        there = totals[place] + _summed(more[order], np.searchsorted(place, place)) >= pods
        found = np.full(len(totals), NEVER)
        np.minimum.at(found, place[there], turns[there])
        return found

    def nodes(self, local: int) -> list[int]:
        """The rows of the nodes where one has pods."""
        found: list[int] = self.node[self._first[local] : self._first[local + 1]].tolist()
        return found

    def spots(self, local: int) -> Iterator[tuple[int, Picks, int, int]]:
        """The pods of one: the row of the node, the devices, CPU and memory."""
        for row in range(int(self._first[local]), int(self._first[local + 1])):
            of_row = slice(int(self._first_share[row]), int(self._first_share[row + 1]))
            picks = list(zip(self._at[of_row].tolist(), self._share[of_row].tolist(), strict=True))
            yield int(self.node[row]), picks, int(self._cpu[row]), int(self._memory[row])


def _summed(amounts: Ints, first: Ints) -> Ints:
    """What the rows of a group come to up to each; the groups come one after the other, ``first`` names the first row
    of a row's group."""
    summed: Ints = np.cumsum(amounts, 0)
    return summed - (summed - amounts)[first]


def _in_place(holdings: Holdings, ground: PlaceNodes) -> tuple[Ints, Ints]:
    """The pods that are of use in the places, and the rows of their nodes: those that hold a device which the preemptor
    could use; where any will do, also those of workloads with one pod that hold none."""
    pods, shares = holdings.pods, holdings.shares
    row = np.full(int(max(pods.rank.max(initial=-1), ground.ranks.max(initial=-1))) + 1, -1)
    row[ground.ranks] = np.arange(len(ground.ranks))
    node = row[pods.rank]
    here = (node >= 0) & holdings.there[pods.owner]
    found = np.flatnonzero(here[shares.pod])
    found = found[ground.free.costs[node[shares.pod[found]], shares.at[found]] > 0]
    serves = np.zeros(len(node), np.bool_)
    serves[shares.pod[found]] = True
    alone = (holdings.owners.pods[pods.owner] == 1) & ground.uniform[ground.place[node]]
    kept = np.flatnonzero(here & (serves | alone))
    return kept, node[kept]
