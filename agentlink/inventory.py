"""Taking in what a cluster has: nodes appear, change and vanish; what lies on them stays where it is."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agentlink.models import Cluster, Device, Node
from agentlink.protocol import DeviceReport, Inventory, NodeReport
from chamber import live
from teams.models import Pool

PLAIN = ("ready", "cordoned", "cpu_milli", "memory_mib", "labels", "taints", "partition", "sharing")
DEVICE_FIELDS = ("gpu_type", "memory_mib", "foreign")
BATCH = 500


def take(cluster_id: UUID, message: Inventory) -> bool:
    """Take in one part of an inventory; False where an earlier part is missing, so that it must be sent again.

    Parts may come over different connections and processes: which one is next is kept with the cluster. The last
    part makes gone whatever none of them had. A constant number of queries, but for batches of rows.
    """
    with transaction.atomic():
        stamp = _stamp(cluster_id, message)
        if stamp is None:
            return False
        changed = _take_nodes(cluster_id, message.nodes, stamp)
        if message.last:
            missing = Node.objects.filter(cluster=cluster_id, gone_at__isnull=True)
            changed |= bool(
                missing.exclude(inventory_stamp=stamp).update(gone_at=timezone.now(), ready=False)
            )
        if changed:
            live.announce("pools", "overview")
            live.ring()
    return True


def _stamp(cluster_id: UUID, message: Inventory) -> int | None:
    """Note which part this is; return what its nodes are marked with, or None where it is not the next one."""
    row = Cluster.objects.filter(pk=cluster_id)
    following = {"inventory_generation": message.generation, "inventory_part": message.part + 1}
    if message.part == 0:
        row.update(inventory_stamp=F("inventory_stamp") + 1, **following)
    else:
        expected = row.filter(inventory_generation=message.generation, inventory_part=message.part)
        if expected.update(**following) == 0:
            return None
    return row.values_list("inventory_stamp", flat=True).get()


def _take_nodes(cluster_id: UUID, reports: Sequence[NodeReport], stamp: int) -> bool:
    """Store these nodes with their devices and pools; return whether anything is other than before."""
    by_name = {report.name: report for report in reports}
    known = {node.name: node for node in Node.objects.filter(cluster=cluster_id, name__in=by_name)}
    pools = list(Pool.objects.all())
    new: list[Node] = []
    changed: list[Node] = []
    for name, report in by_name.items():
        node = known.get(name)
        values = _values(report, pools)
        if node is None:
            new.append(Node(cluster_id=cluster_id, name=name, inventory_stamp=stamp, **values))
        elif any(getattr(node, field) != value for field, value in values.items()):
            for field, value in values.items():
                setattr(node, field, value)
            changed.append(node)
    Node.objects.bulk_create(new, batch_size=BATCH)
    Node.objects.bulk_update(changed, [*PLAIN, "pool_id", "gone_at"], batch_size=BATCH)
    Node.objects.filter(pk__in=[node.pk for node in known.values()]).update(inventory_stamp=stamp)
    nodes = {node.pk: by_name[node.name] for node in [*new, *known.values()]}
    return _take_devices(nodes) or bool(new or changed)


def _values(report: NodeReport, pools: Iterable[Pool]) -> dict[str, Any]:
    """Return the columns that follow from a report."""
    plain = {field: getattr(report, field) for field in PLAIN}
    plain["taints"] = list(report.taints)
    return {**plain, "pool_id": pool_of(report.labels, pools), "gone_at": None}


def _take_devices(nodes: dict[UUID, NodeReport]) -> bool:
    """Store the devices of these nodes. One that is not reported any more stays, not to be used, with what is on it."""
    known: dict[tuple[UUID, int], Device] = {
        (device.node_id, device.index): device for device in Device.objects.filter(node__in=nodes)
    }
    new: list[Device] = []
    changed: list[Device] = []
    for node_id, report in nodes.items():
        for told in report.devices:
            values = {field: getattr(told, field) for field in DEVICE_FIELDS}
            device = known.pop((node_id, told.index), None)
            if device is None:
                new.append(Device(node_id=node_id, index=told.index, **values))
            elif _differs(device, told):
                for field, value in values.items():
                    setattr(device, field, value)
                changed.append(device)
    for device in known.values():
        if not device.foreign:
            device.foreign = True
            changed.append(device)
    Device.objects.bulk_create(new, batch_size=BATCH)
    # Only what the agent tells: the counters beside it belong to the triggers.
    Device.objects.bulk_update(changed, DEVICE_FIELDS, batch_size=BATCH)
    return bool(new or changed)


def _differs(device: Device, told: DeviceReport) -> bool:
    return any(getattr(device, field) != getattr(told, field) for field in DEVICE_FIELDS)


def pool_of(labels: dict[str, str], pools: Iterable[Pool]) -> UUID | None:
    """Return the first of the pools, in their order, whose selector picks these labels."""
    return next((pool.pk for pool in pools if pool.selects(labels)), None)


@transaction.atomic
def reassign_pools() -> int:
    """Give each node the pool that picks it now; return how many changed. Two queries, one more per pool concerned."""
    pools = list(Pool.objects.all())
    moved: dict[UUID | None, list[UUID]] = {}
    nodes = Node.objects.filter(gone_at__isnull=True).order_by()
    for pk, labels, pool_id in nodes.values_list("pk", "labels", "pool"):
        wanted = pool_of(labels, pools)
        if wanted != pool_id:
            moved.setdefault(wanted, []).append(pk)
    for wanted, ids in moved.items():
        for start in range(0, len(ids), BATCH):
            Node.objects.filter(Q(pk__in=ids[start : start + BATCH])).update(pool=wanted)
    if moved:
        live.announce("pools", "overview")
        live.ring()
    return sum(len(ids) for ids in moved.values())
