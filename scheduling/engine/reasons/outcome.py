"""What a finished cycle of one pool hands over to be told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from scheduling.engine.backfill.passing import BlockedHead
from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.snapshot import PoolInfo
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.nodes import Nodes, PoolNodes
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.queue.candidate import Blocked
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import QuotaAccounts, Tree


class BlockedWorkloads(Protocol):
    """Blocked workloads."""

    def values(self) -> Iterable[Blocked]:
        """In the order of their first turns."""


class PoolOutcome(Protocol):
    """One pool after its cycle. ``is_shut``: nothing may pass the head at all."""

    pool: PoolInfo
    now: int
    tree: Tree
    nodes: Nodes
    pool_nodes: PoolNodes
    accounts: QuotaAccounts
    charges: Charges
    allocations: dict[str, list[Allocation]]
    placed_workloads: dict[str, PlacedWorkload]
    started: dict[str, PlacedWorkload]
    entitled: list[int]

    @property
    def ledger(self) -> Ledger:
        """What is free, held and promised."""

    @property
    def waiting(self) -> BlockedWorkloads:
        """What waits."""

    @property
    def head(self) -> BlockedHead | None:
        """The first blocked workload of the order."""

    @property
    def demand(self) -> Sequence[int]:
        """The demand of each branch."""

    @property
    def is_shut(self) -> bool:
        """Whether nothing may pass the head at all."""

    @property
    def stopping(self) -> Iterable[str]:
        """The workloads that are over but still hold devices."""

    def elastic_on(self, leaf: int) -> Iterable[PlacedWorkload]:
        """The elastic workloads of a leaf that were placed before this cycle, and still are."""

    def not_running(self) -> Iterable[PlacedWorkload]:
        """The workloads placed before this cycle, and still placed, whose pods do not run yet."""
