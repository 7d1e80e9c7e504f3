"""Which workloads may share a device: under Dynamic Resource Allocation pods share it by one claim, and claims lie in a
namespace. Where namespaces are bound to teams, pods of two of them cannot share.

A device of which a part is held is marked with the namespace that shares it, and parts of it are for workloads of that
namespace only. A plan may still put two onto a device that was free: the second start waits for the next plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import F

from agentlink.models import Assignment, BoundNamespace
from scheduling import engine
from scheduling.reading import translate
from scheduling.reading.rows import ids

SEVERAL = "several namespaces"
"""The sharer named for a device that pods of more than one namespace hold, as from before one was bound."""

Bound = Mapping[str, frozenset[str]]
"""By cluster, the teams that have a namespace of their own there."""


def read() -> tuple[Bound, frozenset[str]]:
    """Return which teams have a namespace where, and the engine's ids of the attempts that were placed before that and
    lie in the agent's own (2 queries, 1 where no namespace is bound).
    """
    bound: dict[str, set[str]] = {}
    for cluster, team in BoundNamespace.objects.order_by().values_list(*ids("cluster_id", "team_id")):
        bound.setdefault(cluster, set()).add(team)
    if not bound:
        return {}, frozenset()
    of_team = "attempt__workload__team__namespaces"
    older = Assignment.objects.filter(
        **{f"{of_team}__cluster": F("cluster")}, created_at__lt=F(f"{of_team}__since"), gone=False
    )
    rows = older.order_by().values_list(*ids("attempt__workload_id"), "attempt__number", "attempt__ended_at")
    before = frozenset(_engine_id(*row) for row in rows)
    return {cluster: frozenset(teams) for cluster, teams in bound.items()}, before


def _engine_id(workload: str, number: int, ended_at: datetime | None) -> str:
    return workload if ended_at is None else translate.stopping_id(workload, number)


def marked(
    nodes: Sequence[engine.NodeInfo],
    workloads: Sequence[engine.WorkloadInfo],
    bound: Bound,
    older: frozenset[str],
) -> tuple[tuple[engine.NodeInfo, ...], tuple[engine.WorkloadInfo, ...]]:
    """Return nodes with the namespaces on their devices, and workloads with those that they may share one with."""
    shared = {node.id: node.cluster for node in nodes if node.sharing and node.cluster in bound}
    if not shared:
        return tuple(nodes), tuple(workloads)
    by: dict[tuple[str, int], str] = {}
    found = []
    for workload in workloads:
        if takes_parts(workload):
            mine = {cluster: _space(cluster, workload, bound, older) for cluster in bound}
            _note(workload, shared, mine, by)
            found.append(replace(workload, shares_with=tuple(sorted(mine.values()))))
        else:
            found.append(workload)
    return tuple(_node(node, by) if node.id in shared else node for node in nodes), tuple(found)


def _space(cluster: str, workload: engine.WorkloadInfo, bound: Bound, older: frozenset[str]) -> str:
    """Return a name for the namespace in which a workload's pods are, or would be, in a cluster."""
    own = workload.team in bound[cluster] and workload.id not in older
    return f"{cluster}/{workload.team if own else ''}"


def _note(
    workload: engine.WorkloadInfo,
    shared: Mapping[str, str],
    mine: Mapping[str, str],
    by: dict[tuple[str, int], str],
) -> None:
    for node, index in _places(workload.placements):
        if node in shared:
            space = mine[shared[node]]
            by[node, index] = space if by.get((node, index), space) == space else SEVERAL


def _places(pods: Iterable[engine.PodPlacement]) -> Iterable[tuple[str, int]]:
    return ((pod.node, share.index) for pod in pods for share in pod.devices)


def _node(node: engine.NodeInfo, by: Mapping[tuple[str, int], str]) -> engine.NodeInfo:
    if not any((node.id, device.index) in by for device in node.devices):
        return node
    devices = (replace(device, shared_by=by.get((node.id, device.index))) for device in node.devices)
    return replace(node, devices=tuple(devices))


def takes_parts(workload: engine.WorkloadInfo) -> bool:
    """Return whether its pods take a part of a GPU."""
    request = workload.request
    return not isinstance(request, engine.GpuShare) or 0 < request.milli < engine.GPU_MILLI


def to_wait(plan: engine.Plan, snapshot: engine.Snapshot) -> frozenset[str]:
    """Return the workloads whose start or growth waits for the next plan: it would share a device with pods of another
    namespace that this plan starts there.

    Those with victims come first. Of two such the agent refuses one.
    """
    shares_with = {each.id: each.shares_with for each in snapshot.workloads if each.shares_with}
    if not shares_with:
        return frozenset()
    clusters = {node.id: f"{node.cluster}/" for node in snapshot.nodes if node.sharing}
    taken: dict[tuple[str, int], str] = {}
    waiting = set()
    for decision, may_wait in _in_order(plan):
        spaces: dict[tuple[str, int], str] = {}
        mine = shares_with.get(decision.workload, ())
        for place in _places(decision.placements):
            cluster = clusters.get(place[0], "-")
            spaces.update((place, space) for space in mine if space.startswith(cluster))
        if may_wait and any(taken.get(place, space) != space for place, space in spaces.items()):
            waiting.add(decision.workload)
        else:
            taken |= spaces
    return frozenset(waiting)


def _in_order(plan: engine.Plan) -> Iterable[tuple[engine.Start | engine.Grow, bool]]:
    """Yield what takes devices, and whether it may wait: not where others yield for it."""
    yield from ((start, False) for start in plan.starts if start.victims)
    yield from ((start, True) for start in plan.starts if not start.victims)
    yield from ((grow, True) for grow in plan.grows)
