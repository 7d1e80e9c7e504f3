"""Why a workload can never start as things are set up (section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.engine.model.plan import Reason, ReasonCode
from scheduling.engine.model.quantities import gpus, in_gpus
from scheduling.engine.model.snapshot import GPU_MILLI, PoolInfo, Sharing
from scheduling.engine.quota.charging import Ceiling
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons.sentences import guarantors, has_teams_above, reason, whose_limit

LESS_PER_POD = "Ask for less per pod, and for more pods if need be"
LESS_IN_ALL = "Ask for less per pod and in all"


def no_node(pool: PoolInfo, wanted: Sequence[str]) -> Reason:
    """No node of the pool takes workloads, so none with GPUs of the types it may want."""
    return reason(
        ReasonCode.NO_MATCHING_GPU_TYPE if wanted else ReasonCode.NO_MATCHING_NODES,
        f"The pool {pool.name} has no node that takes workloads.",
        "Choose another pool, or ask an operator to connect a cluster with nodes for this one.",
        level=pool.id,
    )


def no_matching_gpu_type(
    pool: PoolInfo, wanted: Sequence[str], offered: Sequence[str], *, of_all: bool
) -> Reason:
    """No device of a node that takes workloads, or of any (``of_all``), has one of the types."""
    which = "" if of_all else " that take workloads"
    return reason(
        ReasonCode.NO_MATCHING_GPU_TYPE,
        f"It asks for {' or '.join(wanted)}, but the nodes of the pool {pool.name}{which} have "
        f"{', '.join(offered) or 'no GPUs'}.",
        "Ask for another GPU type or another pool.",
        level=pool.id,
    )


def slices_only(pool: PoolInfo, asked: str, offered: Sequence[str]) -> Reason:
    """A request without a type, in a pool whose GPUs are all cut into slices that go by name only."""
    names = " or ".join(offered) or "none that has a name"
    return reason(
        ReasonCode.NO_MATCHING_GPU_TYPE,
        f"It asks for {asked} of no type by name, but all GPUs of the pool {pool.name} are cut into slices, "
        f"which go only to workloads that name them: {names}.",
        "Name one of these types, with 1 GPU per pod, or choose another pool.",
        level=pool.id,
    )


def no_matching_nodes(
    pool: PoolInfo,
    obstacles: Sequence[str],
    types: Sequence[str],
    *,
    unnamed: bool,
    slices: Sequence[str],
    step: str | None = None,
) -> Reason:
    """Labels, partition, taints or sharing keep it out everywhere; the obstacles speak of nodes with these ``types``
    of GPUs only, if some are named, or, ``unnamed``, of those that have more than slices that go by name only. It could
    name one of these ``slices``."""
    having = f" with {' or '.join(types)}" if types else ""
    if unnamed and not types:
        having = " with GPUs for workloads that name no type"
    return reason(
        ReasonCode.NO_MATCHING_NODES,
        f"No node of the pool {pool.name}{having} takes it: {', '.join(obstacles)}.",
        step or f"Change what it asks of the node, {_name_a_slice(slices)}or choose another pool.",
        level=pool.id,
    )


def ask_for_whole(pool: PoolInfo, slices: Sequence[str] = ()) -> str:
    """The next step of one that asks for a part of a GPU where only whole ones are given out; or it could name one of
    these ``slices``."""
    share = (
        "ask an admin to set sharing of the pool to fractions"
        if pool.policy.sharing is Sharing.NONE
        else "ask an operator to have the nodes share theirs (Dynamic Resource Allocation, or time-slicing into "
        "replicas)"
    )
    return f"Ask for whole GPUs, {_name_a_slice(slices)}{share}, or choose another pool."


def _name_a_slice(slices: Sequence[str]) -> str:
    return f"name a type of slice ({', '.join(slices)}, with 1 GPU per pod), " if slices else ""


def in_smaller_pods(found: Reason, example: tuple[int, int] | None) -> Reason:
    """The reason with so many pods of so many GPUs as an example of less per pod; ``None``: it asks for too much in
    all, too."""
    if example is None:
        return replace(found, next_step=found.next_step.replace(LESS_PER_POD, LESS_IN_ALL))
    pods, size = example
    step = f"{found.next_step.removesuffix('.')}, for example --pods {pods} --gpus {size}."
    return replace(found, next_step=step)


def larger_than_any_node(
    pool: PoolInfo,
    message: str,
    asked: int | None,
    limit: int | None,
    *,
    next_step: str = f"{LESS_PER_POD}.",
) -> Reason:
    """One pod is more than an empty node holds; ``limit`` is ``None`` where it is not GPUs that are too few."""
    return reason(
        ReasonCode.LARGER_THAN_ANY_NODE,
        message,
        next_step,
        asked=asked,
        available=limit,
        limit=limit,
        level=pool.id,
    )


def larger_than_pool(
    pool: PoolInfo,
    pods: int,
    most: int,
    *,
    what: str,
    pod: int,
    clusters: int,
    either: bool,
    inside: tuple[str, int] | None,
) -> Reason:
    """At most so many of its pods, which ask for ``what`` (``pod`` milli-GPUs each at most), fit into the empty pool,
    or into each of its clusters; ``either``: on GPUs alone, or on slices alone. ``inside``: the level it requires, and
    how many fit into its largest domain."""
    room = (
        f"the pool {pool.name} has room for"
        if clusters < 2
        else f"no one cluster of the pool {pool.name} has room for more than"
    )
    alone = " on GPUs alone or on slices alone" if either else ""
    level, limit = inside or ("", most)
    narrower = limit < most
    and_inside = f", and no {level} for {f'more than {limit}' if limit else 'any'}" if narrower else ""
    wider = f", and for a wider level than {level} or for none" if narrower else ""
    return reason(
        ReasonCode.LARGER_THAN_POOL,
        f"It needs {pods} pods of {what} at once, but {room} {most} of them{alone} even when empty{and_inside}.",
        f"Ask for fewer pods, or a smaller minimum of pods{wider}.",
        asked=pods * pod,
        available=limit * pod,
        limit=limit * pod,
        level=pool.id,
    )


def topology_impossible(pool: PoolInfo, level: str, pods: int, most: int, *, what: str, pod: int) -> Reason:
    """No domain of the level it requires is large enough; the numbers are those of :func:`larger_than_pool`."""
    needs = f"{pods} pods of {what}" if pods > 1 else f"a pod of {what}"
    room = f"has room for more than {most} of them" if most else "has room for any"
    return reason(
        ReasonCode.TOPOLOGY_IMPOSSIBLE,
        f"It needs {needs} inside one {level}, but no {level} of the pool {pool.name} {room} even when empty.",
        "Ask for fewer pods, or for a wider level." if most else "Ask for a wider level, or for none.",
        asked=pods * pod,
        available=most * pod,
        limit=most * pod,
        level=level,
    )


def no_such_level(pool: PoolInfo, level: str, asked: int, levels: Sequence[str]) -> Reason:
    """The pool's topology has no such level."""
    return reason(
        ReasonCode.TOPOLOGY_IMPOSSIBLE,
        f"It asks for {gpus(asked)} inside one {level}, but the topology of the pool {pool.name} has no level {level}.",
        f"Ask for one of its levels ({', '.join(levels)}), for none, or choose another pool.",
        asked=asked,
        available=0,
        limit=0,
        level=level,
    )


def exceeds_reservation(
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
    return reason(
        ReasonCode.EXCEEDS_RESERVATION,
        f"It asks for {gpus(asked)} reserved, but in the pool {pool.name} {guarantors(tree, leaf)} {has} {which} not "
        f"handed to other teams.{_also_more_than(tree, ceilings)}",
        step,
        asked=asked,
        available=limit,
        limit=limit,
        team=tree.team_id(leaf),
        level=tree.team_id(leaf),
    )


def exceeds_ceilings(tree: Tree, ceilings: Sequence[Ceiling], asked: int) -> Reason:
    """Larger than ceilings: burst limits' or maxima, of its own team or of those above. The first makes the reason, all
    are named; the numbers are of the lowest."""
    first, *others = ceilings
    name, team = tree.team_name(first.branch), tree.team_id(first.branch)
    lowest = min(ceiling.limit for ceiling in ceilings)
    numbers = {"asked": asked, "available": lowest, "limit": lowest}
    also = _also_more_than(tree, others)
    if not first.by_maximum and tree.teams[first.branch].burst_limit_percent == 0:
        return reason(
            ReasonCode.BURSTING_DISABLED,
            f"It asks for {gpus(asked)}, more than {name}'s guarantee ({gpus(first.limit)}), and bursting is off."
            f"{also}",
            f"Ask for less, or ask an admin to raise {'all these limits' if others else 'the burst limit'}.",
            team=team,
            level=team,
            **numbers,
        )
    return reason(
        ReasonCode.EXCEEDS_CEILING,
        f"It asks for {gpus(asked)}, more than {whose_limit(tree, first)} ({gpus(first.limit)}).{also}",
        f"Ask for less, or ask an admin to raise {'all these limits' if others else 'the limit'}.",
        team=team,
        level=team,
        **numbers,
    )


def _also_more_than(tree: Tree, ceilings: Sequence[Ceiling]) -> str:
    """The ceilings that it exceeds besides what was told before, a sentence each."""
    return "".join(
        f" It is also more than {whose_limit(tree, each)} ({gpus(each.limit)})." for each in ceilings
    )
