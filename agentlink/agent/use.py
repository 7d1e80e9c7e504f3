"""What the agent measures several times a minute and tells once."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from agentlink import protocol
from agentlink.agent.backends.base import Backend
from agentlink.agent.link import Link
from agentlink.protocol import UsageFigure

logger = logging.getLogger(__name__)

MEASURE_SECONDS = 30.0
MEASURED_BEFORE_TOLD = 2


async def tell(link: Link, backend: Backend, is_greeted: Callable[[], bool]) -> None:
    """Tell each minute what workloads make of their GPUs, until cancelled. What is lost is not told again."""
    gathered = Gathered()
    # Away from the turn of the minute, so that each has its figure; not all agents at once.
    phase = MEASURE_SECONDS * random.uniform(0.2, 0.8)  # noqa: S311 - guards nothing
    while True:
        for _ in range(MEASURED_BEFORE_TOLD):
            pause = MEASURE_SECONDS - (time.time() - phase) % MEASURE_SECONDS
            # A sleep that ended a little early has ended all the same.
            await asyncio.sleep(pause if pause > MEASURE_SECONDS / 10 else pause + MEASURE_SECONDS)
            if is_greeted():
                gathered.add(await _measured(backend))
        for message in protocol.usage_in_parts(gathered.take()):
            await link.send([message])


async def _measured(backend: Backend) -> Sequence[UsageFigure]:
    """Return what workloads make of their GPUs; nothing, and a line in the log, where that cannot be told."""
    try:
        return await backend.usage()
    except Exception:
        logger.exception("What workloads make of their GPUs could not be measured.")
        return ()


class Gathered:
    """Figures of several samples, until they are told as one for each workload."""

    def __init__(self) -> None:
        self._figures: dict[UUID, list[UsageFigure]] = {}

    def add(self, figures: Iterable[UsageFigure]) -> None:
        """Add the figures of a sample."""
        for figure in figures:
            self._figures.setdefault(figure.workload, []).append(figure)

    def take(self) -> list[UsageFigure]:
        """Return the means of what was added since the last time, at the time of the latest."""
        gathered, self._figures = self._figures, {}
        return [_mean(figures) for figures in gathered.values()]


def _mean(figures: Sequence[UsageFigure]) -> UsageFigure:
    by_device: dict[str, list[int]] = {}
    for figure in figures:
        for device, percent in figure.devices.items():
            by_device.setdefault(device, []).append(percent)
    tensor = [figure.tensor_percent for figure in figures if figure.tensor_percent is not None]
    power = [figure.power_watts for figure in figures if figure.power_watts is not None]
    return UsageFigure(
        workload=figures[0].workload,
        at=max(figure.at for figure in figures),
        utilisation_percent=_of([figure.utilisation_percent for figure in figures]),
        memory_mib=_of([figure.memory_mib for figure in figures]),
        tensor_percent=_of(tensor) if tensor else None,
        power_watts=_of(power) if power else None,
        devices={device: _of(percents) for device, percents in by_device.items()},
    )


def _of(numbers: Sequence[int]) -> int:
    """Return the mean, rounded down."""
    return sum(numbers) // len(numbers)
