"""A Kubernetes cluster in which Chamber decides what runs where: its own Jobs, gated, each pod tied to its node.

Everything is known by watches and nothing is kept beside the cluster's objects. Each attempt is looked after by itself
whenever something of it changes: what was asked for is done, what was found is written down, and what goes wrong with
one is tried again without the others noticing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import NoReturn, Self
from uuid import UUID

from agentlink.agent.backends.base import Found, LogPiece, Observation
from agentlink.agent.backends.native import events, foreign, logs
from agentlink.agent.backends.native.adopting import Adopter
from agentlink.agent.backends.native.attempts import AttemptIndex
from agentlink.agent.backends.native.budgets import Disruption
from agentlink.agent.backends.native.care import Care, OpenOrders
from agentlink.agent.backends.native.facts import JobFacts, PodFacts, read_job, read_pod
from agentlink.agent.backends.native.inventory import NodeInventory, Settings
from agentlink.agent.backends.native.maintenance import Maintenance
from agentlink.agent.backends.native.making import Maker
from agentlink.agent.backends.native.marks import JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.nodes import NodeFacts
from agentlink.agent.backends.native.places import ROLE, NamespaceKeeper
from agentlink.agent.backends.native.spaces import Spaces
from agentlink.agent.backends.native.usage import EXPORTERS, PORT, GpuExporters, Holder
from agentlink.agent.backends.native.work import Work
from agentlink.agent.figures import FIGURES
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import JOBS, NAMESPACES, NODES, PODS, JsonObject
from agentlink.protocol import (
    ENDED,
    AssignedPod,
    DesiredAttempt,
    Namespaces,
    NodeReport,
    ReportedPhase,
    StopNotice,
    UsageFigure,
    Verdict,
)
from chamber.logs import bind as bind_to_log


async def cluster_uid(kube: Kube) -> str:
    """Return the cluster's own id, which its agent says hello with; raise `KubeError`."""
    return str((await kube.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


class NativeCluster:
    """The cluster, to be entered with `async with`: from then on it is watched and looked after.

    `own_namespace` is the agent's; workloads whose assignment names none run in `namespace`. `exporters` are labels of
    the pods that are asked on `exporter_port` what is made of GPUs.
    """

    uid: str

    def __init__(
        self,
        kube: Kube,
        *,
        own_namespace: str,
        namespace: str = "",
        settings: Settings | None = None,
        names: DomainNames | None = None,
        exporters: Sequence[str] = EXPORTERS,
        exporter_port: int = PORT,
        role: str = ROLE,
        disruption: Disruption | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.kube = kube
        self._role, self._disruption = role, disruption or Disruption()
        self.names = names or DomainNames()
        self._own_namespace, self._namespace = own_namespace, namespace or own_namespace
        self._known_marks = marks
        self._version = 1
        self._changed_at: OrderedDict[UUID, int] = OrderedDict()
        self._waiting: set[asyncio.Event] = set()
        self._work: Work[UUID] = Work(self._look_after)
        self.attempts = AttemptIndex(self._touch, self._touch_node)
        self.inventory = NodeInventory(
            kube,
            use_of=self.attempts.use_of,
            owns=self.attempts.owns,
            on_change=self._ring,
            on_leaving=self.attempts.lose_node,
            on_problem=self._tell_of_node,
            settings=settings,
            names=self.names,
        )
        self._jobs: Reflector[JobFacts] = Reflector(
            kube, JOBS, self._read_job, labels=self.names.cluster, on_change=self._take_job
        )
        self._pods: Reflector[PodFacts] = Reflector(kube, PODS, read_pod, on_change=self._take_pod)
        self._bound: frozenset[str] = frozenset()
        self._gpu_use = GpuExporters(
            kube, holders=self._holders, users=self._users, labels=exporters, port=exporter_port
        )
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[object]] = []

    async def __aenter__(self) -> Self:
        """Begin to watch; raise `KubeError` where the API server does not let the agent."""
        self.uid = await cluster_uid(self.kube)
        self._marks = self._known_marks or await Marks.load(
            self.kube, self._own_namespace, domain=self.names.domain
        )
        maker = Maker(self.kube, self.names, self._marks, self.inventory, self.uid, self._disruption)
        adopter = Adopter(self.kube, self.names, self._marks, self.inventory, self.uid)
        FIGURES.waiting = self._work.__len__
        await self._tasks.__aenter__()
        keeper = NamespaceKeeper(
            self.kube, self.inventory, self.names, own_namespace=self._own_namespace, role=self._role
        )
        self._spaces = Spaces(
            self.kube,
            self._marks,
            keeper,
            self.names,
            resources=self.inventory.settings.resources,
            counted=self.attempts.counted,
            on_change=self._ring,
            foreign=self._foreign_in,
        )
        self._care = Care(
            maker,
            adopter,
            self.attempts,
            namespace=self._namespace,
            touch=self._touch,
            has_room=self._spaces.has_room,
            why_closed=self._spaces.why_closed,
            maintenance=Maintenance(self.kube, self.inventory),
            foreign=lambda namespace: foreign.named(self._foreign_in(namespace)),
        )
        runs = [each.run() for each in (self._jobs, self._pods, self._spaces, *self.inventory.reflectors)]
        self._running = [
            self._tasks.create_task(run) for run in (*runs, self._begin_work(), self._gpu_use.run())
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        if kind is asyncio.CancelledError:  # perhaps because one of the tasks failed: then that is raised
            await self._tasks.__aexit__(kind, error, trace)
        else:
            await self._tasks.__aexit__(None, None, None)

    async def synced(self) -> None:
        """Return when all that there is has been seen once."""
        for reflector in (self._jobs, self._pods, *self.inventory.reflectors):
            await reflector.synced.wait()

    async def _begin_work(self) -> NoReturn:
        """Look after attempts from when all is known: what was not seen yet must not count as gone."""
        await self.synced()
        await self._work.run()

    def _read_job(self, body: JsonObject) -> JobFacts | None:
        mark = self._marks.kind(body)
        return read_job(body, self.names, adopted=mark is JobOrigin.ADOPTED) if mark is not None else None

    # What an agent asks for (agentlink.agent.backends.base.Backend)

    async def nodes(self, since: int) -> tuple[int, Sequence[NodeReport] | None]:
        """Return all machines where any changed."""
        await self.synced()
        version, reports = self.inventory.reports()
        return version, reports if version > since else None

    async def observe(self, since: int) -> tuple[int, Sequence[Observation]]:
        """Return the attempts that changed after version `since`, the latest changed last."""
        await self.synced()
        found: list[Observation] = []
        for attempt in reversed(self._changed_at):
            if self._changed_at[attempt] <= since:
                break
            seen = self._care.see(attempt)
            if seen is not None:
                found.append(seen)
        self._spaces.end(
            [seen.attempt for seen in found if seen.phase in ENDED or seen.phase is ReportedPhase.GONE]
        )
        return self._version, found[::-1]

    async def changed(self, since: int) -> None:
        """Return when something changed after version `since`."""
        bell = asyncio.Event()
        self._waiting.add(bell)
        try:
            while self._version <= since:
                bell.clear()
                await bell.wait()
        finally:
            self._waiting.discard(bell)

    async def expect(self, assignments: Collection[DesiredAttempt]) -> None:
        """Take in which attempts are wanted and let go: only their pods are freed of their gates."""
        await self._spaces.expect(assignments)
        for attempt in self._care.expect(assignments):
            self._work.add(attempt)

    async def create(self, assignment: DesiredAttempt, pods: Sequence[AssignedPod]) -> None:
        """Have these pods created; a refusal is observed as a failure."""
        asked = self._ask(assignment.attempt)
        asked.assignment = assignment
        asked.pods |= {pod.index: pod for pod in pods}

    async def stop(
        self, attempt: UUID, pods: Collection[int] | None, notice: StopNotice | None = None
    ) -> None:
        """Have pods stopped, each with its grace period; what they are told before it is part of that."""
        asked = self._ask(attempt)
        if pods is None:
            asked.stop, asked.notice = True, notice
        else:
            asked.remove |= set(pods)

    async def forget(self, attempt: UUID) -> None:
        """Have the record of an attempt dropped."""
        self._ask(attempt).forget = True

    async def bind(self, namespaces: Namespaces) -> None:
        """Keep these namespaces."""
        self._bound = frozenset(each.namespace for each in namespaces.bound)
        await self._spaces.bind(namespaces)

    async def discovered(self, since: int) -> tuple[int, Found | None]:
        """Return what is in the bound namespaces, where that changed."""
        return await self._spaces.discovered(since)

    async def answer(self, verdicts: Sequence[Verdict]) -> None:
        """Tell people what became of their Jobs."""
        await self._spaces.answer(verdicts)

    def pod_of(self, attempt: UUID, index: int) -> tuple[str, str] | None:
        """Return namespace and name of a pod, by its index in the workload; None where there is none."""
        found = self.attempts.get(attempt)
        slots = [slot for slot in found.slots if slot.planned.index == index] if found is not None else []
        pod = next((slot.pod for slot in reversed(slots) if slot.pod is not None), None)
        return (pod.namespace, pod.name) if pod is not None else None

    def logs(
        self, attempt: UUID, pod: int, *, follow: bool, tail_bytes: int, after: str = ""
    ) -> AsyncGenerator[LogPiece]:
        """Yield what a pod wrote; a cursor is the time of a line."""
        where = partial(self.pod_of, attempt, pod)
        coming = partial(self._care.makes, attempt, pod)
        return logs.read(self.kube, where, coming, follow=follow, tail_bytes=tail_bytes, after=after)

    async def usage(self) -> Sequence[UsageFigure]:
        """Return what workloads make of their GPUs, as far as exporters of GPU metrics tell."""
        return await self._gpu_use.figures()

    def _holders(self) -> dict[str, Holder]:
        return {
            f"{pod.namespace}/{pod.name}": Holder(workload, pod.node)
            for pod, workload in self.attempts.on_nodes()
        }

    def _users(self) -> set[str]:
        """Return the namespaces in which people, and not only operators, may create pods."""
        return {self._namespace, *self._bound, *(pod.namespace for pod, _ in self.attempts.on_nodes())}

    # What is heard

    def _ask(self, attempt: UUID) -> OpenOrders:
        self._work.add(attempt)
        return self._care.ask(attempt)

    async def _look_after(self, attempt: UUID) -> float | None:
        with bind_to_log(**self._care.about(attempt)):
            again = await self._care.look_after(attempt)
        if not self._care.knows(attempt):
            self._changed_at.pop(attempt, None)
        return again

    def _touch(self, attempt: UUID) -> None:
        self._version += 1
        self._changed_at[attempt] = self._version
        self._changed_at.move_to_end(attempt)
        self._work.add(attempt)
        self._spaces.changed(attempt)
        self._ring_bells()

    def _take_pod(self, key: str, old: PodFacts | None, new: PodFacts | None) -> None:
        self.attempts.take_pod(key, old, new)
        changed = old is None or new is None or old.is_over != new.is_over or old.uid != new.uid
        if changed and any(pod is not None and self.attempts.is_foreign(pod) for pod in (old, new)):
            self._spaces.take_foreign(key.partition("/")[0])

    def _take_job(self, key: str, old: JobFacts | None, new: JobFacts | None) -> None:
        self.attempts.take_job(key, old, new)
        if old is None:  # its pods may have been heard of before
            self._spaces.take_foreign(key.partition("/")[0])

    def _foreign_in(self, namespace: str) -> list[foreign.ForeignPod]:
        return foreign.read(self.attempts.foreign_in(namespace), self.inventory.settings.resources)

    def _touch_node(self, node: str) -> None:
        self.inventory.touch(node)

    def _tell_of_node(self, node: NodeFacts, problem: str) -> None:
        """Say on a node what an operator asked of it and cannot be done."""
        told = events.KubeEvent(
            events.OF_NODES, node.name, node.uid, "Warning", "DrainNotRead", problem[:1000], NODES
        )
        self._spaces.say(told)

    def _ring(self) -> None:
        """Note that a machine may have changed."""
        self._version += 1
        self._ring_bells()

    def _ring_bells(self) -> None:
        for bell in self._waiting:
            bell.set()
