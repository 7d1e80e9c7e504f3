"""Placed workloads while a cycle decides: what they hold, what they would lose, what they could give (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    RESERVED_PRIORITY,
    OpenStatus,
    PodPlacement,
    Policy,
    WorkloadInfo,
)
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.node_index import Spot
from scheduling.engine.preemption.policy import WorkloadClaim

COST_OF_STATUS = {OpenStatus.QUEUED: 0, OpenStatus.STARTING: 1, OpenStatus.RUNNING: 2}
WITHOUT_PODS = (OpenStatus.PENDING, OpenStatus.QUEUED)
"""Statuses of placed workloads whose pods may still be held back."""

Tier = tuple[bool, int, int]
"""What is dearest about a victim: whether it goes whole, its status, its priority."""
Cost = tuple[Tier, int, int, tuple[str, ...]]
"""What a set of victims costs, see :attr:`~scheduling.engine.preemption.search.VictimSet.cost`."""
VictimKey = tuple[int, str, int]
"""What is lost, whose it is, minus the pod's index."""


@dataclass(slots=True)
class CycleClock:
    """The time of the cycle, shared by all placed workloads: kept ones have more to lose in the next."""

    now: int


class PlacedWorkload:
    """A workload with an allocation. ``pods`` shrinks and grows with the plan, ``fresh`` ones were started by it, with
    these ``victims``.

    ``milli`` is what it holds; ``reserved`` is the workload's own, at hand because it is asked for over and over.
    """

    __slots__ = (
        "_claim",
        "_spots",
        "_victims",
        "_victims_at",
        "clock",
        "fresh",
        "leaf",
        "milli",
        "pods",
        "reserved",
        "shrunk",
        "victims",
        "workload",
    )

    def __init__(
        self,
        workload: WorkloadInfo,
        leaf: int,
        pods: tuple[PodPlacement, ...],
        clock: CycleClock,
        *,
        fresh: bool = False,
        milli: int | None = None,
    ) -> None:
        self.workload = workload
        self.leaf = leaf
        self.reserved = workload.priority >= RESERVED_PRIORITY
        self.pods = pods
        self.clock = clock
        self.fresh = fresh
        self.shrunk = False
        self.victims: Sequence[str] = ()
        self.milli = milli_of(pods) if milli is None else milli
        self._victims: tuple[Victim, ...] | None = None
        self._victims_at = 0
        self._claim: WorkloadClaim | None = None
        self._spots: Mapping[int, Spot] | None = None

    @property
    def lost_ms(self) -> int:
        """Milliseconds of work that are lost if it goes now: since its last checkpoint, else since its start."""
        since = working_since(self.workload)
        return 0 if since is None else max(0, self.clock.now - since)

    def lose(self, gone: frozenset[int]) -> None:
        """Give up the pods with these indexes."""
        self.shrunk = True
        self.have(tuple([pod for pod in self.pods if pod.pod_index not in gone]))

    def grow(self, pod: PodPlacement) -> None:
        """Get one more pod."""
        self.have((*self.pods, pod))

    def have(self, pods: tuple[PodPlacement, ...]) -> None:
        """Have these pods."""
        self.pods = pods
        self.milli = milli_of(pods)
        self._victims = self._claim = self._spots = None

    def spots(self, ledger: Ledger) -> Mapping[int, Spot]:
        """Where the pods are, by index, as far as their nodes are there."""
        if self._spots is None:
            self._spots = {pod.pod_index: spot for pod in self.pods if (spot := ledger.spot(pod)) is not None}
        return self._spots

    def waits_for_victims(self, ledger: Ledger) -> bool:
        """Whether its pods are kept back, because a stopping workload still holds what it was promised."""
        return self.workload.status in WITHOUT_PODS and ledger.waits(self.workload, self.pods)

    def claim(self) -> WorkloadClaim:
        """It as a party to the rules: with its minimum of pods, as it would come back."""
        if self._claim is None:
            workload = self.workload
            needed = milli_of(self.pods[: workload.min_pods])
            self._claim = WorkloadClaim(workload.id, self.leaf, workload.priority, workload.reserved, needed)
        return self._claim

    def tier(self, *, whole: bool) -> Tier:
        """The tier of the whole workload, or of its pods above the minimum."""
        return (whole, COST_OF_STATUS[self.workload.status], self.workload.priority)

    def as_victims(self, ledger: Ledger) -> tuple[Victim, ...]:
        """Everything that can be taken of it: the pods above its minimum one by one, and the whole."""
        if self._victims is None:
            pods = sorted(self.pods, key=lambda pod: pod.pod_index)
            spare = [Victim(ledger, self, (pod,), whole=False) for pod in pods[self.workload.min_pods :]]
            self._victims = (*spare, Victim(ledger, self, tuple(pods), whole=True))
        elif self._victims_at != self.clock.now:
            lost_ms = self.lost_ms
            for victim in self._victims:
                victim.count_lost(lost_ms)
        self._victims_at = self.clock.now
        return self._victims

    def ends_at(self, policy: Policy) -> int | None:
        """When its time is over at the latest, never in the past; ``None`` if it has no limit."""
        now, limit = self.clock.now, policy.limit_ms(self.workload.time_limit_ms)
        if limit is None:
            return None
        due = due_at(self.workload, policy)
        return now + limit if due is None else max(now, due)


def working_since(workload: WorkloadInfo) -> int | None:
    """Since when what a workload did would be lost; ``None`` if it does not run."""
    started = workload.started_at
    if workload.status is not OpenStatus.RUNNING or started is None:
        return None
    return max(started, workload.checkpointed_at or started)


def due_at(workload: WorkloadInfo, policy: Policy) -> int | None:
    """When a running workload has used up its time limit; ``None`` for others, and without a limit."""
    limit = policy.limit_ms(workload.time_limit_ms)
    if limit is None or workload.started_at is None or workload.status is not OpenStatus.RUNNING:
        return None
    return workload.started_at + limit


def protects(policy: Policy) -> bool:
    """Whether a pool's policy spares any elastic workload of those that run by now."""
    return policy.min_runtime_ms > 0 or policy.max_preemptions is not None


def protected(workload: WorkloadInfo, policy: Policy, now: int) -> bool:
    """Whether an elastic workload is spared by other elastic ones."""
    runs = workload.status is OpenStatus.RUNNING and workload.started_at is not None
    return is_spared(workload, policy, now - (workload.started_at or 0) if runs else None)


def is_spared(workload: WorkloadInfo, policy: Policy, ran_ms: int | None) -> bool:
    """Whether it has run too short, or has been preempted too often; ``ran_ms`` is ``None`` if it does not run."""
    most = policy.max_preemptions
    too_often = most is not None and workload.preemptions_24h >= most
    return too_often or (ran_ms is not None and ran_ms < policy.min_runtime_ms)


def milli_of(pods: Iterable[PodPlacement]) -> int:
    """What these pods hold."""
    return sum([share.milli for pod in pods for share in pod.devices])


class Victim:
    """What can be taken at once: one pod above a workload's minimum, or (``whole``) the workload.

    ``tier`` and ``key`` are its place in the order of victims: before the team decides, and inside the team (least
    work lost, id; of one workload the last pod first).
    """

    __slots__ = ("_ledger", "_spots", "key", "lost_gpu_ms", "milli", "placed", "pods", "tier", "whole")

    def __init__(
        self, ledger: Ledger, placed: PlacedWorkload, pods: tuple[PodPlacement, ...], *, whole: bool
    ) -> None:
        self._ledger = ledger
        self._spots: tuple[Spot, ...] | None = None
        self.placed = placed
        self.pods = pods
        self.whole = whole
        self.milli = milli_of(pods)
        self.tier = placed.tier(whole=whole)
        self.count_lost(placed.lost_ms)

    def count_lost(self, lost_ms: int) -> None:
        """Have so much work be lost."""
        self.lost_gpu_ms = self.milli * lost_ms // GPU_MILLI
        last = -self.pods[0].pod_index if self.pods else 0
        self.key: VictimKey = (self.lost_gpu_ms, self.placed.workload.id, last)

    @property
    def claim(self) -> WorkloadClaim:
        """The workload as a party to the rules."""
        return self.placed.claim()

    @property
    def spots(self) -> tuple[Spot, ...]:
        """Where the pods are, as far as their nodes are there."""
        if self._spots is None:
            known = self.placed.spots(self._ledger)
            self._spots = tuple([known[pod.pod_index] for pod in self.pods if pod.pod_index in known])
        return self._spots

    def without(self, gone: frozenset[int]) -> Victim:
        """The same, less the pods with these indexes."""
        rest = tuple(pod for pod in self.pods if pod.pod_index not in gone)
        return Victim(self._ledger, self.placed, rest, whole=self.whole)
