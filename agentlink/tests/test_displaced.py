"""Maintenance of a cluster, through agent and server: what it takes away comes back."""

import pytest

from agentlink.models import Assignment
from agentlink.tests.agents import devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.test_restore import Machine, machine
from workloads.models import EndReason, Status, Workload

__all__ = ["machine"]

pytestmark = pytest.mark.django_db


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
