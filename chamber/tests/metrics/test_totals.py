"""Totals: every cycle is added once, and pruning takes nothing away."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from chamber.metrics import history, totals
from chamber.metrics.tables import LabelNames
from chamber.models import Mark, Total
from scheduling.cycle.cycle import prune
from scheduling.cycle.totals import WAIT_BOUNDS, CycleTally
from scheduling.models import Cycle
from scheduling.tests.conftest import Acme
from workloads import lifecycle
from workloads.lifecycle import Displacement
from workloads.models import Attempt
from workloads.tests.factories import SCHEDULER, make_workload, start

pytestmark = pytest.mark.django_db


def store(number: int, *waits: float, took_ms: int = 40, **figures: Any) -> Cycle:
    """Store a cycle that ended waits of so many seconds."""
    counted = CycleTally()
    for seconds in waits:
        counted.observe("wait", seconds, WAIT_BOUNDS, charge="burst", job_class="training")
    return Cycle.objects.create(
        number=number,
        began_at=timezone.now() - timedelta(days=30),
        took_ms=took_ms,
        decide_ms=1,
        ran_by="a:1",
        figures={"tally": counted.as_json(), **figures},
        plan=b"plan",
        snapshot=b"",
        decisions=len(waits),
        left_out=1,
    )


def total(name: str) -> tuple[int, float, dict[str, int]]:
    row = Total.objects.get(name=name)
    return row.count, row.amount, row.buckets


def test_what_cycles_did_is_added_up() -> None:
    store(1, 3.0, 40.0)
    store(2, 50.0, took_ms=2000)
    assert totals.add_up() == 2
    assert total("wait") == (3, 93.0, {"5": 1, "60": 2})
    assert total("cycle") == (2, 2.04, {"0.05": 1, "2.5": 1})
    assert total("decision")[1] == 3
    assert total("left-out")[1] == 2
    assert Total.objects.get(name="wait").labels == '{"charge":"burst","job_class":"training"}'


def test_no_cycle_is_added_twice() -> None:
    store(1, 3.0)
    totals.add_up()
    assert totals.add_up() == 0
    store(2, 7.0)
    assert totals.add_up() == 1
    assert total("wait") == (2, 10.0, {"5": 1, "15": 1})


def test_pruning_takes_nothing_away() -> None:
    store(1, 3.0)
    totals.add_up()
    prune(older_than=timedelta(days=7), now=timezone.now())
    assert not Cycle.objects.exists()
    store(2, 4.0)
    totals.add_up()
    assert total("wait")[:2] == (2, 7.0)


def test_a_failed_cycle_counts_as_a_failure_only() -> None:
    store(1, error="ValueError('seven')")
    totals.add_up()
    assert total("cycle-failure")[0] == 1
    assert not Total.objects.exclude(name="cycle-failure").exists()


def test_cycles_from_before_tallies_count_by_their_time() -> None:
    cycle = store(1, 3.0)
    cycle.figures = {}
    cycle.save(update_fields=["figures"])
    totals.add_up()
    assert total("cycle")[0] == 1
    assert not Total.objects.filter(name="wait").exists()


def test_more_cycles_than_one_transaction_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "AT_ONCE", 2)
    for number in range(1, 6):
        store(number, 1.0)
    assert totals.add_up() == 5
    assert total("wait")[0] == 5


def displace(acme: Acme, code: str, *, seconds_ago: int) -> None:
    """Displace the attempt of a new workload; the transaction was over so many seconds ago."""
    attempt = start(make_workload(acme.research, acme.owner), acme.pool)
    one = Displacement(attempt.pk, code, "It was taken away.", timezone.now())
    with transaction.atomic():
        lifecycle.displace_many([one], by=SCHEDULER, at=timezone.now())
    ended_at = timezone.now() - timedelta(seconds=seconds_ago)
    times = dict.fromkeys(("queued_at", "starting_at", "running_at", "ended_at"), ended_at)
    Attempt.objects.filter(pk=attempt.pk).update(**times)


def test_what_was_displaced_is_counted_once_by_its_cause_and_apart_from_preemptions(acme: Acme) -> None:
    totals.add_up()
    Mark.objects.filter(pk="displaced").update(
        details={"until": (timezone.now() - timedelta(hours=1)).isoformat()}
    )
    displace(acme, "drained", seconds_ago=120)
    displace(acme, "drained", seconds_ago=60)
    displace(acme, "node-lost", seconds_ago=60)
    displace(acme, "node-lost", seconds_ago=0)  # its transaction may not be over
    for _ in range(2):
        totals.add_up()
    found = {row.labels: row.count for row in Total.objects.filter(name="displaced")}
    assert found == {'{"cause":"drained"}': 2, '{"cause":"node-lost"}': 1}
    Attempt.objects.all().update(end_reason="")
    families = {family.name: family for family in history.read(LabelNames.read())}
    samples = {sample.labels["cause"]: sample.value for sample in families["chamber_displaced"].samples}
    assert samples == {"drained": 2, "node-lost": 1}
    assert families["chamber_preemptions"].samples == []
