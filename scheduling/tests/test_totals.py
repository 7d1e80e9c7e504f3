"""The sums of a cycle: whose wait ended, who yielded, and whether promises were kept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling import engine
from scheduling.cycle import totals
from scheduling.cycle.apply import apply
from scheduling.cycle.cycle import run_cycle
from scheduling.cycle.decide import decide
from scheduling.cycle.totals import CycleTally, Promises
from scheduling.models import Cycle
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.models import Workload
from workloads.tests.factories import make_workload

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = 60_000


def sums(name: str, cycle: Cycle | None = None) -> list[dict[str, Any]]:
    """Return the sums of that name in the newest cycle."""
    stored = cycle or Cycle.objects.order_by("number").last()
    assert stored is not None
    return [entry for entry in stored.figures["tally"] if entry["name"] == name]


def waits_for(workload: str, latest: datetime | None) -> engine.Wait:
    reason = engine.Reason(engine.ReasonCode.WAITING_FOR_GPUS, engine.ReasonKind.WAIT, "", "")
    at = None if latest is None else round(latest.timestamp() * 1000)
    return engine.Wait(workload, "main", 1, reason, engine.Eta(at, at))


@pytest.mark.parametrize(("value", "bucket"), [(0.0, "1"), (1.0, "1"), (1.001, "5"), (604_801.0, "+Inf")])
def test_a_value_counts_in_the_first_bucket_that_it_does_not_exceed(value: float, bucket: str) -> None:
    counted = CycleTally()
    counted.observe("wait", value, totals.WAIT_BOUNDS)
    [entry] = counted.as_json()
    assert entry == {"name": "wait", "labels": {}, "count": 1, "amount": value, "buckets": {bucket: 1}}


def test_two_tallies_are_added_up_by_their_labels() -> None:
    first, second = CycleTally(), CycleTally()
    first.promised(30)
    second.promised(90)
    second.promised(-5)
    first.include(second)
    late, early = sorted(first.as_json(), key=lambda entry: -entry["count"])
    assert (late["count"], late["amount"], late["buckets"]) == (2, 120, {"60": 1, "300": 1})
    assert (early["count"], early["amount"], early["buckets"]) == (1, 5, {"60": 1})
    assert [entry["count"] for entry in second.as_json()] == [1, 1]


def test_what_has_the_same_labels_is_one_sum(acme: Acme) -> None:
    counted = CycleTally()
    counted.promised(30)
    counted.promised(90)
    counted.promised(-30)
    late, early = counted.as_json()
    assert (late["labels"], late["count"], late["amount"]) == ({"direction": "late"}, 2, 120)
    assert (early["labels"], early["amount"], early["buckets"]) == ({"direction": "early"}, 30, {"60": 1})


def test_a_cycle_counts_the_waits_that_it_ends_by_charge_and_job_class(acme: Acme) -> None:
    make_workload(acme.research, acme.owner, priority=100, job_class="training")
    make_workload(acme.research, acme.owner, gpu_milli=4000, job_class="serving")
    for _ in range(6):
        make_workload(acme.production, acme.outsider)
    Workload.objects.update(status_since=timezone.now() - timedelta(seconds=100))
    run_cycle()
    found = {(entry["labels"]["charge"], entry["labels"]["job_class"]): entry for entry in sums("wait")}
    assert {key: entry["count"] for key, entry in found.items()} == {
        ("reserved", "training"): 1,
        ("elastic", "serving"): 1,
        ("elastic", "experiment"): 4,
        ("burst", "experiment"): 2,
    }
    assert found["burst", "experiment"]["buckets"] == {"300": 2}
    assert 200 <= found["burst", "experiment"]["amount"] < 600


def test_a_wait_begins_when_the_workload_may_start(acme: Acme) -> None:
    now = timezone.now()
    make_workload(acme.research, acme.owner, start_after=now - timedelta(seconds=50))
    make_workload(acme.research, acme.owner, start_after=now - timedelta(seconds=900))
    Workload.objects.update(status_since=now - timedelta(seconds=300))
    run_cycle()
    [entry] = sums("wait")
    assert entry["count"] == 2
    assert 350 <= entry["amount"] < 450


def test_a_cycle_counts_preemptions_and_the_work_that_they_lose(acme: Acme) -> None:
    elastic = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(elastic)
    for workload in elastic:
        workload.attempts.update(running_at=timezone.now() - timedelta(seconds=50))
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()
    [entry] = sums("preemption")
    assert entry["labels"] == {"rule": "reserved", "level": str(acme.root.pk)}
    assert entry["count"] == 4
    assert 200 <= entry["amount"] < 600


def test_what_is_left_out_is_not_counted(acme: Acme) -> None:
    gone = make_workload(acme.research, acme.owner)
    plan = decide(take(timezone.now()))
    Workload.objects.filter(pk=gone.pk).update(version=99)
    apply(plan)
    assert sums("wait") == []


def test_the_first_promise_is_the_one_that_counts() -> None:
    promises = Promises()
    promises.told([waits_for("a", NOON), waits_for("b", None)])
    promises.told([waits_for("a", NOON + timedelta(minutes=5)), waits_for("b", NOON)])
    assert promises.late_seconds("a", NOON + timedelta(minutes=1)) == 60
    assert promises.late_seconds("b", NOON - timedelta(minutes=1)) == -60


def test_who_waits_no_more_is_promised_anew() -> None:
    promises = Promises()
    promises.told([waits_for("a", NOON)])
    promises.told([])
    assert promises.late_seconds("a", NOON) is None


def test_a_start_after_a_promise_counts_how_far_it_was_off(acme: Acme) -> None:
    [running] = [make_workload(acme.research, acme.owner, gpu_milli=4000, pods=3, time_limit_seconds=600)]
    run_cycle()
    run_pods([running])
    make_workload(acme.research, acme.owner, gpu_milli=4000)
    run_cycle()
    running.attempts.update(
        phase="over", ended_at=timezone.now(), released_at=timezone.now(), end_reason="completed"
    )
    Workload.objects.filter(pk=running.pk).update(
        status="completed", attempt=None, finished_at=timezone.now()
    )
    running.attempts.get().placements.update(hold="released")
    run_cycle()
    [entry] = sums("eta")
    assert (entry["labels"], entry["buckets"]) == ({"direction": "early"}, {"900": 1})
