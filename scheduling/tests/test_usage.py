"""Samples of use, and the decayed sum that fairness by usage goes by."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from pytest_django import DjangoAssertNumQueries

from scheduling.cycle import usage
from scheduling.cycle.cycle import run_cycle
from scheduling.cycle.usage import decayed_usage, sample
from scheduling.models import UsageSample
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from teams.models import Pool, PoolPolicy, Team
from workloads.models import Workload
from workloads.tests.factories import finish, make_workload

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR_MS = 3_600_000
RULES = PoolPolicy(usage_half_life_seconds=3600)


def rules(acme: Acme) -> dict[UUID, PoolPolicy]:
    return {acme.pool.pk: RULES}


def sampled(team: Team, pool: Pool, at: datetime, gpus: int) -> None:
    UsageSample.objects.create(minute=at, team=team, pool=pool, reserved_milli=0, elastic_milli=gpus * 1000)


def of(team: Team, acme: Acme, now: datetime = NOW) -> int:
    return decayed_usage(rules(acme), now).get((str(team.pk), str(acme.pool.pk)), 0)


def test_a_minute_has_a_row_for_each_team_that_holds_something_once(acme: Acme) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=2000)
    make_workload(acme.production, acme.outsider, gpu_milli=1000, priority=100)
    make_workload(acme.production, acme.outsider, gpu_milli=500)
    run_cycle()

    assert sample(NOW + timedelta(seconds=40)) == 2
    assert sample(NOW + timedelta(seconds=50)) == 0

    rows = UsageSample.objects.values_list("team__slug", "minute", "reserved_milli", "elastic_milli")
    assert set(rows) == {("research", NOW, 0, 2000), ("production", NOW, 1000, 500)}


def test_who_ended_is_no_longer_sampled(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    run_cycle()
    attempt = Workload.objects.get().attempt
    assert attempt is not None
    finish(attempt)

    assert sample(NOW) == 0


def test_use_halves_with_each_half_life(acme: Acme) -> None:
    sampled(acme.research, acme.pool, NOW - timedelta(hours=2), 8)

    assert of(acme.research, acme) == 8 * 60_000 // 4
    assert of(acme.research, acme, NOW + timedelta(hours=1)) == 8 * 60_000 // 8


def test_an_hour_of_one_gpu_just_now_is_nearly_one_gpu_hour(acme: Acme) -> None:
    long_half_life = {acme.pool.pk: PoolPolicy(usage_half_life_seconds=10 * 365 * 86400)}
    for minutes in range(60):
        sampled(acme.research, acme.pool, NOW - timedelta(minutes=minutes), 1)

    used = decayed_usage(long_half_life, NOW)

    assert used[str(acme.research.pk), str(acme.pool.pk)] == pytest.approx(HOUR_MS, rel=1e-3)


def test_bringing_it_forward_minute_by_minute_gives_what_reading_all_gives(acme: Acme) -> None:
    for minutes in range(30):
        now = NOW + timedelta(minutes=minutes)
        sampled(acme.research, acme.pool, now, minutes % 3)
        sampled(acme.production, acme.pool, now, 1)
        step = decayed_usage(rules(acme), now)
    usage.forget()

    at_once = decayed_usage(rules(acme), now)

    assert at_once.keys() == step.keys()
    for key, used in at_once.items():
        assert used == pytest.approx(step[key], abs=1)


def test_another_half_life_starts_the_sum_anew(acme: Acme) -> None:
    sampled(acme.research, acme.pool, NOW - timedelta(hours=2), 8)
    of(acme.research, acme)

    slower = decayed_usage({acme.pool.pk: PoolPolicy(usage_half_life_seconds=7200)}, NOW)

    assert slower[str(acme.research.pk), str(acme.pool.pk)] == 8 * 60_000 // 2


def test_the_snapshot_has_usage_only_where_a_pool_s_fairness_is_by_usage(
    acme: Acme, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    sampled(acme.production, acme.pool, now, 8)
    assert all(share.usage_gpu_ms == 0 for team in take(now).snapshot.teams for share in team.shares)

    Pool.objects.update(policy={"fairness": "usage"})

    shares = {team.id: team.shares for team in take(now).snapshot.teams}
    assert shares[str(acme.production.pk)][0].usage_gpu_ms == 8 * 60_000
