"""Peak hours: when they are, by the wall clock of their zone, and what they keep out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import PeakHours, ReasonCode, WeeklyHours, weekly_hours
from scheduling.engine.reasons import time_sentences
from scheduling.tests.engine.build import MINUTE, NOW, node, plan, pool, team, waiting
from scheduling.tests.proof.faults.times import PEAK

BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    """A time in milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def peak(text: str, zone: str = BERLIN) -> PeakHours:
    hours = weekly_hours(text)
    assert hours is not None
    return PeakHours(hours, zone, 8000)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("mon 08:00-18:00", [(480, 1080)]),
        ("sat-mon 00:00-24:00", [(7200, 8640), (8640, 10080), (0, 1440)]),
        ("sun 22:00-06:00", [(9960, 10440)]),
    ],
)
def test_hours_are_read_in_minutes_of_the_week(text: str, hours: list[tuple[int, int]]) -> None:
    assert weekly_hours(text) == tuple(WeeklyHours(*each) for each in hours)


@pytest.mark.parametrize(
    "text",
    ["", "mon", "mon 8:00-18:00", "mon 08:00-08:00", "day 08:00-18:00", "mon 24:00-08:00", "mon 08:60-09:00",
     "mon 08:00-24:01", "mon-fri  08:00-18:00", "MON 08:00-18:00", "mon ０8:00-18:00"],
)  # fmt: skip
def test_what_is_no_hours_is_none(text: str) -> None:
    assert weekly_hours(text) is None


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        ("2026-01-05T06:59:59Z", "2026-01-05T07:00:00Z"),
        ("2026-01-05T07:00:00Z", "2026-01-05T17:00:00Z"),
        ("2026-01-09T17:00:00Z", "2026-01-12T07:00:00Z"),
        ("2026-03-27T17:00:00Z", "2026-03-30T06:00:00Z"),
        ("2026-10-23T16:00:00Z", "2026-10-26T07:00:00Z"),
    ],
)
def test_the_next_change_is_by_the_wall_clock_of_the_zone(now: str, changes: str) -> None:
    assert peak("mon-fri 08:00-18:00").changes_at(at(now)) == at(changes)


def test_an_hour_that_is_skipped_is_no_peak_and_one_that_is_repeated_is_one_twice() -> None:
    night = peak("sun 02:00-03:00")
    assert night.changes_at(at("2026-03-28T12:00:00Z")) == at("2026-04-05T00:00:00Z")
    assert night.is_at(at("2026-10-25T00:30:00Z"))
    assert night.is_at(at("2026-10-25T01:30:00Z"))
    assert night.opens_at(at("2026-10-25T00:00:00Z")) == at("2026-10-25T02:00:00Z")


def test_where_the_only_open_hour_is_skipped_the_peak_ends_a_week_later() -> None:
    texts = ("mon-sat 00:00-24:00", "sun 00:00-02:00", "sun 03:00-24:00")
    most = PeakHours(tuple(each for text in texts for each in weekly_hours(text) or ()), BERLIN, 8000)
    assert most.opens_at(at("2026-03-22T12:00:00Z")) == at("2026-04-05T00:00:00Z")


def test_a_peak_that_never_ends_has_no_time() -> None:
    always = peak("mon-sun 00:00-24:00")
    assert always.changes_at(at("2026-01-05T00:00:00Z")) is None
    assert always.opens_at(at("2026-01-05T00:00:00Z")) is None


def test_it_concerns_large_elastic_work_and_the_classes_that_it_names() -> None:
    both = PeakHours((), "UTC", 8000, ("training",))
    assert both.concerns(reserved=False, milli=8001, job_class="")
    assert both.concerns(reserved=False, milli=1, job_class="training")
    assert not both.concerns(reserved=False, milli=8000, job_class="experiment")
    assert not both.concerns(reserved=True, milli=9000, job_class="training")


@pytest.mark.parametrize(
    ("limit", "classes", "step"),
    [
        (4000, (), "Smaller workloads and reserved ones"),
        (4000, ("training",), "Smaller workloads of other classes and reserved ones"),
        (None, ("training",), "Workloads of other classes and reserved ones"),
        (0, ("training",), "Reserved workloads"),
    ],
)
def test_what_is_admitted_all_the_same_is_told(
    limit: int | None, classes: tuple[str, ...], step: str
) -> None:
    main = pool(peak=PeakHours((), "UTC", limit, classes))
    told = time_sentences.peak_hours(main, at("2026-01-05T18:00:00Z"))
    assert told.next_step == f"Nothing to do; it joins the queue then. {step} are admitted before."


def test_one_whose_deadline_comes_before_the_end_of_the_peak_is_told_so() -> None:
    """It would wait for an hour that it does not see."""
    row = waiting("w", "a", 8, deadline=NOW + 10 * MINUTE)
    main = pool(peak=PeakHours(PEAK.hours, "UTC", 1000))
    [wait] = plan([node("n0", 8)], [team("a")], [row], main).waits
    assert wait.reason.code is ReasonCode.PEAK_HOURS
    assert wait.reason.next_step.startswith(
        "Its deadline, 2027-01-15 08:10 UTC, comes first: submit it again"
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from([BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
    st.lists(st.tuples(st.integers(0, 10079), st.integers(1, 1440)), min_size=1, max_size=3),
    st.integers(0, 2 * 365 * 24 * 60),
)
def test_the_next_change_is_the_first_minute_that_differs(
    zone: str, spans: list[tuple[int, int]], minutes: int
) -> None:
    """Against a walk minute by minute."""
    hours = PeakHours(tuple(WeeklyHours(start, start + length) for start, length in spans), zone)
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)

    def is_peak(moment: datetime) -> bool:
        local = moment.astimezone(ZoneInfo(zone))
        minute = (local.weekday() * 24 + local.hour) * 60 + local.minute
        return any((minute - start) % 10080 < length for start, length in spans)

    was = is_peak(now)
    walk = (now + timedelta(minutes=step) for step in range(1, 15 * 24 * 60))
    expected = next((each for each in walk if is_peak(each) is not was), None)
    found = hours.changes_at(round(now.timestamp() * 1000))
    assert found == (None if expected is None else round(expected.timestamp() * 1000))
