"""One cycle: every pool's queue from its head, then growth (sections 3 to 9).

A workload that may use several pools stands in the queue of each. Its turn comes when it is the head of all of them;
where heads wait for each other, the one that comes first by class, priority, submission and id goes on.
"""

from __future__ import annotations

from scheduling.engine import reasons
from scheduling.engine.ask import Ask
from scheduling.engine.candidate import Blocked, Candidate, Cause
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.growth import grow
from scheduling.engine.obstacles import of_nodes, of_quota
from scheduling.engine.queueing import Kept
from scheduling.engine.report import plan_of
from scheduling.engine.state import State
from scheduling.engine.types import Plan, Reason, ReasonKind, Workload

Entries = dict[str, dict[str, Candidate]]
"""By workload: its candidacies by pool, in its order of preference."""
Out = list[tuple[Workload, str | None, Reason]]
"""Those in no queue: the pool the reason speaks of, and the reason."""


def decide(state: State, now: int) -> Plan:
    """The plan for this state at this time. Changes nothing of it; the same state and time give the same plan."""
    cycles = {
        pool.id: PoolCycle(state.fleets[pool.id], state.tree, state.placed[pool.id], state.asks, now)
        for pool in state.pools
    }
    entries, out = _Sorter(state, cycles).sort(now)
    for pool_id, cycle in cycles.items():
        own = [found[pool_id] for found in entries.values() if pool_id in found]
        counted = [found[pool_id] for found in entries.values() if next(iter(found)) == pool_id]
        cycle.open(own, counted)
    _run_queues(cycles, entries)
    grown = {pool_id: grow(cycle) for pool_id, cycle in cycles.items()}
    return plan_of(state, cycles, grown, out)


class _Sorter:
    """Tells those who stand in a queue from those who cannot start, whatever comes free."""

    def __init__(self, state: State, cycles: dict[str, PoolCycle]) -> None:
        self._state = state
        self._cycles = cycles
        self._pools = {pool.id: pool for pool in state.pools}
        self._of_nodes: dict[tuple[str, Ask, int], Reason | None] = {}
        self._of_quotas: dict[tuple[str, int, bool, int], Reason | None] = {}

    def sort(self, now: int) -> tuple[Entries, Out]:
        """Every pending workload's candidacies, or the reason why it has none."""
        entries: Entries = {}
        out: Out = []
        for workload in self._state.pending:
            reason = reasons.of_workload(workload, now)
            if reason is not None:
                out.append((workload, None, reason))
                continue
            found, obstacles = self._candidacies(workload)
            if found:
                entries[workload.id] = found
            else:
                out.append((workload, *_most_hopeful(obstacles)))
        return entries, out

    def _candidacies(self, workload: Workload) -> tuple[dict[str, Candidate], list[tuple[str, Reason]]]:
        """Where it could ever run, and what keeps it out elsewhere."""
        ask = self._state.asks.of(workload)
        found: dict[str, Candidate] = {}
        obstacles = []
        for pool_id in self._pools if workload.pools is None else workload.pools:
            if pool_id not in self._pools:
                continue
            cycle = self._cycles[pool_id]
            leaf = self._state.tree.leaf_of[workload.team]
            candidate = Candidate(workload, leaf, ask, cycle.fleet.pod_milli(ask), workload.min_pods)
            obstacle = self._obstacle(cycle, candidate)
            if obstacle is None:
                found[pool_id] = candidate
            else:
                obstacles.append((pool_id, obstacle))
        return found, obstacles

    def _obstacle(self, cycle: PoolCycle, candidate: Candidate) -> Reason | None:
        """What keeps a workload out of a pool: pause, nodes, quota."""
        if cycle.pool.paused:
            return reasons.pool_paused(cycle.pool)
        workload = candidate.workload
        key = (cycle.pool.id, candidate.ask, workload.min_pods)
        if key not in self._of_nodes:
            whole = self._state.whole_fleets[cycle.pool.id]
            self._of_nodes[key] = of_nodes(cycle.fleet, whole, candidate.ask, workload.min_pods)
        return self._of_nodes[key] or self._of_quota(cycle, candidate)

    def _of_quota(self, cycle: PoolCycle, candidate: Candidate) -> Reason | None:
        """What guarantees and ceilings keep out; the same for all of one team, class and size."""
        key = (cycle.pool.id, candidate.leaf, candidate.reserved, candidate.next_milli)
        if key not in self._of_quotas:
            tree, charges, milli = self._state.tree, cycle.charges, candidate.next_milli
            self._of_quotas[key] = of_quota(tree, charges, candidate.leaf, candidate.workload, milli)
        return self._of_quotas[key]


def _most_hopeful(obstacles: list[tuple[str, Reason]]) -> tuple[str | None, Reason]:
    """Of several pools' reasons the first that is not for the user to mend, else the first."""
    if not obstacles:
        return None, reasons.no_pool()
    for pool_id, reason in obstacles:
        if reason.kind is not ReasonKind.CHANGE:
            return pool_id, reason
    return obstacles[0]


def _run_queues(cycles: dict[str, PoolCycle], entries: Entries) -> None:
    """Take the queues of all pools to their ends."""
    while (candidate := _next_of_all(cycles, entries)) is not None:
        candidacies = entries[candidate.id]
        for pool_id in candidacies:
            cycles[pool_id].queue.remove(candidate)
        _consider(cycles, entries, candidacies)


def _next_of_all(cycles: dict[str, PoolCycle], entries: Entries) -> Candidate | None:
    """The first pool's head that is the head wherever it stands; else the first of all heads; ``None`` at the end."""
    heads = []
    for cycle in cycles.values():
        head = cycle.queue.peek()
        if head is not None:
            found = entries[head.id]
            if len(found) == 1 or all(_is_head(cycles[pool_id], head) for pool_id in found):
                return head
            heads.append(head)
    return min(heads, key=lambda head: (not head.reserved, head.key), default=None)


def _is_head(cycle: PoolCycle, candidate: Candidate) -> bool:
    head = cycle.queue.peek()
    return head is not None and head.id == candidate.id


def _consider(cycles: dict[str, PoolCycle], entries: Entries, candidacies: dict[str, Candidate]) -> None:
    """Give a candidate the first pool where it fits without victims, else the one with the fewest, else let it
    wait."""
    blocked: dict[str, Blocked] = {}
    for pool_id, candidate in candidacies.items():
        found = cycles[pool_id].try_start(candidate)
        if found is None:
            return
        blocked[pool_id] = found
    sets = {
        pool_id: victims
        for pool_id, each in blocked.items()
        if (victims := cycles[pool_id].find_victims(each.candidate, each)) is not None
    }
    if sets:
        pool_id = min(sets, key=lambda pool_id: sets[pool_id].workloads)
        cycle = cycles[pool_id]
        cycle.start_with(candidacies[pool_id], sets[pool_id])
        for started in cycle.offer_again(_elsewhere(cycles, entries, pool_id)):
            for other in entries[started]:
                cycles[other].withdraw(started)
        return
    pool_id, kept = _frees_first(cycles, blocked)
    cycles[pool_id].wait(blocked[pool_id], kept)


def _elsewhere(cycles: dict[str, PoolCycle], entries: Entries, pool_id: str) -> list[Candidate]:
    """Those who wait in another pool and could use this one too."""
    return [
        entries[id_][pool_id]
        for other, cycle in cycles.items()
        if other != pool_id
        for id_ in cycle.waiting
        if pool_id in entries[id_]
    ]


def _frees_first(cycles: dict[str, PoolCycle], blocked: dict[str, Blocked]) -> tuple[str, Kept | None]:
    """Of several pools the one where it could start first, as far as anybody can tell; the first of equal ones."""
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
