"""Nodes of random organisations: GPUs and slices, racks and clusters, and all that keeps pods out."""

from __future__ import annotations

from random import Random
from typing import Any

from scheduling.engine import DeviceInfo, NodeInfo, PoolInfo, Slicing, Taint, labels_of

Cut = tuple[str, int | None, Slicing, int]
"""A type of slices: its name, its memory, how it was cut, its share of a GPU."""
SLICES: tuple[tuple[Cut, ...], ...] = (
    (("mig-1g", 10_240, Slicing.MIG, 143),),
    (("mig-1g", 10_240, Slicing.MIG, 143), ("mig-3g", 40_960, Slicing.MIG, 429)),
    (("mig-7g", 81_920, Slicing.MIG, 1000),),
    (("shared", 20_480, Slicing.REPLICAS, 250),),
    (("shared", None, Slicing.REPLICAS, 500),),
    (("H100", 81_920, Slicing.WHOLE, 1000), ("mig-3g", 40_960, Slicing.MIG, 429)),
    (("A100", 40_960, Slicing.WHOLE, 1000), ("shared", 20_480, Slicing.REPLICAS, 250)),
)
TYPES = ("H100", "H100", "H100", "A100", "L4", "")
MEMORIES = (40_960, 81_920, 81_920, 16_384, None)
ODD: tuple[dict[str, Any], ...] = (
    {"cordoned": True},
    {"cordoned": True, "drained": True},
    {"ready": False},
    {"cpu_milli": 3_000},
    {"cpu_milli": 16_000, "memory_mib": 512},
    {"memory_mib": 48},
    {"partition": "lab"},
    {"sharing": False},
    {"sharing": False},
    {"taints": (Taint("odd"),)},
    {"taints": (Taint("team", "nlp", "NoExecute"), Taint("soft", "", "PreferNoSchedule"))},
)
CLUSTERS = ("", "", "", "far", "farther")


def machines(chance: Random, pools: tuple[PoolInfo, ...], number: int, *, racks: int) -> tuple[NodeInfo, ...]:
    """So many nodes. In ``racks`` of some, nearly all have the same devices."""
    away = {cluster for cluster in CLUSTERS[2:] if chance.random() < 0.08}
    clusters = CLUSTERS if chance.random() < 0.35 else ("",)
    usual = _gpus(chance, chance.choice((4, 8)), chance.choice(TYPES), 81_920)
    found = []
    for index in range(number):
        cluster = chance.choice(clusters)
        same = racks > 0 and chance.random() < 0.95
        fields = chance.choice(ODD) if chance.random() < (0.03 if same else 0.25) else {}
        name = f"m{index:02d}"
        found.append(
            NodeInfo(
                name,
                name.upper(),
                chance.choice(pools).id,
                usual if same else _devices(chance),
                cluster,
                cluster not in away,
                labels=labels_of(_labels(chance, index, racks)),
                **fields,
            )
        )
    return tuple(found)


def _labels(chance: Random, index: int, racks: int) -> dict[str, str]:
    """Where a node is, and what its disk is; some lack a level. Where each rack is of so many
    nodes, three racks are a block and six a zone."""
    rack = index // racks if racks else chance.randrange(3)
    labels = {"zone": chance.choice("ab"), "block": chance.choice("xy"), "rack": f"r{rack}"}
    if racks:
        labels |= {"block": f"b{rack // 3}", "zone": f"z{rack // 6}"}
    if chance.random() < 0.08:
        del labels[chance.choice(("zone", "block", "rack"))]
    if chance.random() < 0.2:
        labels["disk"] = "fast"
    return labels


def _devices(chance: Random) -> tuple[DeviceInfo, ...]:
    """The devices of a node: mostly GPUs that are all alike, some of them used by others; or slices; or none."""
    fate = chance.random()
    if fate < 0.03:
        return ()
    if fate < 0.2:
        cuts = chance.choice(SLICES)
        return tuple(_slice(chance, index, chance.choice(cuts)) for index in range(chance.choice((2, 4, 7))))
    gpus = _gpus(chance, chance.choice((1, 2, 4, 4, 8)), chance.choice(TYPES), chance.choice(MEMORIES))
    if fate < 0.27:
        return tuple(_of_another_type(chance, device) for device in gpus)
    return gpus


def _gpus(chance: Random, number: int, gpu_type: str, memory_mib: int | None) -> tuple[DeviceInfo, ...]:
    return tuple(
        DeviceInfo(index, gpu_type, memory_mib, foreign=chance.random() < 0.03) for index in range(number)
    )


def _of_another_type(chance: Random, device: DeviceInfo) -> DeviceInfo:
    return DeviceInfo(device.index, chance.choice(TYPES), chance.choice(MEMORIES), device.foreign)


def _slice(chance: Random, index: int, cut: Cut) -> DeviceInfo:
    gpu_type, memory_mib, slicing, share_milli = cut
    return DeviceInfo(index, gpu_type, memory_mib, chance.random() < 0.03, slicing, share_milli)
