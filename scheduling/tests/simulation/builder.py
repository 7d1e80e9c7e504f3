"""Runs for tests, as short as what they are about."""

from scheduling.engine import Plan, Snapshot
from scheduling.scenario.document import Format
from scheduling.scenario.loader import Scenario, load
from scheduling.simulation.clock import Ending, SimulationClock
from scheduling.simulation.summary import Summary, summary_of

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

POOLS = "pools: [{name: main, nodes: [{name: n0, gpus: 1}]}]"
TEAMS = "teams: [{name: a}]"


def scenario(workloads: str, *, pools: str = POOLS, teams: str = TEAMS) -> Scenario:
    """Return a scenario whose workloads are flow mappings, one a line."""
    rows = "".join(f"  - {{{row}}}\n" for row in workloads.splitlines())
    content = f"version: 1\n{pools}\n{teams}\nworkloads:\n{rows}"
    return load(content.encode(), Format.YAML, future=True)


class Diary:
    """Who started, who was preempted, and when, in minutes since the beginning; `cycles` has the times of plans."""

    def __init__(self, start: int) -> None:
        self._start = start
        self.starts: list[tuple[float, str]] = []
        self.preemptions: list[tuple[float, str]] = []
        self.cycles: list[float] = []

    def look(self, snapshot: Snapshot, plan: Plan, now: int) -> None:
        at = (now - self._start) / MINUTE
        assert snapshot.workloads
        self.cycles.append(at)
        self.starts += [(at, start.workload) for start in plan.starts]
        self.preemptions += [(at, gone.workload) for gone in plan.preemptions]


def run(described: Scenario, until: int, interval: int = 0) -> tuple[Ending, Diary]:
    diary = Diary(described.now)
    return SimulationClock(described, [diary.look]).run(until, interval), diary


def summary(workloads: str, until: int, *, pools: str = POOLS, teams: str = TEAMS) -> Summary:
    ending, _ = run(scenario(workloads, pools=pools, teams=teams), until)
    return summary_of(ending.snapshot, ending.tally, ending.now)
