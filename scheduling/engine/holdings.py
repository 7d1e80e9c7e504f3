"""What the workloads of a roster hold, as arrays: for looking at thousands of them in one step (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.fragmentation import Ints
from scheduling.engine.ledger import Ledger
from scheduling.engine.quantities import UNLIMITED
from scheduling.engine.rooms import capped
from scheduling.engine.standing import COST_OF_STATUS, Standing
from scheduling.engine.types import Status, Workload


@dataclass(frozen=True, slots=True)
class Owners:
    """Workloads by number: their leaf, what their status costs, their priority, ``since`` when (milliseconds) what they
    did would be lost, what they hold in all, how many pods they have, and what CPU (milli) and memory (MiB) each of
    these takes."""

    leaf: Ints
    cost: Ints
    priority: Ints
    since: Ints
    milli: Ints
    pods: Ints
    cpu: Ints
    memory: Ints


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods that lie on nodes: the number of their workload, the node, the pod's index, and whether it is one above the
    minimum; of such a one, what it holds."""

    owner: Ints
    rank: Ints
    index: Ints
    milli: Ints
    spare: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Shares:
    """What pods hold of devices: the row of the pod, the device's position on the node, milli-GPUs."""

    pod: Ints
    at: Ints
    milli: Ints


NOWHERE: Mapping[int, int] = {}
T = TypeVar("T", Owners, Pods, Shares)


class Holdings:
    """The arrays of some workloads; those who leave keep their number, but are not ``there``."""

    def __init__(self, ledger: Ledger, standings: Iterable[Standing]) -> None:
        self._ledger = ledger
        self._new = list(standings)
        self._begin()

    def _begin(self) -> None:
        """Have nobody numbered yet."""
        self.standings: list[Standing] = []
        self.numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._left: list[int] = []
        none = np.zeros(0, np.int64)
        self.there = np.zeros(0, np.bool_)
        self.owners = Owners(*(8 * [none]))
        self.pods = Pods(none, none, none, none, self.there)
        self.shares = Shares(none, none, none)
        self._by_id: Ints | None = None

    @property
    def now(self) -> int:
        """What time it is for the workloads."""
        return self.standings[0].clock.now if self.standings else 0

    def add(self, standing: Standing) -> None:
        """Put in a workload."""
        self._new.append(standing)

    def drop(self, standing: Standing) -> None:
        """Take out a workload."""
        number = self.numbers.pop(standing.workload.id, None)
        if number is None:
            self._new = [each for each in self._new if each is not standing]
        else:
            self._left.append(number)

    def refresh(self) -> Holdings:
        """Bring the arrays up to date, and return it."""
        if len(self._left) > len(self.numbers):
            self._new = [self.standings[number] for number in self.numbers.values()] + self._new
            self._begin()
        if self._new:
            new, self._new = self._new, []
            self._read(new)
        if self._left:
            self.there[self._left] = False
        return self

    def by_id(self) -> Ints:
        """For each workload how many come before it by id."""
        if self._by_id is None:
            ids = self._ids
            self._by_id = np.zeros(len(ids), np.int64)
            self._by_id[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        return self._by_id

    def by_node(self) -> dict[int, list[int]]:
        """What is held of each device on the nodes where anybody lies, by rank; the rows are as long as the longest."""
        width = max([len(room.gpu) for room in self._ledger.later.rooms], default=0)
        there = self.there[self.pods.owner]
        held = np.flatnonzero(there[self.shares.pod])
        ranks, row = np.unique(self.pods.rank, return_inverse=True)
        found = np.zeros((len(ranks), width), np.int64)
        np.add.at(found, (row[self.shares.pod[held]], self.shares.at[held]), self.shares.milli[held])
        lain_on = np.unique(row[there])
        return dict(zip(ranks[lain_on].tolist(), found[lain_on].tolist(), strict=True))

    def _read(self, standings: Sequence[Standing]) -> None:
        """Take over workloads that are not numbered yet."""
        first = len(self.standings)
        self.standings.extend(standings)
        owners = _owners(standings)
        ids = [standing.workload.id for standing in standings]
        self._ids.extend(ids)
        self.numbers.update(zip(ids, range(first, first + len(ids)), strict=True))
        self.there = np.concatenate((self.there, np.ones(len(standings), np.bool_)))
        self.owners = _joined(self.owners, owners)
        self._read_pods(first, standings, owners.pods)
        self._by_id = None

    def _read_pods(self, first: int, standings: Sequence[Standing], counts: Ints) -> None:
        """Take over where workloads lie that are numbered from ``first`` on, as far as nodes and devices are there;
        ``counts`` says how many pods each has."""
        ranks, positions = self._ledger.fleet.rank, self._ledger.positions
        pods = [pod for standing in standings for pod in standing.pods]
        nodes, held = [pod.node for pod in pods], [pod.devices for pod in pods]
        rank = np.array([ranks.get(node, -1) for node in nodes], np.int64)
        index = np.array([pod.pod_index for pod in pods], np.int64)
        owner = np.repeat(np.arange(first, first + len(standings)), counts)
        shares = [share for devices in held for share in devices]
        of_pod = np.repeat(np.arange(len(pods)), np.array([len(devices) for devices in held], np.int64))
        there = [positions[at] if at >= 0 else NOWHERE for at in rank[of_pod].tolist()]
        at = np.array([on.get(share.index, -1) for on, share in zip(there, shares, strict=True)], np.int64)
        milli = np.array([share.milli for share in shares], np.int64)
        row = np.arange(len(self.pods.owner), len(self.pods.owner) + len(pods))
        if (rank < 0).any():
            kept = rank >= 0
            row = len(self.pods.owner) + np.cumsum(kept) - 1
            owner, rank, index = owner[kept], rank[kept], index[kept]
        none = np.zeros(len(owner), np.int64)
        more = Pods(owner, rank, index, none, none > 0)
        self._mark_spare(more, first, standings)
        self.pods = _joined(self.pods, more)
        held_there = at >= 0
        self.shares = _joined(self.shares, Shares(row[of_pod[held_there]], at[held_there], milli[held_there]))

    def _mark_spare(self, pods: Pods, first: int, standings: Sequence[Standing]) -> None:
        """Note which of the pods are above the minimum."""
        for at in np.flatnonzero(self.owners.pods[first:] > 1).tolist():
            standing, number = standings[at], first + at
            if len(standing.pods) > standing.workload.min_pods:
                *spare, _ = standing.units(self._ledger)
                milli = {unit.pods[0].pod_index: unit.milli for unit in spare}
                for row in range(*np.searchsorted(pods.owner, (number, number + 1)).tolist()):
                    index = int(pods.index[row])
                    pods.spare[row] = index in milli
                    pods.milli[row] = milli.get(index, 0)


def _owners(standings: Sequence[Standing]) -> Owners:
    workloads = [standing.workload for standing in standings]
    return Owners(
        np.array([standing.leaf for standing in standings], np.int64),
        np.array([COST_OF_STATUS[workload.status] for workload in workloads], np.int64),
        np.array([workload.priority for workload in workloads], np.int64),
        np.array(_since(workloads), np.int64),
        np.array([standing.milli for standing in standings], np.int64),
        np.array([len(standing.pods) for standing in standings], np.int64),
        capped([workload.cpu_milli for workload in workloads]),
        capped([workload.memory_mib for workload in workloads]),
    )


def _since(workloads: Sequence[Workload]) -> list[int]:
    """What :attr:`~scheduling.engine.standing.Standing.working_since` says of each, without asking each standing."""
    since = []
    for workload in workloads:
        started, saved = workload.started_at, workload.checkpointed_at
        if started is None or workload.status is not Status.RUNNING:
            since.append(UNLIMITED)
        else:
            since.append(saved if saved is not None and saved > started else started)
    return since


def _joined(before: T, more: T) -> T:
    parts = [
        np.concatenate((getattr(before, each.name), getattr(more, each.name))) for each in fields(before)
    ]
    return type(before)(*parts)
