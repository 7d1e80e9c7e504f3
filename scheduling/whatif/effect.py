"""What differs between two futures: figures of teams and pools, and what becomes of workloads. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling import engine
from scheduling.whatif.draining import Draining
from scheduling.whatif.future import Future
from teams.values import amount_text

MOST_NAMED = 100
"""So many workloads of each change are told one by one; all are counted."""
MUCH_LATER_MS = 60_000


class Change(StrEnum):
    """What becomes of a workload that would not without the draft; in the order in which it is told."""

    BLOCKS = "blocks"
    PREEMPTED = "preempted"
    SHRUNK = "shrunk"
    NO_LONGER_STARTS = "no-longer-starts"
    WAITS_LONGER = "waits-longer"
    OTHER_REASON = "other-reason"
    STARTS = "starts"
    WAITS_LESS = "waits-less"
    SPARED = "spared"


Yield = engine.Preemption | engine.Shrink


@dataclass(frozen=True, slots=True)
class WorkloadEffect:
    """One workload for which something changes.

    Of its GPUs so many are `slices`, which count `slices_milli`. `yielding` is its preemption or shrinking, with the
    draft or (where it is spared) without; None where it leaves a node that is drained. Who `blocks` is what keeps such
    a node from being empty. `comes_back` says that it starts again within the cycles that were looked at, `ends` that
    it wants no second try. `before` and `after` are how it waits, where it does.
    """

    workload: str
    change: Change
    team: str
    pool: str | None
    priority: int
    gpus_milli: int | None
    yielding: Yield | None = None
    comes_back: bool = False
    ends: bool = False
    start: engine.Start | None = None
    before: engine.Wait | None = None
    after: engine.Wait | None = None
    slices: int = 0
    slices_milli: int = 0


@dataclass(frozen=True, slots=True)
class ChangeCount:
    """How many workloads of a team share a change, and for how many milli-GPUs; of these so many are slices."""

    change: Change
    team: str
    workloads: int
    gpus_milli: int
    slices: int = 0
    slices_milli: int = 0


@dataclass(frozen=True, slots=True)
class TeamEffect:
    """A team whose figures in a pool differ; `in_use_milli` is what it holds once the cycles are carried out."""

    team: str
    pool: str
    before: engine.TeamFigures
    after: engine.TeamFigures
    in_use_before_milli: int
    in_use_after_milli: int


@dataclass(frozen=True, slots=True)
class PoolAmounts:
    """A pool in milli-GPUs; so many devices of its capacity are `slices`, which count `slices_milli` of it."""

    capacity_milli: int
    in_use_milli: int
    oversubscribed: bool
    slices: int = 0
    slices_milli: int = 0

    @property
    def devices(self) -> str:
        """The capacity in devices: "24 GPUs and 9 slices worth 1.859 GPUs"."""
        return amount_text(self.capacity_milli, self.slices, self.slices_milli)


@dataclass(frozen=True, slots=True)
class PoolEffect:
    """A pool whose figures differ, before and after the cycles."""

    pool: str
    before: PoolAmounts
    after: PoolAmounts


@dataclass(frozen=True, slots=True)
class Effect:
    """What a draft would change.

    `findings` are those that are new, `guarantees` the highest teams' in pools of which more would be guaranteed than
    there is. `settled`: nothing more follows after `cycles`.
    """

    teams: tuple[TeamEffect, ...] = ()
    pools: tuple[PoolEffect, ...] = ()
    workloads: tuple[WorkloadEffect, ...] = ()
    counts: tuple[ChangeCount, ...] = ()
    findings: tuple[engine.Finding, ...] = ()
    guarantees: tuple[engine.TeamFigures, ...] = ()
    newcomers: Mapping[str, engine.Start | engine.Wait] = field(default_factory=dict)
    cycles: int = 1
    settled: bool = True

    def __bool__(self) -> bool:
        return bool(self.teams or self.pools or self.counts or self.findings or self.newcomers)


NOTHING_DRAINED = Draining()


def between(
    before: Future,
    after: Future,
    snapshot: engine.Snapshot,
    tried: engine.Snapshot,
    *,
    newcomers: Iterable[engine.WorkloadInfo] = (),
    draining: Draining = NOTHING_DRAINED,
) -> Effect:
    """Return what the second future, which began with what is `tried`, has otherwise than the first, which began with
    this snapshot."""
    fates = _Fates(after)
    rows = sorted(
        _workloads(_Fates(before), fates, snapshot.workloads, draining, _Slices(snapshot)), key=_order
    )
    known = frozenset(before.plans[0].findings)
    findings = tuple(finding for finding in after.plans[0].findings if finding not in known)
    told = {each.id: fates.starts.get(each.id) or fates.waits.get(each.id) for each in newcomers}
    return Effect(
        teams=tuple(_teams(before, after)),
        pools=tuple(_pools(before, after, snapshot, tried)),
        workloads=tuple(_first_of_each(rows)),
        counts=tuple(_counts(rows)),
        findings=findings,
        guarantees=tuple(_guarantees(findings, after.plans[0], snapshot.teams)),
        newcomers={key: fate for key, fate in told.items() if fate is not None},
        cycles=len(after.plans),
        settled=before.settled and after.settled,
    )


class _Fates:
    """What a future has for each workload: starts and yields of any cycle (the first), and how it waits at the end."""

    def __init__(self, future: Future) -> None:
        self.starts: dict[str, engine.Start] = {}
        self.yields: dict[str, Yield] = {}
        self.started_last: dict[str, int] = {}
        self.preempted_last: dict[str, int] = {}
        for cycle, plan in enumerate(future.plans):
            for start in plan.starts:
                self.starts.setdefault(start.workload, start)
                self.started_last[start.workload] = cycle
            yields: tuple[Yield, ...] = (*plan.preemptions, *plan.shrinks)
            for yielding in yields:
                self.yields.setdefault(yielding.workload, yielding)
            self.preempted_last.update((preemption.workload, cycle) for preemption in plan.preemptions)
        self.waits = {wait.workload: wait for wait in future.plans[-1].waits}

    def starts_and_stays(self, key: str) -> bool:
        """Whether it is started, and not preempted after."""
        return self.started_last.get(key, -1) > self.preempted_last.get(key, -1)


Amount = tuple[int, int, int]
"""Milli-GPUs, how many slices are among them, and the milli-GPUs of these."""


class _Slices:
    """Which devices are slices of GPUs, and what the types count as that are nothing else."""

    def __init__(self, snapshot: engine.Snapshot) -> None:
        devices = [(node.id, device) for node in snapshot.nodes for device in node.devices]
        whole = {device.gpu_type for _, device in devices if device.slicing is engine.Slicing.WHOLE}
        cut = [(node, each) for node, each in devices if each.slicing is not engine.Slicing.WHOLE]
        self._cut = {(node, device.index) for node, device in cut}
        self._shares: dict[str, int] = {}
        for _, device in cut:
            if device.gpu_type not in whole:
                known = self._shares.get(device.gpu_type, 0)
                self._shares[device.gpu_type] = max(known, device.share_milli)

    def lying(self, pods: Iterable[engine.PodPlacement]) -> Amount:
        """Return what pods hold."""
        shares = [(pod.node, share) for pod in pods for share in pod.devices]
        cut = [share.milli for node, share in shares if (node, share.index) in self._cut]
        return sum(share.milli for _, share in shares), len(cut), sum(cut)

    def asked(
        self, workload: engine.WorkloadInfo, start: engine.Start | None, wait: engine.Wait | None
    ) -> tuple[int | None, int, int]:
        """Return what all pods take: by where those lie that start, else as far as it is known what they would get."""
        if start is not None:
            milli, slices, slices_milli = self.lying(start.placements)
            pods = len(start.placements)
            return (
                milli * workload.pods // pods,
                slices * workload.pods // pods,
                slices_milli * workload.pods // pods,
            )
        told = wait.reason.asked_milli if wait is not None else None
        if not isinstance(workload.request, engine.GpuShare):
            return told, 0, 0
        if workload.gpu_types and all(name in self._shares for name in workload.gpu_types):
            milli = workload.pods * max(self._shares[name] for name in workload.gpu_types)
            return milli, workload.pods, milli
        if workload.gpu_types and told is not None and wait is not None and wait.position is not None:
            return told // workload.min_pods * workload.pods, 0, 0
        return workload.request.milli * workload.pods, 0, 0


def _workloads(
    before: _Fates,
    after: _Fates,
    workloads: Iterable[engine.WorkloadInfo],
    draining: Draining,
    slices: _Slices,
) -> Iterator[WorkloadEffect]:
    found: WorkloadEffect | None
    for workload in workloads:
        if workload.id in draining.leaving or workload.id in draining.blocking:
            found = _of_drained(after, workload, draining, slices)
        elif workload.status is engine.OpenStatus.PENDING:
            found = _of_waiting(before, after, workload, slices)
        elif workload.status is engine.OpenStatus.STOPPING:
            continue
        else:
            found = _of_placed(before, after, workload, slices)
        if found is not None:
            yield found


def _of_placed(
    before: _Fates, after: _Fates, workload: engine.WorkloadInfo, slices: _Slices
) -> WorkloadEffect | None:
    key, (milli, cut, cut_milli) = workload.id, slices.lying(workload.placements)
    old, new = before.yields.get(key), after.yields.get(key)
    if (old is None) == (new is None):
        return None
    gives = Change.SHRUNK if isinstance(new, engine.Shrink) else Change.PREEMPTED
    change = Change.SPARED if new is None else gives
    return WorkloadEffect(
        workload=key,
        change=change,
        team=workload.team,
        pool=workload.pool,
        priority=workload.priority,
        gpus_milli=milli,
        slices=cut,
        slices_milli=cut_milli,
        yielding=new or old,
        comes_back=change is Change.PREEMPTED and after.starts_and_stays(key),
        ends=change is Change.PREEMPTED and workload.on_preemption is engine.AfterPreemption.STOP,
    )


def _of_drained(
    after: _Fates, workload: engine.WorkloadInfo, draining: Draining, slices: _Slices
) -> WorkloadEffect:
    key, (milli, cut, cut_milli) = workload.id, slices.lying(workload.placements)
    blocks, left = key in draining.blocking, draining.leaving.get(key)
    shrunk = left is not None and left.status is not engine.OpenStatus.PENDING
    return WorkloadEffect(
        workload=key,
        change=Change.BLOCKS if blocks else Change.SHRUNK if shrunk else Change.PREEMPTED,
        team=workload.team,
        pool=workload.pool,
        priority=workload.priority,
        gpus_milli=milli,
        slices=cut,
        slices_milli=cut_milli,
        comes_back=not blocks and not shrunk and after.starts_and_stays(key),
        ends=not blocks and left is None,
        after=None if blocks else after.waits.get(key),
    )


def _of_waiting(
    before: _Fates, after: _Fates, workload: engine.WorkloadInfo, slices: _Slices
) -> WorkloadEffect | None:
    key = workload.id
    was, would = before.starts_and_stays(key), after.starts_and_stays(key)
    old, new = before.waits.get(key), after.waits.get(key)
    if was != would:
        change = Change.STARTS if would else Change.NO_LONGER_STARTS
    elif old is not None and new is not None and (differing := _wait_differs(old, new)):
        change = differing
    else:
        return None
    start = after.starts.get(key) if would else None
    waits = new or old
    milli, cut, cut_milli = slices.asked(workload, start, waits)
    return WorkloadEffect(
        workload=key,
        change=change,
        team=workload.team,
        pool=start.pool if start else waits.pool if waits else None,
        priority=workload.priority,
        gpus_milli=milli,
        slices=cut,
        slices_milli=cut_milli,
        start=start,
        before=old,
        after=new,
    )


def _wait_differs(old: engine.Wait, new: engine.Wait) -> Change | None:
    """Return how waiting differs: by its reason, else its end where that is known, else its place in the queue."""
    if old.reason.code is not new.reason.code:
        return Change.OTHER_REASON
    first, second = old.eta.earliest, new.eta.earliest
    if first is not None and second is not None:
        later = second - first
        if abs(later) < MUCH_LATER_MS:
            return None
        return Change.WAITS_LONGER if later > 0 else Change.WAITS_LESS
    if old.position is None or new.position is None or old.position == new.position:
        return None
    return Change.WAITS_LONGER if new.position > old.position else Change.WAITS_LESS


ORDER = {change: at for at, change in enumerate(Change)}


def _order(effect: WorkloadEffect) -> tuple[int, int, str]:
    return ORDER[effect.change], -effect.priority, effect.workload


def _first_of_each(rows: Iterable[WorkloadEffect]) -> Iterator[WorkloadEffect]:
    seen: Counter[Change] = Counter()
    for row in rows:
        seen[row.change] += 1
        if seen[row.change] <= MOST_NAMED:
            yield row


def _counts(rows: Iterable[WorkloadEffect]) -> Iterator[ChangeCount]:
    """Yield how many of each team share a change, the most GPUs first."""
    sums: dict[tuple[Change, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        found = sums[row.change, row.team]
        for at, more in enumerate((1, row.gpus_milli or 0, row.slices, row.slices_milli)):
            found[at] += more
    ordered = sorted(sums.items(), key=lambda item: (ORDER[item[0][0]], -item[1][1], item[0][1]))
    for (change, team), sizes in ordered:
        yield ChangeCount(change, team, *sizes)


def _teams(before: Future, after: Future) -> Iterator[TeamEffect]:
    """Yield the teams whose limits, entitlement or use differ; entitlements are those of the first cycle."""
    old = {(row.team, row.pool): row for row in before.plans[0].teams}
    ends = {(row.team, row.pool): row.in_use_milli for row in before.plans[-1].teams}
    ends_after = {(row.team, row.pool): row.in_use_milli for row in after.plans[-1].teams}
    for new in after.plans[0].teams:
        key = (new.team, new.pool)
        if key in old and (_limits(old[key]) != _limits(new) or ends[key] != ends_after[key]):
            yield TeamEffect(*key, old[key], new, ends[key], ends_after[key])


def _guarantees(
    findings: Iterable[engine.Finding], plan: engine.Plan, teams: Iterable[engine.TeamInfo]
) -> Iterator[engine.TeamFigures]:
    """Yield what the teams right below the root would be guaranteed of each pool that falls short."""
    short = {finding.pool for finding in findings if finding.code is engine.FindingCode.OVERSUBSCRIBED}
    if not short:
        return
    parents = {team.id: team.parent for team in teams}
    for row in plan.teams:
        parent = parents.get(row.team)
        if row.pool in short and row.guarantee_milli and parent is not None and parents[parent] is None:
            yield row


def _limits(row: engine.TeamFigures) -> tuple[int | None, ...]:
    return row.guarantee_milli, row.ceiling_milli, row.entitlement_milli


def _pools(
    before: Future, after: Future, snapshot: engine.Snapshot, tried: engine.Snapshot
) -> Iterator[PoolEffect]:
    old, new = _states(before, snapshot), _states(after, tried)
    for pool, state in new.items():
        if pool in old and old[pool] != state:
            yield PoolEffect(pool, old[pool], state)


def _states(future: Future, snapshot: engine.Snapshot) -> dict[str, PoolAmounts]:
    """Return the pools once things have settled, by id."""
    cut: dict[str, list[int]] = defaultdict(list)
    for node in snapshot.nodes:
        if node.ready and not node.cordoned:
            cut[node.pool] += [
                device.share_milli
                for device in node.devices
                if device.slicing is not engine.Slicing.WHOLE and not device.foreign
            ]
    return {
        row.pool: PoolAmounts(
            row.capacity_milli,
            row.in_use_milli,
            row.oversubscribed,
            len(cut[row.pool]),
            sum(cut[row.pool]),
        )
        for row in future.plans[-1].pools
    }
