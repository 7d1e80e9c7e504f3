"""CPU and memory that a workload gets with its GPUs where it names none, and how much of them."""

from typing import Any

import pytest

from agentlink.tests.factories import make_cluster, make_node
from chamber.models import User
from teams.models import Pool
from teams.tests.factories import actor, make_pool
from workloads import known, manifests
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.shapes import WorkloadShape
from workloads.submission import submit

GIB = 1024
CUT = "mig-1g.10gb"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    known.forget()


@pytest.fixture
def nodes(pool: Pool) -> None:
    """Two nodes: the smaller one has 10 cores and 100 GiB for each of its four GPUs."""
    cluster = make_cluster()
    make_node(cluster, "large", gpus=8, pool=pool, cpu_milli=128_000, memory_mib=1024 * GIB)
    make_node(cluster, "small", gpus=4, pool=pool, cpu_milli=40_000, memory_mib=400 * GIB)


def submitted(owner: User, **fields: Any) -> Workload:
    request = SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": "train:1", **fields})
    (workload,) = submit(by=actor(owner), requests=[request])
    workload.refresh_from_db()
    return workload


def amounts(workload: Workload) -> tuple[int, int, list[str] | None]:
    return workload.cpu_milli, workload.memory_mib, workload.defaults


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (7500, 75 * GIB, ["cpu", "memory"])),
        ({"gpus": 4}, (30_000, 300 * GIB, ["cpu", "memory"])),
        ({"gpus": 0.25}, (1875, 75 * GIB // 4, ["cpu", "memory"])),
        ({"gpu_memory_mib": "10 GiB"}, (1875, 75 * GIB // 4, ["cpu", "memory"])),
        ({"cpu": 3}, (3000, 75 * GIB, ["memory"])),
        ({"cpu": 0, "memory_mib": 0}, (0, 0, None)),
        ({"cpu": 2, "memory_mib": "8 GiB"}, (2000, 8 * GIB, None)),
        ({"shm_mib": "80 GiB"}, (7500, 80 * GIB, ["cpu", "memory"])),
    ],
)
def test_three_quarters_of_what_the_smallest_node_has_for_each_gpu(
    owner: User, fields: dict[str, Any], expected: tuple[int, int, list[str] | None]
) -> None:
    assert amounts(submitted(owner, **fields)) == expected


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"cpu_per_gpu": 2.5, "memory_mib_per_gpu": 1000}, (2500, 1000, ["cpu", "memory"])),
        ({"cpu_per_gpu": 0, "memory_mib_per_gpu": 0}, (0, 0, None)),
        ({"cpu_per_gpu": 64, "memory_mib_per_gpu": 999 * GIB}, (10_000, 100 * GIB, ["cpu", "memory"])),
    ],
)
def test_a_pool_says_how_much_and_never_more_than_each_of_its_nodes_has(
    owner: User, policy: dict[str, Any], expected: tuple[int, int, list[str] | None]
) -> None:
    Pool.objects.update(policy=policy)
    assert amounts(submitted(owner)) == expected


@pytest.mark.usefixtures("nodes")
def test_it_fits_whichever_pool_it_accepts(owner: User) -> None:
    other = make_pool("Other")
    make_node(make_cluster("west"), "n", gpus=2, pool=other, cpu_milli=4000, memory_mib=64 * GIB)
    assert amounts(submitted(owner)) == (1500, 24 * GIB, ["cpu", "memory"])
    assert amounts(submitted(owner, pools=["main"]))[0] == 7500


def test_nothing_is_given_where_nobody_knows_what_there_is(owner: User, pool: Pool) -> None:
    make_node(make_cluster(), "n", gpus=2, pool=pool)
    assert amounts(submitted(owner)) == (0, 0, None)
    Pool.objects.update(policy={"cpu_per_gpu": 4})
    known.forget()
    assert amounts(submitted(owner)) == (4000, 0, ["cpu"])


@pytest.fixture
def cut(nodes: None, pool: Pool) -> None:
    """Beside `nodes` one whose eight GPUs, of 16 cores and 128 GiB each, are cut into 56 slices."""
    sliced = make_node(
        make_cluster("west"), "m", gpus=56, pool=pool, gpu_type=CUT, cpu_milli=128_000, memory_mib=1024 * GIB
    )
    sliced.devices.update(slicing="mig", share_milli=143)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (7500, 75 * GIB, ["cpu", "memory"])),
        ({"gpu_types": ["H100"]}, (7500, 75 * GIB, ["cpu", "memory"])),
        ({"gpu_types": [CUT]}, (1072, 10_982, ["cpu", "memory"])),
        ({"gpu_types": ["H100", CUT]}, (1072, 10_982, ["cpu", "memory"])),
    ],
)
def test_a_slice_counts_as_its_share_of_a_gpu(
    owner: User, fields: dict[str, Any], expected: tuple[int, int, list[str] | None]
) -> None:
    """So many slices take nothing from who gets a whole GPU, and who takes one gets what belongs to its share."""
    assert amounts(submitted(owner, **fields)) == expected


@pytest.mark.usefixtures("cut")
def test_all_slices_of_a_node_can_be_used_with_a_pools_default(owner: User) -> None:
    Pool.objects.update(policy={"cpu_per_gpu": 64, "memory_mib_per_gpu": 999 * GIB})
    Pool.objects.get().nodes.filter(name="small").delete()
    cpu_milli, memory_mib, _ = amounts(submitted(owner, gpu_types=[CUT]))
    assert 127_000 < 56 * cpu_milli <= 128_000
    assert 1023 * GIB < 56 * memory_mib <= 1024 * GIB


@pytest.mark.usefixtures("nodes")
def test_a_default_is_told_and_not_asked_for_when_it_is_submitted_again(owner: User) -> None:
    workload = submitted(owner, cpu=3)
    shown = WorkloadShape(workload).data
    assert (shown["cpu"], shown["memory_mib"], shown["defaults"]) == (3, 75 * GIB, ["memory"])
    content = manifests.content_of(workload, {}, user=owner)
    assert content["cpu"] == 3
    assert "memory_mib" not in content


@pytest.mark.usefixtures("nodes")
def test_a_pool_whose_policy_cannot_be_read_gives_by_its_nodes(owner: User) -> None:
    Pool.objects.update(policy={"queueing": "by-chance"})
    assert amounts(submitted(owner))[0] == 7500
