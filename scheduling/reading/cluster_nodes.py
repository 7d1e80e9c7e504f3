"""The nodes and devices of a picture, kept from one reading to the next: only what differs is turned into objects."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F, IntegerField, QuerySet
from django.db.models.functions import Cast

from agentlink.models import Device, Node
from scheduling import engine
from scheduling.reading import translate
from scheduling.reading.picture import UNREADABLE, DevicePlace, LeftAside, unread
from scheduling.reading.rows import Lines, Quoted, as_lines, ids, json_of, or_empty, texts

PLAIN = (
    "name", "cluster__connected", "cpu_milli", "memory_mib", "partition", "ready", "cordoned", "drained", "sharing",
)  # fmt: skip
DEVICE = ("index", "gpu_type", "memory_mib", "foreign", "slicing", "share_milli")
ID = len(str(UUID(int=0)))
"""How many characters of a line are the id that it begins with."""

Columns = tuple[Any, ...]
At = tuple[str, int]
"""A node's id and a device's index."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node as it was read, its devices among it, and what was made of it."""

    seen: tuple[Columns, list[str]]
    node: engine.NodeInfo | None
    problem: LeftAside | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes that are there and belong to a pool; `at` is where each of their devices is, by its id.

    `seen` are the rows of nodes and the lines of devices that it was made of.
    """

    nodes: tuple[engine.NodeInfo, ...] = ()
    devices: Mapping[At, DevicePlace] = field(default_factory=dict)
    at: Mapping[str, At] = field(default_factory=dict)
    problems: tuple[LeftAside, ...] = ()
    kept: Mapping[str, _Node] = field(default_factory=dict)
    seen: tuple[Set[Columns], Lines] = (frozenset(), frozenset())


def read(before: Fleet, present: Lines) -> Fleet:
    """Return the fleet as the tables have it now, its devices being these; `before` itself where nothing of it has
    changed (1 query).
    """
    nodes = Node.objects.filter(gone_at__isnull=True, pool__isnull=False).order_by()
    columns: Columns = (*ids("id", "pool_id", "cluster_id"), *texts("labels", "taints"), *PLAIN)
    seen = set(nodes.values_list(*columns)), present
    return before if seen == before.seen else _fleet(before, *seen)


def device_lines() -> QuerySet[Device]:
    """Return the nodes' devices as lines: node, id, index, type, memory, whether it is foreign, how it was cut."""
    found = Device.objects.filter(node__gone_at__isnull=True, node__pool__isnull=False)
    foreign = Cast(F("foreign"), IntegerField())
    told = (
        F("index"),
        Quoted(F("gpu_type")),
        *or_empty("memory_mib"),
        foreign,
        F("slicing"),
        F("share_milli"),
    )
    return as_lines(found, *ids("node_id", "id"), *told)


def _device(line: str) -> dict[str, Any]:
    _, _, index, gpu_type, memory_mib, foreign, slicing, share_milli = line.split("\t")
    told = int(index), json_of(gpu_type), int(memory_mib) if memory_mib else None, foreign == "1"
    return dict(zip(DEVICE, (*told, slicing, int(share_milli)), strict=True))


def places_of(devices: Iterable[str]) -> dict[str, At]:
    """Return where these devices are, of whatever node (1 query, none for no device)."""
    wanted = list(devices)
    if not wanted:
        return {}
    found = Device.objects.filter(pk__in=wanted).order_by()
    return {
        device: (node, index) for device, node, index in found.values_list(*ids("id", "node_id"), "index")
    }


def _read(seen: tuple[Columns, list[str]]) -> _Node:
    (key, pool, cluster, labels, taints, *plain), devices = seen
    row = dict(zip(PLAIN, plain, strict=True)) | {"id": key, "pool_id": pool, "cluster_id": cluster}
    try:
        node = translate.node(
            row | {"labels": json_of(labels), "taints": json_of(taints)}, [_device(line) for line in devices]
        )
    except UNREADABLE as error:
        return _Node(seen, None, unread("node", key, error))
    return _Node(seen, node, None)


def _fleet(before: Fleet, rows: set[Columns], present: Lines) -> Fleet:
    devices: dict[At, DevicePlace] = {}
    at: dict[str, At] = {}
    of_node: dict[str, list[str]] = defaultdict(list)
    for line in sorted(present):
        of_node[line[:ID]].append(line)
    kept: dict[str, _Node] = {}
    for row in sorted(rows):
        key, seen, was = row[0], (row, of_node.get(row[0], [])), before.kept.get(row[0])
        kept[key] = was if was is not None and was.seen == seen else _read(seen)
        cluster = UUID(row[2])
        for line in seen[1]:
            _, device, index, _ = line.split("\t", 3)
            at[device] = place = (key, int(index))
            devices[place] = DevicePlace(UUID(device), cluster)
    return Fleet(
        nodes=tuple(each.node for each in kept.values() if each.node is not None),
        devices=devices,
        at=at,
        problems=tuple(each.problem for each in kept.values() if each.problem is not None),
        kept=kept,
        seen=(rows, present),
    )
