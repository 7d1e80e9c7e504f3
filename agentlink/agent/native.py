"""Runs an agent on a Kubernetes cluster: it waits for its lease, follows the cluster, and speaks with the server."""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from agentlink.agent.backends.native.budgets import Disruption, DisruptionKind
from agentlink.agent.backends.native.cluster import NativeCluster, cluster_uid
from agentlink.agent.backends.native.inventory import GPU_DRIVERS, GPU_RESOURCES, PARTITION_LABEL, Settings
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import ROLE
from agentlink.agent.backends.native.usage import EXPORTERS, PORT
from agentlink.agent.figures import FIGURES
from agentlink.agent.health import Health
from agentlink.agent.kube.access import Access, BadAccess
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, KubeError
from agentlink.agent.kube.lease import Leadership
from agentlink.agent.memory import AgentMemory
from agentlink.agent.runner import Transport, run_agent
from chamber import logs

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
"""How soon an API server that does not let the agent is asked again."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KEY = r"([A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SELECTOR = re.compile(
    rf"!?{_KEY}|{_KEY}\s*(=|==|!=)\s*{_VALUE}|{_KEY}\s+(in|notin)\s+\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)"
)
_DEVICE_CLASS = re.compile(r"[a-z0-9.-]+(/[a-z]+)?=[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent is to look at its cluster; raises `BadAccess` where it cannot."""

    cluster: str = ""
    """What lines of the log call the cluster: its name at the server; else its own id."""
    namespace: str = ""
    """Where workloads run whose team has no namespace; the agent's own where it is empty."""
    node_selectors: tuple[str, ...] = ()
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
    gpu_drivers: tuple[str, ...] = GPU_DRIVERS
    device_classes: tuple[str, ...] = ()
    """Classes to claim published devices by, each as `driver=class`."""
    partition_label: str = PARTITION_LABEL
    exporters: tuple[str, ...] = EXPORTERS
    exporter_port: int = PORT
    role: str = ROLE
    disruption_budgets: tuple[str, ...] = ()
    """Which workloads' pods have budgets, by the words of `budgets.Kind`; empty: the usual."""
    do_not_disrupt: tuple[str, ...] = ()
    """Which have the annotations that autoscalers heed."""

    @property
    def disruption(self) -> Disruption:
        """Return what is kept from being taken away."""
        return Disruption.of(self.disruption_budgets, self.do_not_disrupt)

    @property
    def inventory(self) -> Settings:
        """Return what counts as inventory."""
        return Settings(
            node_selector=",".join(self.node_selectors),
            resources=self.gpu_resources,
            drivers=self.gpu_drivers,
            partition_label=self.partition_label,
            device_classes=dict(each.split("=", 1) for each in self.device_classes),
        )

    def __post_init__(self) -> None:
        words = set(DisruptionKind)
        for given, allowed in (
            (self.disruption_budgets, words),
            (self.do_not_disrupt, words - {DisruptionKind.ADOPTED}),
        ):
            for word in given:
                if word not in allowed:
                    known = ", ".join(kind for kind in DisruptionKind if kind in allowed)
                    raise BadAccess(f"{word!r} names no workloads: write {known}.")
        for pair in self.device_classes:
            if not _DEVICE_CLASS.fullmatch(pair):
                raise BadAccess(f"{pair!r} names no device class: write driver=class, or driver/kind=class.")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise BadAccess(f"{self.namespace!r} is no name of a namespace.")
        for selector in (*self.node_selectors, *self.exporters):
            for part in re.split(r",(?![^()]*\))", selector):
                if not _SELECTOR.fullmatch(part.strip()):
                    raise BadAccess(
                        f"{selector!r} selects nothing: write labels as key=value, with commas between."
                    )


async def run_native(
    access: Access,
    options: AgentOptions,
    *,
    url: str,
    token: Callable[[], str],
    transport: Transport,
    health_port: int | None,
) -> None:
    """Run until cancelled: stand by while another agent of this cluster leads, then lead."""
    health = Health("the cluster's API server")
    served = nullcontext() if health_port is None else health.served(health_port)

    memory = AgentMemory()

    async def lead() -> NoReturn:
        FIGURES.leads, refused = True, logs.Lasting()
        try:
            while True:
                try:
                    await _follow(access, options, health, memory, url=url, token=token, transport=transport)
                except KubeError as error:
                    if refused.due(str(error)):
                        logger.warning("The cluster does not let this agent begin: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            health.waits_for = ""  # it stands by, or ends
            FIGURES.stand_by()

    async with served:
        note = (DomainNames().epoch, memory)
        with logs.bind(cluster=options.cluster or urlsplit(access.server).netloc):
            uid = await _reach(access, health)
        with logs.bind(cluster=options.cluster or uid):
            await Leadership(access, namespace=access.namespace, note=note).run(lead)


async def _reach(access: Access, health: Health) -> str:
    """Return the cluster's own id when the API server answers; empty where it does not tell that."""
    away = logs.Lasting()
    async with Kube(access) as kube:
        while True:
            try:
                await kube.raw("GET", "/version")
                uid = await cluster_uid(kube)
            except Forbidden:
                uid = ""
            except KubeError as error:
                if away.due(str(error)):
                    logger.warning("%s Trying again every %.0f s.", error, AGAIN_SECONDS)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if (seconds := away.over()) is not None:
                logger.info("The API server at %s answers, after %.0f s.", access.server, seconds)
            health.waits_for = ""
            return uid


async def _follow(
    access: Access,
    options: AgentOptions,
    health: Health,
    memory: AgentMemory,
    *,
    url: str,
    token: Callable[[], str],
    transport: Transport,
) -> None:
    """Follow the cluster and the server's word until cancelled; raise `KubeError` where the cluster does not let it."""
    health.waits_for = "the cluster's nodes and pods"

    def tell(linked: bool) -> None:
        health.waits_for = "" if linked else f"Chamber at {url}"

    async with (
        Kube(access) as kube,
        NativeCluster(
            kube,
            own_namespace=access.namespace,
            namespace=options.namespace,
            settings=options.inventory,
            exporters=options.exporters,
            exporter_port=options.exporter_port,
            role=options.role,
            disruption=options.disruption,
        ) as cluster,
    ):
        await cluster.synced()
        tell(False)
        logger.info("Looking for Chamber at %s.", url)
        await run_agent(url, token, cluster, transport=transport, on_link=tell, memory=memory)
