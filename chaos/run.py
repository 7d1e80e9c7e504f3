"""One run: load and faults by a seeded plan, everything healed at the end, and what the truths say of it."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from chaos import truths
from chaos.faults import FAULTS, InjectedFault
from chaos.load import Load
from chaos.organisation import EDITOR, LEAD, PROBER, TEAMS
from chaos.probe import Probe
from chaos.stage import Stage
from chaos.truths import TruthViolation

CONVERGE_SECONDS = 180.0
"""The longest that anything may take to work again."""
REST_SECONDS = 180.0
"""The longest until nothing is under way any more when load and faults are over."""
LOOK_AGAIN_SECONDS = 1.0
LOOK_SECONDS = 3.0
SHORT_SECONDS = 120.0
"""Runs below this have short faults only, and not the longest ones."""


class NothingRuns(Exception):  # noqa: N818 - an outcome
    """The deployment does not work before any fault; the message holds what its processes said last."""


@dataclass(slots=True)
class FaultOutcome:
    """What came of one kind of fault."""

    fault: str
    times: int = 0
    seconds: list[float] = field(default_factory=list)
    violations: list[TruthViolation] = field(default_factory=list)


@dataclass(slots=True)
class ChaosResult:
    """What came of the run."""

    outcomes: dict[str, FaultOutcome] = field(default_factory=dict)
    settled_seconds: float | None = None
    last_to_rest: str = ""
    at_rest: list[TruthViolation] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def violations(self) -> list[TruthViolation]:
        """All violations."""
        return [*(v for outcome in self.outcomes.values() for v in outcome.violations), *self.at_rest]


class Run:
    """The run on a stage."""

    def __init__(
        self,
        stage: Stage,
        *,
        seed: int,
        seconds: float,
        faults: Sequence[InjectedFault],
        until: frozenset[int] = frozenset(),
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._stage, self._seconds, self._until = stage, seconds, until
        self._chance = random.Random(seed)
        self._faults, self._rest_seconds = tuple(faults), rest_seconds
        self._seed = seed
        self._result = ChaosResult()
        self._known: set[str] = set()
        # The reader is a process of its own: it takes no time from load and proxies.
        self._reader = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    async def play(self) -> ChaosResult:
        """Play it; return what came of it."""
        token = self._stage.team.token
        people = {name: token(name) for name in (EDITOR, LEAD, *(member for *_, member in TEAMS))}
        probe = Probe(self._stage.team.web_url, token(PROBER))
        async with self._stage.agents_running(self._seed):
            if await probe.seconds_until_all_works(CONVERGE_SECONDS) is None:
                raise RuntimeError(
                    f"Nothing runs, before any fault; the logs are in {self._stage.team.folder}."
                )
            load = Load(self._stage.team.web_url, people, self._stage.answers, seed=self._seed)
            self._stage.arm()
            load.start()
            if not await self._go_on(probe):
                await load.finish()
                self._result.settled_seconds = await self._settle()
            self._result.answers = dict(load.journal.answers)
            self._result.failures = dict(load.journal.failures)
        self._reader.shutdown()
        return self._result

    async def _go_on(self, probe: Probe) -> bool:
        """Do fault after fault, or just look; return whether a truth was broken that the run is to go on until."""
        ends = time.monotonic() + self._seconds
        plan = self._plan() if self._faults else None
        while time.monotonic() < ends:
            if plan is not None:
                await self._one(next(plan), probe)
            else:
                await asyncio.sleep(LOOK_SECONDS)
                self._result.at_rest += await self._new(truths.safety)
            if any(violation.truth in self._until for violation in self._result.violations):
                return True
        return False

    def _plan(self) -> Iterator[InjectedFault]:
        """Yield faults for ever: all of them in an order of chance, then again in another one."""
        usable = [fault for fault in self._faults if self._stage.disk is not None or not fault.needs_disk]
        if self._seconds < SHORT_SECONDS:
            usable = [fault.shortened() for fault in usable if not fault.is_long]
        while True:
            yield from self._chance.sample(usable, len(usable))

    async def _one(self, fault: InjectedFault, probe: Probe) -> None:
        """Do it, make it good, and look how long that takes and what it broke."""
        outcome = self._result.outcomes.setdefault(fault.name, FaultOutcome(fault.name))
        outcome.times += 1
        await fault.inject(self._stage)
        await asyncio.sleep(fault.seconds)
        await fault.heal(self._stage)
        took = await probe.seconds_until_all_works(CONVERGE_SECONDS)
        if took is None:
            sentence = (
                f"{CONVERGE_SECONDS:g} s after “{fault.name}” a new workload still does not run everywhere."
            )
            outcome.violations.append(TruthViolation(5, sentence))
        else:
            outcome.seconds.append(took)
        outcome.violations += (found := await self._new(truths.safety))
        told = "not at all" if took is None else f"{took:.1f} s"
        print(f"{fault.name}: works again after {told}, {len(found)} new violations", flush=True)

    async def _settle(self) -> float | None:
        """Wait until nothing is under way any more; return how long that took, None where it never came to rest."""
        began = time.monotonic()
        while True:
            left = await self._read(truths.settled)
            if not left or time.monotonic() - began > self._rest_seconds:
                break
            self._result.last_to_rest = left[-1].sentence
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        self._result.at_rest += left + await self._new(truths.safety)
        return None if left else time.monotonic() - began

    async def _new(self, look: "truths.Look") -> list[TruthViolation]:
        """Return violations that nobody has seen yet."""
        found = [violation for violation in await self._read(look) if violation.sentence not in self._known]
        self._known |= {violation.sentence for violation in found}
        return found

    async def _read(self, look: "truths.Look") -> list[TruthViolation]:
        where = self._stage.team.database.url, self._stage.answers, self._stage.records
        return await asyncio.get_running_loop().run_in_executor(self._reader, look, *where)


def choose(words: str) -> tuple[InjectedFault, ...]:
    """Return the faults whose names hold one of the comma-separated words; all for no word. Raises `ValueError`."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = tuple(fault for fault in FAULTS if not wanted or any(word in fault.name for word in wanted))
    if not found:
        names = ", ".join(fault.name for fault in FAULTS)
        raise ValueError(f"No fault is called {words!r}; there are: {names}.")
    return found
