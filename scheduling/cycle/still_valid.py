"""Which decisions of a plan still stand when it is to be applied, and what else follows from it. Pure.

Between the snapshot and now a workload may have been cancelled, held, have completed or failed. A decision
on which no other depends is simply left out. Where a victim has changed, or a workload that was to start with
victims, the rest of that pool's plan was made for another state: it waits for the next cycle, which is rung at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from scheduling import engine
from scheduling.engine import schedule
from scheduling.reading.picture import SnapshotPicture
from workloads.lifecycle import WaitingFailure
from workloads.models import Status

Decision = engine.Start | engine.Grow | engine.Shrink | engine.Preemption

GIVEN_UP = frozenset(
    {
        engine.ReasonCode.DEPENDENCY_FAILED,
        engine.ReasonCode.NO_MATCHING_GPU_TYPE,
        engine.ReasonCode.NO_MATCHING_NODES,
        engine.ReasonCode.LARGER_THAN_ANY_NODE,
        engine.ReasonCode.LARGER_THAN_POOL,
        engine.ReasonCode.TOPOLOGY_IMPOSSIBLE,
        engine.ReasonCode.EXCEEDS_RESERVATION,
        engine.ReasonCode.BURSTING_DISABLED,
        engine.ReasonCode.EXCEEDS_CEILING,
    }
)
"""Why a workload that asked to fail where it can never run ends as Failed, if it is so with all nodes in service."""


@dataclass(frozen=True, slots=True)
class ValidDecisions:
    """What is to be applied, and how many decisions are not."""

    starts: tuple[engine.Start, ...]
    grows: tuple[engine.Grow, ...]
    shrinks: tuple[engine.Shrink, ...]
    preemptions: tuple[engine.Preemption, ...]
    left_out: int = 0

    @property
    def decisions(self) -> int:
        """How many are to be applied."""
        return len(self.starts) + len(self.grows) + len(self.shrinks) + len(self.preemptions)


def decisions_of(plan: engine.Plan) -> list[Decision]:
    """Return all that the plan changes."""
    return [*plan.starts, *plan.grows, *plan.shrinks, *plan.preemptions]


def is_disputed(plan: engine.Plan) -> bool:
    """Return whether there are victims, whose owners may ask why."""
    return bool(plan.preemptions or plan.shrinks)


def settle(plan: engine.Plan, unchanged: Callable[[str], bool]) -> ValidDecisions:
    """Return what stands; `unchanged` says of a workload whether its row is as the snapshot had it."""
    together: list[Decision] = [*plan.shrinks, *plan.preemptions]
    together += [start for start in plan.starts if start.victims]
    spoilt = {decision.pool for decision in together if not unchanged(decision.workload)}

    def stands(decision: Decision) -> bool:
        return decision.pool not in spoilt and unchanged(decision.workload)

    standing = ValidDecisions(
        tuple(start for start in plan.starts if stands(start)),
        tuple(grow for grow in plan.grows if stands(grow)),
        tuple(shrink for shrink in plan.shrinks if stands(shrink)),
        tuple(preemption for preemption in plan.preemptions if stands(preemption)),
    )
    return replace(standing, left_out=len(decisions_of(plan)) - standing.decisions)


def parts(standing: ValidDecisions) -> list[ValidDecisions]:
    """Return what stands in parts of which none depends on another.

    A pool with victims is one part; elsewhere each start and each growth is.
    """
    yields: list[Decision] = [*standing.shrinks, *standing.preemptions]
    yielding = {decision.pool for decision in yields}
    found = [_of_pool(standing, pool) for pool in sorted(yielding)]
    found += [ValidDecisions((start,), (), (), ()) for start in standing.starts if start.pool not in yielding]
    found += [ValidDecisions((), (grow,), (), ()) for grow in standing.grows if grow.pool not in yielding]
    return found


def _of_pool(standing: ValidDecisions, pool: str) -> ValidDecisions:
    return ValidDecisions(
        tuple(start for start in standing.starts if start.pool == pool),
        tuple(grow for grow in standing.grows if grow.pool == pool),
        tuple(shrink for shrink in standing.shrinks if shrink.pool == pool),
        tuple(preemption for preemption in standing.preemptions if preemption.pool == pool),
    )


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a plan changes without deciding anything: reason codes and charges that differ, what is given up."""

    reasons: dict[UUID, str]
    charges: dict[UUID, list[dict[str, Any]]]
    failures: list[WaitingFailure]

    def __bool__(self) -> bool:
        return bool(self.reasons or self.charges or self.failures)


def upkeep(picture: SnapshotPicture, plan: engine.Plan) -> Upkeep:
    """Return what of the rows differs from what the plan says of them."""
    rows = picture.rows
    reasons: dict[UUID, str] = {}
    charges: dict[UUID, list[dict[str, Any]]] = {}
    failures: list[WaitingFailure] = []
    hopeless = _hopeless(picture, plan)
    for wait in plan.waits:
        row, never = rows[wait.workload], hopeless.get(wait.workload)
        if never is not None:
            code = never.code.value
            failures.append(WaitingFailure(row.id, row.version, code, never.message, never.next_step))
        elif row.reason_code != wait.reason.code:
            reasons[row.id] = wait.reason.code.value
    for expiry in plan.expiries:
        row, why = rows[expiry.workload], expiry.reason
        cancels = expiry.ends_as is engine.AfterDeadline.CANCEL
        failures.append(
            WaitingFailure(row.id, row.version, why.code.value, why.message, why.next_step, cancels)
        )
    for keep in plan.keeps:
        if keep.workload not in rows:
            continue  # an attempt that is being stopped
        row, code = rows[keep.workload], keep.reason.code.value if keep.reason else ""
        if row.status == Status.QUEUED and row.reason_code != code:
            reasons[row.id] = code
        if row.attempt_id is not None and row.allocation != (charged := as_json(keep.allocation)):
            charges[row.attempt_id] = charged
    return Upkeep(reasons, charges, failures)


def _hopeless(picture: SnapshotPicture, plan: engine.Plan) -> dict[str, engine.Reason]:
    """Return why workloads can never run that asked to fail then, nodes that are out of service now (not ready,
    cordoned, of a disconnected cluster) counted in.
    """
    told = {
        wait.workload: wait.reason
        for wait in plan.waits
        if wait.reason.code in GIVEN_UP and picture.rows[wait.workload].fail_if_impossible
    }
    snapshot = picture.snapshot
    if not told or all(node.ready and not node.cordoned and node.cluster_online for node in snapshot.nodes):
        return told
    nodes = tuple(replace(node, ready=True, cordoned=False, cluster_online=True) for node in snapshot.nodes)
    alone = tuple(workload for workload in snapshot.workloads if workload.id in told)
    again = schedule(replace(snapshot, nodes=nodes, workloads=alone), picture.now)
    return {wait.workload: wait.reason for wait in again.waits if wait.reason.code in GIVEN_UP}


def as_json(allocation: Iterable[engine.Allocation]) -> list[dict[str, Any]]:
    """Return an allocation as attempts store it."""
    return [{"team": part.team, "milli": part.milli} for part in allocation]
