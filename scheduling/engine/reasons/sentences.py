"""Why somebody waits or yields: one dominant reason, with its numbers (section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.engine.model.plan import Reason, ReasonCode, ReasonKind, Rule
from scheduling.engine.model.quantities import are, counted, gpus, in_gpus, none_or_only
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    DependencyState,
    NodeInfo,
    PoolInfo,
    Sharing,
    WorkloadInfo,
)
from scheduling.engine.quota.charging import Ceiling, Charges
from scheduling.engine.quota.tree import Tree

ADMIN = frozenset({ReasonCode.POOL_PAUSED, ReasonCode.CLUSTER_OFFLINE, ReasonCode.BURSTING_DISABLED})
CHANGE = frozenset(
    {
        ReasonCode.HELD,
        ReasonCode.DEPENDENCY_FAILED,
        ReasonCode.NO_MATCHING_GPU_TYPE,
        ReasonCode.NO_MATCHING_NODES,
        ReasonCode.LARGER_THAN_ANY_NODE,
        ReasonCode.LARGER_THAN_POOL,
        ReasonCode.TOPOLOGY_IMPOSSIBLE,
        ReasonCode.EXCEEDS_RESERVATION,
        ReasonCode.EXCEEDS_CEILING,
    }
)


LESS_PER_POD = "Ask for less per pod, and for more pods if need be"
LESS_IN_ALL = "Ask for less per pod and in all"
MOST_NAMED = 3
"""So many nodes of each state are named; the others are counted."""
MOST_IN_COMMAND = 8
"""A command names so many nodes; for more it stands for each."""
DRAIN_ANNOTATIONS = ("chamber.internal/drain-elastic-at", "chamber.internal/drain-reserved-at")
"""By these an operator has Chamber drain a node."""
FOR_NODES = "ask an operator for nodes that could take it"
ELSEWHERE = {
    ", or choose another one": "",
    "Choose another pool, or ask": "Ask",
    "Choose another pool.": f"A{FOR_NODES[1:]}.",
    "or choose another pool": f"or {FOR_NODES}",
    " or another pool": f", or {FOR_NODES}",
}
"""What advises to choose another pool, and what to do instead where no pool would do."""
DID_NOT_COMPLETE = "A workload it depends on did not complete."
WAITS_FOR_OTHERS = "It waits for workloads it depends on to complete."
"""Both are said of any; who may know which it is, is told its name in place of this."""


def kind_of(code: ReasonCode) -> ReasonKind:
    """Who can do something about it."""
    if code in ADMIN:
        return ReasonKind.ADMIN
    return ReasonKind.CHANGE if code in CHANGE else ReasonKind.WAIT


def reason(
    code: ReasonCode,
    message: str,
    next_step: str,
    *,
    asked: int | None = None,
    available: int | None = None,
    limit: int | None = None,
    team: str | None = None,
    level: str | None = None,
) -> Reason:
    """A reason of the code's kind."""
    return Reason(code, kind_of(code), message, next_step, asked, available, limit, team, level)


def of_workload(workload: WorkloadInfo, now: int) -> Reason | None:
    """What keeps it out of every queue: a hold, a dependency, a backoff."""
    if (
        workload.backing_off_until is None
        and workload.dependency is DependencyState.NONE
        and not workload.held
    ):
        return None
    if workload.held:
        return reason(ReasonCode.HELD, "It is on hold.", "Release the hold.")
    if workload.dependency is DependencyState.WAITING:
        return reason(
            ReasonCode.WAITING_FOR_DEPENDENCY,
            WAITS_FOR_OTHERS,
            "Nothing to do; it joins the queue when they have completed.",
        )
    if workload.dependency is DependencyState.FAILED:
        return reason(
            ReasonCode.DEPENDENCY_FAILED,
            DID_NOT_COMPLETE,
            "Run that one again, or submit this one without the dependency.",
        )
    if workload.backing_off_until is not None and workload.backing_off_until > now:
        seconds = counted(-(-(workload.backing_off_until - now) // 1000), "second")
        return reason(
            ReasonCode.BACKING_OFF,
            f"Its last attempt ended early; the next one is due in {seconds}.",
            "Nothing to do. How its last attempt ended is told with that attempt.",
        )
    return None


def pool_paused(pool: PoolInfo) -> Reason:
    """The pool starts nothing."""
    return reason(
        ReasonCode.POOL_PAUSED,
        f"The pool {pool.name} is paused and starts nothing.",
        "Ask an admin to resume the pool, or choose another one.",
        level=pool.id,
    )


def impossible_and_paused(found: Reason, pool: PoolInfo) -> Reason:
    """The pool could never start it (``found``), whether it is resumed or not."""
    return replace(found, message=f"{found.message} The pool {pool.name} is paused, too.")


def in_smaller_pods(found: Reason, example: tuple[int, int] | None) -> Reason:
    """The reason with so many pods of so many GPUs as an example of less per pod; ``None``: it asks for too much in
    all, too."""
    if example is None:
        return replace(found, next_step=found.next_step.replace(LESS_PER_POD, LESS_IN_ALL))
    pods, size = example
    step = f"{found.next_step.removesuffix('.')}, for example --pods {pods} --gpus {size}."
    return replace(found, next_step=step)


def cluster_offline(pool: PoolInfo, asked: int | None) -> Reason:
    """Only with clusters that are disconnected now it could start."""
    return reason(
        ReasonCode.CLUSTER_OFFLINE,
        f"The clusters of the pool {pool.name} that could take it are disconnected.",
        "Ask an admin to reconnect them.",
        asked=asked,
        available=0,
        level=pool.id,
    )


def out_of_service(found: Reason, nodes: Sequence[NodeInfo], *, none_left: bool) -> Reason:
    """It could start with these nodes, which take nothing now; ``found`` is what keeps it out of the rest, if there is
    any (``none_left``: or not)."""
    which = _by_state(nodes)
    other = found.next_step[:1].lower() + found.next_step[1:]
    step = "choose another pool." if none_left else other
    return replace(
        found,
        message=f"Nodes that could take it are out of service ({which}). Without them: {found.message}",
        next_step=f"{_bring_back(nodes)}, or {step}",
    )


def _besides_closed(found: Reason, nodes: Sequence[NodeInfo]) -> Reason:
    """What it waits for, and these nodes, which are out of service and would take it now; as it is where there are
    none."""
    if not nodes:
        return found
    instead = found.next_step.removeprefix("Wait, or ")
    step = "wait until GPUs come free." if instead == found.next_step else instead
    return replace(
        found,
        message=f"{found.message} Nodes that would take it are out of service ({_by_state(nodes)}).",
        next_step=f"{_bring_back(nodes)}, or {step}",
    )


def _bring_back(nodes: Sequence[NodeInfo]) -> str:
    """Who has nodes take workloads again, and how."""
    drained = [node.name for node in nodes if node.drained]
    cordoned = [node.name for node in nodes if node.cordoned and not node.drained]
    unready = [node.name for node in nodes if not node.ready]
    acts = []
    if cordoned:
        acts.append(f"end the maintenance ({_for_each('uncordon', cordoned)})")
    if drained:
        acts.append(f"end the drain ({_for_each('annotate node', drained, DRAIN_ANNOTATIONS)})")
    if unready:
        acts.append(f"look after {_first_names(unready)}")
    if any(not node.cluster_online for node in nodes):
        acts.append("have the cluster's agent connect again")
    return f"Ask an operator to {' and to '.join(acts)}"


def _for_each(verb: str, names: Sequence[str], without: Sequence[str] = ()) -> str:
    """The command that has nodes take new pods again, ``without`` these annotations, to be pasted as it is."""
    few = len(names) <= MOST_IN_COMMAND
    which, each = (names, "") if few else (["NODE"], "for each ")
    return f"{each}kubectl {' '.join([verb, *which, *[f'{name}-' for name in without]])}"


def _by_state(nodes: Sequence[NodeInfo]) -> str:
    """The nodes by what keeps them out of service: `cordoned: n0 and n1; not ready: n2`."""
    states: dict[str, list[str]] = {}
    for node in nodes:
        states.setdefault(_states(node), []).append(node.name)
    return "; ".join(f"{state}: {_first_names(names)}" for state, names in sorted(states.items()))


def _states(node: NodeInfo) -> str:
    """All that keeps a node out of service: to mend one of several changes nothing."""
    why = (
        (node.drained, "drained"),
        (node.cordoned and not node.drained, "cordoned"),
        (not node.ready, "not ready"),
        (not node.cluster_online, "cluster disconnected"),
    )
    return " and ".join(state for is_so, state in why if is_so)


def _first_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    *first, last = [*names[:MOST_NAMED], *more]
    return f"{', '.join(first)} and {last}" if first else last


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


def no_pool(*, named: bool) -> Reason:
    """None of the pools it names exists; where it names none, there is no pool at all."""
    if not named:
        return reason(
            ReasonCode.NO_MATCHING_NODES,
            "There is no pool yet.",
            "Ask an operator to make a pool and to connect a cluster.",
        )
    return reason(
        ReasonCode.NO_MATCHING_NODES,
        "None of the pools it names exists.",
        "Choose a pool of the organisation.",
    )


def in_no_pool(found: Reason, *, named: bool) -> Reason:
    """What keeps it out of one of several pools, where others keep it out as well: those that it names, or all."""
    if named:
        return replace(found, message=f"{found.message} No other pool that it names can start it either.")
    return nowhere_else(replace(found, message=f"{found.message} No other pool can start it either."))


def nowhere_else(found: Reason) -> Reason:
    """What keeps a workload out of a pool that may use all of them: there is no other one to choose."""
    step = found.next_step
    for elsewhere, instead in ELSEWHERE.items():
        step = step.replace(elsewhere, instead)
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
    has = "have" if _above(tree, leaf) else "has"
    which = f"{in_gpus(limit)} that {'is' if limit == GPU_MILLI else 'are'}" if limit else "none that is"
    step = "Ask for less, run it as elastic (priority below 100), or ask an admin for a larger reservation."
    if not limit:
        step = "Run it as elastic (priority below 100), or ask an admin for a reservation."
    if ceilings:
        less = "for less, or ask " if limit else ""
        step = f"Ask {less}an admin for a larger reservation and to raise the other limits."
    return reason(
        ReasonCode.EXCEEDS_RESERVATION,
        f"It asks for {gpus(asked)} reserved, but in the pool {pool.name} {_guarantors(tree, leaf)} {has} {which} not "
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
        f"It asks for {gpus(asked)}, more than {_whose(tree, first)} ({gpus(first.limit)}).{also}",
        f"Ask for less, or ask an admin to raise {'all these limits' if others else 'the limit'}.",
        team=team,
        level=team,
        **numbers,
    )


def _also_more_than(tree: Tree, ceilings: Sequence[Ceiling]) -> str:
    """The ceilings that it exceeds besides what was told before, a sentence each."""
    return "".join(f" It is also more than {_whose(tree, each)} ({gpus(each.limit)})." for each in ceilings)


def _whose(tree: Tree, ceiling: Ceiling) -> str:
    """Which limit it is, and whose."""
    return (
        f"the {'maximum' if ceiling.by_maximum else 'burst limit'} of {tree.team_name(ceiling.branch)} allows"
    )


def waiting_for_reservation(
    tree: Tree, charges: Charges, leaf: int, asked: int, available: int, *, pool: PoolInfo
) -> Reason:
    """Its guarantees are in use."""
    limit = charges.limit(leaf)
    whose = "charged to these teams" if _above(tree, leaf) else "of the team"
    return reason(
        ReasonCode.WAITING_FOR_RESERVATION,
        f"It asks for {gpus(asked)} reserved, but of the {in_gpus(limit)} guaranteed to {_guarantors(tree, leaf)} "
        f"in the pool {pool.name} {none_or_only(available)} left.",
        f"Wait for a reserved workload {whose} to end, or run it as elastic (priority below 100).",
        asked=asked,
        available=available,
        limit=limit,
        team=tree.team_id(leaf),
        level=tree.team_id(leaf),
    )


def _above(tree: Tree, leaf: int) -> bool:
    """Whether the leaf's team has teams above it."""
    return len(tree.chains[leaf]) > 1


def _guarantors(tree: Tree, leaf: int) -> str:
    """To whose guarantees reserved work of the leaf may be charged."""
    return f"{tree.team_name(leaf)} and the teams above it" if _above(tree, leaf) else tree.team_name(leaf)


def waiting_for_ceiling(tree: Tree, ceiling: Ceiling, asked: int) -> Reason:
    """A ceiling is reached."""
    team = tree.team_id(ceiling.branch)
    return reason(
        ReasonCode.WAITING_FOR_CEILING,
        f"It asks for {gpus(asked)}, but {none_or_only(ceiling.available)} left of the "
        f"{in_gpus(ceiling.limit)} that {_whose(tree, ceiling)}.",
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
    return _besides_closed(_besides_shared(found, shared, enough=available + shared >= asked), closed)


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
