"""The chart of what a workload made of its GPUs: samples put into equal spans of time, as steps of an SVG path."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

WIDTH, HEIGHT = 1000, 200
"""Of the picture, in its own units: it is stretched to the room there is."""
MARK_EVERY = 5
"""How far apart two checkpoints are drawn at least."""
FEWEST_STEPS = 10
"""That a picture has room for, however young the workload."""


@dataclass(frozen=True, slots=True)
class Window:
    """How far back a chart goes, and how long each of its steps is."""

    key: str
    words: str
    length: timedelta
    step: timedelta


WINDOWS = (
    Window("1h", "1 hour", timedelta(hours=1), timedelta(minutes=1)),
    Window("24h", "24 hours", timedelta(hours=24), timedelta(minutes=15)),
    Window("7d", "7 days", timedelta(days=7), timedelta(hours=2)),
    Window("30d", "30 days", timedelta(days=30), timedelta(hours=6)),
)
BY_KEY = {window.key: window for window in WINDOWS}


class Sample(NamedTuple):
    """What was measured from `at` on for `minutes`: means of percentages, sums of memory and power."""

    at: datetime
    minutes: int
    gpus: int
    busy_percent: int
    tensor_percent: int | None
    memory_mib: int
    power_watts: int | None


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """One span of a chart: the means of its samples, and where it lies in the picture."""

    sample: Sample
    until: datetime
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class SavedMark:
    """A checkpoint in the picture; of several in one place, the last."""

    at: datetime
    step: int
    x: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture from `since` until `until`, and what it shows; empty without samples."""

    window: Window
    since: datetime
    until: datetime
    steps: tuple[ChartSpan, ...]

    @property
    def area(self) -> str:
        """Return the path of the ground under how busy the GPUs were."""
        return " ".join(
            f"{_line(run, 'busy_percent')} L{_x(run[-1].x + run[-1].width)} {HEIGHT} L{_x(run[0].x)} {HEIGHT} Z"
            for run in _runs(self.steps)
        )

    @property
    def busy(self) -> str:
        """Return the path of how busy the GPUs were."""
        return " ".join(_line(run, "busy_percent") for run in _runs(self.steps))

    @property
    def tensor(self) -> str:
        """Return the path of how busy their tensor cores were; empty where that is not known."""
        known = [step for step in self.steps if step.sample.tensor_percent is not None]
        return " ".join(_line(run, "tensor_percent") for run in _runs(known))

    @property
    def times(self) -> list[datetime]:
        """Return the beginning, the middle and the end."""
        return [self.since, self.since + (self.until - self.since) / 2, self.until]

    @property
    def mean_percent(self) -> int:
        """Return how busy the GPUs were over all."""
        minutes = sum(step.sample.minutes for step in self.steps)
        return sum(step.sample.busy_percent * step.sample.minutes for step in self.steps) // max(1, minutes)

    @property
    def most_percent(self) -> int:
        """Return how busy they were at most, in one step."""
        return max((step.sample.busy_percent for step in self.steps), default=0)


def chart(samples: Iterable[Sample], window: Window, until: datetime) -> Chart:
    """Return the chart of the samples that lie in the window before `until`, from the first of them on."""
    seconds = window.step.total_seconds()
    end = datetime.fromtimestamp(-(-until.timestamp() // seconds) * seconds, UTC)
    spans: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if end - window.length <= sample.at < end:
            spans[int((end - sample.at).total_seconds() // -seconds)].append(sample)
    count = max(FEWEST_STEPS, -min(spans, default=0))
    since, width = end - count * window.step, WIDTH / count
    steps = tuple(
        ChartSpan(
            sample=_mean(end + number * window.step, spans[number]),
            until=end + (number + 1) * window.step,
            x=(count + number) * width,
            width=width,
        )
        for number in sorted(spans)
    )
    return Chart(window, since, end, steps)


def saved_marks(drawn: Chart, saved: Iterable[tuple[datetime, int]]) -> list[SavedMark]:
    """Return the checkpoints that lie in a chart, in the order of their times: one in each place at most."""
    length = (drawn.until - drawn.since).total_seconds()
    places: dict[int, SavedMark] = {}
    for at, step in saved:
        if drawn.since <= at < drawn.until:
            x = WIDTH * (at - drawn.since).total_seconds() / length
            places[int(x // MARK_EVERY)] = SavedMark(at, step, x)
    return list(places.values())


def smallest_window(began_at: datetime, ended_at: datetime) -> Window:
    """Return the smallest window that shows all of a life; the largest where none does."""
    return next((window for window in WINDOWS if ended_at - began_at <= window.length), WINDOWS[-1])


def windows_of(began_at: datetime, ended_at: datetime) -> list[Window]:
    """Return the windows among which a life can be looked at; one that holds all of it is the last, and says so."""
    largest = smallest_window(began_at, ended_at)
    chosen = [*WINDOWS[: WINDOWS.index(largest)], largest]
    if ended_at - began_at <= largest.length:
        chosen[-1] = replace(largest, key="all", words="All of it")
    return chosen


def _mean(at: datetime, samples: Sequence[Sample]) -> Sample:
    minutes = sum(sample.minutes for sample in samples)

    def mean(name: str) -> int | None:
        known = [
            (value, sample.minutes) for sample in samples if (value := getattr(sample, name)) is not None
        ]
        return (
            sum(value * weight for value, weight in known) // sum(weight for _, weight in known)
            if known
            else None
        )

    return Sample(
        at=at,
        minutes=minutes,
        gpus=max(sample.gpus for sample in samples),
        busy_percent=mean("busy_percent") or 0,
        tensor_percent=mean("tensor_percent"),
        memory_mib=mean("memory_mib") or 0,
        power_watts=mean("power_watts"),
    )


def _runs(steps: Sequence[ChartSpan]) -> list[list[ChartSpan]]:
    """Return the steps in groups between which there is a gap; one step may be missing within a group."""
    runs: list[list[ChartSpan]] = []
    for step in steps:
        if runs and step.x - (runs[-1][-1].x + runs[-1][-1].width) < 1.5 * step.width:
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


def _line(run: Sequence[ChartSpan], name: str) -> str:
    points = []
    for step in run:
        y = _x(HEIGHT * (1 - getattr(step.sample, name) / 100))
        points += [f"{_x(step.x)} {y}", f"{_x(step.x + step.width)} {y}"]
    return f"M{' L'.join(points)}"


def _x(number: float) -> str:
    return f"{number:.1f}"
