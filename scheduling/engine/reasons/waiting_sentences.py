"""Why a workload waits in the queue, or was preempted (section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.engine.model.plan import Reason, ReasonCode, Rule
from scheduling.engine.model.quantities import are, gpus, in_gpus, none_or_only
from scheduling.engine.model.snapshot import GPU_MILLI, NodeInfo, PoolInfo
from scheduling.engine.quota.charging import Ceiling, Charges
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons.sentences import (
    besides_closed,
    guarantors,
    has_teams_above,
    reason,
    whose_limit,
)


def waiting_for_reservation(
    tree: Tree, charges: Charges, leaf: int, asked: int, available: int, *, pool: PoolInfo
) -> Reason:
    """Its guarantees are in use."""
    limit = charges.limit(leaf)
    whose = "charged to these teams" if has_teams_above(tree, leaf) else "of the team"
    return reason(
        ReasonCode.WAITING_FOR_RESERVATION,
        f"It asks for {gpus(asked)} reserved, but of the {in_gpus(limit)} guaranteed to {guarantors(tree, leaf)} "
        f"in the pool {pool.name} {none_or_only(available)} left.",
        f"Wait for a reserved workload {whose} to end, or run it as elastic (priority below 100).",
        asked=asked,
        available=available,
        limit=limit,
        team=tree.team_id(leaf),
        level=tree.team_id(leaf),
    )


def waiting_for_ceiling(tree: Tree, ceiling: Ceiling, asked: int) -> Reason:
    """A ceiling is reached."""
    team = tree.team_id(ceiling.branch)
    return reason(
        ReasonCode.WAITING_FOR_CEILING,
        f"It asks for {gpus(asked)}, but {none_or_only(ceiling.available)} left of the "
        f"{in_gpus(ceiling.limit)} that {whose_limit(tree, ceiling)}.",
        "Wait for a workload of the team to end, or ask an admin to raise the limit.",
        asked=asked,
        available=ceiling.available,
        limit=ceiling.limit,
        team=team,
        level=team,
    )


def behind_reservation(asked: int, available: int, ahead: str, *, strict: bool, timed: bool) -> Reason:
    """It would delay the first blocked workload, or nobody may pass that (``strict``); ``timed``: that one is
    known to start later than now."""
    if strict:
        message = f"It asks for {gpus(asked)}; {are(available)} free, but nobody passes {ahead}, which is ahead of it."
        next_step = "Nothing to do; its turn comes when that one has started."
    else:
        free = f" of {in_gpus(available)} free" if available >= asked else ""
        message = (
            f"It asks for {gpus(asked)}{free}, but would delay the start of {ahead}, which is ahead of it."
        )
        next_step = (
            "Wait, or give it a time limit short enough to end before that start."
            if timed
            else "Nothing to do; it is not known when that one starts."
        )
    return reason(ReasonCode.BEHIND_RESERVATION, message, next_step, asked=asked, available=available)


def waiting_for_place(
    pool: PoolInfo,
    asked: int,
    available: int,
    free: int,
    *,
    level: str | None,
    shared: int = 0,
    closed: Sequence[NodeInfo] = (),
) -> Reason:
    """Too few GPUs are free that it may use (``available``, of all that are ``free``), or its pods do not fit on
    them. ``shared``: what is free of GPUs that others share, whom it may not share with. ``closed``: nodes that are
    out of service and would take it."""
    found = _no_place(pool, asked, available, free, level)
    return besides_closed(_besides_shared(found, shared, enough=available + shared >= asked), closed)


def _besides_shared(found: Reason, shared: int, *, enough: bool) -> Reason:
    """What it waits for, and what is free on GPUs that are closed to it for as long as others share them; ``enough``:
    it would do."""
    if not shared:
        return found
    text = (
        f"{gpus(shared)} {'is' if shared == GPU_MILLI else 'are'} free on GPUs that pods of another namespace share; "
        "pods of two namespaces cannot share a GPU."
    )
    step = "Wait until those pods have ended, or ask for whole GPUs." if enough else found.next_step
    return replace(found, message=f"{found.message} {text}", next_step=step)


def _no_place(pool: PoolInfo, asked: int, available: int, free: int, level: str | None) -> Reason:
    if available < asked:
        return _too_few_free(pool, asked, available, free)
    there = f"free{' for it' if free > available else ''} in the pool {pool.name}"
    if level is not None:
        return reason(
            ReasonCode.WAITING_FOR_TOPOLOGY,
            f"It asks for {gpus(asked)} inside one {level}; {are(available)} {there}, "
            f"but its pods fit inside no one {level}.",
            "Wait, or ask for a wider level.",
            asked=asked,
            available=available,
            level=level,
        )
    return reason(
        ReasonCode.FRAGMENTED,
        f"It asks for {gpus(asked)}; {are(available)} {there}, but not on nodes where its pods fit.",
        "Wait, or ask for fewer GPUs, less CPU or less memory per pod.",
        asked=asked,
        available=available,
        level=pool.id,
    )


def _too_few_free(pool: PoolInfo, asked: int, available: int, free: int) -> Reason:
    """Too few GPUs are free, or too few of these are of the types and on the nodes that it may use."""
    text = f"It asks for {gpus(asked)}, but {none_or_only(available)} free in the pool {pool.name}."
    step = "Nothing to do; it starts when GPUs come free."
    if free > available:
        which = f"only {in_gpus(available)}" if available else "none"
        text = f"It asks for {gpus(asked)}, but of the {in_gpus(free)} free in the pool {pool.name} it may use {which}."
    if free >= asked > available:
        step = "Wait, or accept what is free: other GPU types, partitions, labels or taints."
    return reason(ReasonCode.WAITING_FOR_GPUS, text, step, asked=asked, available=available, level=pool.id)


def waiting_for_victims(asked: int) -> Reason:
    """Its GPUs are chosen and are being emptied."""
    return reason(
        ReasonCode.WAITING_FOR_VICTIMS,
        f"It has {gpus(asked)}; it starts as soon as the workloads that are still stopping there are gone.",
        "Nothing to do.",
        asked=asked,
        available=0,
    )


RIGHT = {
    Rule.RESERVED: "a reserved workload of {team} inside its guarantee",
    Rule.PRIORITY: "an elastic workload of {team} with a higher priority",
    Rule.FAIR_SHARE: "a workload of {team}, which has less than its share",
}
"""To whom somebody yields under each rule."""
ADVICE = (
    "If this happens often: raise its priority, run what cannot be interrupted as reserved, ask an admin for a higher "
    "bursting priority, or use quieter hours."
)


def preempted(rule: Rule, team_name: str, milli: int, level: str | None) -> Reason:
    """It gave way to a newcomer."""
    return reason(
        ReasonCode.PREEMPTED,
        f"It gave its {gpus(milli)} to {RIGHT[rule].format(team=team_name)}.",
        ADVICE,
        asked=milli,
        level=level,
    )


def shrunk(rule: Rule, team_name: str, pods: int, milli: int, level: str | None) -> Reason:
    """It gave pods above its minimum to a newcomer."""
    return reason(
        ReasonCode.SHRUNK,
        f"It gave {'one pod' if pods == 1 else f'{pods} pods'} above its minimum ({gpus(milli)}) to "
        f"{RIGHT[rule].format(team=team_name)}.",
        "It grows again when GPUs are idle.",
        asked=milli,
        level=level,
    )
