"""What the workloads of an index hold, as arrays: for looking at thousands of them in one step (section 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.free_arrays import capped
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.preemption.victims import COST_OF_STATUS, PlacedWorkload, working_since


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
    """Pods that lie on nodes: the number of their workload, the node, and whether it is one above the minimum; of such
    a one, its index and what it holds."""

    owner: Ints
    rank: Ints
    index: Ints
    milli: Ints
    spare: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HeldShares:
    """What pods hold of devices: the row of the pod, the device's position on the node, milli-GPUs."""

    pod: Ints
    at: Ints
    milli: Ints


NOT_THERE = -1
"""The rank of a node, or the position of a device, that is not there."""
NO_DEVICES: Mapping[int, int] = {}
T = TypeVar("T", Owners, Pods, HeldShares)


class Holdings:
    """The arrays of some workloads; those that leave keep their number, but are not ``there``."""

    def __init__(self, ledger: KeptLedger, placed_workloads: Mapping[str, PlacedWorkload]) -> None:
        self._ledger = ledger
        self._begin(placed_workloads)

    def _begin(self, placed_workloads: Mapping[str, PlacedWorkload]) -> None:
        """Begin with no numbers; these workloads, by id, are to have some."""
        self._new = dict(placed_workloads)
        self._left: list[str] = []
        self.placed_workloads: list[PlacedWorkload] = []
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._numbered = 0
        none = np.zeros(0, np.int64)
        self.there = np.zeros(0, np.bool_)
        self.owners = Owners(*(8 * [none]))
        self.pods = Pods(none, none, none, none, self.there)
        self.shares = HeldShares(none, none, none)
        self._by_id: Ints | None = None

    @property
    def now(self) -> int:
        """What time it is for the workloads."""
        return self.placed_workloads[0].clock.now if self.placed_workloads else 0

    def add(self, placed: PlacedWorkload) -> None:
        """Put in a workload."""
        self._new[placed.workload.id] = placed

    def drop(self, placed: PlacedWorkload) -> None:
        """Take out a workload."""
        id_ = placed.workload.id
        if self._new.pop(id_, None) is None:
            self._left.append(id_)

    def refresh(self) -> Holdings:
        """Bring the arrays up to date, and return it."""
        if self._left:
            self._strike_out()
        if self._new:
            new, self._new = self._new, {}
            self._read(new)
        return self

    def _strike_out(self) -> None:
        """Have those that left not be there; where hardly any other is, begin anew with the others."""
        first, self._numbered = self._numbered, len(self._ids)
        self._numbers.update(zip(self._ids[first:], range(first, self._numbered), strict=True))
        self.there[[self._numbers[id_] for id_ in self._left]] = False
        self._left.clear()
        if 2 * np.count_nonzero(self.there) < len(self.there):
            stay = {
                self._ids[number]: self.placed_workloads[number]
                for number in np.flatnonzero(self.there).tolist()
            }
            self._begin(stay | self._new)

    def by_id(self) -> Ints:
        """For each workload how many come before it by id."""
        if self._by_id is None:
            ids = self._ids
            self._by_id = np.zeros(len(ids), np.int64)
            self._by_id[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        return self._by_id

    def by_node(self, nodes: int, width: int) -> tuple[NDArray[np.bool_], Ints]:
        """Which of so many nodes have pods, and what is held of each of their devices, up to so many of a
        node."""
        there = self.there[self.pods.owner]
        held = np.flatnonzero(there[self.shares.pod] & (self.shares.at < width))
        lain_on, found = np.zeros(nodes, np.bool_), np.zeros((nodes, width), np.int64)
        lain_on[self.pods.rank[there]] = True
        np.add.at(
            found, (self.pods.rank[self.shares.pod[held]], self.shares.at[held]), self.shares.milli[held]
        )
        return lain_on, found

    def _read(self, new: Mapping[str, PlacedWorkload]) -> None:
        """Take over workloads that are not numbered yet."""
        first, placed_workloads = len(self.placed_workloads), list(new.values())
        self.placed_workloads.extend(placed_workloads)
        self._ids.extend(new)
        self.there = np.concatenate((self.there, np.ones(len(placed_workloads), np.bool_)))
        owners = _owners(placed_workloads)
        self.owners = _joined(self.owners, owners)
        self._read_pods(first, placed_workloads, owners.pods)
        self._by_id = None

    def _read_pods(self, first: int, placed_workloads: Sequence[PlacedWorkload], counts: Ints) -> None:
        """Take over where workloads lie that are numbered from ``first`` on, as far as nodes and devices are there;
        ``counts`` says how many pods each has."""
        ranks, positions = self._ledger.nodes.rank, [*self._ledger.positions, NO_DEVICES]
        pods = [pod for placed in placed_workloads for pod in placed.pods]
        on = [ranks.get(pod.node, NOT_THERE) for pod in pods]
        held = [pod.devices for pod in pods]
        stand = [positions[rank] for rank in on]
        at = np.array(
            [
                where.get(share.index, NOT_THERE)
                for where, devices in zip(stand, held, strict=True)
                for share in devices
            ],
            np.int64,
        )
        milli = np.array([share.milli for devices in held for share in devices], np.int64)
        of_pod = np.repeat(np.arange(len(pods)), [len(devices) for devices in held])
        owner = np.repeat(np.arange(first, first + len(placed_workloads)), counts)
        rank = np.array(on, np.int64)
        lies, there = rank != NOT_THERE, at != NOT_THERE
        row = len(self.pods.owner) + np.cumsum(lies) - 1
        spare = [each[lies] for each in self._spare(placed_workloads, counts)]
        self.pods = _joined(self.pods, Pods(owner[lies], rank[lies], *spare))
        self.shares = _joined(self.shares, HeldShares(row[of_pod[there]], at[there], milli[there]))

    def _spare(
        self, placed_workloads: Sequence[PlacedWorkload], counts: Ints
    ) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """The index of each pod above a minimum, what it holds, and which these are."""
        spare = np.zeros(counts.sum(), np.bool_)
        index, milli = np.zeros((2, len(spare)), np.int64)
        begins = np.cumsum(counts) - counts
        for at in np.flatnonzero(counts > 1).tolist():
            placed = placed_workloads[at]
            if len(placed.pods) > placed.workload.min_pods:
                *victims, _ = placed.as_victims(self._ledger)
                held = {victim.pods[0].pod_index: victim.milli for victim in victims}
                for row, pod in enumerate(placed.pods, begins[at]):
                    if pod.pod_index in held:
                        index[row], milli[row], spare[row] = pod.pod_index, held[pod.pod_index], True
        return index, milli, spare


def _owners(placed_workloads: Sequence[PlacedWorkload]) -> Owners:
    workloads = [placed.workload for placed in placed_workloads]
    since = [working_since(workload) for workload in workloads]
    return Owners(
        np.array([placed.leaf for placed in placed_workloads], np.int64),
        np.array([COST_OF_STATUS[workload.status] for workload in workloads], np.int64),
        np.array([workload.priority for workload in workloads], np.int64),
        np.array([UNLIMITED if at is None else at for at in since], np.int64),
        np.array([placed.milli for placed in placed_workloads], np.int64),
        np.array([len(placed.pods) for placed in placed_workloads], np.int64),
        capped([workload.cpu_milli for workload in workloads]),
        capped([workload.memory_mib for workload in workloads]),
    )


def _joined(before: T, more: T) -> T:
    """The rows of both."""
    if not len(getattr(before, fields(before)[0].name)):
        return more
    parts = [
        np.concatenate((getattr(before, each.name), getattr(more, each.name))) for each in fields(before)
    ]
    return type(before)(*parts)
