"""Rows that cannot be true, and what the engine takes them for: data that a database could hold all the same.

Nothing here refuses a cycle. A row that says what cannot be is read as the nearest thing that can, and every such
reading is told as a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite

from scheduling.engine.model.plan import Finding, FindingCode
from scheduling.engine.model.snapshot import NodeInfo, OpenStatus, TeamInfo, TeamShare, WorkloadInfo

PENDING = OpenStatus.PENDING


def sound_teams(teams: Iterable[TeamInfo], named: Iterable[str]) -> tuple[TeamInfo, ...]:
    """The teams as a tree: one for every team that a workload belongs to (``named``), by id.

    A parent that is not there is none. Of teams that are their own ancestors the first by id is a top team. Numbers
    below zero, and those that are none, count as zero; a maximum below zero is none, as ever.
    """
    known = {team.id: team for team in teams}
    for id_ in named:
        if id_ not in known:
            known[id_] = TeamInfo(id_, id_)
    parents = {id_: team.parent if team.parent in known else None for id_, team in known.items()}
    for id_ in sorted(_in_circles(parents)):
        if _is_own_ancestor(id_, parents):
            parents[id_] = None
    return tuple(_sound_team(known[id_], parents[id_]) for id_ in sorted(known))


def _in_circles(parents: Mapping[str, str | None]) -> set[str]:
    leads_up: dict[str, bool] = {}
    for id_ in parents:
        way: dict[str, None] = {}
        at: str | None = id_
        while at is not None and at not in leads_up and at not in way:
            way[at] = None
            at = parents[at]
        up = at is None or leads_up.get(at, False)
        leads_up.update(dict.fromkeys(way, up))
    return {id_ for id_, up in leads_up.items() if not up}


def _is_own_ancestor(id_: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents[id_]
    while at is not None and at != id_ and at not in seen:
        seen.add(at)
        at = parents[at]
    return at == id_


def _sound_team(team: TeamInfo, parent: str | None) -> TeamInfo:
    shares = tuple([_sound_share(share) for share in team.shares])
    percent = team.burst_limit_percent
    same = (
        shares == team.shares
        and parent == team.parent
        and team.weight >= 0
        and (percent is None or percent >= 0)
    )
    if same:
        return team
    return replace(
        team,
        parent=parent,
        weight=max(0, team.weight),
        burst_limit_percent=None if percent is None else max(0, percent),
        shares=shares,
    )


def _sound_share(share: TeamShare) -> TeamShare:
    usage = share.usage_gpu_ms
    if share.reservation_milli >= 0 and isfinite(usage) and usage >= 0:
        return share
    usage = usage if isfinite(usage) and usage > 0 else 0
    return replace(share, reservation_milli=max(0, share.reservation_milli), usage_gpu_ms=usage)


def is_sound(workload: WorkloadInfo) -> bool:
    """Whether the workload has at least one pod, a minimum of pods that it can have, and nothing below zero."""
    return (
        1 <= workload.min_pods <= workload.pods
        and workload.cpu_milli >= 0
        and workload.memory_mib >= 0
        and workload.preemptions_24h >= 0
        and (workload.time_limit_ms or 0) >= 0
    )


def sound_workload(workload: WorkloadInfo) -> WorkloadInfo:
    """The workload, or the nearest that is sound."""
    if is_sound(workload):
        return workload
    pods = max(1, workload.pods)
    limit = workload.time_limit_ms
    return replace(
        workload,
        pods=pods,
        min_pods=min(max(1, workload.min_pods), pods),
        cpu_milli=max(0, workload.cpu_milli),
        memory_mib=max(0, workload.memory_mib),
        preemptions_24h=max(0, workload.preemptions_24h),
        time_limit_ms=None if limit is None else max(0, limit),
    )


# --- What is told -------------------------------------------------------------------------------------------------


class Oddities:
    """The rows of a snapshot that cannot be true, as they come and go; sound ones leave no trace here."""

    def __init__(self, teams: Iterable[TeamInfo], sound: Iterable[TeamInfo], pools: Iterable[str]) -> None:
        self._of_teams = tuple(_of_teams(teams, sound))
        self._pools = frozenset(pools)
        self._unsound: dict[str, WorkloadInfo] = {}
        self._strays: dict[str, WorkloadInfo] = {}
        self._lost: dict[str, tuple[WorkloadInfo, frozenset[str]]] = {}
        self._early: dict[str, WorkloadInfo] = {}
        self._homeless: Counter[str] = Counter()

    @property
    def strays(self) -> Iterable[WorkloadInfo]:
        """Workloads placed in a pool that is not there: they are left alone."""
        return self._strays.values()

    def homeless(self, node: NodeInfo) -> None:
        """Look at a node that belongs to no pool."""
        self._homeless[node.pool] += 1

    def take(self, workload: WorkloadInfo, now: int) -> WorkloadInfo:
        """The workload as it is taken for."""
        sound = sound_workload(workload)
        if sound is not workload:
            self._unsound[workload.id] = workload
        if workload.status is PENDING:
            return sound
        if workload.pool not in self._pools:
            self._strays[workload.id] = workload
        if workload.started_at is not None and workload.started_at > now:
            sound = self._early[workload.id] = replace(sound, started_at=now)
        return sound

    def lose(self, workload: WorkloadInfo, nodes: frozenset[str]) -> None:
        """Look at a workload with pods on devices of these nodes that are not there."""
        self._lost[workload.id] = (workload, nodes)

    def drop(self, workload: WorkloadInfo) -> WorkloadInfo:
        """Forget a workload; returns what it was taken for."""
        sound = self._early.pop(workload.id, None) or sound_workload(workload)
        for rows in (self._unsound, self._strays, self._lost):
            rows.pop(workload.id, None)
        return sound

    @property
    def hang_on_the_clock(self) -> bool:
        """Whether what some rows are taken for changes with the time."""
        return bool(self._early)

    def findings(self) -> Iterator[Finding]:
        """What was odd, a finding for each team, workload, node and pool."""
        yield from self._of_teams
        for workload in _by_id(self._unsound):
            text = f"{workload.name} has numbers that cannot be; it is read as if they were the nearest that can."
            yield Finding(FindingCode.IMPOSSIBLE_NUMBER, workload.pool or "", workload.team, text)
        for workload in _by_id(self._strays):
            text = f"{workload.name} lies in the pool {workload.pool}, which is not there; it is left alone."
            yield Finding(FindingCode.UNKNOWN_POOL, workload.pool or "", workload.team, text)
        for pool, count in sorted(self._homeless.items()):
            which = "1 node belongs" if count == 1 else f"{count} nodes belong"
            yield Finding(
                FindingCode.UNKNOWN_POOL, pool, None, f"{which} to the pool {pool}, which is not there."
            )
        yield from self._of_lost()
        for workload in _by_id(self._early):
            text = f"{workload.name} began later than now; it counts as just begun."
            yield Finding(FindingCode.CLOCK, workload.pool or "", workload.team, text)

    def _of_lost(self) -> Iterator[Finding]:
        """Workloads with pods on nodes that the pool has not."""
        counts = Counter(
            (workload.pool or "", node) for workload, nodes in self._lost.values() for node in nodes
        )
        for (pool, node), count in sorted(counts.items()):
            who = "1 workload lies" if count == 1 else f"{count} workloads lie"
            text = f"{who} on devices of the node {node} that the pool has not; what they have counts for their teams."
            yield Finding(FindingCode.MISSING_NODE, pool, None, text)


def _by_id(rows: Mapping[str, WorkloadInfo]) -> list[WorkloadInfo]:
    return [rows[id_] for id_ in sorted(rows)]


def _of_teams(teams: Iterable[TeamInfo], sound: Iterable[TeamInfo]) -> Iterator[Finding]:
    """The findings about teams."""
    known = {team.id: team for team in teams}
    for team in sound:
        before = known.get(team.id)
        if before is None:
            text = f"Workloads belong to the team {team.id}, which is not there; it counts as a top team."
            yield Finding(FindingCode.UNKNOWN_TEAM, "", team.id, text)
            continue
        if before.parent != team.parent:
            why = (
                "its own ancestor" if before.parent in known else f"below {before.parent}, which is not there"
            )
            text = f"The team {team.name} is {why}; it counts as a top team."
            yield Finding(FindingCode.BROKEN_TREE, "", team.id, text)
        if before is not team and replace(before, parent=team.parent) != team:
            text = f"The team {team.name} has numbers below zero, or that are none; they count as zero."
            yield Finding(FindingCode.IMPOSSIBLE_NUMBER, "", team.id, text)
