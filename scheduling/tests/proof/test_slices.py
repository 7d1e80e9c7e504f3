"""A slice that counts as a whole GPU is decided about as a GPU of its type is: only its share makes a difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from scheduling.engine import GPU_MILLI, GpuShare, Slicing, Snapshot, TypicalRequest, WorkloadInfo, schedule
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen

SEEDS = range(25)
TYPE = "only"
ONE_GPU = GpuShare(GPU_MILLI)
USUAL = (
    TypicalRequest(GPU_MILLI, 1.0, gpu_types=(TYPE,)),
    TypicalRequest(4 * GPU_MILLI, 1.0, gpu_types=("B200",)),
)


def moments() -> Iterator[tuple[Snapshot, int]]:
    """Moments in the lives of organisations where all ask for one device a pod, by its one type."""
    for seed in SEEDS:
        chance = Random(seed)
        organisation = Organisation(chance)
        for _ in range(chance.randint(6, 16)):
            organisation.submit(chance)
        for _ in range(3):
            happen(organisation, chance, chance.choice((1, 2, 4)))
            _ask_for_one_device(organisation)
            yield organisation.snapshot, organisation.now
            organisation.carry_out(schedule(organisation.snapshot, organisation.now))


def _ask_for_one_device(organisation: Organisation) -> None:
    """Have everybody ask for one whole device of the one type, and all devices be of it."""
    organisation.pools = tuple(
        replace(pool, recent=USUAL if pool.recent else ()) for pool in organisation.pools
    )
    for id_, node in organisation.nodes.items():
        devices = (
            replace(each, gpu_type=TYPE, slicing=Slicing.WHOLE, share_milli=GPU_MILLI)
            for each in node.devices
        )
        organisation.nodes[id_] = replace(node, devices=tuple(devices))
    for id_, workload in organisation.workloads.items():
        organisation.workloads[id_] = replace(workload, request=ONE_GPU, gpu_types=(TYPE,))


def cut(snapshot: Snapshot, slicing: Slicing) -> Snapshot:
    """The same with slices in place of GPUs, each of which counts as one."""
    nodes = (
        replace(node, devices=tuple(replace(each, slicing=slicing) for each in node.devices))
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=tuple(nodes))


@pytest.mark.parametrize("slicing", [Slicing.MIG, Slicing.REPLICAS])
def test_a_slice_that_counts_as_a_gpu_is_given_and_taken_as_one(slicing: Slicing) -> None:
    seen = 0
    for snapshot, now in moments():
        plan = schedule(snapshot, now)
        seen += len(plan.starts) + len(plan.preemptions)
        assert as_bytes(schedule(cut(snapshot, slicing), now)) == as_bytes(plan)
    assert seen > len(SEEDS)


def test_without_its_name_nobody_gets_one() -> None:
    for snapshot, now in moments():
        nameless = tuple(_nameless(row) for row in snapshot.workloads)
        plan = schedule(replace(cut(snapshot, Slicing.MIG), workloads=nameless), now)
        assert not any((plan.starts, plan.grows, plan.preemptions, plan.shrinks))


def _nameless(workload: WorkloadInfo) -> WorkloadInfo:
    return replace(workload, gpu_types=())
