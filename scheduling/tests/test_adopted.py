"""Adopted Jobs in cycles: they are scheduled like any other workload, in the cluster where they are."""

from agentlink import spaces
from agentlink.models import Cluster
from agentlink.protocol import Discovered, DiscoveredJob, NamespaceReport
from agentlink.tests.agents import Hand, nodes
from agentlink.tests.factories import make_cluster
from scheduling.cycle import run_cycle
from scheduling.tests.conftest import Acme
from teams.actors import Actor
from workloads.models import Status, Workload


def adopt(acme: Acme, cluster: Cluster, *, gpus: int) -> Workload:
    """Return the workload that a Job of Research in this cluster has become."""
    spaces.bind_namespace(by=Actor.system("test"), cluster=cluster, team=acme.research, namespace="jobs")
    hand = Hand(cluster)
    hand.inventory(nodes(1, gpus=2, name="w"))
    job = DiscoveredJob(uid="u", namespace="jobs", name="train", gpus=gpus, image="i:1")
    report = NamespaceReport(namespace="jobs", ready=True)
    hand.say(Discovered(version=1, namespaces=(report,), jobs=(job,)))
    return Workload.objects.get()


def test_an_adopted_job_is_planned_in_its_own_cluster_and_waits_for_room_there(acme: Acme) -> None:
    west = make_cluster("west")
    first = adopt(acme, west, gpus=2)

    run_cycle()

    first.refresh_from_db()
    assert first.status == Status.QUEUED
    assert first.attempt is not None
    assert first.attempt.assignment.cluster == west
    assert set(first.attempt.placements.values_list("device__node__name", flat=True)) == {"w1"}
    Hand(west).say(
        Discovered(
            version=1,
            namespaces=(NamespaceReport(namespace="jobs", ready=True),),
            jobs=(
                DiscoveredJob(uid="u", namespace="jobs", name="train", gpus=2, image="i:1"),
                DiscoveredJob(uid="v", namespace="jobs", name="next", gpus=1, image="i:1"),
            ),
        )
    )

    run_cycle()

    assert Workload.objects.get(name="next").status == Status.PENDING
