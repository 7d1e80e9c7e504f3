"""What teams know of higher rooms by relation only, held against those rooms themselves."""

import pytest

from agentlink.models import Cluster, Device, Node
from teams.actions.archive import OPEN_STATUSES
from teams.capacity import capacity_milli
from teams.models import Pool
from teams.tests.factories import make_pool
from workloads.models.workload import OPEN


def test_teams_and_workloads_agree_on_what_is_not_over() -> None:
    assert set(OPEN_STATUSES) == {status.value for status in OPEN}


def _node(pool: Pool, name: str, *, gpus: int = 2, **fields: object) -> Node:
    cluster, _ = Cluster.objects.get_or_create(name="one")
    node = Node.objects.create(cluster=cluster, name=name, pool=pool, **fields)
    Device.objects.bulk_create(Device(node=node, index=index) for index in range(gpus))
    return node


@pytest.mark.django_db
def test_capacity_counts_gpus_of_nodes_that_can_be_used() -> None:
    main, other = make_pool("Main"), make_pool("Other")
    _node(main, "a", gpus=4)
    _node(main, "cordoned", cordoned=True)
    _node(main, "down", ready=False)
    foreign = _node(main, "b")
    foreign.devices.filter(index=0).update(foreign=True)
    _node(other, "c", gpus=8)
    assert capacity_milli() == {main.pk: 5000, other.pk: 8000}
