"""Slices of GPUs: what may be asked of them, what is refused, and as what they count."""

from typing import Any

import pytest

from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Refusal
from chamber.models import User
from teams.models import Pool, Team
from teams.tests.factories import actor, set_rules
from workloads import known
from workloads.models import Workload
from workloads.submission import submit
from workloads.tests.factories import make_workload
from workloads.tests.test_submission import request

SMALL, LARGE, REPLICA = "mig-1g.10gb", "mig-3g.40gb", "T4-SHARED"


@pytest.fixture(autouse=True)
def machines(pool: Pool) -> None:
    """Two GPUs, seven small slices, two large ones, and a GPU in four replicas, all in one pool."""
    cluster = make_cluster()
    make_node(cluster, "whole", gpus=2, pool=pool)
    small = make_node(cluster, "small", gpus=7, pool=pool, gpu_type=SMALL)
    large = make_node(cluster, "large", gpus=2, pool=pool, gpu_type=LARGE)
    parts = make_node(cluster, "parts", gpus=4, pool=pool, gpu_type=REPLICA)
    small.devices.update(slicing="mig", share_milli=143)
    large.devices.update(slicing="mig", share_milli=429)
    parts.devices.update(slicing="replicas", share_milli=250)
    known.forget()


def refused(owner: User, **changes: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        submit(by=actor(owner), requests=[request(**changes)])
    assert not Workload.objects.exists()
    return caught.value.fields


def taken(owner: User, **changes: Any) -> Workload:
    (workload,) = submit(by=actor(owner), requests=[request(**changes)])
    return workload


def test_more_than_one_slice_in_a_pod_is_refused_with_the_pods_to_ask_for(owner: User) -> None:
    assert refused(owner, gpus=2, pods=3, gpu_types=[SMALL]) == {
        "gpus": "A pod asks for 2 GPUs, and mig-1g.10gb is a slice of a GPU, of which a pod takes one: ask for "
        "6 pods of 1 GPU each instead of 3 of 2."
    }
    both = refused(owner, gpus=7, gpu_types=[SMALL, LARGE])["gpus"]
    assert both.startswith("A pod asks for 7 GPUs, and mig-1g.10gb or mig-3g.40gb are slices of a GPU")
    assert "2 GPUs, and T4-SHARED is a slice" in refused(owner, gpus=2, gpu_types=[REPLICA])["gpus"]


@pytest.mark.parametrize("gpus", [0.25, 0.5])
def test_a_part_of_a_mig_slice_is_refused(owner: User, gpus: float) -> None:
    assert refused(owner, gpus=gpus, gpu_types=[SMALL]) == {
        "gpus": f"A pod asks for {gpus:g} GPUs, and mig-1g.10gb is a slice of a GPU, given out whole: ask for 1 GPU "
        "per pod, which is one slice."
    }


def test_memory_of_a_slice_is_refused(owner: User) -> None:
    found = refused(owner, gpu_memory_mib=4096, gpu_types=[LARGE])["gpus"]
    assert found.startswith(
        "A pod asks for 4,096 MiB of a GPU, and mig-3g.40gb is a slice of a GPU, given out whole"
    )


def test_a_part_as_large_as_a_replica_may_name_it_and_a_larger_one_may_not(owner: User) -> None:
    assert "0.5 GPUs, and T4-SHARED" in refused(owner, gpus=0.5, gpu_types=[REPLICA])["gpus"]
    taken(owner, gpus=0.25, gpu_types=[REPLICA])


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 1, "gpu_types": [SMALL]},
        {"pods": 7, "gpu_types": [SMALL]},
        {"gpus": 2, "gpu_types": ["H100", SMALL]},
        {"gpus": 0.25, "gpu_types": ["H100", SMALL]},
        {"gpus": 2},
        {"gpu_memory_mib": 4096},
    ],
)
def test_one_slice_a_pod_is_taken_and_so_is_whoever_may_have_a_gpu(
    owner: User, changes: dict[str, Any]
) -> None:
    taken(owner, **changes)


def test_more_pods_than_a_pool_has_slices_are_refused_by_their_number(owner: User) -> None:
    found = refused(owner, pods=8, gpu_types=[SMALL])["pods"]
    assert found == ("It starts with 8 pods, each on a slice of mig-1g.10gb; pool Main has 7 of them.")
    taken(owner, pods=9, gpu_types=[SMALL, LARGE])


def test_slices_are_no_gpus_for_what_needs_whole_ones(owner: User) -> None:
    assert "3 GPUs at once; pool Main has 2 GPUs" in refused(owner, pods=3)["pods"]


def test_a_workload_on_slices_counts_as_their_shares(owner: User) -> None:
    workload = taken(owner, pods=4, gpu_types=[SMALL])
    assert workload.slices is not None
    assert (workload.slices.text, workload.size_milli) == ("4 slices of mig-1g.10gb (0.572 GPUs)", 572)
    either = taken(owner, pods=1, gpu_types=[LARGE, SMALL])
    assert either.slices is not None
    assert either.slices.text == "1 slice of mig-3g.40gb or mig-1g.10gb (up to 0.429 GPUs)"
    mixed = taken(owner, pods=2, gpu_types=["H100", SMALL])
    assert (mixed.slices, mixed.size_milli) == (None, 2000)


def test_the_largest_workload_of_a_team_is_measured_in_shares(owner: User, team: Team) -> None:
    set_rules(team, largest_workload_milli=600)
    assert "It asks for 0.715 GPUs in all" in refused(owner, pods=5, gpu_types=[SMALL])["pods"]
    taken(owner, pods=4, gpu_types=[SMALL])


def test_an_old_row_of_what_is_gone_makes_no_gpu_of_a_slice(owner: User, pool: Pool) -> None:
    gone = make_node(make_cluster("old"), "gone", gpus=1, pool=pool, gpu_type=SMALL)
    gone.devices.update(foreign=True)
    known.forget()
    assert "gpus" in refused(owner, gpus=2, gpu_types=[SMALL])


def test_a_type_that_is_a_gpu_somewhere_is_a_gpu(owner: User, team: Team, pool: Pool) -> None:
    make_node(make_cluster("west"), "odd", gpus=1, pool=pool, gpu_type=SMALL)
    known.forget()
    assert make_workload(team, owner, gpu_types=[SMALL]).slices is None
