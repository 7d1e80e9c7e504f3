"""What lifecycle and stacked bars show."""

from datetime import UTC, datetime, timedelta

from chamber.pictures import lifecycle_steps, stacked_bar

T0 = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return T0 + timedelta(minutes=minutes)


def test_a_starting_workload_has_two_steps_behind_it_and_two_before_it() -> None:
    steps = lifecycle_steps("starting", [at(0), at(5), at(8), None])
    assert [(step.label, step.state) for step in steps] == [
        ("Pending", "done"),
        ("Queued", "done"),
        ("Starting", "current"),
        ("Running", "todo"),
        ("End", "todo"),
    ]
    assert [step.lasted for step in steps[:3]] == [timedelta(minutes=5), timedelta(minutes=3), None]


def test_a_workload_that_failed_early_never_reached_the_later_steps() -> None:
    steps = lifecycle_steps("failed", [at(0), at(5), None, None], at(7))
    assert [step.state for step in steps] == ["done", "done", "skipped", "skipped", "end-failed"]
    assert steps[1].lasted == timedelta(minutes=2)
    assert (steps[-1].label, steps[-1].at) == ("Failed", at(7))


def test_a_requeued_workload_shows_nothing_of_its_earlier_attempt() -> None:
    steps = lifecycle_steps("pending", [at(0), at(5), at(6), at(7)], at(9))
    assert [(step.state, step.at) for step in steps[1:]] == [("todo", None)] * 4
    assert steps[0].lasted is None


def test_segments_follow_each_other_and_fill_the_bar() -> None:
    bar = stacked_bar(8000, {"reserved": 2000, "elastic": 0, "burst": 1000}, {}, name_idle=True)
    assert [(part.key, part.x, part.width) for part in bar.segments] == [
        ("reserved", "0.000%", "25.000%"),
        ("burst", "25.000%", "12.500%"),
        ("idle", "37.500%", "62.500%"),
    ]
    assert [part.key for part in bar.drawn_segments] == ["reserved", "burst"]


def test_an_oversubscribed_pool_makes_the_bar_longer_than_its_capacity() -> None:
    bar = stacked_bar(4000, {"reserved": 6000, "elastic": 2000}, {}, name_idle=True)
    assert bar.whole_milli == 8000
    assert [part.width for part in bar.segments] == ["75.000%", "25.000%"]


def test_a_mark_beyond_the_bar_is_kept_but_not_drawn() -> None:
    bar = stacked_bar(4000, {}, {"guarantee": 1000, "entitlement": None, "ceiling": 9000}, name_idle=False)
    assert [mark.key for mark in bar.marks] == ["guarantee", "ceiling"]
    assert [(mark.key, mark.x) for mark in bar.drawn_marks] == [("guarantee", "25.000%")]


def test_a_pool_without_gpus_draws_nothing() -> None:
    bar = stacked_bar(0, {"reserved": 0}, {"guarantee": 0}, name_idle=True)
    assert bar.segments == ()
    assert bar.marks[0].x == "0%"
