"""The state that a cycle decides on: the rows of a snapshot, kept up to date event by event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from scheduling.engine.model.changes import Changes, check
from scheduling.engine.model.snapshot import Snapshot, Workload


class Follower(Protocol):
    """What keeps indexes of a state between decisions."""

    def before(self, state: State, changes: Changes) -> None:
        """The state's rows are about to change."""

    def after(self, changes: Changes, replaced: Mapping[str, Workload]) -> None:
        """They have changed. ``replaced`` are the rows, by id, of changed workloads as they were, and of those gone."""


class State:
    """The rows of a snapshot by id. A ``follower`` is told of each change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.pools = snapshot.pools
        self.teams = snapshot.teams
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.follower: Follower | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> State:
        """The state a snapshot describes. The order of its rows (but the pools') makes no difference."""
        return cls(snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """What it stands for; its rows in any order."""
        return Snapshot(self.pools, self.teams, tuple(self.nodes.values()), tuple(self.workloads.values()))

    def workload(self, id_: str) -> Workload:
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
        if self.follower is not None:
            self.follower.after(changes, replaced)
