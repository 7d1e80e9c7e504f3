"""What pools are often asked for comes from the last submissions."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from scheduling.engine import TypicalRequest
from scheduling.reading import typical_requests
from scheduling.reading.snapshot import take
from scheduling.reading.typical_requests import EVERY, TypicalRequests
from scheduling.tests.conftest import Acme
from teams.tests.factories import make_pool
from workloads.models import Workload
from workloads.tests.factories import make_workload

NOW = timezone.now().replace(hour=12, minute=5)


def submitted(acme: Acme, ago: timedelta = timedelta(hours=1), **fields: Any) -> Workload:
    return make_workload(acme.research, acme.owner, submitted_at=NOW - ago, **fields)


def asked(acme: Acme, at: datetime = NOW) -> tuple[TypicalRequest, ...]:
    return typical_requests.read(TypicalRequests(), at).of(str(acme.pool.pk))


def test_pods_are_counted_by_what_they_ask_for_whatever_became_of_them(acme: Acme) -> None:
    submitted(acme, gpu_milli=500, cpu_milli=4000, memory_mib=64)
    submitted(acme, gpu_milli=500, cpu_milli=4000, memory_mib=64, status="failed", finished_at=NOW)
    submitted(acme, gpu_milli=8000, pods=4, gpu_types=["H100", "A100"])
    submitted(acme, gpu_memory_mib=20_000)
    assert asked(acme) == (
        TypicalRequest(8000, 4.0, gpu_types=("A100", "H100")),
        TypicalRequest(500, 2.0, 4000, 64),
        TypicalRequest(0, 1.0, gpu_memory_mib=20_000),
    )


def test_a_request_counts_for_the_pools_it_names_and_for_all_where_it_names_none(acme: Acme) -> None:
    other = make_pool("Other")
    submitted(acme, gpu_milli=1000)
    submitted(acme, gpu_milli=2000, pool_choice=[str(other.pk)])
    found = typical_requests.read(TypicalRequests(), NOW)
    assert found.of(str(acme.pool.pk)) == (TypicalRequest(1000, 1.0),)
    assert found.of(str(other.pk)) == (TypicalRequest(1000, 1.0), TypicalRequest(2000, 1.0))


def test_only_the_last_submissions_count(acme: Acme, monkeypatch: Any) -> None:
    monkeypatch.setattr(typical_requests, "COUNTED", 1)
    submitted(acme, timedelta(hours=2), gpu_milli=250)
    submitted(acme, timedelta(hours=1), gpu_milli=1000)
    assert asked(acme) == (TypicalRequest(1000, 1.0),)


def test_what_cannot_be_read_is_not_counted(acme: Acme) -> None:
    submitted(acme, gpu_types="H100")
    submitted(acme, pool_choice={"a": 1})
    assert asked(acme) == ()


def test_they_are_read_once_in_ten_minutes_and_say_the_same_till_then(
    acme: Acme, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    submitted(acme)
    with django_assert_num_queries(1):
        first = typical_requests.read(TypicalRequests(), NOW)
    submitted(acme, timedelta(seconds=-30), gpu_milli=2000)
    with django_assert_num_queries(0):
        assert typical_requests.read(first, NOW + timedelta(seconds=50)) is first
    assert typical_requests.read(TypicalRequests(), NOW + timedelta(seconds=50)) == first
    assert typical_requests.read(first, NOW + EVERY).of(str(acme.pool.pk)) == (
        TypicalRequest(1000, 1.0),
        TypicalRequest(2000, 1.0),
    )


def test_the_engine_is_told(acme: Acme) -> None:
    submitted(acme, gpu_milli=250)
    snapshot = take(NOW).snapshot
    assert snapshot.pools[0].recent == (TypicalRequest(250, 1.0),)
    assert take(NOW).snapshot.pools[0].recent is snapshot.pools[0].recent
