"""Why a workload is in no queue for now: one dominant reason, with its numbers (section 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.engine.model.peak import in_zone
from scheduling.engine.model.plan import Reason, ReasonCode, ReasonKind
from scheduling.engine.model.quantities import counted
from scheduling.engine.model.snapshot import DependencyState, NodeInfo, PoolInfo, WorkloadInfo
from scheduling.engine.quota.charging import Ceiling
from scheduling.engine.quota.tree import Tree

ADMIN = frozenset({ReasonCode.POOL_PAUSED, ReasonCode.CLUSTER_OFFLINE, ReasonCode.BURSTING_DISABLED})
CHANGE = frozenset(
    {
        ReasonCode.HELD,
        ReasonCode.DEPENDENCY_FAILED,
        ReasonCode.DATA_ELSEWHERE,
        ReasonCode.NO_MATCHING_GPU_TYPE,
        ReasonCode.NO_MATCHING_NODES,
        ReasonCode.LARGER_THAN_ANY_NODE,
        ReasonCode.LARGER_THAN_POOL,
        ReasonCode.TOPOLOGY_IMPOSSIBLE,
        ReasonCode.EXCEEDS_RESERVATION,
        ReasonCode.EXCEEDS_CEILING,
    }
)
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
    """A reason of the code's kind; the ``level`` is that of the tree, the ``team``'s, unless it is named."""
    return Reason(code, kind_of(code), message, next_step, asked, available, limit, team, level or team)


def of_workload(workload: WorkloadInfo, now: int) -> Reason | None:
    """What keeps it out of every queue: a hold, the time it is to start after, a dependency, a backoff."""
    if (
        workload.backing_off_until is None
        and workload.start_after is None
        and workload.dependency is DependencyState.NONE
        and not workload.held
    ):
        return None
    return _held_or_early(workload, now) or _waits_for_others(workload, now)


def _held_or_early(workload: WorkloadInfo, now: int) -> Reason | None:
    if workload.held:
        return reason(ReasonCode.HELD, "It is on hold.", "Release the hold.")
    if workload.start_after is None or workload.start_after <= now:
        return None
    return reason(
        ReasonCode.NOT_BEFORE,
        f"It is to start after {in_zone(workload.start_after, 'UTC')}.",
        "Nothing to do; it joins the queue then.",
    )


def _waits_for_others(workload: WorkloadInfo, now: int) -> Reason | None:
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


def array_limit(workload: WorkloadInfo) -> Reason:
    """As many members of its array as may have GPUs at once have them, or come before it."""
    most = counted(workload.max_parallel or 0, "member")
    return reason(
        ReasonCode.ARRAY_LIMIT,
        f"Its array has GPUs for at most {most} at once, and so many have them or come before it.",
        "Nothing to do; it joins the queue as members before it end.",
    )


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
    """It could start with these nodes, which take nothing now; ``found`` keeps it out of the rest."""
    which = _by_state(nodes)
    other = found.next_step[:1].lower() + found.next_step[1:]
    step = "choose another pool." if none_left else other
    return replace(
        found,
        message=f"Nodes that could take it are out of service ({which}). Without them: {found.message}",
        next_step=f"{_bring_back(nodes)}, or {step}",
    )


def besides_closed(found: Reason, nodes: Sequence[NodeInfo]) -> Reason:
    """What it waits for, and the nodes out of service that would take it now."""
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
    """How an operator has nodes take workloads again."""
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
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    *first, last = [*names[:MOST_NAMED], *more]
    return f"{', '.join(first)} and {last}" if first else last


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


def whose_limit(tree: Tree, ceiling: Ceiling) -> str:
    """Which limit it is, and whose."""
    return (
        f"the {'maximum' if ceiling.by_maximum else 'burst limit'} of {tree.team_name(ceiling.branch)} allows"
    )


def has_teams_above(tree: Tree, leaf: int) -> bool:
    """Whether the leaf's team has teams above it."""
    return len(tree.chains[leaf]) > 1


def guarantors(tree: Tree, leaf: int) -> str:
    """To whose guarantees reserved work of the leaf may be charged."""
    return (
        f"{tree.team_name(leaf)} and the teams above it"
        if has_teams_above(tree, leaf)
        else tree.team_name(leaf)
    )
