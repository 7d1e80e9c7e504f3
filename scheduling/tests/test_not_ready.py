"""A workload with pods on nodes that are not ready: what is known of it, and what follows."""

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink.models import AdoptedJob, Cluster, Node
from scheduling.cycle.cycle import run_cycle
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads import lifecycle
from workloads.models import Workload
from workloads.tests.factories import make_workload


def gang(acme: Acme, **fields: int) -> Workload:
    """Return a gang that runs with a pod on each of two of the pool's three nodes."""
    workload = make_workload(acme.research, acme.owner, pods=2, gpu_milli=4000, **fields)
    run_cycle()
    run_pods([workload])
    return workload


def lose(*names: str) -> None:
    Node.objects.filter(name__in=names).update(ready=False)


def test_it_says_which_pods_are_not_known_of_and_that_it_comes_back_at_no_charge(
    acme: Acme, client: Client
) -> None:
    workload = gang(acme)
    assert explain(workload, acme.owner) is None
    node = Node.objects.get(devices__placements__pod_index=1, devices__index=0)
    lose(node.name)
    reason = explain(workload, acme.mate)
    assert reason is not None
    assert (reason.code, reason.kind, reason.is_for_reader) == ("node-not-ready", "wait", True)
    assert reason.sentence == f"Node {node.name} is not ready; what pod 1 does there is not known."
    assert reason.next_step.startswith("Nothing to do: what runs goes on when the node is back.")
    assert reason.next_step.endswith("the workload returns to the queue at no charge.")
    client.force_login(acme.owner)
    page = client.get(reverse("scheduling:explain", args=[workload.slug])).content.decode()
    assert reason.sentence in page
    assert ' pools"' in page.partition('id="explanation"')[2].partition("data-live-version")[0]

    lose("n1", "n2", "n3")
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert " are not ready; what pods 0, 1 do there is not known." in reason.sentence
    assert "when the nodes are back" in reason.next_step


def test_of_a_job_made_with_kubectl_it_promises_no_return(acme: Acme) -> None:
    workload = gang(acme)
    AdoptedJob.objects.create(workload=workload, cluster=acme.cluster, namespace="n", name="j", uid="u")
    lose("n1", "n2", "n3")
    reason = explain(Workload.objects.get(pk=workload.pk), acme.owner)
    assert reason is not None
    assert "returns to the queue" not in reason.next_step
    assert reason.next_step.endswith("unless its podFailurePolicy ignores disruptions.")


def test_what_says_more_goes_before_it_and_what_says_no_more_does_not(acme: Acme) -> None:
    """Pods of a gone node are displaced, of a silent cluster nothing is known; that pods begin says nothing of them."""
    workload = gang(acme)
    Node.objects.update(ready=False, gone_at=timezone.now())
    assert explain(workload, acme.owner) is None
    Node.objects.update(gone_at=None)
    Cluster.objects.update(connected=False, last_seen_at=workload.submitted_at.replace(year=2025))
    silent = explain(workload, acme.owner)
    assert silent is not None
    assert silent.code == "cluster-offline"

    Cluster.objects.update(connected=True, last_seen_at=timezone.now())
    Node.objects.update(ready=True)
    begins = make_workload(acme.research, acme.owner, gpu_milli=1000)
    run_cycle()
    begins.refresh_from_db()
    assert begins.attempt is not None
    lifecycle.pods_created(begins.attempt.pk, timezone.now())
    begins.refresh_from_db()
    lose("n1", "n2", "n3")
    reason = explain(begins, acme.owner)
    assert reason is not None
    assert reason.code == "node-not-ready"


def test_it_takes_as_many_queries_for_two_pods_as_for_eight(
    acme: Acme, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    workload = make_workload(acme.research, acme.owner, pods=8, gpu_milli=1000)
    run_cycle()
    run_pods([workload])
    lose("n1", "n2", "n3")
    loaded = Workload.objects.select_related("team", "owner", "attempt", "adopted_job").get(pk=workload.pk)
    with django_assert_max_num_queries(3):
        assert explain(loaded, acme.owner) is not None
