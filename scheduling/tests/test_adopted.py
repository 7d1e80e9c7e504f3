"""Adopted Jobs in cycles: they are scheduled like any other workload, in the cluster where they are."""

from django.utils import timezone

from agentlink import adoption, spaces
from agentlink.models import Assignment, Cluster
from agentlink.protocol import Discovered, DiscoveredJob, NamespaceReport
from agentlink.tests.agents import Hand, nodes
from agentlink.tests.factories import make_cluster
from scheduling.cycle.cycle import run_cycle
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from teams.actors import Actor
from teams.models import Role
from teams.tests.factories import member
from workloads import lifecycle
from workloads.models import Status, Workload
from workloads.reasons import of_refusal


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


def test_its_people_are_told_to_create_the_job_again_and_not_to_submit_it(acme: Acme) -> None:
    """While the cluster keeps its pods from being made, between two tries, and on hold."""
    workload = adopt(acme, make_cluster("west"), gpus=1)
    lead = member(acme.research, Role.LEAD, "lena")
    run_cycle()
    workload.refresh_from_db()
    assert workload.attempt is not None
    lifecycle.pods_created(workload.attempt.pk, timezone.now())
    kept = {"index": 0, "node": "w1", "state": "pending", "message": "denied", "cause": "admission-denied"}
    Assignment.objects.update(pods=[kept])
    told = explain(Workload.objects.get(), lead)
    assert told is not None
    assert told.next_step.startswith(
        "Change what the message names and create the Job again, or ask an admin"
    )

    step = adoption.advised(of_refusal("admission-denied", "denied")).next_step
    reason = {"kind": "refused", "code": "admission-denied", "message": "denied", "next_step": step}
    Workload.objects.update(status=Status.PENDING, held=True, attempt=None, reason=reason)
    told = explain(Workload.objects.get(), lead)
    assert told is not None
    assert told.next_step == (
        f"{step} Then release it, on its page or by `chamber release {workload.slug}`, unless its Job was created "
        "again."
    )
