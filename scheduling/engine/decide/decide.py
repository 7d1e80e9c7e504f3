"""One cycle: every pool's queue from its head, then scaling up (sections 3 to 9).

A workload that may use several pools stands in the queue of each. Its turn comes when it is the head of all of them;
where heads wait for each other, the one that comes first by class, priority, submission and id goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduling.engine.backfill.start_reservation import EarliestStart
from scheduling.engine.decide.plan_rows import plan_of
from scheduling.engine.model.plan import Plan
from scheduling.engine.model.repair import Oddities, is_sound, sound_teams
from scheduling.engine.model.snapshot import NodeInfo, OpenStatus, Topology, WorkloadInfo
from scheduling.engine.model.state import State
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.pool.pool_state import PlainPoolState
from scheduling.engine.pool.scaling import scale_up
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons.eligibility import Candidacies, Eligibility, Entries, PoolView
from scheduling.engine.reasons.report import Outsider, PlanReport, PoolReport

Cycles = Mapping[str, PoolCycle]


def decide_plainly(state: State, now: int) -> Plan:
    """The plan for this state at this time, by the rules alone: everything is worked out anew."""
    reading, requests = read(state, now), PodRequests()
    pools = {
        pool_id: PlainPoolState(nodes, reading.tree, requests, reading.placed[pool_id], now)
        for pool_id, nodes in reading.nodes.items()
    }
    ledgers = {pool_id: pool.ledger for pool_id, pool in pools.items()}
    for ledger in ledgers.values():
        for workload in ledger.lost:
            note_lost(workload, ledger, ledgers, state.nodes, reading.oddities)
    settings = {pool_id: PoolView(pool.pool_nodes, pool.charges) for pool_id, pool in pools.items()}
    found = Eligibility(settings, reading.tree, requests).sort(
        reading.pending, now, state.array_limits.beyond
    )
    cycles: dict[str, PoolCycle] = {}
    for pool_id, pool in pools.items():
        pool.line_up(found.candidates[pool_id])
        cycles[pool_id] = PoolCycle(pool, now)
        cycles[pool_id].open(pool.levels)
    run_queues(cycles, found.entries)
    grown = {pool_id: scale_up(cycle) for pool_id, cycle in cycles.items()}
    outsiders = [Outsider(state.workload(id_), *out) for id_, out in found.out.items()]
    reports = [PoolReport(cycle, grown[pool_id]) for pool_id, cycle in cycles.items()]
    report = PlanReport.of(state.pools, outsiders, reading.oddities, reports, now=now)
    return plan_of(cycles, grown, found.expired.values(), report)


def run_queues(cycles: Cycles, entries: Entries) -> None:
    """Take the queues of all pools as far as something left could act. ``entries`` are those that stand in several."""
    while not all(cycle.may_stop() for cycle in cycles.values()):
        if not turn(cycles, entries):
            return


def turn(cycles: Cycles, entries: Entries) -> bool:
    """Have the next candidate's turn, or those of all whose turns change nothing; whether there was one."""
    candidate = _next_of_all(cycles, entries)
    if candidate is None:
        return False
    if not candidate.several and cycles[candidate.pool_request.pool].skip_turns():
        return True
    candidacies = _everywhere(entries, candidate)
    for each in candidacies:
        cycles[each.pool_request.pool].queue.remove(each)
    _consider(cycles, entries, candidacies)
    return True


def _everywhere(entries: Entries, candidate: Candidate) -> Candidacies:
    """A candidate in every queue where it stands."""
    return entries[candidate.id] if candidate.several else (candidate,)


def _next_of_all(cycles: Cycles, entries: Entries) -> Candidate | None:
    """The first pool's head that is the head wherever it stands; else the first of all heads; ``None`` at the end."""
    heads = []
    for cycle in cycles.values():
        head = cycle.queue.peek()
        if head is not None:
            found = _everywhere(entries, head)
            if len(found) == 1 or all(_is_head(cycles[each.pool_request.pool], head) for each in found):
                return head
            heads.append(head)
    return min(heads, key=lambda head: (not head.reserved, head.key), default=None)


def _is_head(cycle: PoolCycle, candidate: Candidate) -> bool:
    head = cycle.queue.peek()
    return head is not None and head.id == candidate.id


def _consider(cycles: Cycles, entries: Entries, candidacies: Candidacies) -> None:
    """Start a candidate in the first pool where it fits, else where it needs the fewest victims, else let it wait."""
    blocked: dict[str, Blocked] = {}
    for candidate in candidacies:
        found = cycles[candidate.pool_request.pool].try_start(candidate)
        if found is None:
            return
        blocked[candidate.pool_request.pool] = found
    sets = {
        pool_id: victims
        for pool_id, each in blocked.items()
        if (victims := cycles[pool_id].find_victims(each.candidate, each)) is not None
    }
    if sets:
        pool_id = min(sets, key=lambda pool_id: len(sets[pool_id].placed_workloads))
        cycle = cycles[pool_id]
        cycle.start_with(blocked[pool_id].candidate, sets[pool_id])
        for started in cycle.offer_again(_elsewhere(cycles, entries, pool_id)):
            for other in entries.get(started, ()):
                cycles[other.pool_request.pool].withdraw(started)
        return
    pool_id, earliest = _frees_first(cycles, blocked)
    cycles[pool_id].wait(blocked[pool_id], earliest)


def _elsewhere(cycles: Cycles, entries: Entries, pool_id: str) -> Sequence[Candidate]:
    """Those that wait in another pool and could use this one too."""
    return [
        each
        for other, cycle in cycles.items()
        if other != pool_id
        for id_ in cycle.waiting
        for each in entries.get(id_, ())
        if each.pool_request.pool == pool_id
    ]


def _frees_first(cycles: Cycles, blocked: dict[str, Blocked]) -> tuple[str, EarliestStart | None]:
    """Of several pools the one where it could start first, as far as can be told; the first of equal ones."""
    if len(blocked) == 1:
        return next(iter(blocked)), None
    estimates = {
        pool_id: cycles[pool_id].estimate(each.candidate)
        for pool_id, each in blocked.items()
        if each.cause in (Cause.PLACE, Cause.BEHIND)
    }
    if not estimates:
        return next(iter(blocked)), None
    first = min(estimates, key=lambda pool_id: (estimates[pool_id].at is None, estimates[pool_id].at or 0))
    return first, estimates[first]


ANYWHERE = Topology()
PENDING = OpenStatus.PENDING  # at hand: an enum looks its members up by a function


class StateRows(NamedTuple):
    """The teams as a tree, the nodes and the placed workloads of each pool by its id, and the pending workloads.

    ``labels`` are those that some workload selects nodes by; ``topological``: one asks for a place in the topology.
    """

    tree: Tree
    oddities: Oddities
    nodes: Mapping[str, PoolNodes]
    placed: Mapping[str, list[WorkloadInfo]]
    pending: list[WorkloadInfo]
    labels: frozenset[str]
    topological: bool


def read(state: State, now: int) -> StateRows:
    """The rows of a state at this time."""
    teams = sound_teams(state.teams, {workload.team for workload in state.workloads.values()})
    oddities = Oddities(state.teams, teams, [pool.id for pool in state.pools])
    labels = frozenset(selected_by(state.workloads.values()))
    topological = is_topological(state.workloads.values())
    nodes: dict[str, list[NodeInfo]] = {pool.id: [] for pool in state.pools}
    placed: dict[str, list[WorkloadInfo]] = {pool.id: [] for pool in state.pools}
    for node in state.nodes.values():
        if node.pool in nodes:
            nodes[node.pool].append(node)
        else:
            oddities.homeless(node)
    pending = []
    for row in state.workloads.values():
        if row.status is PENDING:
            pending.append(row if is_sound(row) else oddities.take(row, now))
            continue
        workload = oddities.take(row, now)
        if workload.pool in placed:
            placed[workload.pool].append(workload)
    of_pools = {
        pool.id: PoolNodes(pool, nodes[pool.id], sorted(labels), topological=topological)
        for pool in state.pools
    }
    return StateRows(Tree(teams), oddities, of_pools, placed, pending, labels, topological)


def note_lost(
    workload: WorkloadInfo,
    home: Ledger,
    ledgers: Mapping[str, Ledger],
    nodes: Mapping[str, NodeInfo],
    oddities: Oddities,
) -> None:
    """Note a workload with pods on nodes that its pool has not; in a pool that has them it holds its devices."""
    missing = home.missing(workload)
    oddities.lose(workload, missing)
    there = {nodes[node].pool for node in missing if node in nodes}
    for pool_id, host in ledgers.items():
        if pool_id in there and host is not home:
            host.host(workload, home)


def selected_by(workloads: Iterable[WorkloadInfo]) -> set[str]:
    """The labels that some of these select nodes by."""
    return {key for workload in workloads if workload.node_selector for key, _ in workload.node_selector}


def is_topological(workloads: Iterable[WorkloadInfo]) -> bool:
    """Whether one of these asks for a place in the topology."""
    return any(workload.topology is not ANYWHERE and workload.topology != ANYWHERE for workload in workloads)
