"""Bound namespaces in the cluster: their Jobs watched, adopted ones held back and answered.

What Chamber has in a namespace is known by the server's word (`expect`), never by what lies there. A Job that asks to
be adopted runs only once Chamber has begun it: one that is unsuspended by hand is suspended again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn
from uuid import UUID

from agentlink.agent.backends.base import Found
from agentlink.agent.backends.native import adoption, events
from agentlink.agent.backends.native.adoption import JobEntry
from agentlink.agent.backends.native.attempts import CountedPod
from agentlink.agent.backends.native.foreign import ForeignPod
from agentlink.agent.backends.native.marks import JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import LEVELS, KeptNamespace, NamespaceKeeper, read_place
from agentlink.agent.backends.native.unmanaged import (
    MOST_TOLD,
    UnmanagedEntry,
    UnmanagedKinds,
    for_kueue,
)
from agentlink.agent.backends.native.work import Work
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Invalid, NotFound, ObjectConflict
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import JOBS, NAMESPACES, JsonObject
from agentlink.protocol import (
    AssignedPod,
    DesiredAttempt,
    DiscoveredJob,
    NamespaceBinding,
    NamespaceReport,
    Namespaces,
    Verdict,
)
from agentlink.protocol.profiles import GPU_MILLI

logger = logging.getLogger(__name__)

MOST_JOBS = 1000
"""Jobs of a namespace that are told to the server while they wait: a loop cannot fill its queue."""
LOOK_AGAIN_SECONDS = 60.0
TRY_AGAIN_SECONDS = 2.0
"""How soon after a role was given it is tried whether it holds by now."""
RECOUNT_SECONDS = 0.5
"""How soon after pods have gone the quotas are lowered: others go at the same time."""
UNKNOWN = "The agent has not looked at it yet."


@dataclass(slots=True)
class _Space:
    """One bound namespace."""

    bound: NamespaceBinding
    jobs: Reflector[JobEntry]
    task: "asyncio.Task[NoReturn] | None" = None
    problem: str = UNKNOWN
    unlimited: str = ""
    """Why its quota cannot be written."""
    refusals: int = 0
    """How often in a row that was so."""
    foreign: Sequence[ForeignPod] = ()
    """Its pods with GPUs that Chamber did not make, as they were last seen."""
    room: dict[UUID, int] = field(default_factory=dict)
    """For how many pods of each attempt the quota leaves room."""

    @property
    def known(self) -> bool:
        return not self.problem and self.jobs.synced.is_set()


class _Namespace(NamedTuple):
    """Errand: have a namespace be as it should."""

    name: str


class _Job(NamedTuple):
    """Errand: look at a Job, by namespace and name."""

    key: str


class _Quota(NamedTuple):
    """Errand: have a namespace's quota again where it was changed or deleted."""

    namespace: str


class _Quotas(NamedTuple):
    """Errand: have all quotas leave room for what there is, and for no more."""


class Spaces:
    """All bound namespaces of a cluster, looked after while `run` does.

    `resources` are patterns of the device plugin's names. `counted` gives Chamber's pods that quotas count, `foreign`
    the pods with GPUs of a namespace that Chamber did not make.
    `on_change` is called when what there is to be told may have changed.
    """

    def __init__(
        self,
        kube: Kube,
        marks: Marks,
        keeper: NamespaceKeeper,
        names: DomainNames,
        *,
        resources: Sequence[str],
        counted: Callable[[], Iterable[CountedPod]],
        on_change: Callable[[], None],
        foreign: Callable[[str], Sequence[ForeignPod]] = lambda _: [],
    ) -> None:
        self._foreign = foreign
        self._kube, self._marks, self._keeper, self._names = kube, marks, keeper, names
        self._resources, self._counted, self._ring = resources, counted, on_change
        self._version = 1
        self._bindings = 0
        self._spaces: dict[str, _Space] = {}
        self._expected: dict[UUID, DesiredAttempt] | None = None
        self._quotas = asyncio.Lock()
        self._recount: asyncio.TimerHandle | None = None
        self._leaving: set[UUID] = set()
        """Attempts of which quotas last counted pods that are not expected."""
        self._over: set[UUID] = set()
        """Attempts of which no pod comes any more, though the server may not have heard of that."""
        self._told: dict[str, Verdict] = {}
        self._work: Work[_Namespace | _Job | _Quota | _Quotas | events.KubeEvent] = Work(self._do)
        self._places: Reflector[KeptNamespace] = Reflector(
            kube, NAMESPACES, lambda body: read_place(body, names), on_change=self._on_place
        )
        self._unmanaged = UnmanagedKinds(kube, names, on_change=self._on_unmanaged)
        self._told_unmanaged: dict[str, str] = {}
        self._suspended: set[str] = set()
        """Jobs, by uid, that were suspended, of which that is said once their controller has done so: they may have
        ended before.
        """
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Keep and watch the namespaces until cancelled."""
        try:
            async with self._tasks as tasks:
                tasks.create_task(self._work.run())
                tasks.create_task(self._places.run())
                tasks.create_task(self._unmanaged.run())
        finally:
            if self._recount is not None:
                self._recount.cancel()

    # What the agent says (agentlink.agent.backends.base.Backend)

    async def bind(self, namespaces: Namespaces) -> None:
        """Keep these namespaces, and watch their Jobs; of others nothing is known any more."""
        wanted = {each.namespace: each for each in namespaces.bound}
        for name in [name for name, space in self._spaces.items() if wanted.get(name) != space.bound]:
            task = self._spaces.pop(name).task
            if task is not None:
                task.cancel()
        for name, bound in wanted.items():
            if name not in self._spaces:
                for found in self._unmanaged.of(name):
                    self._tell_unmanaged(found)
                reflector = Reflector(
                    self._kube, JOBS, self._read_job, namespace=name, on_change=self._on_job
                )
                self._spaces[name] = _Space(bound, reflector, foreign=self._foreign(name))
                self._work.add(_Namespace(name))
        self._bindings = namespaces.version
        self._change()

    async def expect(self, assignments: Collection[DesiredAttempt]) -> None:
        """Take in which attempts may have pods: their Jobs run, and quotas leave room for them and for nothing else."""
        first, self._expected = self._expected is None, {each.attempt: each for each in assignments}
        self._over &= self._expected.keys()
        if self._spaces:
            self._work.add(_Quotas())
        if first:
            for space in self._spaces.values():
                for key in space.jobs.items:
                    self._work.add(_Job(key))

    def end(self, attempts: Collection[UUID]) -> None:
        """Take in which attempts are over: only pods of theirs that are there are counted, none that are to come."""
        ended = set(attempts) - self._over
        self._over |= ended
        if self._spaces and self._expected is not None and not ended.isdisjoint(self._expected):
            self._work.add(_Quotas())

    def has_room(self, assignment: DesiredAttempt) -> bool:
        """Return whether the quota of an attempt's namespace lets its pods in by now, or never will by waiting."""
        space = self._spaces.get(assignment.namespace)
        if space is None or space.problem or space.unlimited:
            return True
        return space.room.get(assignment.attempt, 0) >= len(assignment.pods)

    def why_closed(self, assignment: DesiredAttempt) -> str:
        """Return why the agent does not keep an attempt's namespace, as a sentence; "" where it does or none is named.

        One that was not looked at yet is not closed: the API server itself says what it does not take.
        """
        space = self._spaces.get(assignment.namespace)
        return "" if space is None or space.problem == UNKNOWN else space.problem

    def take_foreign(self, namespace: str) -> None:
        """Take in that pods with GPUs that Chamber did not make may have come to a namespace, or gone."""
        space = self._spaces.get(namespace)
        if space is not None and space.foreign != (found := self._foreign(namespace)):
            space.foreign = found
            self._change()

    def changed(self, attempt: UUID) -> None:
        """Take in that pods of an attempt came or went: once those are gone that leave, there is room for no others."""
        if not self._spaces or self._expected is None or self._recount is not None:
            return
        if attempt in self._expected and attempt not in self._leaving:
            return
        self._recount = asyncio.get_running_loop().call_later(RECOUNT_SECONDS, self._work.add, _Quotas())

    async def discovered(self, since: int) -> tuple[int, Found | None]:
        """Return what is in the bound namespaces, where that changed after `since` and all were looked at."""
        spaces = self._spaces.values()
        if any(space.problem == UNKNOWN or not (space.problem or space.known) for space in spaces):
            return since, None
        if self._version <= since:
            return self._version, None
        jobs = [job for space in spaces if space.known for job in _asking(space)]
        return self._version, Found(self._bindings, [self._report(space) for space in spaces], jobs)

    async def answer(self, verdicts: Sequence[Verdict]) -> None:
        """Write on a Job what became of it, where that is new."""
        known = {entry.uid: entry for space in self._spaces.values() for entry in space.jobs.items.values()}
        self._told = {uid: verdict for uid, verdict in self._told.items() if uid in known}
        for verdict in verdicts:
            entry = known.get(verdict.uid)
            if entry is None or entry.finished or self._told.get(verdict.uid) == verdict:
                continue
            self._told[verdict.uid] = verdict
            if verdict.refused:
                self._tell(entry, "Warning", "NotAdopted", f"It stays suspended. {verdict.refused}")
            else:
                sentence = f"Chamber runs it as workload {verdict.workload}. {verdict.note}"
                self._tell(entry, "Normal", "Adopted", sentence.strip())

    def say(self, event: events.KubeEvent) -> None:
        """Have something be said in the cluster, tried until the API server takes it."""
        self._work.add(event)

    # Errands

    async def _do(self, errand: "_Namespace | _Job | _Quota | _Quotas | events.KubeEvent") -> float | None:
        if isinstance(errand, events.KubeEvent):
            await events.write(self._kube, errand)
        elif isinstance(errand, _Quotas):
            self._recount = None
            await self._set_quotas()
        elif isinstance(errand, _Quota):
            return await self._restore_quota(errand.namespace)
        elif isinstance(errand, _Namespace):
            space = self._spaces.get(errand.name)
            return None if space is None else await self._keep(space)
        else:
            await self._look_at(errand.key)
        return None

    async def _keep(self, space: _Space) -> float | None:
        """Have a namespace be as it should; return when to look again where it is not."""
        await self._places.synced.wait()
        name = space.bound.namespace
        problem = await self._keeper.keep(space.bound, self._places.items.get(name))
        if self._spaces.get(name) is not space:
            return None
        if problem != space.problem:
            space.problem = problem
            self._change()
        if problem:
            return LOOK_AGAIN_SECONDS
        if space.task is None:
            space.task = self._tasks.create_task(space.jobs.run())
            space.task.add_done_callback(lambda _: self._change())
            self._tasks.create_task(self._tell_synced(space))
        self._keeper.forget(name)
        await self._set_quotas(name)
        if not space.unlimited:
            space.refusals = 0
            self._work.add(_Quota(name))
            return None
        space.refusals += 1
        return min(TRY_AGAIN_SECONDS * (1 << min(space.refusals - 1, 16)), LOOK_AGAIN_SECONDS)

    async def _restore_quota(self, name: str) -> float | None:
        """Write a namespace's quota anew where it is not what was written; return when to look again."""
        space = self._spaces.get(name)
        if space is None or space.problem or space.unlimited:
            return None
        if not await self._keeper.has_quota(name):
            self._keeper.forget(name)
            await self._set_quotas(name)
        return LOOK_AGAIN_SECONDS

    async def _set_quotas(self, only: str = "") -> None:
        """Have quotas leave room for what is planned and for what is not gone yet, one after the other: the latest
        plan is what stays.
        """
        async with self._quotas:
            if self._expected is None:
                return
            there: dict[str, list[CountedPod]] = defaultdict(list)
            for pod in self._counted():
                there[pod.namespace].append(pod)
            coming: dict[str, list[AssignedPod]] = defaultdict(list)
            room: dict[str, dict[UUID, int]] = defaultdict(dict)
            counted = [pod for pods in there.values() for pod in pods]
            staying = {(pod.attempt, pod.planned.index) for pod in counted if not pod.leaving}
            self._leaving = {pod.attempt for pod in counted if pod.leaving}
            for assignment in self._expected.values():
                room[assignment.namespace][assignment.attempt] = len(assignment.pods)
                if assignment.attempt in self._over:
                    continue
                wanted = {(assignment.attempt, pod.index): pod for pod in assignment.pods}
                coming[assignment.namespace] += [pod for key, pod in wanted.items() if key not in staying]
                staying -= wanted.keys()
            self._leaving |= {attempt for attempt, _ in staying}
            kept = {
                name: space
                for name, space in self._spaces.items()
                if not space.problem and only in ("", name)
            }
            problems = await asyncio.gather(
                *(self._keeper.set_quota(name, coming.get(name, ()), there.get(name, ())) for name in kept)
            )
            for (name, space), problem in zip(kept.items(), problems, strict=True):
                space.room = room[name]
                self._note_unlimited(space, problem)

    def _note_unlimited(self, space: _Space, problem: str) -> None:
        if problem == space.unlimited:
            return
        if problem and not space.unlimited:
            self._work.add(_Namespace(space.bound.namespace))  # tries again, ever later
        space.unlimited = problem
        self._change()

    async def _look_at(self, key: str) -> None:
        """Hold back a Job that runs and may not, and say so; answer one that pretends to be Chamber's."""
        space = self._spaces.get(key.partition("/")[0])
        entry = space.jobs.items.get(key) if space is not None else None
        if entry is None or entry.finished or self._expected is None:
            if entry is not None:
                self._suspended.discard(entry.uid)
            return
        if entry.pretends and entry.described is None:
            message = "It bears labels of Chamber, but Chamber did not make it, and does not look after it."
            self._tell(entry, "Warning", "NotChambers", message)
        if entry.queue and entry.described is None:
            self._tell_unmanaged(self._of_kueue(entry))
        ours = entry.described is not None or entry.mark is JobOrigin.ADOPTED
        begun = entry.mark is JobOrigin.ADOPTED and not entry.stopping
        if entry.suspended and entry.held and entry.uid in self._suspended:
            self._suspended.discard(entry.uid)
            message = (
                f"Suspended: it is labelled {self._names.adopt}, so it runs when Chamber has planned it."
            )
            self._tell(entry, "Warning", "Suspended", message)
        if entry.suspended or begun or not ours:
            return
        change = {"metadata": {"uid": entry.uid}, "spec": {"suspend": True}}
        self._suspended.add(entry.uid)
        with suppress(NotFound, ObjectConflict, Invalid):
            await self._kube.patch(JOBS, entry.name, change, entry.namespace)

    def _of_kueue(self, entry: JobEntry) -> UnmanagedEntry:
        why = for_kueue(entry.queue, self._names, suspended=entry.suspended)
        return UnmanagedEntry(JOBS, entry.namespace, entry.name, entry.uid, why)

    def _tell_unmanaged(self, found: UnmanagedEntry) -> None:
        """Say on an object that Chamber does not run it, once."""
        if self._told_unmanaged.get(found.uid) == found.why:
            return
        self._told_unmanaged[found.uid] = found.why
        self._work.add(
            events.KubeEvent(
                found.namespace, found.name, found.uid, "Warning", "NotRun", found.why, found.resource
            )
        )

    def _report(self, space: _Space) -> NamespaceReport:
        """Return how a namespace stands, with what Chamber does not run there."""
        jobs = space.jobs.items.values() if space.known else ()
        for_others = [entry for entry in jobs if entry.queue and not (entry.described or entry.finished)]
        found = [
            *self._unmanaged.of(space.bound.namespace),
            *(self._of_kueue(entry) for entry in sorted(for_others, key=lambda entry: entry.name)),
        ]
        told = tuple(entry.told for entry in found[:MOST_TOLD])
        report = _report(space, self._places.items.get(space.bound.namespace))
        return report.model_copy(update={"unmanaged": told, "unmanaged_count": len(found)})

    def _tell(self, entry: JobEntry, kind: str, reason: str, message: str) -> None:
        self._work.add(events.KubeEvent(entry.namespace, entry.name, entry.uid, kind, reason, message[:1000]))

    # What is seen

    def _read_job(self, body: JsonObject) -> JobEntry:
        return adoption.read_entry(body, self._marks.kind(body), self._names, resources=self._resources)

    def _on_job(self, key: str, old: JobEntry | None, new: JobEntry | None) -> None:
        if new is not None:
            self._work.add(_Job(key))
        elif old is not None:
            self._told_unmanaged.pop(old.uid, None)
            self._suspended.discard(old.uid)
        self._change()

    def _on_unmanaged(self, old: UnmanagedEntry | None, new: UnmanagedEntry | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._told_unmanaged.pop(old.uid, None)
        for entry in (new, old):
            if entry is not None and entry.namespace in self._spaces:
                if entry is new:
                    self._tell_unmanaged(new)
                self._change()
                return

    def _on_place(self, key: str, _: KeptNamespace | None, __: KeptNamespace | None) -> None:
        if key in self._spaces:
            self._work.add(_Namespace(key))
            self._change()

    async def _tell_synced(self, space: _Space) -> None:
        """Have what there is be told once a namespace without any Job has been looked at, too."""
        await space.jobs.synced.wait()
        self._change()

    def _change(self) -> None:
        self._version += 1
        self._ring()


def _asking(space: _Space) -> list[DiscoveredJob]:
    """Return the Jobs that ask to be adopted; of those that wait, not more than a bound."""
    asking = [entry.described for entry in space.jobs.items.values() if entry.described is not None]
    waiting = sorted((job for job in asking if not job.finished), key=lambda job: job.uid)
    return [*waiting[:MOST_JOBS], *(job for job in asking if job.finished)]


def _report(space: _Space, place: KeptNamespace | None) -> NamespaceReport:
    entries = space.jobs.items.values() if space.known else ()
    security = place.security if place is not None else ""
    foreign = [
        entry
        for entry in entries
        if entry.mark is None and entry.described is None and not (entry.suspended or entry.finished)
    ]
    jobs = {entry.uid for entry in foreign}  # those count with all that they ask for
    others = [pod for pod in space.foreign if pod.owner not in jobs]
    milli = sum(entry.gpus_milli for entry in foreign) + sum(pod.gpus_milli for pod in others)
    return NamespaceReport(
        namespace=space.bound.namespace,
        ready=space.known and not space.unlimited,
        problem=space.problem or space.unlimited,
        security=security if security in LEVELS else "",
        foreign_jobs=len(foreign),
        foreign_gpus=-(-milli // GPU_MILLI),
        foreign_pods=len(others),
        foreign_pod_names=tuple(pod.name for pod in others[:MOST_TOLD]),
    )
