"""Taking in what a cluster has: nodes appear, change and vanish; what lies on them stays where it is.

An inventory comes in the order of its nodes' names, so that each part speaks for a range of names: what is known in
that range and not reported is gone. With each node a digest is kept of what the agent told of it, and of what picks
nodes for pools: of those that are reported as before, nothing else is read, and nothing written.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agentlink.models import Cluster, Device, DeviceSlicing, Hold, Node, Placement
from agentlink.models.node import WHOLE_DEVICE_MILLI
from agentlink.protocol import Inventory, NodeReport
from chamber import live
from chamber.bulk import update_each
from teams.capacity import pool_of
from teams.models import CLUSTER_LABEL, Pool

PLAIN = (
    "ready",
    "cordoned",
    "drained",
    "cpu_milli",
    "memory_mib",
    "labels",
    "taints",
    "partition",
    "sharing",
    "problem",
)
DEVICE_FIELDS = ("gpu_type", "memory_mib", "foreign", "slicing", "share_milli")
BATCH = 500


def take(cluster_id: UUID, message: Inventory, *, connection: UUID | None) -> bool:
    """Take in one part of an inventory; False where an earlier part is missing, so that it must be sent again.

    Parts may come over different connections and processes: what comes next is kept with the cluster. A part that
    comes again, or belongs to an inventory older than the last, changes nothing. Four queries, two more where nodes
    are reported otherwise than before, and batches of their rows.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
        came = (message.generation, message.part)
        following = (cluster.inventory_generation, cluster.inventory_part)
        if cluster.connection != connection or came < following:
            return True
        begins = message.part == 0
        if not begins and came != following:
            return False
        after = "" if begins else cluster.inventory_upto
        if message.nodes and message.nodes[0].name <= after:
            return False
        cluster.inventory_generation, cluster.inventory_part = message.generation, message.part + 1
        cluster.inventory_upto = message.nodes[-1].name if message.nodes else after
        nodes, unclear = _with_slices_apart(message.nodes)
        cluster.unclear_slices = unclear if begins else cluster.unclear_slices + unclear
        cluster.save(
            update_fields=["inventory_generation", "inventory_part", "inventory_upto", "unclear_slices"]
        )
        present = _present(cluster_id, message, after=after)
        changed = _take_nodes(cluster, nodes, {name: told for name, (_, told) in present.items()})
        reported = {node.name for node in message.nodes}
        gone = [pk for name, (pk, _) in present.items() if name not in reported]
        if gone:
            Node.objects.filter(pk__in=gone).update(gone_at=timezone.now(), ready=False)
        if changed or gone:
            live.announce("pools", "overview")
            live.ring()
    return True


def _with_slices_apart(reports: Sequence[NodeReport]) -> tuple[list[NodeReport], int]:
    """Return the nodes with what an old agent told as GPUs and is named as a slice told apart; and how many these are.

    They are not to be used: such an agent would not know the share of a GPU by which they are given to a pod.
    """
    found, unclear = [], 0
    for report in reports:
        slices = report.slices_by_name()
        unclear += len(slices)
        if slices:
            aside = {index: device.model_copy(update={"foreign": True}) for index, device in slices.items()}
            devices = tuple(aside.get(device.index, device) for device in report.devices)
            report = report.model_copy(update={"devices": devices})  # noqa: PLW2901 - the same node
        found.append(report)
    return found, unclear


def _present(cluster_id: UUID, message: Inventory, *, after: str) -> dict[str, tuple[UUID, str]]:
    """Return the nodes in the part's range of names, by name, with the digest of what was told of it last."""
    present = Node.objects.filter(cluster=cluster_id, gone_at__isnull=True, name__gt=after).order_by()
    if not message.last:
        present = present.filter(name__lte=message.nodes[-1].name if message.nodes else after)
    return {name: (pk, told) for pk, name, told in present.values_list("pk", "name", "told")}


def _take_nodes(cluster: Cluster, reports: Sequence[NodeReport], before: Mapping[str, str]) -> bool:
    """Store what these nodes, with their devices, report otherwise than before; return whether anything is other.

    `before` is by name what the digest was of each that is there.
    """
    pools = list(Pool.objects.all())
    around = _digested(cluster.name, [(str(pool.pk), pool.node_selector, pool.clusters) for pool in pools])
    digests = {report.name: _digested(around, report.model_dump_json()) for report in reports}
    by_name = {report.name: report for report in reports if before.get(report.name) != digests[report.name]}
    if not by_name:
        return False
    known = {node.name: node for node in Node.objects.filter(cluster=cluster.pk, name__in=by_name).order_by()}
    new: list[Node] = []
    changed: list[Node] = []
    for name, report in by_name.items():
        node = known.get(name)
        values = _values(report, cluster, pools) | {"told": digests[name]}
        if node is None:
            new.append(Node(cluster_id=cluster.pk, name=name, **values))
        else:
            for field, value in values.items():
                setattr(node, field, value)
            changed.append(node)
    Node.objects.bulk_create(new, batch_size=BATCH)
    update_each(changed, [*PLAIN, "pool", "refused_pool", "gone_at", "told"])
    _take_devices({node.pk: by_name[node.name] for node in [*new, *changed]})
    return True


def _digested(*parts: object) -> str:
    """Return what differs where any of these does: all that a node's columns and devices follow from.

    With the pools in it, a node that was told of while they changed is looked at once more.
    """
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _values(report: NodeReport, cluster: Cluster, pools: Iterable[Pool]) -> dict[str, Any]:
    """Return the columns that follow from a report; among its labels is the name of its cluster."""
    plain = {field: getattr(report, field) for field in PLAIN}
    plain["taints"] = list(report.taints)
    plain["labels"] = {**report.labels, CLUSTER_LABEL: cluster.name}
    pool, refused = pool_of(plain["labels"], pools, cluster.name)
    return {**plain, "pool_id": pool, "refused_pool_id": refused, "gone_at": None}


def _take_devices(nodes: dict[UUID, NodeReport]) -> None:
    """Store the devices of these nodes. One that is not reported any more stays, not to be used, with what is on it."""
    rows = Device.objects.filter(node__in=nodes).order_by()
    known: dict[tuple[UUID, int], tuple[UUID, DeviceValues]] = {
        (node_id, index): (pk, values)
        for pk, node_id, index, *values in rows.values_list("pk", "node", "index", *DEVICE_FIELDS)
    }
    new: list[Device] = []
    changed: list[Device] = []
    cut_anew: list[Device] = []
    for node_id, report in nodes.items():
        for told in report.devices:
            values = [getattr(told, field) for field in DEVICE_FIELDS]
            pk, before = known.pop((node_id, told.index), (None, None))
            if pk is None or before is None:
                new.append(_device(node_id, told.index, values))
            elif before != values:
                device = _device(node_id, told.index, values, pk=pk)
                changed.append(device)
                if before[-2:] != values[-2:]:
                    cut_anew.append(device)
    gone = DEVICE_FIELDS.index("foreign")
    for (node_id, index), (pk, values) in known.items():
        if not values[gone]:
            values[gone] = True
            changed.append(_device(node_id, index, values, pk=pk))
    Device.objects.bulk_create(new, batch_size=BATCH)
    kept_back = _recount(cut_anew)
    # Only what the agent tells: the counters beside it belong to the triggers.
    update_each(changed, DEVICE_FIELDS)
    if kept_back:
        Node.objects.filter(pk__in=kept_back).update(told="")


DeviceValues = list[Any]
"""What an agent tells of a device, in the order of `DEVICE_FIELDS`."""


def _device(node_id: UUID, index: int, values: DeviceValues, **columns: Any) -> Device:
    return Device(node_id=node_id, index=index, **dict(zip(DEVICE_FIELDS, values, strict=True)), **columns)


def _recount(cut_anew: Collection[Device]) -> set[UUID]:
    """Have pods that have one of these devices whole have it whole by its new share too, before that is stored (1
    query, 3 more and one a share where any is in use).

    So it is when an agent that tells slices apart follows one that did not. A device that several pods share cannot be
    a slice: it stays what it was, not to be used, and its node, which is returned, is looked at again with the next
    inventory.
    """
    used = Device.objects.filter(pk__in=[device.pk for device in cut_anew]).exclude(
        occupied_milli=0, allocated_milli=0
    )
    counters = {
        pk: ({occupied, allocated} - {0}, share)
        for pk, occupied, allocated, share in used.values_list(
            "pk", "occupied_milli", "allocated_milli", "share_milli"
        )
    }
    whole = [device for device in cut_anew if device.pk in counters and _is_whole(*counters[device.pk])]
    if whole:
        # Between two shares of slices the counters are neither.
        Device.objects.filter(pk__in=[device.pk for device in whole]).update(
            slicing=DeviceSlicing.WHOLE, share_milli=WHOLE_DEVICE_MILLI
        )
    for share_milli in {device.share_milli for device in whole}:
        placed = Placement.objects.filter(
            device__in=[device.pk for device in whole if device.share_milli == share_milli]
        )
        placed.exclude(hold=Hold.RELEASED).update(share_milli=share_milli)
    shared = [device for device in cut_anew if device.pk in counters and device not in whole]
    shared = [device for device in shared if device.slicing != DeviceSlicing.WHOLE]
    for device in shared:
        device.slicing, device.share_milli, device.foreign = DeviceSlicing.WHOLE, WHOLE_DEVICE_MILLI, True
    return {device.node_id for device in shared}


def _is_whole(counted: set[int], share_milli: int) -> bool:
    """Return whether counters that are not 0 are the whole of a device."""
    return counted == {share_milli}


@transaction.atomic
def reassign_pools() -> int:
    """Give each node the pool that picks it now; return how many changed. Two queries, one more per pool concerned."""
    pools = list(Pool.objects.all())
    moved: dict[tuple[UUID | None, UUID | None], list[UUID]] = {}
    nodes = Node.objects.filter(gone_at__isnull=True).order_by()
    rows = nodes.values_list("pk", "labels", "cluster__name", "pool", "refused_pool")
    for pk, labels, cluster, *now in rows:
        wanted = pool_of(labels, pools, cluster)
        if wanted != tuple(now):
            moved.setdefault(wanted, []).append(pk)
    for (pool, refused), ids in moved.items():
        for start in range(0, len(ids), BATCH):
            nodes.filter(pk__in=ids[start : start + BATCH]).update(pool=pool, refused_pool=refused)
    if moved:
        live.announce("pools", "overview")
        live.ring()
    return sum(len(ids) for ids in moved.values())
