"""Truths 2 and 5: no GPU is idle that somebody waits for, and nobody waits for his guarantee while others burst."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from chaos.truths.quotas import StoredQuotas
from chaos.truths.records import Records
from chaos.truths.tables import (
    WHOLE_MILLI,
    StoredDevice,
    StoredNode,
    StoredPlacement,
    StoredTables,
    StoredWorkload,
)
from chaos.truths.violation import TruthViolation

FOR_ROOM = frozenset({"waiting-for-gpus", "fragmented", "waiting-for-topology"})
FOR_GUARANTEE = FOR_ROOM | {"waiting-for-reservation", ""}


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Try to place who waits, on what is free or, inside a guarantee, on what elastic work holds."""
    floor, quotas = _Floor(tables), StoredQuotas(tables)
    for workload in tables.workloads:
        if workload.status != "pending" or workload.held or not workload.gpu_milli:
            continue
        for pool in tables.pools:
            if pool.paused or (workload.pool_choice and str(pool.id) not in workload.pool_choice):
                continue
            limited = quotas.is_limited(pool.id, workload.team_id)
            if workload.is_reserved:
                yield from _below_guarantee(tables, floor, quotas, workload, pool.id)
            elif workload.reason_code in FOR_ROOM and not limited and floor.holds(workload, pool.id, {}):
                sentence = f"{workload.slug} waits ({workload.reason_code}), and there is room for it in {pool.slug}."
                yield TruthViolation(5, sentence, (str(workload),))


def _below_guarantee(
    tables: StoredTables, floor: "_Floor", quotas: StoredQuotas, workload: StoredWorkload, pool_id: UUID
) -> Iterator[TruthViolation]:
    """Reserved work that fits what is left of its team's own part takes elastic work's place."""
    held = _reserved_charges(tables, pool_id, workload.team_id)
    left = quotas.own_part(pool_id, workload.team_id) - held
    size = workload.pods * floor.pod_milli(workload, pool_id)
    limited = quotas.is_limited(pool_id, workload.team_id)
    if size > left or limited or workload.reason_code not in FOR_GUARANTEE:
        return
    elastic = floor.elastic(pool_id)
    if floor.holds(workload, pool_id, elastic):
        team = tables.team[workload.team_id].slug
        bursting = [row for rows in elastic.values() for row in rows]
        sentence = f"{workload.slug} waits for {size} milli-GPUs; {team} has {left} of its guarantee left."
        yield TruthViolation(2, sentence, (str(workload), *map(str, bursting[:5])))


def _reserved_charges(tables: StoredTables, pool_id: UUID, team_id: UUID) -> int:
    """Return what open reserved attempts are charged to the team's own part."""
    reserved = [
        attempt
        for attempt in tables.attempts
        if attempt.ended_at is None
        and attempt.pool_id == pool_id
        and tables.workload[attempt.workload_id].is_reserved
    ]
    parts = [part for attempt in reserved for part in attempt.allocation if part["team"] == str(team_id)]
    return sum(part["milli"] for part in parts)


class _Floor:
    """Machines that take pods now, and what lies on their devices."""

    def __init__(self, tables: StoredTables) -> None:
        connected = {cluster.id for cluster in tables.clusters if cluster.connected}
        self._nodes: dict[UUID, list[StoredNode]] = defaultdict(list)
        for node in tables.nodes:
            usable = node.gone_at is None and node.ready and not node.cordoned
            if usable and node.pool_id is not None and node.cluster_id in connected:
                self._nodes[node.pool_id].append(node)
        self._devices: dict[UUID, list[StoredDevice]] = defaultdict(list)
        for device in tables.devices:
            if not device.foreign:
                self._devices[device.node_id].append(device)
        self._lying: dict[UUID, list[StoredPlacement]] = defaultdict(list)
        for row in tables.placements:
            if row.hold != "released":
                self._lying[row.device_id].append(row)
        self._bound = {row.cluster_id for row in tables.namespaces}
        self._tables = tables

    def elastic(self, pool_id: UUID) -> dict[UUID, list[StoredPlacement]]:
        """Return by device what running elastic work holds: it goes where a guarantee asks for it."""
        found: dict[UUID, list[StoredPlacement]] = {}
        for node in self._nodes[pool_id]:
            for device in self._devices[node.id]:
                rows = [row for row in self._lying[device.id] if row.hold == "held" and self._is_elastic(row)]
                if rows:
                    found[device.id] = rows
        return found

    def _is_elastic(self, row: StoredPlacement) -> bool:
        attempt = self._tables.attempt[row.attempt_id]
        return not self._tables.workload[attempt.workload_id].is_reserved

    def pod_milli(self, workload: StoredWorkload, pool_id: UUID) -> int:
        """Return what a pod counts as where it counts most, slices by their share."""
        devices = [device for node in self._nodes[pool_id] for device in self._devices[node.id]]
        asked = workload.gpu_milli or 0
        usable = [device for device in devices if _takes(workload, device)]
        return max(
            (asked if device.slicing == "whole" else device.share_milli for device in usable), default=asked
        )

    def holds(
        self, workload: StoredWorkload, pool_id: UUID, going: dict[UUID, list[StoredPlacement]]
    ) -> bool:
        """Return whether all pods fit, with `going` out of the way; gangs stay in one cluster, and on GPUs or on slices
        where they name types."""
        pods: dict[tuple[UUID, bool], int] = defaultdict(int)
        for node in self._nodes[pool_id]:
            if not all(node.labels.get(key) == value for key, value in workload.node_selector.items()):
                continue
            sorts = self._sorts(workload, self._devices[node.id])
            for sliced, devices in sorts.items():
                where = (node.cluster_id, sliced and bool(workload.gpu_types))
                free = [self._free(device, going.get(device.id, [])) for device in devices]
                pods[where] += (
                    sum(left == device.share_milli for left, device in zip(free, devices, strict=True))
                    if sliced
                    else self._on_gpus(node, free, workload.gpu_milli or 0)
                )
        return any(number >= workload.pods for number in pods.values())

    def _sorts(self, workload: StoredWorkload, devices: list[StoredDevice]) -> dict[bool, list[StoredDevice]]:
        """Return the devices of a node for a workload, slices (True) apart from GPUs; of both only what a gang names
        first."""
        usable = [device for device in devices if _takes(workload, device)]
        found: dict[bool, list[StoredDevice]] = defaultdict(list)
        for device in usable:
            found[device.slicing != "whole"].append(device)
        if len(found) > 1 and workload.gpu_types and workload.pods > 1:
            first = min(usable, key=lambda device: workload.gpu_types.index(device.gpu_type))
            sliced = first.slicing != "whole"
            return {sliced: found[sliced]}
        return found

    def _free(self, device: StoredDevice, going: list[StoredPlacement]) -> int:
        staying = [row.share_milli for row in self._lying[device.id] if row not in going]
        return device.share_milli - sum(staying)

    def _on_gpus(self, node: StoredNode, free: list[int], milli: int) -> int:
        """Return how many pods of this size a machine's GPUs take. Where namespaces are bound, parts may lie beside
        each other or not: what is left of a GPU counts for nobody there."""
        if milli >= WHOLE_MILLI:
            return sum(left == WHOLE_MILLI for left in free) // (milli // WHOLE_MILLI)
        if not node.sharing:
            return 0
        if node.cluster_id in self._bound:
            free = [left for left in free if left == WHOLE_MILLI]
        return sum(max(0, left) // milli for left in free)


def _takes(workload: StoredWorkload, device: StoredDevice) -> bool:
    """Return whether a pod could use the device if nobody did: a slice goes to who names it, a replica also to a part
    of a GPU that it is large enough for; a pod has one slice at most."""
    milli, named = workload.gpu_milli or 0, device.gpu_type in workload.gpu_types
    if device.slicing == "whole":
        return named or not workload.gpu_types
    if milli >= WHOLE_MILLI:
        return named and milli == WHOLE_MILLI
    without_name = not workload.gpu_types and device.slicing == "replicas"
    return (named or without_name) and milli <= device.share_milli
