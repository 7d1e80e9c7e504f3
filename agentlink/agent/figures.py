"""What the agent tells Prometheus of itself: counts since its process began, and how things stand when it is asked."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from chamber import __version__

K = TypeVar("K", bound=tuple[str, ...])


@dataclass(slots=True)
class AgentFigures:
    """The figures of one process, which runs one agent. Others write them; `families` reads them."""

    leads: bool = False
    connected: bool = False
    heard_at: float | None = None
    """When the server was last heard, in seconds since the epoch."""
    connections: int = 0
    lost: "Counter[str]" = field(default_factory=Counter)
    """Connections that failed or ended, by why."""
    created: "Counter[str]" = field(default_factory=Counter)
    deleted: "Counter[str]" = field(default_factory=Counter)
    failed: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    """Objects by kind that could not be written, and what was tried."""
    requests: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    """Requests to the API server, by verb and code."""
    attempts: Callable[[], Mapping[str, int]] = dict
    """Attempts that are observed, by phase."""
    unacknowledged: Callable[[], int] = int
    """Reports that the server has not acknowledged."""
    waiting: Callable[[], int] = int
    """Attempts that wait to be looked after."""

    def stand_by(self) -> None:
        """Note that another agent leads, or none: what is observed is not this one's to tell."""
        self.leads = self.connected = False
        self.attempts, self.unacknowledged, self.waiting = dict, int, int


def families(figures: AgentFigures) -> Iterator[Metric]:
    """Yield all metrics of the agent."""
    yield InfoMetricFamily("chamber_agent_build", "The agent's version.", value={"version": own_version()})
    yield _gauge("leader", "1 while this agent leads, 0 while it stands by.", figures.leads)
    yield _gauge("connected", "1 while the server has answered its hello.", figures.connected)
    if figures.heard_at is not None:
        text = "When a message of the server came last."
        yield _gauge("server_last_heard_timestamp_seconds", text, figures.heard_at)
    yield CounterMetricFamily(
        "chamber_agent_connections", "Hellos that the server answered.", value=figures.connections
    )
    text = "Connections to the server that failed or ended, by why."
    yield _counter("connections_lost", text, ("reason",), {(why,): n for why, n in figures.lost.items()})
    for word, counts in (("created", figures.created), ("deleted", figures.deleted)):
        text = f"Objects that the agent has {word} in the cluster."
        yield _counter(f"objects_{word}", text, ("kind",), {(kind,): n for kind, n in counts.items()})
    text = "Objects that could not be created, changed or deleted."
    yield _counter("objects_failed", text, ("kind", "act"), figures.failed)
    text = "Requests to the cluster's API server; the code is 0 where none came."
    yield _counter("api_requests", text, ("verb", "code"), figures.requests)
    observed = GaugeMetricFamily(
        "chamber_agent_attempts", "Attempts of which the cluster has something.", labels=("phase",)
    )
    for phase, count in sorted(figures.attempts().items()):
        observed.add_metric((phase,), count)
    yield observed
    text = "Reports that the server has not acknowledged."
    yield _gauge("reports_unacknowledged", text, figures.unacknowledged())
    yield _gauge("attempts_waiting", "Attempts that wait to be looked after.", figures.waiting())


def note_heard(figures: AgentFigures) -> None:
    """Note that a message of the server came just now."""
    figures.heard_at = time.time()


def own_version() -> str:
    """Return the version of the package that the agent is part of."""
    return __version__


def page() -> bytes:
    """Return the process's figures in Prometheus' text format."""
    return generate_latest(_registry)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"chamber_agent_{name}", text, value=value)


def _counter(name: str, text: str, labels: tuple[str, ...], counts: Mapping[K, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"chamber_agent_{name}", text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


class _Own(Collector):
    def collect(self) -> Iterator[Metric]:
        return families(FIGURES)


FIGURES = AgentFigures()
"""Those of this process."""
_registry = CollectorRegistry()
_registry.register(_Own())
ProcessCollector(registry=_registry)
