"""The horizon: it moves forward, never near, and what the audit trail has before it may go."""

from datetime import timedelta
from unittest import mock

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from teams import audit, retention
from teams.actors import Actor
from teams.chain import sealing
from teams.models import AuditEvent, Horizon
from teams.tests.conftest import Acme

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def audited(acme: Acme, days_ago: int) -> AuditEvent:
    """Return an audit event as it was written so many days ago."""
    with mock.patch("teams.audit.timezone") as clock:
        clock.now.return_value = timezone.now() - days_ago * DAY
        event = audit.record(by=Actor.system("test"), action="team.edited", target=acme.nlp)
    sealing.seal()
    return event


def refused(sql: str) -> str:
    with pytest.raises(IntegrityError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    return str(error.value)


def test_it_lies_as_many_days_back_as_is_set_and_never_moves_back(db: None, settings: Settings) -> None:
    now = timezone.now()
    assert retention.move_horizon(now) == now - 365 * DAY
    settings.CHAMBER_KEEP_DAYS = 100
    assert retention.move_horizon(now) == now - 100 * DAY
    settings.CHAMBER_KEEP_DAYS = 365
    assert retention.move_horizon(now + DAY) == now - 100 * DAY
    assert Horizon.objects.get().kept_from == now - 100 * DAY


def test_the_database_refuses_a_horizon_of_less_than_seven_days(db: None) -> None:
    near = timezone.now() - 6 * DAY
    with pytest.raises(IntegrityError, match="seven days"), transaction.atomic():
        Horizon.objects.create(kept_from=near)
    Horizon.objects.create(kept_from=near - 2 * DAY)
    with pytest.raises(IntegrityError, match="seven days"), transaction.atomic():
        Horizon.objects.update(kept_from=near)


def test_only_what_lies_before_the_horizon_goes(acme: Acme) -> None:
    old, kept = audited(acme, 366), audited(acme, 364)
    before = retention.move_horizon(timezone.now())
    count = AuditEvent.objects.count()
    assert retention.forget_audit(before) == 1
    assert retention.forget_audit(before) == 0
    assert AuditEvent.objects.count() == count - 1
    assert AuditEvent.objects.filter(pk=kept.pk).exists()
    assert not AuditEvent.objects.filter(pk=old.pk).exists()


def test_nothing_else_is_deleted_or_changed(acme: Acme) -> None:
    audited(acme, 366)
    audited(acme, 0)
    assert "before the horizon" in refused("DELETE FROM teams_auditevent")
    retention.move_horizon(timezone.now())
    assert "before the horizon" in refused("DELETE FROM teams_auditevent")
    assert "never changed" in refused("UPDATE teams_auditevent SET actor = 'nobody'")


def test_old_events_go_in_batches(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for _ in range(3):
        audited(acme, 400)
    before = retention.move_horizon(timezone.now())
    assert [retention.forget_audit(before) for _ in range(3)] == [2, 1, 0]


def test_each_kind_may_be_kept_for_a_time_of_its_own(settings: Settings) -> None:
    settings.CHAMBER_KEEP_DAYS = 100
    assert {kind: retention.kept(kind).days for kind in retention.RetentionKind} == {
        retention.RetentionKind.WORKLOADS: 100,
        retention.RetentionKind.AUDIT: 100,
        retention.RetentionKind.LOGS: 100,
        retention.RetentionKind.SAMPLES: 100,
        retention.RetentionKind.CYCLES: 7,
    }
    settings.CHAMBER_KEEP_AUDIT_DAYS, settings.CHAMBER_KEEP_LOG_DAYS = 2000, 400
    assert retention.kept(retention.RetentionKind.AUDIT).days == 2000
    assert retention.kept(retention.RetentionKind.LOGS).days == 100, "logs go with their workload"


def test_an_audit_trail_that_is_kept_longer_outlives_the_workloads(acme: Acme, settings: Settings) -> None:
    settings.CHAMBER_KEEP_DAYS, settings.CHAMBER_KEEP_AUDIT_DAYS = 30, 400
    old, kept = audited(acme, 500), audited(acme, 366)
    now = timezone.now()
    horizon = retention.move_horizon(now)
    assert horizon == now - 30 * DAY
    retention.forget_audit(retention.before(retention.RetentionKind.AUDIT, horizon, now))
    left = set(AuditEvent.objects.values_list("pk", flat=True))
    assert kept.pk in left
    assert old.pk not in left


def test_nothing_goes_after_the_horizon_where_a_kind_s_days_were_made_fewer_and_more_again(
    db: None, settings: Settings
) -> None:
    now = timezone.now()
    settings.CHAMBER_KEEP_DAYS = 365
    horizon = retention.move_horizon(now)
    settings.CHAMBER_KEEP_DAYS = 30
    assert retention.before(retention.RetentionKind.WORKLOADS, horizon, now) == now - 365 * DAY
