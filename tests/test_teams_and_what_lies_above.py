"""What teams know of higher rooms by relation only, held against those rooms themselves."""

import pytest

from agentlink.models import Cluster, Device, Node
from chamber.errors import Conflict
from teams import actions
from teams.actions.archive import OPEN_STATUSES
from teams.actors import Actor
from teams.capacity import capacity_milli
from teams.models import JobClass, Pool, Role
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads.models.workload import OPEN
from workloads.tests.factories import make_workload


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


@pytest.mark.django_db
def test_a_class_of_which_a_workload_is_or_was_is_never_deleted() -> None:
    nlp = make_team(make_org("Acme"), "NLP")
    workload = make_workload(nlp, member(nlp, Role.RESEARCHER), job_class="training")
    training = JobClass.objects.get(slug="training")
    with pytest.raises(Conflict, match="1 workload is or was of the class Training: retire it instead"):
        actions.delete_class(by=Actor.system("test"), job_class=training)
    actions.retire_class(by=Actor.system("test"), job_class=training, retired=True)
    workload.refresh_from_db()
    assert workload.job_class == "training"
