"""What workloads make of their GPUs: taken once, kept by the minute and then by the hour, and GPUs that stand idle."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink import usage
from agentlink.models import Cluster, GpuUse, GpuUseSample
from agentlink.protocol import ErrorCode, UsageFigure, UsageReport
from agentlink.tests.agents import Hand, admit, cancel, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from agentlink.usage import roll_up
from workloads.models import Attempt, Workload

MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)
BEGAN = NOW - timedelta(days=2)


def running(place: Place, *, gpus: int = 2, share: int = 1000) -> Attempt:
    """Return an attempt that has held its GPUs for two days."""
    free = [
        device
        for name in ("n1", "n2")
        for device in devices_of(place.cluster, name)
        if not device.occupied_milli
    ]
    attempt = admit(place.team, place.owner, place.pool, place.cluster, free[:gpus], share=share)
    Attempt.objects.filter(pk=attempt.pk).update(queued_at=BEGAN)
    return attempt


def figure(attempt: Attempt, *busy: int, at: datetime = NOW, **fields: Any) -> UsageFigure:
    """Return how busy its GPUs were."""
    devices = {f"GPU-{number}": percent for number, percent in enumerate(busy)}
    fields.setdefault("utilisation_percent", sum(busy) // max(1, len(busy)))
    fields.setdefault("memory_mib", 1000 * len(busy))
    return UsageFigure(workload=attempt.workload_id, at=at, devices=devices, **fields)


def take(cluster: Cluster, *figures: UsageFigure, now: datetime = NOW) -> list[ErrorCode]:
    return [error.code for error in usage.take(cluster, UsageReport(figures=figures), now=now)]


def quiet_for(place: Place, attempt: Attempt, minutes: int, *busy: int) -> GpuUse:
    """Take a figure for each minute of so many; return how it is then."""
    for minute in range(minutes + 1):
        at = NOW + minute * MINUTE
        take(place.cluster, figure(attempt, *busy, at=at), now=at)
    return GpuUse.objects.get(attempt=attempt.pk)


def test_a_figure_is_a_sample_of_its_minute_and_what_is_known_now(place: Place) -> None:
    attempt = running(place)
    assert take(place.cluster, figure(attempt, 60, 80, tensor_percent=31, power_watts=900)) == []
    sample, now = GpuUseSample.objects.get(), GpuUse.objects.get()
    for row in (sample, now):
        measured = (row.gpus, row.busy_percent, row.tensor_percent, row.memory_mib, row.power_watts)
        assert measured == (2, 70, 31, 2000, 900)
    assert (sample.attempt_id, sample.minute, sample.minutes) == (attempt.pk, NOW.replace(second=0), 1)
    assert (now.at, now.idle_milli, now.idle_since) == (NOW, 0, None)


def test_the_same_figures_again_change_nothing(place: Place) -> None:
    attempt = running(place)
    figures = [figure(attempt, 60, 80), figure(attempt, 10, 20, at=NOW + MINUTE)]
    later = NOW + 2 * MINUTE
    for _ in range(2):
        assert take(place.cluster, *figures, now=later) == []
        assert list(GpuUseSample.objects.order_by("minute").values_list("busy_percent", flat=True)) == [
            70,
            15,
        ]
        assert GpuUse.objects.get().busy_percent == 15


def test_a_late_figure_fills_its_minute_and_says_nothing_of_now(place: Place) -> None:
    attempt = running(place)
    take(place.cluster, figure(attempt, 90, 90))
    take(place.cluster, figure(attempt, 0, 0, at=NOW - 3 * MINUTE))
    assert GpuUseSample.objects.count() == 2
    assert (GpuUse.objects.get().busy_percent, GpuUse.objects.get().at) == (90, NOW)


def test_a_clock_that_is_ahead_counts_as_now_and_what_is_too_old_not_at_all(place: Place) -> None:
    attempt = running(place)
    take(place.cluster, figure(attempt, 50, 50, at=NOW + timedelta(days=400)))
    assert GpuUse.objects.get().at == NOW
    assert take(place.cluster, figure(attempt, 1, 1, at=NOW - timedelta(hours=25))) == []
    assert take(place.cluster, figure(attempt, 1, 1, at=BEGAN - MINUTE)) == []
    assert GpuUseSample.objects.count() == 1


def test_figures_of_another_clusters_workload_are_refused_and_the_others_taken(place: Place) -> None:
    attempt, west = running(place), make_cluster("west")
    strange = figure(attempt, 1).model_copy(update={"workload": uuid.uuid4()})
    assert take(place.cluster, figure(attempt, 70, 70), strange) == [ErrorCode.UNKNOWN_ATTEMPT]
    assert GpuUseSample.objects.count() == 1
    assert take(west, figure(attempt, 9, 9, at=NOW + MINUTE), now=NOW + MINUTE) == [ErrorCode.UNKNOWN_ATTEMPT]
    assert GpuUse.objects.get().busy_percent == 70


def test_the_last_figure_of_a_workload_that_is_over_is_no_mistake(place: Place) -> None:
    attempt = running(place)
    cancel(attempt)
    assert take(place.cluster, figure(attempt, 70, 70)) == []
    assert not GpuUseSample.objects.exists()


def test_the_link_takes_figures_and_counts_those_that_are_foreign(place: Place) -> None:
    attempt, hand = running(place), Hand(place.cluster)
    now = timezone.now()
    assert hand.say(UsageReport(figures=(figure(attempt, 70, 70, at=now),))).messages == []
    strange = figure(attempt, 1, at=now).model_copy(update={"workload": uuid.uuid4()})
    [error] = hand.say(UsageReport(figures=(strange,))).messages
    assert str(strange.workload) in error.message  # type: ignore[union-attr]
    assert Cluster.objects.get(pk=place.cluster.pk).rejected_messages == 1
    assert GpuUse.objects.get().busy_percent == 70


def test_many_figures_cost_as_many_queries_as_one(place: Place) -> None:
    attempts = [running(place, gpus=1) for _ in range(6)]

    def queries(*figures: UsageFigure) -> int:
        with CaptureQueriesContext(connection) as made:
            take(place.cluster, *figures)
        return len(made)

    few = queries(figure(attempts[0], 50))
    assert queries(*(figure(attempt, 50, at=NOW - MINUTE) for attempt in attempts)) == few <= 6


# Idle


def test_gpus_that_are_held_and_hardly_used_for_a_quarter_of_an_hour_are_idle(place: Place) -> None:
    attempt = running(place)
    assert quiet_for(place, attempt, 14, 4, 97).idle_milli == 0
    now = quiet_for(place, attempt, 15, 4, 97)
    assert (now.idle_milli, now.idle_since) == (1000, NOW.replace(microsecond=0))
    assert list(Workload.objects.with_idle_gpus(NOW + 16 * MINUTE)) == [attempt.workload]
    # Older figures say nothing of now.
    assert not Workload.objects.with_idle_gpus(NOW + 21 * MINUTE).exists()


def test_one_busy_minute_begins_the_count_anew(place: Place) -> None:
    attempt = running(place)
    quiet_for(place, attempt, 15, 0, 0)
    at = NOW + 16 * MINUTE
    take(place.cluster, figure(attempt, 5, 0, at=at), now=at)
    assert GpuUse.objects.get().idle_milli == 1000
    at += MINUTE
    take(place.cluster, figure(attempt, 0, 0, at=at), now=at)
    assert GpuUse.objects.get().idle_milli == 1000


def test_gpus_that_take_turns_are_not_idle(place: Place) -> None:
    attempt = running(place)
    for minute in range(30):
        at = NOW + minute * MINUTE
        take(place.cluster, figure(attempt, *((90, 0) if minute % 2 else (0, 90)), at=at), now=at)
    assert GpuUse.objects.get().idle_milli == 0


def test_after_a_gap_without_figures_the_count_begins_anew(place: Place) -> None:
    attempt = running(place)
    quiet_for(place, attempt, 14, 0, 0)
    at = NOW + 20 * MINUTE
    take(place.cluster, figure(attempt, 0, 0, at=at), now=at)
    assert GpuUse.objects.get().idle_milli == 0


def test_shares_count_with_what_is_held_of_them(place: Place) -> None:
    attempt = running(place, share=250)
    assert quiet_for(place, attempt, 15, 0, 0).idle_milli == 500


def test_bounds_are_settings(place: Place, settings: Settings) -> None:
    settings.CHAMBER_IDLE_PERCENT, settings.CHAMBER_IDLE_MINUTES = 30, 2
    attempt = running(place)
    assert quiet_for(place, attempt, 2, 29, 30).idle_milli == 1000


def test_who_ended_holds_nothing_that_could_be_idle(place: Place) -> None:
    attempt = running(place)
    quiet_for(place, attempt, 15, 0, 0)
    cancel(attempt)
    assert not Workload.objects.with_idle_gpus(NOW + 15 * MINUTE).exists()


def test_pages_are_told_when_gpus_begin_and_cease_to_be_idle(
    place: Place, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    attempt = running(place)
    heard: list[tuple[str, ...]] = []
    monkeypatch.setattr("chamber.live._send", heard.append)
    with django_capture_on_commit_callbacks(execute=True):
        quiet_for(place, attempt, 17, 0, 0)
        at = NOW + 18 * MINUTE
        take(place.cluster, figure(attempt, 50, 50, at=at), now=at)
    topics = {"overview", "workloads", f"workload:{attempt.workload_id}"}
    assert [set(sent) for sent in heard] == [topics, topics]


# Keeping


def samples(attempt: Attempt, hour: datetime, *busy: int, **fields: Any) -> None:
    GpuUseSample.objects.bulk_create(
        GpuUseSample(
            attempt=attempt,
            minute=hour + number * MINUTE,
            gpus=2,
            busy_percent=percent,
            memory_mib=100,
            **fields,
        )
        for number, percent in enumerate(busy)
    )


def test_what_is_older_than_a_day_becomes_a_row_an_hour(place: Place) -> None:
    first, second = running(place), running(place)
    hour = NOW.replace(minute=0, second=0) - timedelta(hours=26)
    samples(first, hour, 10, 20, 60, tensor_percent=4)
    samples(second, hour, 70)
    samples(first, NOW - timedelta(hours=1), 99)
    assert roll_up(NOW) == 2
    assert roll_up(NOW) == 0
    rows = GpuUseSample.objects.order_by("minute", "busy_percent")
    kept = rows.values_list("attempt", "minutes", "busy_percent", "tensor_percent", "power_watts")
    assert list(kept) == [
        (first.pk, 60, 30, 4, None),
        (second.pk, 60, 70, None, None),
        (first.pk, 1, 99, None, None),
    ]


def test_an_hour_is_rolled_up_in_batches(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ATTEMPTS_AT_ONCE", 1)
    hour = NOW.replace(minute=0, second=0) - timedelta(hours=26)
    for attempt in (running(place, gpus=1), running(place, gpus=1), running(place, gpus=1)):
        samples(attempt, hour, 10, 30)
    assert roll_up(NOW) == 3
    assert set(GpuUseSample.objects.values_list("minutes", "busy_percent")) == {(60, 20)}


def test_what_is_older_than_history_goes(place: Place, settings: Settings) -> None:
    attempt = running(place)
    samples(attempt, NOW - timedelta(days=settings.CHAMBER_KEEP_DAYS, hours=1), 10, 20, minutes=60)
    samples(attempt, NOW - timedelta(days=settings.CHAMBER_KEEP_DAYS - 1), 30, minutes=60)
    roll_up(NOW)
    assert [sample.busy_percent for sample in GpuUseSample.objects.all()] == [30]


def test_what_says_nothing_of_now_any_more_goes(place: Place) -> None:
    old, young = running(place, gpus=1), running(place, gpus=1)
    take(
        place.cluster,
        figure(old, 5),
        figure(young, 5, at=NOW + timedelta(hours=1)),
        now=NOW + timedelta(hours=1),
    )
    roll_up(NOW + timedelta(hours=24, minutes=1))
    assert [use.attempt_id for use in GpuUse.objects.all()] == [young.pk]


def test_without_time_it_leaves_the_rest_for_the_next_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "ROLLS_UP_FOR_SECONDS", 0.0)
    samples(running(place), NOW - timedelta(hours=30), 10)
    assert roll_up(NOW) == 0
    assert GpuUseSample.objects.filter(minutes=1).count() == 1


@pytest.mark.parametrize(
    "wrong", [{"busy_percent": 101}, {"tensor_percent": 101}, {"idle_milli": 1}, {"idle_since": NOW}]
)
def test_the_database_refuses_what_cannot_be(place: Place, wrong: dict[str, Any]) -> None:
    attempt = running(place)
    right = {"at": NOW, "gpus": 1, "busy_percent": 5, "memory_mib": 1}
    with pytest.raises(IntegrityError), transaction.atomic():
        GpuUse.objects.create(attempt=attempt, **(right | wrong))


def test_a_minute_has_one_sample(place: Place) -> None:
    attempt = running(place)
    samples(attempt, NOW, 10)
    with pytest.raises(IntegrityError), transaction.atomic():
        samples(attempt, NOW, 20)
