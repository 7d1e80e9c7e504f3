"""Who goes for whom, and by what right (section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduling.checker.board import Board
from scheduling.checker.picture import Picture, milli_of
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import Preemption, Rule, Shrink, Start
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    ElasticPreemption,
    OpenStatus,
    PodPlacement,
    Policy,
    WorkloadInfo,
)

Gone = Preemption | Shrink


def broken_victims(picture: Picture) -> Iterator[Violation]:
    """What is wrong with victims whatever the course of the cycle."""
    rows: tuple[Gone, ...] = (*picture.plan.preemptions, *picture.plan.shrinks)
    gone = {row.workload: row for row in rows}
    for row in gone.values():
        yield from _beneficiary(picture, row)
        yield from _facts(picture, row)
    for start in picture.plan.starts:
        for id_ in start.victims:
            if id_ not in gone or gone[id_].pool != start.pool:
                text = f"{start.workload} names {id_} as a victim, which stays."
                yield broken(BrokenRule.NO_BENEFICIARY, text, workload=start.workload, workload2=id_)
            else:
                yield from _class(picture, start, picture.workloads[id_])


def _beneficiary(picture: Picture, row: Gone) -> Iterator[Violation]:
    """Everybody who goes, goes for a newcomer that starts and names him."""
    start = picture.starts.get(row.by)
    if start is None or row.workload not in start.victims:
        text = f"{row.workload} goes for {row.by}, which does not start with it as a victim."
        yield broken(BrokenRule.NO_BENEFICIARY, text, workload=row.workload, workload2=row.by)
        return
    victim, newcomer = picture.workloads[row.workload], picture.workloads[row.by]
    line, other = picture.hierarchy.line(newcomer.team), picture.hierarchy.line(victim.team)
    common = [mine for mine, theirs in zip(line, other, strict=False) if mine == theirs]
    level = picture.hierarchy.meeting(victim.team, newcomer.team) if common else None
    right = right_of(picture.pools[row.pool].policy, newcomer, victim)
    if row.rule not in right or row.level != level or row.by_team != newcomer.team:
        text = f"{row.workload} goes for {row.by} by {row.rule} at {row.level}; it is {right} at {level}."
        yield broken(BrokenRule.VICTIM_FACTS, text, workload=row.workload, workload2=row.by)


def right_of(policy: Policy, newcomer: WorkloadInfo, victim: WorkloadInfo) -> tuple[Rule, ...]:
    """By which rules the newcomer may take the victim, if the shares allow it; none at all for a reserved one."""
    mode = policy.elastic_preemption
    same_team = newcomer.team == victim.team
    if victim.reserved:
        return ()
    if newcomer.reserved:
        return (Rule.RESERVED,)
    if mode is ElasticPreemption.NEVER:
        return ()
    if victim.priority < newcomer.priority and (mode is ElasticPreemption.PRIORITY or same_team):
        return (Rule.PRIORITY,)
    if not same_team and (mode is ElasticPreemption.FAIR_SHARE or victim.priority == newcomer.priority):
        return (Rule.FAIR_SHARE,)
    return ()


def _facts(picture: Picture, row: Gone) -> Iterator[Violation]:
    """What the row says of the victim is so."""
    workload = picture.workloads[row.workload]
    where = {"workload": workload.id}
    if isinstance(row, Shrink):
        pods = [pod.pod_index for pod in workload.placements]
        if len(pods) - len(row.pods) < workload.min_pods or not row.pods or not set(row.pods) <= set(pods):
            text = f"{workload.id} gives up {row.pods} of {pods}, its minimum is {workload.min_pods}."
            yield broken(BrokenRule.CUT_BELOW_MINIMUM, text, **where)
        return
    lost = lost_gpu_ms(workload, picture.now)
    # What goes pod by pod is rounded pod by pod.
    rounded = lost - len(workload.placements) <= row.lost_gpu_ms <= lost
    if row.milli != milli_of(workload.placements) or not rounded:
        text = f"{workload.id} is said to lose {row.milli} and {row.lost_gpu_ms}; it is {lost} of work."
        yield broken(BrokenRule.VICTIM_FACTS, text, **where)


def lost_gpu_ms(workload: WorkloadInfo, now: int) -> int:
    """The work that is lost with it: since its last checkpoint, else since its start."""
    if workload.status is not OpenStatus.RUNNING or workload.started_at is None:
        return 0
    since = max(workload.started_at, workload.checkpointed_at or workload.started_at)
    return milli_of(workload.placements) * max(0, now - since) // GPU_MILLI


def _class(picture: Picture, start: Start, victim: WorkloadInfo) -> Iterator[Violation]:
    """Class, policy and protection allow that he goes."""
    newcomer, policy = picture.workloads[start.workload], picture.pools[start.pool].policy
    where = {"workload": victim.id, "workload2": newcomer.id}
    if victim.reserved:
        yield broken(
            BrokenRule.RESERVED_VICTIM, f"{victim.id} is reserved, but goes for {newcomer.id}.", **where
        )
    elif not right_of(policy, newcomer, victim):
        text = (
            f"{victim.id} of priority {victim.priority} goes for {newcomer.id} of {newcomer.priority} under "
            f"{policy.elastic_preemption}."
        )
        yield broken(BrokenRule.UNLAWFUL_VICTIM, text, **where)
    elif not newcomer.reserved:
        # A clock that was set back makes nobody's time negative.
        ran = max(0, picture.now - (victim.started_at or 0))
        young = victim.status is OpenStatus.RUNNING and victim.started_at is not None
        if young and ran < policy.min_runtime_ms:
            text = f"{victim.id} goes after {ran} ms, before its minimum of {policy.min_runtime_ms}."
            yield broken(BrokenRule.PROTECTED_VICTIM, text, **where)
        if policy.max_preemptions is not None and victim.preemptions_24h >= policy.max_preemptions:
            text = f"{victim.id} goes again after {victim.preemptions_24h} times in a day."
            yield broken(BrokenRule.PROTECTED_VICTIM, text, **where)


# --- At the newcomer's turn ---


@dataclass(frozen=True, slots=True)
class Taking:
    """What one newcomer takes of one victim: all it has (``whole``), or pods above its minimum."""

    victim: WorkloadInfo
    pods: tuple[PodPlacement, ...]
    whole: bool

    @property
    def milli(self) -> int:
        """What comes free."""
        return milli_of(self.pods)


def broken_rights(board: Board, newcomer: WorkloadInfo, takings: list[Taking]) -> Iterator[Violation]:
    """Whether shares allow the victims, before they go; and whether one of them could take his place back."""
    leaving = what_leaves(board, takings)
    policy = board.pool.policy
    claim = Claim(newcomer, board.asked(newcomer), leaving)
    for taking in takings:
        victim = taking.victim
        where = {"workload": victim.id, "workload2": newcomer.id}
        shared = Rule.FAIR_SHARE in right_of(policy, newcomer, victim)
        if shared and not _fair(board, claim, victim, _gone_before(board, newcomer, taking, takings)):
            text = f"{victim.id} goes for {newcomer.id}, but the shares of their teams do not allow it."
            yield broken(BrokenRule.UNLAWFUL_VICTIM, text, **where)
        if not newcomer.reserved and taking.whole and _takes_back(board, newcomer, victim, leaving):
            text = f"{victim.id} goes for {newcomer.id}, and could take its place back at once."
            yield broken(BrokenRule.PING_PONG, text, **where)


@dataclass(frozen=True, slots=True)
class Claim:
    """A newcomer, what it asks, and what leaves of each branch for it."""

    newcomer: WorkloadInfo
    milli: int
    leaving: Counter[str]


def what_leaves(board: Board, takings: Iterable[Taking]) -> Counter[str]:
    """What leaves of each branch, and of each team."""
    leaving: Counter[str] = Counter()
    for taking in takings:
        for branch in board.line(taking.victim):
            leaving[branch] += taking.milli
    return leaving


def _parting(board: Board, one: WorkloadInfo, other: WorkloadInfo) -> tuple[tuple[str, ...], str]:
    """The branches of the first below the point where the two part, and the other's branch there."""
    mine, theirs = board.line(one), board.line(other)
    at = next(at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b)
    return mine[at:], theirs[at]


def _gone_before(board: Board, newcomer: WorkloadInfo, taking: Taking, takings: Iterable[Taking]) -> int:
    """What has left of the victim's branch at least before the last one of it goes: all but the largest."""
    _, branch = _parting(board, newcomer, taking.victim)
    policy = board.pool.policy
    fair = [
        each.milli
        for each in takings
        if branch in board.line(each.victim) and Rule.FAIR_SHARE in right_of(policy, newcomer, each.victim)
    ]
    return sum(fair) - max(fair)


def _fair(board: Board, claim: Claim, victim: WorkloadInfo, gone_before: int) -> bool:
    """The fair-share rule, by entitlements or by guarantees."""
    mine, theirs = _parting(board, claim.newcomer, victim)
    branches = board.shares.branches
    dues = (
        {branch: branches[branch].entitled for branch in (*mine, theirs)},
        {branch: branches[branch].guarantee for branch in (*mine, theirs)},
    )
    return any(
        board.used[theirs] - gone_before > due[theirs]
        and all(board.used[branch] + claim.milli - claim.leaving[branch] <= due[branch] for branch in mine)
        for due in dues
    )


def _takes_back(board: Board, newcomer: WorkloadInfo, victim: WorkloadInfo, leaving: Counter[str]) -> bool:
    """Whether the victim, once the newcomer has its place, could lawfully take it from him."""
    rights = right_of(board.pool.policy, victim, newcomer)
    if Rule.FAIR_SHARE not in rights:
        return bool(rights)
    after = Counter(leaving)
    for branch in board.line(newcomer):
        after[branch] -= board.asked(newcomer)
    least = milli_of(tuple(sorted(victim.placements, key=lambda pod: pod.pod_index))[: victim.min_pods])
    _, theirs = _parting(board, victim, newcomer)
    return _fair(board, Claim(victim, least, after), newcomer, after[theirs])
