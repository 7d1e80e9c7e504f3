"""Starts and stops the demo's simulated agents; the clusters they report on go on without them, as real ones would."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.runner import run_agent
from chamber import logs

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A simulated cluster and the token its agent signs in with."""

    name: str
    token: str
    simulation: SimulatedCluster


class Supervisor:
    """One agent task per cluster; `stop` and `start` may be called from any thread."""

    def __init__(self, *, url: str, clusters: tuple[DemoCluster, ...]) -> None:
        self._url = url
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Start every agent and keep them until cancelled."""
        for name in self._clusters:
            self._begin(name)
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def names(self) -> list[str]:
        """Return the clusters whose agents are supervised here."""
        return sorted(self._clusters)

    def is_running(self, name: str) -> bool:
        """Return whether the agent of this cluster runs now."""
        task = self._tasks.get(name)
        return task is not None and not task.done()

    def start(self, name: str) -> None:
        """Start the agent where it does not run."""
        self._loop.call_soon_threadsafe(self._begin, name)

    def stop(self, name: str) -> None:
        """Stop the agent where it runs; its cluster's pods go on."""
        self._loop.call_soon_threadsafe(self._end, name)

    def _begin(self, name: str) -> None:
        if not self.is_running(name):
            self._tasks[name] = asyncio.create_task(self._agent(self._clusters[name]))

    def _end(self, name: str) -> None:
        with suppress(KeyError):
            self._tasks.pop(name).cancel()

    async def _agent(self, cluster: DemoCluster) -> None:
        try:
            with logs.bind(cluster=cluster.name):
                simulation = cluster.simulation
                await run_agent(self._url, cluster.token, simulation, memory=simulation.memory)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("The simulated agent of %s ended by a fault.", cluster.name)


_supervisor: Supervisor | None = None


def install(supervisor: Supervisor | None) -> None:
    """Make `supervisor` the one that the cluster pages' buttons reach."""
    global _supervisor  # noqa: PLW0603 - one process, one supervisor
    _supervisor = supervisor


def current() -> Supervisor | None:
    """Return this process's supervisor; None outside the demo."""
    return _supervisor
