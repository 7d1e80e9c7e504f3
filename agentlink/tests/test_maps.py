"""Pools in numbers: what counts as theirs, and how many queries that takes."""

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink.maps import MapFigures, pool_figures
from agentlink.models import Device, Node
from agentlink.tests.factories import make_cluster, make_node, place
from teams.capacity import PoolCapacity
from teams.tests.factories import make_org, make_pool, make_user
from workloads.tests.factories import admit, make_workload

pytestmark = pytest.mark.django_db


def test_a_pool_in_numbers_counts_what_can_be_used_and_what_is_given() -> None:
    pool, cluster, org = make_pool("Main"), make_cluster(), make_org()
    busy = make_node(cluster, "busy", gpus=4, pool=pool)
    make_node(cluster, "idle", gpus=2, pool=pool)
    attempt = admit(make_workload(org, make_user(), pods=3), pool)
    for index in range(3):
        place(attempt, busy, index)
    Node.objects.filter(pk=make_node(cluster, "cordoned", gpus=8, pool=pool).pk).update(cordoned=True)
    Node.objects.filter(pk=make_node(cluster, "gone", gpus=8, pool=pool).pk).update(gone_at=timezone.now())
    make_node(cluster, "of another pool", gpus=8, pool=make_pool("Other"))
    Device.objects.filter(node=busy).update(gpu_type="h100")
    Device.objects.exclude(node=busy).update(gpu_type="a100")
    assert pool_figures([pool]) == {
        pool.pk: MapFigures(
            nodes=3,
            capacity=PoolCapacity(milli=14_000),
            in_use_milli=3000,
            unavailable_milli=8000,
            idle_milli=3000,
            largest_free_milli=2000,
            gpu_types=("a100", "h100"),
        )
    }


def test_slices_count_by_their_share_and_are_no_block_of_gpus() -> None:
    pool, cluster = make_pool("Main"), make_cluster()
    make_node(cluster, "whole", gpus=2, pool=pool)
    cut = make_node(cluster, "cut", gpus=9, pool=pool, gpu_type="mig-1g.10gb")
    cut.devices.update(slicing="mig", share_milli=143)
    cut.devices.filter(index=8).update(foreign=True)
    found = pool_figures([pool])[pool.pk]
    assert found.capacity == PoolCapacity(milli=3287, slices=9, slices_milli=1287)
    assert found.unavailable_milli == 143
    assert found.largest_free_milli == 2000
    assert (found.gpu_types, found.slice_types) == (("H100",), (("mig-1g.10gb", 143),))
    assert found.capacity.devices == "2 GPUs and 9 slices worth 1.287 GPUs"
    assert found.mixed
    Node.objects.update(cordoned=True)
    closed = pool_figures([pool])[pool.pk]
    assert (closed.capacity, closed.unavailable_milli) == (found.capacity, 3287)
    Node.objects.filter(name="whole").update(gone_at=timezone.now())
    assert pool_figures([pool])[pool.pk].capacity.devices == "9 slices worth 1.287 GPUs"


def test_all_pools_are_told_of_in_three_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    cluster, pools = make_cluster(), [make_pool("Main"), make_pool("Other"), make_pool("Empty")]
    for number in range(6):
        make_node(cluster, f"n{number}", gpus=number, pool=pools[number % 2])
    with django_assert_num_queries(3):
        found = pool_figures(pools)
    assert [found[pool.pk].capacity.milli for pool in pools] == [6000, 9000, 0]
