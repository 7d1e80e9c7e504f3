"""The nodes and devices of a picture, kept from one reading to the next: only what differs is turned into objects."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agentlink.models import Device, Node
from scheduling import translate
from scheduling.columns import ids, json_of, texts
from scheduling.engine import types as engine
from scheduling.picture import LeftAside, Place

logger = logging.getLogger(__name__)

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)
PLAIN = (
    "name", "cluster__connected", "cpu_milli", "memory_mib", "partition", "ready", "cordoned", "sharing",
)  # fmt: skip

Columns = tuple[Any, ...]
At = tuple[str, int]
"""A node's id and a device's index."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node as it was read, its devices among it, and what was made of it."""

    seen: tuple[Columns, list[Columns]]
    node: engine.Node | None
    problem: LeftAside | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes that are there and belong to a pool; `at` is where each of their devices is, by its id."""

    nodes: tuple[engine.Node, ...] = ()
    devices: Mapping[At, Place] = field(default_factory=dict)
    at: Mapping[str, At] = field(default_factory=dict)
    problems: tuple[LeftAside, ...] = ()
    kept: Mapping[str, _Node] = field(default_factory=dict)


def read(before: Fleet) -> Fleet:
    """Return the fleet as the tables have it now; `before` itself where nothing of it has changed (2 queries)."""
    devices: dict[str, list[Columns]] = defaultdict(list)
    present = Device.objects.filter(node__gone_at__isnull=True, node__pool__isnull=False).order_by("index")
    for node, *device in present.values_list(
        *ids("node_id", "id"), "index", "gpu_type", "memory_mib", "foreign"
    ):
        devices[node].append(tuple(device))
    rows = Node.objects.filter(gone_at__isnull=True, pool__isnull=False).values_list(
        *ids("id", "pool_id", "cluster_id"), *texts("labels", "taints"), *PLAIN
    )
    kept = {row[0]: _kept(before.kept.get(row[0]), (row, devices.get(row[0], []))) for row in rows}
    same = len(kept) == len(before.kept) and all(before.kept.get(key) is node for key, node in kept.items())
    return before if same else _fleet(kept)


def places_of(devices: Iterable[str]) -> dict[str, At]:
    """Return where these devices are, of whatever node (1 query, none for no device)."""
    wanted = list(devices)
    if not wanted:
        return {}
    found = Device.objects.filter(pk__in=wanted).order_by()
    return {
        device: (node, index) for device, node, index in found.values_list(*ids("id", "node_id"), "index")
    }


def _kept(before: _Node | None, seen: tuple[Columns, list[Columns]]) -> _Node:
    return before if before is not None and before.seen == seen else _read(seen)


def _read(seen: tuple[Columns, list[Columns]]) -> _Node:
    (key, pool, cluster, labels, taints, *plain), devices = seen
    row = dict(zip(PLAIN, plain, strict=True)) | {"id": key, "pool_id": pool, "cluster_id": cluster}
    told = [
        dict(zip(("index", "gpu_type", "memory_mib", "foreign"), each[1:], strict=True)) for each in devices
    ]
    try:
        node = translate.node(row | {"labels": json_of(labels), "taints": json_of(taints)}, told)
    except UNREADABLE as error:
        logger.error("The node %s cannot be read and is left aside: %r", key, error)
        return _Node(seen, None, LeftAside("node", key, repr(error)))
    return _Node(seen, node, None)


def _fleet(kept: Mapping[str, _Node]) -> Fleet:
    devices: dict[At, Place] = {}
    at: dict[str, At] = {}
    for key, node in kept.items():
        row, found = node.seen
        cluster = UUID(row[2])
        for device, index, *_ in found:
            at[device] = place = (key, index)
            devices[place] = Place(UUID(device), cluster)
    return Fleet(
        nodes=tuple(each.node for each in kept.values() if each.node is not None),
        devices=devices,
        at=at,
        problems=tuple(each.problem for each in kept.values() if each.problem is not None),
        kept=kept,
    )
