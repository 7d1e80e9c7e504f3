"""Maintenance of a cluster, through agent and server: what it takes away comes back."""

from typing import Any

import pytest
from django.utils import timezone

from agentlink.models import Assignment, Node
from agentlink.tests.agents import devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.test_restore import Machine, machine
from teams.actors import Actor
from workloads.lifecycle.displaced import Displacement, displace_many
from workloads.models import EndReason, Status, Workload
from workloads.reasons import of_displaced

__all__ = ["machine"]

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ({"ready": False}, "If node n1 will not come back, have an operator delete it: then"),
        (
            {"ready": False, "gone_at": timezone.now()},
            "Node n1 is not in the cluster any more, so the cluster gives",
        ),
        ({}, "Its pods have their grace period to end."),
    ],
    ids=["not ready", "deleted", "drained"],
)
def test_what_is_to_be_done_about_the_pods_goes_by_how_their_node_stands(
    machine: Machine, state: dict[str, Any], step: str
) -> None:
    attempt = machine.start(0, 5000, grace_seconds=60)
    while machine.status(attempt) != Status.RUNNING:
        machine.step()
    one = Displacement(attempt.pk, "node-lost", "Node n1 was lost.", timezone.now(), gone=False)
    displace_many([one], by=Actor.system("test"), at=timezone.now())
    Node.objects.filter(name="n1").update(**state)
    attempt.refresh_from_db()
    told = of_displaced(attempt)
    assert told is not None
    assert step in told.next_step


@pytest.mark.parametrize("priority", [50, 100], ids=["elastic", "reserved"])
@pytest.mark.parametrize("act", ["drain", "set_down", "remove_node"])
def test_what_maintenance_takes_away_is_pending_again_once_its_pods_are_gone(
    machine: Machine,
    place: Place,
    act: str,
    priority: int,
) -> None:
    attempt = machine.start(0, 5000, priority=priority, max_retries=0, max_requeues=0, grace_seconds=60)
    while machine.status(attempt) != Status.RUNNING:
        machine.step()
    getattr(machine.cluster, act)("n1")
    seen: list[str] = []
    for _ in range(100):
        machine.step()
        living = attempt.workload_id in machine.cluster.living_attempts()
        seen.append(machine.status(attempt))
        assert (seen[-1] == Status.PENDING) is not living
    attempt.refresh_from_db()
    assert (seen[-1], attempt.end_reason) == (Status.PENDING, EndReason.DISPLACED)
    assert attempt.end_detail["code"] == ("drained" if act == "drain" else "node-lost")
    row = Workload.objects.get(pk=attempt.workload_id)
    assert (row.failures, row.requeues) == (0, 0)
    assert not Assignment.objects.filter(gone=False).exists()
    again = machine.start(0, 5000, workload=row) if act == "drain" else None
    if again is not None:  # the node is there, and cordoned: it is refused, and comes back
        machine.steps()
        assert machine.status(again) == Status.PENDING
        assert devices_of(place.cluster, "n1")[0].occupied_milli == 0
