"""The `summary` of a run: the same figures for everything, each pool, each team with those below it, each class."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine import GPU_MILLI, HOUR_MS, Snapshot, TeamInfo
from scheduling.scenario.output import Object
from scheduling.scenario.table import Section

from .tally import Count, CountedPlace, SimulationTally

SECOND_MS = 1000
DIGITS = 3
UTILISATION_DIGITS = 4
HEADS = (
    "SUMMARY",
    "SUBMITTED",
    "STARTED",
    "FINISHED",
    "UTILISATION",
    "MEAN WAIT",
    "P95 WAIT",
    "PREEMPTIONS",
    "LOST GPU-HOURS",
)


@dataclass(frozen=True, slots=True)
class QueueSeconds:
    """How long workloads stood in the queue; percentiles by nearest rank, zeros where nobody did."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, waits_ms: list[int]) -> "QueueSeconds":
        """The figures of waits, sorted."""
        if not waits_ms:
            return cls()
        count = len(waits_ms)
        p50, p95 = (waits_ms[-(-percent * count // 100) - 1] for percent in (50, 95))
        return cls(*(_seconds(ms) for ms in (sum(waits_ms) / count, p50, p95, waits_ms[-1])))


@dataclass(frozen=True, slots=True)
class Figures:
    """What happened in some places; `utilisation` is what was held, as a part of the capacity."""

    submitted: int
    started: int
    finished: int
    held_gpus_end: float
    utilisation: float
    queue_seconds: QueueSeconds
    preemptions: int
    lost_gpu_hours: float
    makespan_seconds: float

    def as_object(self) -> Object:
        """The figures as the scenario page writes them."""
        waits = self.queue_seconds
        return {
            "submitted": self.submitted,
            "started": self.started,
            "finished": self.finished,
            "held_gpus_end": self.held_gpus_end,
            "utilisation": self.utilisation,
            "queue_seconds": {"mean": waits.mean, "p50": waits.p50, "p95": waits.p95, "max": waits.max},
            "preemptions": self.preemptions,
            "lost_gpu_hours": self.lost_gpu_hours,
            "makespan_seconds": self.makespan_seconds,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened in a window, as a whole and by the names of pools, teams and classes."""

    everything: Figures
    pools: dict[str, Figures]
    teams: dict[str, Figures]
    classes: dict[str, Figures]

    def as_object(self) -> Object:
        """The summary as the scenario page writes it."""
        return self.everything.as_object() | {
            "pools": {name: figures.as_object() for name, figures in self.pools.items()},
            "teams": {name: figures.as_object() for name, figures in self.teams.items()},
            "classes": {name: figures.as_object() for name, figures in self.classes.items()},
        }

    def section(self) -> Section:
        """The summary as a table."""
        rows = [_row("everything", self.everything)]
        for kind, named in (("pool", self.pools), ("team", self.teams), ("class", self.classes)):
            rows += [_row(f"{kind} {name}", figures) for name, figures in sorted(named.items())]
        return HEADS, rows


def summary_of(snapshot: Snapshot, tally: SimulationTally, end: int) -> Summary:
    """Return what happened from the tally's start to `end`.

    The utilisation of a pool is measured against its capacity, that of teams and classes against all pools'.
    """
    capacities = _capacities(snapshot)
    whole = sum(capacities.values())
    window_ms = end - tally.start

    def figures(places: Iterable[CountedPlace], capacity_milli: int = whole) -> Figures:
        total = Count()
        for place in places:
            total.add(tally.counts[place])
        return _figures(total, capacity_milli * window_ms)

    every = list(tally.counts)
    return Summary(
        figures(every),
        {
            pool: figures([place for place in every if place.pool == pool], capacity)
            for pool, capacity in capacities.items()
        },
        {team: figures(places) for team, places in _by_team(snapshot.teams, every).items()},
        {
            "reserved": figures([place for place in every if place.reserved]),
            "elastic": figures([place for place in every if not place.reserved]),
        },
    )


def _capacities(snapshot: Snapshot) -> dict[str, int]:
    """The milli-GPUs of each pool that can be used."""
    found = {pool.id: 0 for pool in snapshot.pools}
    for node in snapshot.nodes:
        if node.ready and not node.cordoned:
            found[node.pool] += sum(device.share_milli for device in node.devices if not device.foreign)
    return found


def _by_team(teams: tuple[TeamInfo, ...], places: Iterable[CountedPlace]) -> dict[str, list[CountedPlace]]:
    """The places of every team and of all teams below it."""
    parents = {team.id: team.parent for team in teams}
    found: dict[str, list[CountedPlace]] = {team.id: [] for team in teams}
    for place in places:
        at: str | None = place.team
        while at is not None:
            found[at].append(place)
            at = parents[at]
    return found


def _figures(count: Count, capacity_milli_ms: int) -> Figures:
    span_ms = 0
    if count.first_at is not None and count.last_end is not None:
        span_ms = max(0, count.last_end - count.first_at)
    used = count.held_milli_ms / capacity_milli_ms if capacity_milli_ms else 0.0
    return Figures(
        submitted=count.submitted,
        started=count.started,
        finished=count.finished,
        held_gpus_end=count.held_milli / GPU_MILLI,
        utilisation=round(used, UTILISATION_DIGITS),
        queue_seconds=QueueSeconds.of(sorted(count.waits_ms)),
        preemptions=count.preemptions,
        lost_gpu_hours=round(count.lost_gpu_ms / HOUR_MS, DIGITS),
        makespan_seconds=_seconds(span_ms),
    )


def _seconds(ms: float) -> float:
    return round(ms / SECOND_MS, DIGITS)


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    return (
        name,
        str(figures.submitted),
        str(figures.started),
        str(figures.finished),
        f"{figures.utilisation:.1%}",
        f"{figures.queue_seconds.mean:,.0f} s",
        f"{figures.queue_seconds.p95:,.0f} s",
        str(figures.preemptions),
        f"{figures.lost_gpu_hours:,.1f}",
    )
