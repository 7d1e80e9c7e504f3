"""What workloads make of their GPUs, by NVIDIA's DCGM exporters: asked where Chamber's pods are, by pod address.

An exporter is believed of pods on its own node only, and only where users have no pods of their own: any pod may bear
its label. One that does not answer delays no other, and is asked less and less often.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

import httpx

from agentlink.agent import exporter, unreached
from agentlink.agent.exporter import ExporterReading
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import PODS, JsonObject
from agentlink.protocol import MAX_DEVICES, UsageFigure

logger = logging.getLogger(__name__)

EXPORTERS = ("app.kubernetes.io/name=dcgm-exporter", "app=nvidia-dcgm-exporter")
"""Labels of the exporter's pods: as its own chart installs it, and as the GPU operator does."""
PORT = 9400
AT_ONCE = 16
MANY = 250
"""From so many exporters on they are asked every other time only: a thousand would take a tenth of a core."""
ANSWER_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 45.0
LONGEST_PAUSE_SECONDS = 600.0
"""How long an exporter that did not answer is left alone: twice as long each time."""


class Holder(NamedTuple):
    """The owner of a pod, and where it runs."""

    workload: UUID
    node: str


@dataclass(frozen=True, slots=True)
class Exporter:
    """A pod that can be asked."""

    namespace: str
    node: str
    address: str


@dataclass(slots=True)
class _SilentExporter:
    """An exporter that did not answer."""

    failures: int = 0
    until: float = 0.0


class GpuExporters:
    """The exporters of a cluster, and what they say of Chamber's pods.

    `holders` are those pods now, by `namespace/name`; `users` the namespaces where people create pods. It is entered
    while it is asked: `run` does that, and keeps up with the exporters' pods.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        holders: Callable[[], Mapping[str, Holder]],
        users: Callable[[], Collection[str]],
        labels: Sequence[str] = EXPORTERS,
        port: int = PORT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holders, self._users, self._port, self._clock = holders, users, port, clock
        self._found = [Reflector(kube, PODS, trim, labels=each) for each in labels]
        self._silent: dict[Exporter, _SilentExporter] = defaultdict(_SilentExporter)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._rests = False
        self._client = httpx.AsyncClient(
            trust_env=False,  # no proxy stands before a pod
            timeout=ANSWER_SECONDS,
            limits=httpx.Limits(max_keepalive_connections=AT_ONCE),
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Follow which exporters there are, until cancelled."""
        async with self:
            await asyncio.gather(*(each.run() for each in self._found))

    async def figures(self) -> list[UsageFigure]:
        """Return what the workloads whose pods' exporters answer make of their GPUs; of many, every other time."""
        holders = self._holders()
        asked = self._to_ask({holder.node for holder in holders.values()})
        self._rests = len(asked) >= MANY and not self._rests
        if self._rests:
            return []
        pages = await asyncio.gather(*(self._page(each) for each in asked))
        told = ((each.node, page) for each, page in zip(asked, pages, strict=True))
        return summed(told, holders, datetime.now(UTC))

    def _to_ask(self, nodes: Collection[str]) -> list[Exporter]:
        """Return an exporter for each of the nodes that has one which is not left alone."""
        users, now = set(self._users()), self._clock()
        by_node: dict[str, Exporter] = {}
        for found in self._found:
            for each in found.items.values():
                if each.node in nodes and each.namespace not in users:
                    by_node.setdefault(each.node, each)
        self._silent = defaultdict(
            _SilentExporter, {each: self._silent[each] for each in by_node.values() if each in self._silent}
        )
        silent = {each for each, silence in self._silent.items() if silence.until > now}
        return [each for each in by_node.values() if each not in silent]

    async def _page(self, asked: Exporter) -> list[ExporterReading]:
        """Return what an exporter says; nothing where it does not answer."""
        try:
            async with self._room, asyncio.timeout(ANSWER_SECONDS):
                text = await self._text(asked)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            self._leave_alone(asked, error)
            return []
        if self._silent.pop(asked, None) is not None:
            logger.info("The exporter of GPU metrics on %s answers again.", asked.node)
        return exporter.read(text)

    async def _text(self, asked: Exporter) -> str:
        host = f"[{asked.address}]" if ":" in asked.address else asked.address
        body = bytearray()
        async with self._client.stream("GET", f"http://{host}:{self._port}/metrics") as response:
            response.raise_for_status()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > exporter.MOST_BYTES:
                    break
        return body.decode(errors="replace")

    def _leave_alone(self, asked: Exporter, error: Exception) -> None:
        silence = self._silent[asked]
        pause = min(FIRST_PAUSE_SECONDS * (1 << min(silence.failures, 16)), LONGEST_PAUSE_SECONDS)
        silence.until = self._clock() + pause
        if not silence.failures:
            words = unreached.words(error).partition("\n")[0]
            logger.warning(
                "The exporter of GPU metrics on %s (%s) does not answer: %s", asked.node, asked.address, words
            )
        silence.failures += 1


def trim(body: JsonObject) -> Exporter | None:
    """Return what is kept of an exporter's pod; None where it cannot be asked."""
    metadata, status = body["metadata"], body.get("status", {})
    node, address = body["spec"].get("nodeName"), status.get("podIP")
    if not node or not address or status.get("phase") != "Running" or "deletionTimestamp" in metadata:
        return None
    return Exporter(metadata["namespace"], node, address)


class _UsedPart(NamedTuple):
    """What a workload has of a GPU: `share` is its part where several pods have it."""

    device: str
    share: float
    busy: float
    tensor: float | None
    memory_mib: float
    power_watts: float | None


def summed(
    pages: Iterable[tuple[str, Sequence[ExporterReading]]], holders: Mapping[str, Holder], at: datetime
) -> list[UsageFigure]:
    """Return a figure for each workload of which the pages (of a node each) tell.

    How busy a GPU is can only be told as a whole; its memory and power are divided equally among the pods that have
    it, and the power of one that is cut into MIG instances among those.
    """
    parts: dict[UUID, list[_UsedPart]] = defaultdict(list)
    for node, readings in pages:
        on_device = Counter(reading.owner.device for reading in readings)
        on_gpu = Counter(reading.owner.gpu for reading in readings)
        for reading in readings:
            owner = reading.owner
            holder = holders.get(f"{owner.namespace}/{owner.pod}")
            if holder is None or holder.node != node or reading.busy is None:
                continue
            share, power = 1 / on_device[owner.device], reading.power_watts
            parts[holder.workload].append(
                _UsedPart(
                    owner.device,
                    share,
                    reading.busy,
                    reading.tensor,
                    (reading.memory_mib or 0.0) * share,
                    None if power is None else power / on_gpu[owner.gpu],
                )
            )
    return [_figure(workload, found, at) for workload, found in parts.items()]


def _figure(workload: UUID, parts: Sequence[_UsedPart], at: datetime) -> UsageFigure:
    tensor = [(part.tensor, part.share) for part in parts if part.tensor is not None]
    power = [part.power_watts for part in parts if part.power_watts is not None]
    devices = {part.device: _percent(part.busy) for part in parts}
    return UsageFigure(
        workload=workload,
        at=at,
        utilisation_percent=_percent(_mean([(part.busy, part.share) for part in parts])),
        tensor_percent=_percent(_mean(tensor)) if tensor else None,
        memory_mib=round(sum(part.memory_mib for part in parts)),
        power_watts=round(sum(power)) if power else None,
        devices=dict(islice(devices.items(), MAX_DEVICES)),
    )


def _mean(values: Sequence[tuple[float, float]]) -> float:
    """Return the mean of values with their weights."""
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def _percent(part: float) -> int:
    """Return a part of 1 as a percentage, rounded down but for what arithmetic loses."""
    return min(100, int(100 * part + 1e-6))
