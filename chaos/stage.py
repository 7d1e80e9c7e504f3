"""What the faults are done to: the deployment, its servers, the clusters' agents, and the proxies between."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from chaos import clocks, disk, organisation, planted
from chaos.disk import CannotMount, Disk
from chaos.link_proxy import LinkProxy
from chaos.organisation import ClusterFiles
from rig import deployment, servers
from rig.deployment import Deployment, ServiceProcess

ARMED = "armed"
STANDBY = "scheduler-2"


@dataclass(frozen=True)
class Stage:
    """Everything that runs."""

    team: Deployment
    folder: Path
    disk: Disk | None
    clusters: tuple[ClusterFiles, ...]
    environment: dict[str, str]
    agents: dict[str, ServiceProcess] = field(default_factory=dict)
    proxies: dict[str, LinkProxy] = field(default_factory=dict)

    @property
    def answers(self) -> Path:
        """The load's journal."""
        return self.folder / "answers.jsonl"

    @property
    def records(self) -> tuple[Path, ...]:
        """What the clusters say that ran."""
        return tuple(cluster.record for cluster in self.clusters)

    @property
    def services(self) -> dict[str, ServiceProcess]:
        """All processes by name; an agent is called as its cluster."""
        return {**self.team.services, **self.agents}

    def token_of(self, cluster: str) -> Path:
        """Return the file that holds the secret of a cluster's agent."""
        return next(files.token for files in self.clusters if files.name == cluster)

    def last_words(self) -> str:
        """Return the end of what each process wrote."""
        return "\n".join(f"{name}: {service.printed()[-1500:]}" for name, service in self.services.items())

    def arm(self) -> None:
        """Wake the planted bug."""
        (self.folder / ARMED).touch()

    def move_clock(self, name: str, seconds: float) -> None:
        """Set by how much the clock of a service is ahead."""
        process = self.services[name].process
        if process is not None:
            clocks.move(self.folder / "clocks", process.pid, seconds)

    @asynccontextmanager
    async def agents_running(self, seed: int) -> AsyncIterator[None]:
        """Run each cluster's agent behind a proxy of its own inside the block."""
        live = urlsplit(self.team.live_url)
        async with AsyncExitStack() as stack:
            for number, files in enumerate(self.clusters):
                proxy = LinkProxy(live.hostname or "127.0.0.1", live.port or 0, seed=seed + number)
                self.proxies[files.name] = await stack.enter_async_context(proxy.running())
                agent = self._agent(files, proxy.url)
                stack.callback(agent.kill)
                agent.start()
            yield

    def _agent(self, files: ClusterFiles, url: str) -> ServiceProcess:
        command = [sys.executable, "-m", "chaos.cluster", "--url", url, "--transport", files.transport]
        command += ["--token-file", str(files.token), "--nodes", str(files.nodes)]
        command += ["--state", str(files.state), "--record", str(files.record)]
        agent = ServiceProcess(files.name, command, {**os.environ, **self.environment}, self.folder)
        self.agents[files.name] = agent
        return agent


@contextmanager
def running(folder: Path, *, plant: str = "", prepare: str = "") -> Iterator[Stage]:
    """Run a deployment of its own inside the block, with the organisation that the load needs, and no agents yet.

    `plant` names a bug that is planted in every process; `prepare` is SQL that takes a guard out of the database.
    """
    (folder / "clocks").mkdir()
    environment = {**planted.environment(plant, folder / ARMED), "CHAOS_CLOCKS": str(folder / "clocks")}
    with ExitStack() as stack:
        full = _disk(stack)
        database = stack.enter_context(_database(full))
        team = stack.enter_context(deployment.running(database, environment=environment, start=False))
        if prepare:
            with psycopg.connect(database.url, autocommit=True) as connection:
                connection.execute(prepare)
        # Two of them: one has its turn, the other stands by.
        first = team.services["scheduler"]
        second = ServiceProcess(STANDBY, first.command, first.environment, team.folder)
        team.services[STANDBY] = second
        team.start()
        clusters = organisation.make(team.web_url, team.token(organisation.ADMIN), folder)
        yield Stage(team, folder, full, clusters, environment)


def _disk(stack: ExitStack) -> Disk | None:
    try:
        return stack.enter_context(disk.mounted())
    except CannotMount as reason:
        print(f"The database's disk is not filled: {reason}.", file=sys.stderr)
        return None


@contextmanager
def _database(full: Disk | None) -> Iterator[servers.PostgreSQL]:
    """Run PostgreSQL, on the small disk where there is one."""
    before = tempfile.tempdir
    tempfile.tempdir = str(full.folder) if full is not None else before
    with ExitStack() as stack:
        try:
            database = stack.enter_context(servers.postgresql())
        finally:
            tempfile.tempdir = before
        yield database
