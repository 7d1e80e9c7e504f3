"""Placed workloads while a cycle decides: what they hold, what they would lose, what they could give (section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.engine.ledger import Ledger
from scheduling.engine.place import Spot
from scheduling.engine.rights import Party
from scheduling.engine.types import GPU_MILLI, PodPlacement, Policy, Status, Workload

COST_OF_STATUS = {Status.QUEUED: 0, Status.STARTING: 1, Status.RUNNING: 2}

Tier = tuple[bool, int, int]
"""What is dearest about a victim: whether it goes whole, its status, its priority."""


@dataclass(slots=True, eq=False)
class Standing:
    """A workload with an allocation. ``pods`` shrinks and grows with the plan, ``fresh`` ones were started by it."""

    workload: Workload
    leaf: int
    pods: list[PodPlacement]
    lost_ms: int
    """Milliseconds of work that are lost if it goes now: since its last checkpoint, else since its start."""
    fresh: bool = False
    shrunk: bool = False
    victims: list[str] = field(default_factory=list)
    units: tuple[Unit, ...] | None = None
    """What can be taken of it, once somebody has asked; see :func:`units_of`."""

    def lose(self, gone: frozenset[int]) -> None:
        """Give up the pods with these indexes."""
        self.pods = [pod for pod in self.pods if pod.pod_index not in gone]
        self.shrunk = True
        self.units = None

    @property
    def milli(self) -> int:
        """What it holds."""
        return sum(pod.milli for pod in self.pods)

    def party(self) -> Party:
        """It as a party to the rules: with its minimum of pods, as it would come back."""
        needed = sum(pod.milli for pod in self.pods[: self.workload.min_pods])
        return Party(self.workload.id, self.leaf, self.workload.priority, self.workload.reserved, needed)

    def ends_at(self, now: int, default_limit_ms: int | None) -> int | None:
        """When its time is over at the latest, never in the past; ``None`` if it has no limit."""
        limit = self.workload.time_limit_ms
        limit = default_limit_ms if limit is None else limit
        if limit is None:
            return None
        started = self.workload.started_at if self.workload.status is Status.RUNNING else None
        return max(now, (now if started is None else started) + limit)


def lost_ms(workload: Workload, now: int) -> int:
    """Work that is lost if the workload goes now; nothing, before it runs."""
    if workload.status is not Status.RUNNING or workload.started_at is None:
        return 0
    return max(0, now - max(workload.started_at, workload.checkpointed_at or workload.started_at))


def protected(workload: Workload, policy: Policy, now: int) -> bool:
    """Whether an elastic workload is spared by other elastic ones: it runs too short, or has been preempted too
    often."""
    if policy.max_preemptions is not None and workload.preemptions_24h >= policy.max_preemptions:
        return True
    return (
        workload.status is Status.RUNNING
        and workload.started_at is not None
        and now - workload.started_at < policy.min_runtime_ms
    )


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What can be taken at once: one pod above a workload's minimum, or (``whole``) the workload.

    ``tier`` and ``key`` are its place in the order of victims: before the team decides, and inside the team (least
    work lost, id; of one workload the last pod first). ``spots`` are where the pods lie, as far as their nodes are
    there.
    """

    standing: Standing
    party: Party
    pods: tuple[PodPlacement, ...]
    whole: bool
    milli: int
    lost_gpu_ms: int
    tier: Tier
    key: tuple[int, str, int]
    spots: tuple[Spot, ...]

    @classmethod
    def of(
        cls, ledger: Ledger, standing: Standing, party: Party, pods: tuple[PodPlacement, ...], *, whole: bool
    ) -> Unit:
        """These pods of a workload as one unit."""
        workload = standing.workload
        milli = sum(pod.milli for pod in pods)
        lost = milli * standing.lost_ms // GPU_MILLI
        return cls(
            standing,
            party,
            pods,
            whole,
            milli,
            lost,
            tier=(whole, COST_OF_STATUS[workload.status], workload.priority),
            key=(lost, workload.id, -pods[0].pod_index if pods else 0),
            spots=tuple(spot for pod in pods if (spot := ledger.spot(pod)) is not None),
        )

    def without(self, ledger: Ledger, gone: frozenset[int]) -> Unit:
        """The same, less the pods with these indexes."""
        rest = tuple(pod for pod in self.pods if pod.pod_index not in gone)
        return Unit.of(ledger, self.standing, self.party, rest, whole=self.whole)


def units_of(ledger: Ledger, standing: Standing) -> tuple[Unit, ...]:
    """Everything that can be taken of a workload: the pods above its minimum one by one, and the whole."""
    if standing.units is None:
        party = standing.party()
        pods = sorted(standing.pods, key=lambda pod: pod.pod_index)
        spare = [
            Unit.of(ledger, standing, party, (pod,), whole=False)
            for pod in pods[standing.workload.min_pods :]
        ]
        standing.units = (*spare, Unit.of(ledger, standing, party, tuple(pods), whole=True))
    return standing.units
