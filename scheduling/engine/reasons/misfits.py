"""What a workload can never do in a pool as things are set up, whatever runs (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scheduling.engine.model.plan import Reason, ReasonCode, ReasonKind
from scheduling.engine.model.quantities import gpus, in_gpus
from scheduling.engine.model.snapshot import GPU_MILLI, GpuShare, PoolInfo, WorkloadInfo
from scheduling.engine.placement.nodes import Nodes, PoolNodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.quota.charging import Ceiling, Charges
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons import sentences
from scheduling.engine.reasons.node_misfits import LESS_IN_ALL, LESS_PER_POD, NodeMisfits
from scheduling.engine.reasons.sentences import guarantors, has_teams_above, whose_limit


class Example(NamedTuple):
    """So many pods of so many whole GPUs each."""

    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a workload out of a pool. ``back_milli``: only nodes that are out of service do; with them back its
    minimum of pods would take so many milli-GPUs. ``examples``: as many GPUs in smaller pods, for which there would be
    nodes; ``None`` where smaller pods are no remedy."""

    reason: Reason
    back_milli: int | None = None
    examples: tuple[Example, ...] | None = None

    @property
    def is_for_others(self) -> bool:
        """Whether its user is not the one to mend it."""
        return self.back_milli is not None or self.reason.kind is not ReasonKind.CHANGE


def of_nodes(pool_nodes: PoolNodes, request: PodRequest, min_pods: int) -> Obstacle | None:
    """What keeps this many pods of a request out of the empty pool.

    What would be so even with all nodes in service is told with all counted in: else a number would be named that is
    not so. Else the cause is that some are not.
    """
    nodes, everything = pool_nodes.in_service, pool_nodes.everything
    found = NodeMisfits(nodes, request).find(min_pods)
    if found is None:
        return None
    never = found if nodes is everything else NodeMisfits(everything, request).find(min_pods)
    if never is not None:
        return Obstacle(never, None, _in_smaller_pods(everything, request, min_pods, never))
    if NodeMisfits(pool_nodes.connected, request).find(min_pods) is None:
        milli = min_pods * pool_nodes.connected.pod_milli(request)
        return Obstacle(sentences.cluster_offline(nodes.pool, milli or None), milli)
    missed = [node for node in everything.takers(request, min_pods) if not nodes.service.counts(node)]
    reason = sentences.out_of_service(found, missed, none_left=not nodes.classes)
    examples = _in_smaller_pods(nodes, request, min_pods, found)
    return Obstacle(reason, min_pods * everything.pod_milli(request), examples)


def _in_smaller_pods(
    nodes: Nodes, request: PodRequest, min_pods: int, found: Reason
) -> tuple[Example, ...] | None:
    """As many GPUs in smaller pods that fit, the largest first; ``None`` where smaller pods are no remedy."""
    asked, most = found.asked_milli or 0, found.limit_milli or 0
    too_large = found.code is ReasonCode.LARGER_THAN_ANY_NODE and asked > most >= GPU_MILLI
    if not (too_large and request.whole):
        return None
    fitting = []
    for size in range(most // GPU_MILLI, 0, -1):
        pods = min_pods * -(-request.whole // size)
        smaller = replace(request, request=GpuShare(size * GPU_MILLI), whole=size, together=pods > 1)
        if NodeMisfits(nodes, smaller).find(pods) is None:
            fitting.append(Example(pods, size))
    return tuple(fitting)


def with_example(found: Reason, example: Example | None) -> Reason:
    """The reason with an example of less per pod; ``None``: it asks for too much in all, too."""
    if example is None:
        return replace(found, next_step=found.next_step.replace(LESS_PER_POD, LESS_IN_ALL))
    less = f"{found.next_step.removesuffix('.')}, for example --pods {example.pods} --gpus {example.gpus}."
    return replace(found, next_step=less)


# --- Guarantees and ceilings ----------------------------------------------------------------------------------------


def of_quota(
    tree: Tree, charges: Charges, leaf: int, workload: WorkloadInfo, milli: int, *, pool: PoolInfo
) -> Reason | None:
    """What its team's guarantees and ceilings in a pool will never allow."""
    ceilings = charges.ceilings_forever(leaf, milli, reserved=workload.reserved)
    limit = charges.limit(leaf)
    if workload.reserved and milli > limit:
        return _exceeds_reservation(tree, leaf, milli, limit, pool=pool, ceilings=ceilings)
    return _exceeds_ceilings(tree, ceilings, milli) if ceilings else None


def _exceeds_reservation(
    tree: Tree, leaf: int, asked: int, limit: int, *, pool: PoolInfo, ceilings: Sequence[Ceiling]
) -> Reason:
    """Larger than all guarantees it could be charged to; the ceilings that it exceeds besides are named."""
    has = "have" if has_teams_above(tree, leaf) else "has"
    which = f"{in_gpus(limit)} that {'is' if limit == GPU_MILLI else 'are'}" if limit else "none that is"
    step = "Ask for less, run it as elastic (priority below 100), or ask an admin for a larger reservation."
    if not limit:
        step = "Run it as elastic (priority below 100), or ask an admin for a reservation."
    if ceilings:
        less = "for less, or ask " if limit else ""
        step = f"Ask {less}an admin for a larger reservation and to raise the other limits."
    return sentences.reason(
        ReasonCode.EXCEEDS_RESERVATION,
        f"It asks for {gpus(asked)} reserved, but in the pool {pool.name} {guarantors(tree, leaf)} {has} {which} not "
        f"handed to other teams.{_also_more_than(tree, ceilings)}",
        step,
        asked=asked,
        available=limit,
        limit=limit,
        team=tree.team_id(leaf),
    )


def _exceeds_ceilings(tree: Tree, ceilings: Sequence[Ceiling], asked: int) -> Reason:
    """Larger than ceilings of its team or those above; the first makes the reason, all are named."""
    first, *others = ceilings
    code, limit = ReasonCode.EXCEEDS_CEILING, "the limit"
    text = f"more than {whose_limit(tree, first)} ({gpus(first.limit)})."
    if not first.by_maximum and tree.teams[first.branch].burst_limit_percent == 0:
        code, limit = ReasonCode.BURSTING_DISABLED, "the burst limit"
        text = f"more than {tree.team_name(first.branch)}'s guarantee ({gpus(first.limit)}), and bursting is off."
    lowest = min(ceiling.limit for ceiling in ceilings)
    return sentences.reason(
        code,
        f"It asks for {gpus(asked)}, {text}{_also_more_than(tree, others)}",
        f"Ask for less, or ask an admin to raise {'all these limits' if others else limit}.",
        asked=asked,
        available=lowest,
        limit=lowest,
        team=tree.team_id(first.branch),
    )


def _also_more_than(tree: Tree, ceilings: Sequence[Ceiling]) -> str:
    return "".join(
        f" It is also more than {whose_limit(tree, each)} ({gpus(each.limit)})." for each in ceilings
    )
