"""Samples of use grow old: one a minute for a day, one an hour for a year, and then none."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.cycle import usage
from scheduling.models import UsageSample
from scheduling.tests.conftest import Acme
from teams.models import PoolPolicy, Team

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def sampled(acme: Acme, team: Team, since: datetime, minutes: int, milli: int) -> None:
    UsageSample.objects.bulk_create(
        UsageSample(
            minute=since + timedelta(minutes=n),
            pool=acme.pool,
            team=team,
            reserved_milli=milli,
            elastic_milli=1000,
        )
        for n in range(minutes)
    )


def test_an_hour_becomes_one_row_for_each_team_with_its_mean(acme: Acme) -> None:
    sampled(acme, acme.research, NOON - 2 * DAY, 60, 4000)
    sampled(acme, acme.production, NOON - 2 * DAY + HOUR / 2, 30, 2000)
    assert usage.roll_up(NOON) == 1
    rows = UsageSample.objects.order_by("-reserved_milli").values_list(
        "team", "minute", "minutes", "reserved_milli", "elastic_milli"
    )
    assert list(rows) == [
        (acme.research.pk, NOON - 2 * DAY, 60, 4000, 1000),
        (acme.production.pk, NOON - 2 * DAY, 60, 1000, 500),
    ]
    assert usage.roll_up(NOON) == 0


def test_the_last_day_keeps_its_minutes(acme: Acme) -> None:
    sampled(acme, acme.research, NOON - DAY - timedelta(minutes=30), 60, 1000)
    assert usage.roll_up(NOON + timedelta(minutes=50)) == 1
    assert UsageSample.objects.filter(minutes=1).count() == 30
    assert UsageSample.objects.get(minutes=60).minute == NOON - DAY - HOUR


def test_what_is_older_than_a_year_goes(acme: Acme) -> None:
    sampled(acme, acme.research, NOON - 366 * DAY, 60, 1000)
    sampled(acme, acme.research, NOON - 364 * DAY, 60, 1000)
    assert usage.roll_up(NOON) == 2
    assert UsageSample.objects.get().minute == NOON - 364 * DAY


def test_who_was_quicker_is_not_counted_twice(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled(acme, acme.research, NOON - 2 * DAY, 60, 1000)
    monkeypatch.setattr(UsageSample.objects.none().__class__, "delete", lambda _: (59, {}))
    assert not usage._roll_up_hour(NOON - 2 * DAY)
    assert UsageSample.objects.count() == 60


def test_fairness_by_usage_weighs_an_hour_as_its_minutes(acme: Acme) -> None:
    rules = PoolPolicy(usage_half_life_seconds=30 * 86400)
    sampled(acme, acme.research, NOON - 2 * DAY, 60, 3000)
    [before] = usage.decayed_usage({acme.pool.pk: rules}, NOON).values()
    usage.roll_up(NOON)
    usage.forget()
    [after] = usage.decayed_usage({acme.pool.pk: rules}, NOON).values()
    assert after == pytest.approx(before, rel=0.001)


def test_what_comes_late_to_an_hour_that_was_rolled_up_is_left_out(acme: Acme) -> None:
    sampled(acme, acme.research, NOON - 2 * DAY, 60, 4000)
    assert usage.roll_up(NOON) == 1
    sampled(acme, acme.research, NOON - 2 * DAY + HOUR / 2, 2, 1000)
    assert usage.roll_up(NOON) == 1
    assert UsageSample.objects.get().reserved_milli == 4000
