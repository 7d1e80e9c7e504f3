"""The state that a cycle decides on, and what happens to it: the rows of a snapshot, kept up to date event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from scheduling.engine.model.array_limits import ArrayLimits
from scheduling.engine.model.snapshot import NodeInfo, PoolInfo, Snapshot, TeamInfo, WorkloadInfo


class Doubt(ValueError):  # noqa: N818 - an outcome, not a fault
    """Changes do not fit what is known. Nothing was changed; the caller makes the state anew."""


R = TypeVar("R", WorkloadInfo, NodeInfo)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that are new or other than before, and the ids of those that are gone; ``None``: the same as before.

    ``teams`` and ``pools`` are all of them, the pools in the organisation's order. Rows are told apart by their ids;
    a row equal to the one that is known changes nothing.
    """

    workloads: tuple[WorkloadInfo, ...] = ()
    gone_workloads: tuple[str, ...] = ()
    nodes: tuple[NodeInfo, ...] = ()
    gone_nodes: tuple[str, ...] = ()
    teams: tuple[TeamInfo, ...] | None = None
    pools: tuple[PoolInfo, ...] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.workloads
            or self.gone_workloads
            or self.nodes
            or self.gone_nodes
            or self.teams is not None
            or self.pools is not None
        )

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Changes:
        """What leads from one snapshot to the other. Rows that are the same object cost next to nothing."""
        workloads, gone = _between(before.workloads, after.workloads)
        nodes, gone_nodes = _between(before.nodes, after.nodes)
        return cls(
            workloads,
            gone,
            nodes,
            gone_nodes,
            None if _same(before.teams, after.teams) else after.teams,
            None if before.pools is after.pools or before.pools == after.pools else after.pools,
        )


def _between(before: Sequence[R], after: Sequence[R]) -> tuple[tuple[R, ...], tuple[str, ...]]:
    """Rows that are new or different, and the ids of those that are gone."""
    if before is after:
        return (), ()
    known = {row.id: row for row in before}
    other = tuple([row for row in after if (was := known.pop(row.id, None)) is not row and was != row])
    return other, tuple(known)


def _same(before: Sequence[TeamInfo], after: Sequence[TeamInfo]) -> bool:
    return before is after or set(before) == set(after)


def check(
    known: Mapping[str, object], rows: Iterable[WorkloadInfo | NodeInfo], gone: Collection[str]
) -> None:
    """Raise :class:`Doubt` if a row is changed twice, or one goes that is not there."""
    changed = Counter([*(row.id for row in rows), *gone])
    if len(changed) < changed.total():
        raise Doubt(f"A row is changed twice: {changed.most_common(1)[0][0]}.")
    for id_ in gone:
        if id_ not in known:
            raise Doubt(f"{id_} is to go, but is not known.")


class Follower(Protocol):
    """What keeps indexes of a state between decisions."""

    def before(self, state: State, changes: Changes) -> None:
        """The state's rows are about to change."""

    def after(self, changes: Changes, replaced: Mapping[str, WorkloadInfo], others: Collection[str]) -> None:
        """They have changed. ``replaced`` are the rows, by id, of changed workloads as they were, and of those gone;
        ``others`` the ids of those that these let into the queues, or put out, by the limit of an array."""


class State:
    """The rows of a snapshot by id. A ``follower`` is told of each change.

    ``array_limits`` says which wait for others of their array.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.pools = snapshot.pools
        self.teams = snapshot.teams
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.array_limits = ArrayLimits(snapshot.workloads)
        self.follower: Follower | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> State:
        """The state a snapshot describes. The order of its rows (but the pools') makes no difference."""
        return cls(snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """What it stands for; its rows in any order."""
        return Snapshot(self.pools, self.teams, tuple(self.nodes.values()), tuple(self.workloads.values()))

    def workload(self, id_: str) -> WorkloadInfo:
        """A workload by its id."""
        return self.workloads[id_]

    def apply(self, changes: Changes) -> None:
        """Take in what happened. Raises :class:`Doubt`, and changes nothing, where that does not fit."""
        check(self.workloads, changes.workloads, changes.gone_workloads)
        check(self.nodes, changes.nodes, changes.gone_nodes)
        if self.follower is not None:
            self.follower.before(self, changes)
        replaced = {id_: self.workloads.pop(id_) for id_ in changes.gone_workloads}
        for workload in changes.workloads:
            if workload.id in self.workloads:
                replaced[workload.id] = self.workloads[workload.id]
            self.workloads[workload.id] = workload
        for id_ in changes.gone_nodes:
            del self.nodes[id_]
        self.nodes.update((node.id, node) for node in changes.nodes)
        self.teams = self.teams if changes.teams is None else changes.teams
        self.pools = self.pools if changes.pools is None else changes.pools
        others = self.array_limits.change(replaced, changes.workloads)
        if self.follower is not None:
            self.follower.after(changes, replaced, others)
