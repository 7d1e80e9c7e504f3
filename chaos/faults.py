"""The faults: what each does, how long it lasts, and how it is made good again."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from chaos.link_proxy import CALM, Trouble
from chaos.stage import STANDBY, Stage

AWAY_SECONDS = 3.0
PAUSE_SECONDS = 15.0
SILENT_SECONDS = 35.0
"""Longer than a cluster may be silent before it counts as disconnected."""
TROUBLE_SECONDS = 5.0
CLOCK_SECONDS = 4.0
ANSWERED_SECONDS = 10.0
"""Within which an agent that starts has an answer to its hello."""

KILLED = ("web", "live", "worker", "scheduler", STANDBY, "beat", "east", "north")
PAUSED = ("scheduler", STANDBY, "worker", "live")
ASTRAY = {"west": "east", "north": "west"}
"""Clusters whose agent is started with another one's token; one of each transport."""

Step = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault. `seconds` is how long it lasts before it is healed; `is_long` keeps it out of short runs."""

    name: str
    inject: Step
    heal: Step
    seconds: float = 1.0
    is_long: bool = False
    needs_disk: bool = False

    def shortened(self) -> "InjectedFault":
        """Return it as short runs have it."""
        return replace(self, seconds=min(self.seconds, 2.0))


def _killed(name: str) -> InjectedFault:
    async def inject(stage: Stage) -> None:
        await asyncio.to_thread(stage.services[name].kill)

    async def heal(stage: Stage) -> None:
        await asyncio.to_thread(stage.services[name].start)

    return InjectedFault(f"kill -9 {name}", inject, heal)


def _paused(name: str) -> InjectedFault:
    async def inject(stage: Stage) -> None:
        stage.services[name].pause()

    async def heal(stage: Stage) -> None:
        stage.services[name].resume()

    return InjectedFault(f"stop {name}", inject, heal, PAUSE_SECONDS)


def _astray(name: str, other: str) -> InjectedFault:
    """The agent of one cluster comes with the token of another, whose own agent is at work."""

    async def start(stage: Stage, token: str) -> None:
        agent = stage.agents[name]
        await asyncio.to_thread(agent.kill)
        agent.turn_page()
        agent.command[agent.command.index("--token-file") + 1] = str(stage.token_of(token))
        await asyncio.to_thread(agent.start)

    async def inject(stage: Stage) -> None:
        await start(stage, other)
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWERED_SECONDS):
                while "Trying again" not in stage.agents[name].printed():
                    await asyncio.sleep(0.1)

    async def heal(stage: Stage) -> None:
        await start(stage, name)

    return InjectedFault(f"{name} with the token of {other}", inject, heal, AWAY_SECONDS)


def _server_away(name: str, sign: signal.Signals, called: str) -> InjectedFault:
    async def inject(stage: Stage) -> None:
        await asyncio.to_thread(getattr(stage.team, name).stop, sign)

    async def heal(stage: Stage) -> None:
        await asyncio.to_thread(getattr(stage.team, name).start)

    return InjectedFault(called, inject, heal, AWAY_SECONDS)


def _troubled(
    trouble: Trouble, called: str, *, seconds: float = TROUBLE_SECONDS, is_long: bool = False
) -> InjectedFault:
    async def inject(stage: Stage) -> None:
        for proxy in stage.proxies.values():
            proxy.trouble = trouble
            if trouble.refuse:
                proxy.cut_all()

    async def heal(stage: Stage) -> None:
        for proxy in stage.proxies.values():
            proxy.trouble = CALM

    return InjectedFault(called, inject, heal, seconds, is_long)


def _clock_moved(name: str, seconds: float) -> InjectedFault:
    async def inject(stage: Stage) -> None:
        stage.move_clock(name, seconds)

    async def heal(stage: Stage) -> None:
        stage.move_clock(name, 0.0)

    return InjectedFault(f"clock of {name} {seconds:+g} s", inject, heal, CLOCK_SECONDS)


async def _fill_disk(stage: Stage) -> None:
    assert stage.disk is not None  # noqa: S101 - it is left out without a disk
    await asyncio.to_thread(stage.disk.fill)


async def _free_disk(stage: Stage) -> None:
    """Make room; a server that gave up is started again, as its supervisor would."""
    assert stage.disk is not None  # noqa: S101 - likewise
    await asyncio.to_thread(stage.disk.free)
    process = stage.team.database.process
    if process is None or process.poll() is not None:
        await asyncio.to_thread(stage.team.database.start)


FAULTS: tuple[InjectedFault, ...] = (
    *(_killed(name) for name in KILLED),
    *(_paused(name) for name in PAUSED),
    *(_astray(name, other) for name, other in ASTRAY.items()),
    _server_away("redis", signal.SIGKILL, "Redis killed, away"),
    _server_away("database", signal.SIGQUIT, "PostgreSQL stopped at once, away"),
    _server_away("database", signal.SIGINT, "PostgreSQL restarted in order"),
    _troubled(Trouble(cut=0.1), "links cut"),
    _troubled(Trouble(delay=0.5, delay_seconds=1.0), "links slow"),
    _troubled(Trouble(twice=0.5), "messages doubled"),
    _troubled(Trouble(swap=0.3), "messages swapped"),
    _troubled(Trouble(cut=0.03, delay=0.3, delay_seconds=0.5, twice=0.3, swap=0.2), "links bad in all ways"),
    _troubled(Trouble(refuse=True), "clusters silent", seconds=SILENT_SECONDS, is_long=True),
    _clock_moved("scheduler", 90.0),
    _clock_moved("scheduler", -90.0),
    _clock_moved("worker", 90.0),
    _clock_moved("live", -90.0),
    _clock_moved("west", 3600.0),
    InjectedFault("database's disk full", _fill_disk, _free_disk, AWAY_SECONDS, needs_disk=True),
)
