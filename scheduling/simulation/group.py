"""Those that one decision is about: pools that share workloads, and who waits or lies in them.

What happens in one pool says nothing about another unless some workload may use both, so that each group is decided
by itself, and only when something in it has changed.
"""

from collections.abc import Iterable, Iterator

from scheduling.engine import (
    Changes,
    OpenStatus,
    Plan,
    PoolInfo,
    Snapshot,
    State,
    TeamInfo,
    WorkloadInfo,
    decide,
)


class PoolGroup:
    """Pools with the workloads that may use them; `workloads` are by id.

    Changes are collected and applied when something is to be decided; `accelerate` as in `engine.decide`.
    """

    def __init__(self, snapshot: Snapshot, *, accelerate: bool = True) -> None:
        self.pools = snapshot.pools
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.changed = True
        self._accelerate = accelerate
        self._state = State.of(snapshot)
        self._put: dict[str, WorkloadInfo] = {}
        self._new: set[str] = set()
        self._gone: dict[str, None] = {}
        self._teams: tuple[TeamInfo, ...] | None = None
        self._waiting = sum(workload.status is OpenStatus.PENDING for workload in snapshot.workloads)
        self._smaller = sum(_could_grow(workload) for workload in snapshot.workloads)

    @property
    def idle(self) -> bool:
        """Whether a cycle has nothing to decide: nobody waits, and nobody has fewer pods than he would like."""
        return not self._waiting and not self._smaller

    def put(self, workload: WorkloadInfo) -> None:
        """Add a workload, or put it in the place of the one with its id."""
        before = self.workloads.get(workload.id)
        if before is not None:
            self._count(before, -1)
        elif workload.id in self._gone:
            del self._gone[workload.id]
        else:
            self._new.add(workload.id)
        self._count(workload, 1)
        self.workloads[workload.id] = workload
        self._put[workload.id] = workload
        self.changed = True

    def drop(self, id_: str) -> WorkloadInfo:
        """Take a workload out and return it."""
        workload = self.workloads.pop(id_)
        self._count(workload, -1)
        self._put.pop(id_, None)
        if id_ in self._new:
            self._new.remove(id_)
        else:
            self._gone[id_] = None
        self.changed = True
        return workload

    def _count(self, workload: WorkloadInfo, sign: int) -> None:
        self._waiting += sign * (workload.status is OpenStatus.PENDING)
        self._smaller += sign * _could_grow(workload)

    def use_teams(self, teams: tuple[TeamInfo, ...]) -> None:
        """Decide with these teams from now on."""
        self._teams = teams

    def plan(self, now: int) -> Plan:
        """Return the plan for what is there now."""
        return decide(self._up_to_date(), now, accelerate=self._accelerate)

    def snapshot(self) -> Snapshot:
        """Return what is there now."""
        return self._up_to_date().snapshot

    def _up_to_date(self) -> State:
        """The state with all changes in it."""
        if self._put or self._gone or self._teams is not None:
            self._state.apply(
                Changes(
                    workloads=tuple(self._put.values()), gone_workloads=tuple(self._gone), teams=self._teams
                )
            )
            self._put, self._new, self._gone, self._teams = {}, set(), {}, None
        return self._state


def _could_grow(workload: WorkloadInfo) -> bool:
    return 0 < len(workload.placements) < workload.pods and workload.status is not OpenStatus.STOPPING


def divided(snapshot: Snapshot, later: Iterable[WorkloadInfo]) -> list[Snapshot]:
    """Return the organisation in parts that share no pool, in the order of their first pools.

    `later` are workloads that will come; who may use any pool makes all of them one part, and so does who names
    none that exists.
    """
    leader = {pool.id: pool.id for pool in snapshot.pools}
    for names in {workload.pools for workload in (*snapshot.workloads, *later)}:
        known = [name for name in (leader if names is None else names) if name in leader]
        for name in known[1:]:
            _join(leader, known[0], name)
    return [_part(snapshot, pools, leader) for pools in _parts(snapshot.pools, leader)] or [snapshot]


def _join(leader: dict[str, str], one: str, other: str) -> None:
    first, second = _leader_of(leader, one), _leader_of(leader, other)
    leader[second] = first


def _leader_of(leader: dict[str, str], pool: str) -> str:
    while leader[pool] != pool:
        pool = leader[pool]
    return pool


def _parts(pools: tuple[PoolInfo, ...], leader: dict[str, str]) -> Iterator[tuple[PoolInfo, ...]]:
    parts: dict[str, list[PoolInfo]] = {}
    for pool in pools:
        parts.setdefault(_leader_of(leader, pool.id), []).append(pool)
    return (tuple(part) for part in parts.values())


def _part(snapshot: Snapshot, pools: tuple[PoolInfo, ...], leader: dict[str, str]) -> Snapshot:
    """What of an organisation belongs to some of its pools. Who may use none that exists stands with the first."""
    ids = {pool.id for pool in pools}
    first = pools[0] is snapshot.pools[0]

    def belongs(workload: WorkloadInfo) -> bool:
        where = workload.pool or next((name for name in workload.pools or ids if name in leader), None)
        return where in ids or (where is None and first)

    return Snapshot(
        pools,
        snapshot.teams,
        tuple(node for node in snapshot.nodes if node.pool in ids),
        tuple(workload for workload in snapshot.workloads if belongs(workload)),
    )
