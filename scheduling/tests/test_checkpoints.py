"""What a workload says it saved decides who is preempted, and what that is said to cost."""

from datetime import timedelta

from django.test import Client
from django.utils import timezone

from scheduling.cycle.cycle import run_cycle
from scheduling.models import Cycle
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.attempt_tokens import token_of
from workloads.models import Attempt, EndReason, Event, Status, Workload
from workloads.tests.factories import make_workload


def test_of_equals_the_one_that_saved_last_is_preempted_and_loses_least(acme: Acme, client: Client) -> None:
    elastic = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(elastic)
    began = timezone.now() - timedelta(hours=1)
    Attempt.objects.update(queued_at=began, starting_at=began, running_at=began)
    for number, minutes in ((3, 20), (7, 5), (9, 40)):
        attempt = elastic[number].attempts.get()
        at = timezone.now() - timedelta(minutes=minutes)
        answer = client.post(
            f"/api/v1/attempts/{attempt.pk}/notes/",
            {"checkpoint": {"step": 100, "at": at.isoformat()}},
            content_type="application/json",
            headers={"Authorization": f"Bearer {token_of(attempt.pk)}"},
        )
        assert answer.status_code == 200

    make_workload(acme.production, acme.outsider, priority=100)
    run_cycle()

    victim = Attempt.objects.get(end_reason=EndReason.PREEMPTED)
    assert victim.workload_id == elastic[7].pk
    told = Event.objects.get(workload=victim.workload_id, data__status=Status.PREEMPTED)
    assert 300 <= told.data["lost_gpu_ms"] / 1000 < 360
    tally = Cycle.objects.order_by("number").last().figures["tally"]  # type: ignore[union-attr]
    (lost,) = [entry["amount"] for entry in tally if entry["name"] == "preemption"]
    assert 300 <= lost < 360
    page = Client()
    page.force_login(acme.owner)
    shown = page.get(f"/workloads/{Workload.objects.get(pk=victim.workload_id).slug}/").content.decode()
    assert "work lost: 5 min" in shown
