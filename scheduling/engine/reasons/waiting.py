"""Why a workload waits in the queue, or was preempted (section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from scheduling.engine.model.plan import Reason, ReasonCode, Rule
from scheduling.engine.model.quantities import are, gpus, in_gpus, none_or_only
from scheduling.engine.model.snapshot import GPU_MILLI, Slicing
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.quota.charging import Ceiling
from scheduling.engine.reasons.node_misfits import is_of_type
from scheduling.engine.reasons.sentences import (
    besides_closed,
    guarantors,
    has_teams_above,
    reason,
    whose_limit,
)


class FreeFigures(NamedTuple):
    """What is free for a request: on devices that it may use, on all GPUs, and on devices that only sharing closes to
    it."""

    usable: int
    in_all: int
    shared: int


class WaitReasons:
    """Why the blocked workloads of one pool wait, with what is free or left after the plan."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        self._nodes = cycle.nodes
        self._free_by_class = cycle.ledger.free_by_class()

    def of(self, blocked: Blocked) -> Reason:
        """The reason of one."""
        candidate, charges = blocked.candidate, self._cycle.charges
        if blocked.cause is Cause.BEHIND:
            return self._behind(candidate, blocked.ahead)
        left = charges.available(candidate.leaf)
        if blocked.cause is Cause.GUARANTEE:
            return self._guarantee(candidate, min(blocked.available, left))
        if blocked.ceiling is None:
            return self._place(candidate)
        passed = charges.ceiling_passed(candidate.leaf, candidate.next_milli, reserved=candidate.reserved)
        if (
            candidate.reserved
            and passed is not None
            and not passed.by_maximum
            and left < candidate.next_milli
        ):
            # What it was blocked by is not what it lacks now: others have used up its guarantee since.
            return self._guarantee(candidate, left)
        return self._ceiling(candidate, passed or blocked.ceiling)

    # --- Guarantees and ceilings ------------------------------------------------------------------------------

    def _guarantee(self, candidate: Candidate, left: int) -> Reason:
        """Its guarantees are in use."""
        tree, leaf, limit = self._cycle.tree, candidate.leaf, self._cycle.charges.limit(candidate.leaf)
        whose = "charged to these teams" if has_teams_above(tree, leaf) else "of the team"
        return reason(
            ReasonCode.WAITING_FOR_RESERVATION,
            f"It asks for {gpus(candidate.next_milli)} reserved, but of the {in_gpus(limit)} guaranteed to "
            f"{guarantors(tree, leaf)} in the pool {self._cycle.pool.name} {none_or_only(left)} left.",
            f"Wait for a reserved workload {whose} to end, or run it as elastic (priority below 100).",
            asked=candidate.next_milli,
            available=left,
            limit=limit,
            team=tree.team_id(leaf),
        )

    def _ceiling(self, candidate: Candidate, ceiling: Ceiling) -> Reason:
        """A ceiling is reached."""
        tree = self._cycle.tree
        return reason(
            ReasonCode.WAITING_FOR_CEILING,
            f"It asks for {gpus(candidate.next_milli)}, but {none_or_only(ceiling.available)} left of the "
            f"{in_gpus(ceiling.limit)} that {whose_limit(tree, ceiling)}.",
            "Wait for a workload of the team to end, or ask an admin to raise the limit.",
            asked=candidate.next_milli,
            available=ceiling.available,
            limit=ceiling.limit,
            team=tree.team_id(ceiling.branch),
        )

    # --- The head ---------------------------------------------------------------------------------------------

    def _behind(self, candidate: Candidate, ahead: str) -> Reason:
        """It would delay the head, or nothing may pass that."""
        asked, available = candidate.next_milli, self.free(candidate.request).usable
        if self._cycle.is_shut:
            free = f"{are(available)} free"
            message = f"It asks for {gpus(asked)}; {free}, but nobody passes {ahead}, which is ahead of it."
            step = "Nothing to do; its turn comes when that one has started."
        else:
            free = f" of {in_gpus(available)} free" if available >= asked else ""
            message = f"It asks for {gpus(asked)}{free}, but would delay the start of {ahead}, which is ahead of it."
            at = self._cycle.head.earliest.at if self._cycle.head is not None else None
            step = "Nothing to do; it is not known when that one starts."
            if at is not None and at > self._cycle.now:
                step = "Wait, or give it a time limit short enough to end before that start."
        return reason(ReasonCode.BEHIND_RESERVATION, message, step, asked=asked, available=available)

    # --- Places -----------------------------------------------------------------------------------------------

    def _place(self, candidate: Candidate) -> Reason:
        """Too few GPUs are free that it may use, or its pods do not fit on them; besides, what is free on GPUs that it
        may not share, and on nodes out of service that would take it."""
        asked, free = candidate.next_milli, self.free(candidate.request)
        found = self._no_place(candidate, free) if free.usable >= asked else self._too_few_free(asked, free)
        if free.shared:
            shared = f"{gpus(free.shared)} {'is' if free.shared == GPU_MILLI else 'are'} free"
            there = "on GPUs that pods of another namespace share; pods of two namespaces cannot share a GPU"
            enough = free.usable + free.shared >= asked
            step = "Wait until those pods have ended, or ask for whole GPUs." if enough else found.next_step
            found = replace(found, message=f"{found.message} {shared} {there}.", next_step=step)
        closed = self.closed(candidate.request, candidate.pods)
        return besides_closed(found, [self._nodes.rows[rank] for rank in closed])

    def _too_few_free(self, asked: int, free: FreeFigures) -> Reason:
        """Too few GPUs are free, or too few of these are of the types and on the nodes that it may use."""
        pool, available = self._cycle.pool, free.usable
        text = f"It asks for {gpus(asked)}, but {none_or_only(available)} free in the pool {pool.name}."
        step = "Nothing to do; it starts when GPUs come free."
        if free.in_all > available:
            which = f"only {in_gpus(available)}" if available else "none"
            text = (
                f"It asks for {gpus(asked)}, but of the {in_gpus(free.in_all)} free in the pool {pool.name} "
                f"it may use {which}."
            )
        if free.in_all >= asked:
            step = "Wait, or accept what is free: other GPU types, partitions, labels or taints."
        return reason(
            ReasonCode.WAITING_FOR_GPUS, text, step, asked=asked, available=available, level=pool.id
        )

    def _no_place(self, candidate: Candidate, free: FreeFigures) -> Reason:
        """Enough is free, but its pods do not fit there."""
        pool, asked, level = self._cycle.pool, candidate.next_milli, candidate.request.topology.required
        for_it = " for it" if free.in_all > free.usable else ""
        there = f"{are(free.usable)} free{for_it} in the pool {pool.name}"
        if level is not None:
            return reason(
                ReasonCode.WAITING_FOR_TOPOLOGY,
                f"It asks for {gpus(asked)} inside one {level}; {there}, but its pods fit inside no one {level}.",
                "Wait, or ask for a wider level.",
                asked=asked,
                available=free.usable,
                level=level,
            )
        return reason(
            ReasonCode.FRAGMENTED,
            f"It asks for {gpus(asked)}; {there}, but not on nodes where its pods fit.",
            "Wait, or ask for fewer GPUs, less CPU or less memory per pod.",
            asked=asked,
            available=free.usable,
            level=pool.id,
        )

    # --- What is free -----------------------------------------------------------------------------------------

    def free(self, request: PodRequest) -> FreeFigures:
        """What is free for the pods of a request."""
        usable, shared = self._on(self._nodes.usable(request)), 0
        if not request.whole:
            shared = self._on(self._nodes.usable(request, closed_too=True)) - usable
        in_all = sum(
            left
            for node_class, free in zip(self._nodes.classes, self._free_by_class, strict=True)
            for device, left in zip(node_class.devices, free, strict=True)
            if device.slicing is Slicing.WHOLE or is_of_type(device, request)
        )
        return FreeFigures(usable, in_all, shared)

    def _on(self, devices: Iterable[Usable]) -> int:
        return sum(
            left
            for usable in devices
            for left, cost in zip(self._free_by_class[usable.number], usable.costs, strict=True)
            if cost
        )

    @cached_property
    def _out_of_service(self) -> list[int]:
        if self._cycle.pool_nodes.everything is self._nodes:
            return []
        counts = self._nodes.service.counts
        return [rank for rank, node in enumerate(self._nodes.rows) if not counts(node)]

    def closed(self, request: PodRequest, pods: int) -> Sequence[int]:
        """The nodes out of service, by rank, that would take a pod now, where so many would start with them."""
        if not self._out_of_service:
            return ()
        everything, free = self._cycle.pool_nodes.everything, self._cycle.ledger.now.free
        takers = {rank for rank in self._out_of_service if everything.holds(request, rank, free[rank])}
        levels = everything.domains(request) if takers else ()
        found: set[int] = set()
        for domain in levels[-1] if levels else ():
            there = {rank: pods_in(free[rank], costs, request) for rank, costs in everything.ranks(domain)}
            if sum(there.values()) >= pods:
                found |= takers & there.keys()
        return tuple(sorted(found))


# --- Victims --------------------------------------------------------------------------------------------------------


def waiting_for_victims(asked: int) -> Reason:
    """Its GPUs are chosen, but stopping workloads still hold them."""
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
"""What a victim yields to under each rule."""
ADVICE = (
    "If this happens often: raise its priority, run what cannot be interrupted as reserved, ask an admin for a higher "
    "bursting priority, or use quieter hours."
)


def preempted(rule: Rule, team_name: str, milli: int, level: str | None) -> Reason:
    """It was preempted whole."""
    return reason(
        ReasonCode.PREEMPTED,
        f"It gave its {gpus(milli)} to {RIGHT[rule].format(team=team_name)}.",
        ADVICE,
        asked=milli,
        level=level,
    )


def shrunk(rule: Rule, team_name: str, pods: int, milli: int, level: str | None) -> Reason:
    """It was preempted of pods above its minimum."""
    return reason(
        ReasonCode.SHRUNK,
        f"It gave {'one pod' if pods == 1 else f'{pods} pods'} above its minimum ({gpus(milli)}) to "
        f"{RIGHT[rule].format(team=team_name)}.",
        "It grows again when GPUs are idle.",
        asked=milli,
        level=level,
    )
