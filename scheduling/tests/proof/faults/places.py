"""Devices, nodes, gangs and topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import DeviceInfo, Memory, Slicing, Taint, Topology
from scheduling.engine.pool.scaling import Growing
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.queue.candidate import Candidate
from scheduling.tests.engine.build import node, placed, pool, waiting
from scheduling.tests.proof.faults.worlds import (
    NEAR,
    PROMISED,
    RACKS,
    STOPPING,
    Fault,
    each,
    on_device_0,
    sharing_a_device,
    world,
)
from scheduling.tests.proof.plants import blind, field, of, wrong


def _all_gangs(
    growing: Mapping[str, Candidate], placed_workloads: Mapping[str, PlacedWorkload]
) -> list[Growing]:
    """All who have not all their pods."""
    return [Growing(entry, placed_workloads[id_]) for id_, entry in growing.items()]


CUT = world(
    node("n", 1),
    node("m", 2, gpu_type="mig", slices=Slicing.MIG, share=143),
    placed("r", "a", on="n:0"),
    waiting("v", "a"),
    waiting("w", "b", gpu_types=("mig",)),
)
PLACES = (
    Fault(
        "a gang is cut",
        BrokenRule.GANG_CUT,
        world(node("n", 2), node("m", 2), placed("r", "a", on="n:0 n:1"), waiting("w", "b", pods=3)),
        blind(workloads=of("w", min_pods=1)),
    ),
    Fault(
        "a gang spans clusters",
        BrokenRule.SPANS_CLUSTERS,
        world(
            node("n", 2, cluster="x"),
            node("m", 2, cluster="y"),
            placed("r", "a", on="n:0"),
            placed("s", "a", on="m:0"),
            waiting("w", "b", pods=2),
        ),
        blind(nodes=field(cluster="")),
    ),
    Fault(
        "a gang lies on GPUs and on slices",
        BrokenRule.MIXED_DEVICES,
        world(
            node("n", 2),
            node("m", 2, gpu_type="mig", slices=Slicing.MIG, share=143),
            placed("r", "a", on="n:0"),
            waiting("w", "b", pods=3, min_pods=1, gpu_types=("H100", "mig")),
        ),
        wrong("placement.node_eligibility.NodeClass.is_sliced", lambda *_: False),
    ),
    Fault(
        "a part lies on a GPU that others share",
        BrokenRule.SHARED_BY_OTHERS,
        world(
            replace(node("m", 1), devices=(DeviceInfo(0, "H100", 81920, shared_by="x"),)),
            node("n", 1),
            replace(waiting("w", "b", 0.5), shares_with=("y",)),
        ),
        wrong("placement.node_eligibility.NodeClass.open_to", lambda _self, _ask, costs: costs),
    ),
    Fault(
        "a required topology is ignored",
        BrokenRule.TOPOLOGY_REQUIRED,
        RACKS,
        blind(workloads=field(topology=Topology())),
    ),
    Fault(
        "a preferred topology is ignored",
        BrokenRule.TOPOLOGY_PREFERRED,
        NEAR,
        blind(workloads=field(topology=Topology())),
    ),
    Fault(
        "a gang that names a level takes what is left of several nodes",
        BrokenRule.MORE_NODES,
        world(
            node("e", 4, labels={"rack": "r"}),
            node("h", 4, labels={"rack": "r"}),
            placed("r", "a", 2, on="h:0,1"),
            waiting("w", "b", pods=3, topology=Topology(preferred="rack")),
            pools=(pool(topology=["rack"]),),
        ),
        wrong("placement.ledger.Ledger._packs", property(lambda _: False)),
    ),
    Fault(
        "a whole GPU without a type lands on a slice",
        BrokenRule.GPU_TYPE,
        CUT,
        wrong("placement.pod_request.takes_slice", lambda *_, **__: True),
    ),
    Fault(
        "a slice counts as a whole GPU",
        BrokenRule.POD_SIZE,
        CUT,
        blind(nodes=lambda row: {"devices": tuple(replace(each, share_milli=1000) for each in row.devices)}),
    ),
    Fault(
        "a device is given out twice",
        BrokenRule.OVER_CAPACITY,
        world(node("n", 1), sharing_a_device("r"), waiting("w", "b", 0.75)),
        blind(workloads=of("r", placements=placed("r", "a", 0.25, on="n:0").placements)),
    ),
    Fault(
        "two newcomers share a whole device",
        BrokenRule.OVER_CAPACITY,
        world(node("n", 2), waiting("v", "a"), waiting("w", "b")),
        each("starts", on_device_0),
    ),
    Fault(
        "CPU is not counted",
        BrokenRule.OVER_CAPACITY,
        world(
            node("n", 2, cpu_milli=4000),
            placed("r", "a", on="n:0", cpu_milli=3000),
            waiting("w", "b", cpu_milli=2000),
        ),
        blind(nodes=field(cpu_milli=None)),
    ),
    Fault(
        "memory is not counted",
        BrokenRule.OVER_CAPACITY,
        world(
            node("n", 2, memory_mib=40),
            placed("r", "a", on="n:0", memory_mib=30),
            waiting("w", "b", memory_mib=20),
        ),
        blind(nodes=field(memory_mib=None)),
    ),
    Fault(
        "who is stopping is taken for gone",
        BrokenRule.HELD_TWICE,
        STOPPING,
        wrong("placement.ledger.Ledger.waits", lambda *_: False),
    ),
    Fault(
        "a newcomer waits for nobody",
        BrokenRule.WAITS_UNTRUE,
        world(node("n", 1), waiting("w", "a")),
        wrong("placement.ledger.Ledger.waits", lambda *_: True),
    ),
    Fault(
        "who waits for victims grows",
        BrokenRule.GROWS_WAITING,
        PROMISED,
        wrong("pool.scaling._growing", lambda cycle: _all_gangs(cycle.state.growing, cycle.placed_workloads)),
    ),
    Fault(
        "who waits for victims is not told",
        BrokenRule.WAITS_UNTRUE,
        PROMISED,
        each("keeps", lambda row: replace(row, reason=None)),
    ),
    Fault(
        "memory is rounded down",
        BrokenRule.POD_SIZE,
        world(node("n", 1, gpu_memory_mib=30), waiting("w", "a", request=Memory(10))),
        wrong("placement.pod_request.memory_share", lambda mib, device_mib: mib * 1000 // device_mib),
    ),
    Fault(
        "others' devices are taken",
        BrokenRule.FOREIGN_DEVICE,
        world(node("n", 2, foreign=1), placed("r", "a", on="n:0"), waiting("w", "b")),
        blind(nodes=field(devices=(DeviceInfo(0, "H100", 81920), DeviceInfo(1, "H100", 81920)))),
    ),
    Fault(
        "a device is used that is not there",
        BrokenRule.UNKNOWN_ROW,
        world(node("n", 1), waiting("w", "a")),
        blind(nodes=field(devices=(DeviceInfo(1, "H100", 81920),))),
    ),
    Fault(
        "the GPU type is ignored",
        BrokenRule.GPU_TYPE,
        world(
            node("n", 1, gpu_type="A100"),
            node("m", 1),
            placed("r", "a", on="m:0"),
            waiting("w", "b", gpu_types=("H100",)),
        ),
        blind(workloads=field(gpu_types=())),
    ),
    Fault(
        "labels are ignored",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1), waiting("w", "a", node_selector=(("rack", "r9"),))),
        blind(workloads=field(node_selector=())),
    ),
    Fault(
        "taints are ignored",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, taints=(Taint("keep-out"),)), waiting("w", "a")),
        blind(nodes=field(taints=())),
    ),
    Fault(
        "a dedicated node is taken",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, partition="lab"), waiting("w", "a")),
        blind(nodes=field(partition=None)),
    ),
    Fault(
        "a cordoned node is taken",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, cordoned=True), waiting("w", "a")),
        blind(nodes=field(cordoned=False)),
    ),
    Fault(
        "a disconnected cluster is used",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, cluster_online=False), waiting("w", "a")),
        blind(nodes=field(cluster_online=True)),
    ),
    Fault(
        "a node that does not share is shared",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, sharing=False), waiting("w", "a", 0.5)),
        blind(nodes=field(sharing=True)),
    ),
    Fault(
        "a paused pool starts",
        BrokenRule.POOL_PAUSED,
        world(node("n", 1), waiting("w", "a"), pools=(pool(paused=True),)),
        blind(pools=field(paused=False)),
    ),
    Fault(
        "a pool is used that was not asked for",
        BrokenRule.POOL_NOT_ASKED,
        world(
            node("n", 1),
            node("m", 1, pool="spare"),
            placed("r", "a", on="m:0", pool="spare"),
            waiting("w", "b", pools=("spare",)),
            pools=(pool(), pool("spare")),
        ),
        blind(workloads=field(pools=None)),
    ),
    Fault(
        "every taint is tolerated",
        BrokenRule.NODE_REFUSES,
        world(node("n", 1, taints=(Taint("keep-out"),)), waiting("w", "a")),
        wrong("placement.pod_request.PodRequest.tolerates", lambda *_: True),
    ),
)
