"""Where the plans of the digests come from: cases, random worlds, histories, real traces, large organisations.

Each source has items by key, and each item gives one plan or several in a row, with what it was made for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from scheduling.engine import Changes, OpenStatus, Plan, Snapshot, State, decide, schedule
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import load
from scheduling.tests.engine.build import MINUTE, NOW
from scheduling.tests.proof.digests import traces
from scheduling.tests.proof.digests.canonical import PlanTexts, met, texts
from scheduling.tests.proof.digests.worlds import world
from scheduling.tests.proof.organisation import Organisation, happen

OWN_CASES = Path(__file__).parents[2] / "scenario" / "cases"
CYCLES = 8
EVERY_BOUND = 5
"""Of so many histories one has a namespace for each team."""


@dataclass(frozen=True, slots=True)
class Step:
    """One plan of an item: which of them it is, its texts, and how many rows of each kind it has."""

    name: str
    texts: PlanTexts
    met: Counter[str]


def step(name: str, plan: Plan, *, whole: bool = True) -> Step:
    """A step of a plan; without ``whole`` only of what is worked out when the cycle ends."""
    return Step(name, texts(plan, whole=whole), met(plan, whole=whole))


class Source(ABC):
    """A source of plans. ``keeps_texts``: they are few or small enough to be recorded as text."""

    keeps_texts = True

    @abstractmethod
    def keys(self) -> Sequence[str]:
        """The items, in order."""

    @abstractmethod
    def steps(self, key: str) -> Iterator[Step]:
        """The plans of an item."""

    def given(self, key: str) -> Snapshot | None:  # noqa: ARG002 - for those that can tell
        """What the first plan of an item is made for, where it can be told."""
        return None


def steps_of(source: Source, key: str) -> Iterator[Step]:
    """The plans of an item; where the engine fails, its error stands in the place of the plan."""
    number = 0
    try:
        for number, each in enumerate(source.steps(key), start=1):  # noqa: B007 - counted for the error
            yield each
    except Exception as error:
        yield Step(f"after {number}", PlanTexts(f"failed {type(error).__name__}", ""), Counter(failed=1))


@dataclass(frozen=True)
class Cases(Source):
    """Scenario files of some folders; one that the loader refuses is noted as such."""

    folders: tuple[Path, ...] = (OWN_CASES,)
    accelerate: bool = True

    def keys(self) -> Sequence[str]:
        """Folder and name of each file."""
        return [
            f"{folder.name}/{path.stem}" for folder in self.folders for path in sorted(folder.glob("*.yaml"))
        ]

    def steps(self, key: str) -> Iterator[Step]:
        """Three cycles, each plan carried out."""
        found = self._scenario(key)
        if found is None:
            yield Step("refused", PlanTexts("refused", ""), Counter())
            return
        snapshot, now = found
        there = Organisation(Random(0), world=snapshot)
        for cycle in range(3):
            plan = schedule(there.snapshot, now, accelerate=self.accelerate)
            yield step(f"cycle {cycle}", plan)
            there.carry_out(plan)

    def given(self, key: str) -> Snapshot | None:
        """The organisation of the file."""
        found = self._scenario(key)
        return None if found is None else found[0]

    def _scenario(self, key: str) -> tuple[Snapshot, int] | None:
        folder, _, name = key.partition("/")
        there = next((each for each in self.folders if each.name == folder), None)
        if there is None:
            raise FileNotFoundError(f"No folder called {folder} was named.")
        try:
            scenario = load((there / f"{name}.yaml").read_bytes(), Format.YAML)
        except ScenarioError:
            return None
        return scenario.snapshot, scenario.now


@dataclass(frozen=True)
class Worlds(Source):
    """Random organisations by number, each decided once."""

    count: int = 20_000
    accelerate: bool = True

    def keys(self) -> Sequence[str]:
        """Their numbers."""
        return [str(number) for number in range(self.count)]

    def steps(self, key: str) -> Iterator[Step]:
        """The one plan."""
        yield step("", schedule(world(int(key)), NOW, accelerate=self.accelerate))

    def given(self, key: str) -> Snapshot:
        """The organisation."""
        return world(int(key))


@dataclass(frozen=True)
class Histories(Source):
    """Random organisations to which things happen, decided on a state that is kept."""

    count: int = 2_000
    accelerate: bool = True

    def keys(self) -> Sequence[str]:
        """Their numbers."""
        return [str(number) for number in range(self.count)]

    def steps(self, key: str) -> Iterator[Step]:
        """Some cycles; most plans are carried out, and some of the others are looked at in part only."""
        chance = Random(f"history {key}")
        bound = int(key) % EVERY_BOUND == 0
        there = Organisation(chance, bound=bound, world=self.given(key))
        state = State.of(there.snapshot)
        for cycle in range(CYCLES):
            happen(there, chance, chance.choice((0, 1, 2, 4, 8)))
            state.apply(Changes.between(state.snapshot, there.snapshot))
            plan = decide(state, there.now, accelerate=self.accelerate)
            carried_out = chance.random() < 0.8
            yield step(f"cycle {cycle}", plan, whole=carried_out or chance.random() < 0.5)
            if carried_out:
                there.carry_out(plan)

    def given(self, key: str) -> Snapshot:
        """The organisation at the beginning: another one than that of the same number among the worlds."""
        return world(1_000_000 + int(key), sound_teams=True)


@dataclass(frozen=True)
class Philly(Source):
    """Segments of the Philly trace, in a folder of its files."""

    folder: Path
    keeps_texts = False

    def keys(self) -> Sequence[str]:
        """The names of the segments."""
        return list(traces.SEGMENTS)

    def steps(self, key: str) -> Iterator[Step]:
        """All cycles of a segment."""
        for name, plan, whole in traces.philly(self.folder, traces.SEGMENTS[key]):
            yield step(name, plan, whole=whole)


@dataclass(frozen=True)
class Openb(Source):
    """Lists of pods of the openb trace, in a folder of its files."""

    folder: Path
    keeps_texts = False

    def keys(self) -> Sequence[str]:
        """The names of the lists."""
        return list(traces.LISTS)

    def steps(self, key: str) -> Iterator[Step]:
        """The plans by which a list is placed."""
        for name, plan, whole in traces.openb(self.folder, key):
            yield step(name, plan, whole=whole)


LARGE: dict[str, tuple[str, float, int]] = {
    "waiting-1": ("waiting", 0.02, 1),
    "waiting-2": ("waiting", 0.02, 2),
    "waiting-3": ("waiting", 0.05, 3),
    "waiting-4": ("waiting", 0.1, 4),
    "gang-1": ("gang", 0.05, 1),
    "gang-2": ("gang", 0.06, 2),
}
"""The kind of each, its size and its seed, as `bench.organisation` has them."""
EVENTS = 40


@dataclass(frozen=True)
class Large(Source):
    """Organisations like those by which the engine's speed is measured, smaller; one event after the other."""

    keeps_texts = False

    def keys(self) -> Sequence[str]:
        """Their names."""
        return list(LARGE)

    def steps(self, key: str) -> Iterator[Step]:
        """A cycle, then one after each event: a submission, or a completion. Each plan is carried out."""
        from bench.engine import after, submission

        given, chance, now = self.given(key), Random(key), NOW
        state = State.of(given)
        for number in range(EVENTS):
            plan = decide(state, now)
            yield step(f"event {number}", plan, whole=number % 8 == 0)
            now += MINUTE
            state.apply(after(state, plan))
            state.apply(submission(given, chance, number, now) if number % 2 else _completion(state, chance))

    def given(self, key: str) -> Snapshot:
        """The organisation at the beginning."""
        from bench.organisation import full_for_a_gang, organisation

        kind, scale, seed = LARGE[key]
        return (full_for_a_gang if kind == "gang" else organisation)(scale, seed)


def _completion(state: State, chance: Random) -> Changes:
    """The end of a running workload."""
    running = sorted(each.id for each in state.snapshot.workloads if each.status is OpenStatus.RUNNING)
    return Changes(gone_workloads=(chance.choice(running),))
