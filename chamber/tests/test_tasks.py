"""What duties have in common under Celery: a failure is one record, with the duty's id on it."""

from datetime import UTC, datetime

import pytest
from celery import shared_task

from chamber import logs, tasks
from chamber.metrics import totals
from chamber.models import Mark
from scheduling.models import Cycle


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def fails() -> None:
    raise RuntimeError("a fault of ours")


def test_a_failure_is_one_record_with_the_dutys_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(logs.Bound())
    result = fails.apply(throw=False)
    [record] = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == result.id
    assert logs.bound("request_id") == ""


def test_a_duty_that_is_called_as_a_function_needs_no_id() -> None:
    tasks.end("never-begun")
    assert logs.bound("request_id") == ""


@pytest.mark.django_db
def test_a_heartbeat_that_was_sent_names_its_sender() -> None:
    tasks.heartbeat.apply(headers={})
    assert Mark.objects.filter(name__in=["beat", "worker:duties"]).count() == 2


@pytest.mark.django_db
def test_the_duty_adds_new_cycles_up() -> None:
    Cycle.objects.create(
        number=7,
        began_at=datetime(2026, 11, 21, tzinfo=UTC),
        took_ms=5,
        decide_ms=1,
        ran_by="a:1",
        figures={},
        plan=b"plan",
        snapshot=b"",
        decisions=0,
    )
    tasks.add_up_cycles()
    assert totals.add_up() == 0
    assert Mark.objects.get(pk="totals").details == {"cycle": 7}
