"""What the pages' pictures show, apart from how they are drawn: lifecycle bars, stacked GPU bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

LIFECYCLE = ("pending", "queued", "starting", "running")
SEGMENTS = {
    "reserved": "Reserved",
    "elastic": "Elastic in guarantee",
    "burst": "Burst",
    "unavailable": "Unavailable",
    "idle": "Idle",
}
MARKS = {"guarantee": "Guarantee", "entitlement": "Entitlement", "ceiling": "Ceiling"}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a lifecycle; `state` is done, current, todo, skipped, or `end-` and the final status."""

    label: str
    state: str
    at: datetime | None = None
    lasted: timedelta | None = None


def lifecycle_steps(
    status: str, times: Sequence[datetime | None], ended_at: datetime | None = None
) -> list[Step]:
    """Return the four steps and the end, given when each step was reached, in the order of `LIFECYCLE`.

    A step lasted until the next one that was reached; one that an ended workload never reached is skipped.
    Times beyond the current step belong to an earlier attempt and are not shown.
    """
    over = status not in LIFECYCLE
    reached = len(LIFECYCLE) if over else LIFECYCLE.index(status)
    steps = []
    for index, (name, at) in enumerate(zip(LIFECYCLE, times, strict=True)):
        if index >= reached:
            current = index == reached
            steps.append(Step(name.capitalize(), "current" if current else "todo", at if current else None))
            continue
        later = next((time for time in [*times[index + 1 : reached + 1], ended_at] if time), None)
        lasted = later - at if at and later else None
        steps.append(Step(name.capitalize(), "done" if at else "skipped", at, lasted))
    end = Step(status.capitalize(), f"end-{status}", ended_at) if over else Step("End", "todo")
    return [*steps, end]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a stacked bar, or a mark on it; `x` and `width` are percentages as SVG writes them."""

    key: str
    label: str
    milli: int
    x: str
    width: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """Segments from left to right, and marks; `marks` beyond the bar's end are not drawn but told."""

    whole_milli: int
    segments: tuple[Segment, ...]
    marks: tuple[Segment, ...]

    @property
    def drawn_marks(self) -> list[Segment]:
        """Return the marks that lie on the bar."""
        return [mark for mark in self.marks if mark.milli <= self.whole_milli]

    @property
    def drawn_segments(self) -> list[Segment]:
        """Return what is drawn over the bar's ground; idle is the ground itself."""
        return [segment for segment in self.segments if segment.key != "idle"]


def stacked_bar(
    capacity_milli: int, used: Mapping[str, int], limits: Mapping[str, int | None], *, name_idle: bool
) -> Bar:
    """Return the bar of `used` (keys of `SEGMENTS` but idle) out of the capacity, with marks at the `limits`.

    The bar is as long as capacity or use, whichever is more: an oversubscribed pool overflows nothing.
    """
    total = sum(used.values())
    whole = max(capacity_milli, total)
    parts = {**used, "idle": whole - total} if name_idle else dict(used)
    segments, before = [], 0
    for key, milli in parts.items():
        if milli:
            x, width = _percent(before, whole), _percent(milli, whole)
            segments.append(Segment(key, SEGMENTS[key], milli, x, width))
        before += milli
    marks = [
        Segment(key, MARKS[key], milli, _percent(milli, whole))
        for key, milli in limits.items()
        if milli is not None
    ]
    return Bar(whole, tuple(segments), tuple(marks))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f}%" if whole else "0%"
