"""A cluster made of timers: pods start, run, end and stop in times drawn from their workload's id, so that the same
workload always takes the same time.

What a command says is played (`played`): `sleep N` runs N seconds, `exit K` ends with K, a program runs as long as is
usual for its job class. The cluster refuses what no real one could take (a node that is down or cordoned, a
device beyond itself), and goes on while no agent is looking; with a `state_file` also over restarts of the process.
What ended by itself does not run again, though a server that was restored has forgotten the end and asks for it.

Pods live by the machine's monotonic clock, which cannot be set. Only the times that are told to the server come from
the calendar clock, and are wrong where that is.
"""

import asyncio
import heapq
import math
import time
from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from agentlink.agent.backends import effort, played
from agentlink.agent.backends.base import Found, LogPiece, NoLogs, Observation
from agentlink.agent.backends.jobs import (
    Due,
    Job,
    JobTimer,
    calendar_time,
    observation,
    tell_created,
    tell_deleted,
)
from agentlink.agent.backends.script import Script
from agentlink.agent.backends.statefile import StateFile
from agentlink.agent.memory import AgentMemory
from agentlink.protocol import (
    ENDED,
    LIVING,
    AssignedCredentials,
    AssignedPod,
    DesiredAttempt,
    NamespaceReport,
    Namespaces,
    NodeReport,
    PodState,
    ReportedPhase,
    StopNotice,
    UsageFigure,
    Verdict,
)
from agentlink.protocol.profiles import GPU_MILLI
from chamber.notes import MARK

LOOK_AGAIN_SECONDS = 5.0
LOOK_FOR_LINES_SECONDS = 0.2
MOST_PAST = 1000
"""So many attempts are remembered, the latest, that ended by themselves and were forgotten."""


class SimulatedCluster:
    """The cluster. Time passes when it is looked at: what became due in between has happened at its own time."""

    def __init__(
        self,
        nodes: Iterable[NodeReport],
        *,
        name: str = "simulated",
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
        state_file: Path | None = None,
    ) -> None:
        self.uid = f"simulated-{name}"[:64]
        self._monotonic, self._calendar = clock, calendar
        self._ahead_seconds = 0.0
        self._nodes = {node.name: node for node in nodes}
        self._version = 1
        self._nodes_version = 1
        self._bound, self._bound_at = Namespaces(version=0), 0
        self._jobs: dict[UUID, Job] = {}
        self._past: OrderedDict[UUID, Job] = OrderedDict()
        self._changed_at: OrderedDict[UUID, int] = OrderedDict()
        self._heap: list[tuple[float, str, UUID]] = []
        self._used: dict[tuple[str, int], int] = defaultdict(int)
        self.secrets: dict[UUID, AssignedCredentials] = {}
        """What jobs were handed, as long as they are there; in no file."""
        self._waiting: set[asyncio.Event] = set()
        self._unsaved: set[UUID] = set()
        self._state_file = StateFile(state_file) if state_file is not None else None
        if self._state_file is not None:
            self._load(self._state_file.read())

    @property
    def memory(self) -> AgentMemory | None:
        """Return what agents of this cluster remembered; None without a state file."""
        return self._state_file.memory if self._state_file is not None else None

    # What an agent asks for (agentlink.agent.backends.base.Backend)

    async def nodes(self, since: int) -> tuple[int, Sequence[NodeReport] | None]:
        """Return all machines where any changed."""
        return self._nodes_version, (list(self._nodes.values()) if self._nodes_version > since else None)

    async def observe(self, since: int) -> tuple[int, Sequence[Observation]]:
        """Return the attempts that changed after version `since`, the latest changed last.

        What is told is in the state file by then: no end of the process takes it back.
        """
        self.advance()
        self.save()
        found: list[Observation] = []
        for attempt in reversed(self._changed_at):
            if self._changed_at[attempt] <= since:
                break
            found.append(observation(attempt, self._jobs[attempt]))
        return self._version, found[::-1]

    async def changed(self, since: int) -> None:
        """Return when something changed after version `since`."""
        bell = asyncio.Event()
        self._waiting.add(bell)
        try:
            while True:
                self.advance()
                if self._version > since:
                    return
                bell.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), timeout=self._seconds_to_next())
        finally:
            self._waiting.discard(bell)

    async def create(self, assignment: DesiredAttempt, pods: Sequence[AssignedPod]) -> None:
        """Create these pods, or refuse all of them."""
        self.advance()
        now = self._clock()
        job = self._jobs.get(assignment.attempt)
        if job is not None and (job.is_over or job.phase is ReportedPhase.STOPPING):
            return
        if assignment.attempt in self._past:  # the server was restored: what has ended does not run again
            self._jobs[assignment.attempt] = past = self._past.pop(assignment.attempt)
            past.is_past = False
            self._touch(assignment.attempt)
            return
        problem = self._problem(assignment, pods)
        if job is None:
            if assignment.credentials is not None and not problem:
                self.secrets[assignment.attempt] = assignment.credentials
            assignment = assignment.model_copy(update={"credentials": None})
            job = Job(assignment=assignment, calendar_ahead_seconds=self._calendar() - now)
            self._jobs[assignment.attempt] = job
        if problem:
            job.reason, job.message = "unschedulable", problem
            self._end(job, ReportedPhase.FAILED, now)
        else:
            self._add(job, pods, now)
        tell_created(assignment, len(pods), problem)
        self._touch(assignment.attempt)

    async def stop(
        self,
        attempt: UUID,
        pods: Collection[int] | None,
        notice: StopNotice | None = None,  # noqa: ARG002 - these pods read none
    ) -> None:
        """Begin to stop pods: they are gone after a part of the grace period."""
        self.advance()
        job = self._jobs.get(attempt)
        if job is None or not job.living():
            return
        if pods is None and not job.is_over:
            job.phase, job.stopping_at = ReportedPhase.STOPPING, self._clock()
        seconds = played.stop_seconds(job.assignment.workload, job.assignment.grace_seconds)
        leaving = None if pods is None else sorted(pods)
        tell_deleted(job.assignment, len(job.living() if leaving is None else leaving))
        self._schedule(attempt, job, JobTimer(at=self._clock() + seconds, what=Due.GONE, pods=leaving))
        self._touch(attempt)

    async def forget(self, attempt: UUID) -> None:
        """Drop the record of an attempt of which no pod is left."""
        job = self._jobs.get(attempt)
        if job is not None and job.is_over and not job.living():
            del self._jobs[attempt]
            self.secrets.pop(attempt, None)
            self._changed_at.pop(attempt, None)
            self._unsaved.add(attempt)
            if job.phase in ENDED:
                job.is_past = True
                self._past[attempt] = job
            if len(self._past) > MOST_PAST:
                oldest, _ = self._past.popitem(last=False)
                self._unsaved.add(oldest)

    async def logs(
        self, attempt: UUID, pod: int, *, follow: bool, tail_bytes: int, after: str = ""
    ) -> AsyncGenerator[LogPiece]:
        """Yield what a pod wrote; a cursor is the number of lines before it."""
        told: int | None = int(after) if after.isdigit() else None
        while (job := self._job_with(attempt, pod)) is not None:
            if job.running_at is not None:
                script = Script(job, pod)
                count = script.count(self._clock())
                if told is None:
                    told = _tail(script, count, tail_bytes)
                if count > told:
                    for piece in _pieces(job, script, told, count):
                        yield piece
                    told = count
            elif not follow:
                raise NoLogs("The pod has not started yet.", not_started=True)
            if not follow or job.is_over:
                return
            await asyncio.sleep(LOOK_FOR_LINES_SECONDS)
        if told is None:
            raise NoLogs("The pod is not there any more.")

    async def usage(self) -> Sequence[UsageFigure]:
        """Return what the workloads that run make of their GPUs."""
        self.advance()
        now = self._calendar()
        found = (effort.figure(job, self._nodes, now) for job in self._jobs.values())
        return [figure for figure in found if figure is not None]

    async def expect(self, assignments: Collection[DesiredAttempt]) -> None:
        """Take in which attempts may have pods; nothing else makes any here."""

    async def bind(self, namespaces: Namespaces) -> None:
        """Keep these namespaces: all that is asked for them."""
        self._bound = namespaces
        self._version += 1
        self._bound_at = self._version
        self._ring()

    async def discovered(self, since: int) -> tuple[int, Found | None]:
        """Return that the bound namespaces are there, with no Jobs of users in them."""
        if since >= self._bound_at:
            return self._version, None
        reports = [NamespaceReport(namespace=each.namespace, ready=True) for each in self._bound.bound]
        return self._version, Found(self._bound.version, reports, ())

    async def answer(self, verdicts: Sequence[Verdict]) -> None:
        """Hear what became of Jobs; here are no users to be told."""

    # What happens to a cluster

    def add_node(self, node: NodeReport) -> None:
        """Add a machine, or put another in the place of one with its name."""
        self._nodes[node.name] = node
        self._touch_nodes()

    def remove_node(self, name: str) -> None:
        """Take a machine away; what ran there is lost."""
        self._lose(name)
        del self._nodes[name]
        self._touch_nodes()

    def set_down(self, name: str) -> None:
        """Have a machine fail; what ran there is lost."""
        self._lose(name)
        self._nodes[name] = self._nodes[name].model_copy(update={"ready": False})
        self._touch_nodes()

    def set_up(self, name: str) -> None:
        """Have a machine come back, empty."""
        self._nodes[name] = self._nodes[name].model_copy(update={"ready": True})
        self._touch_nodes()

    def cordon(self, name: str, *, cordoned: bool = True) -> None:
        """Have a machine take no new pods, or take them again; those that run there go on."""
        self._nodes[name] = self._nodes[name].model_copy(update={"cordoned": cordoned})
        self._touch_nodes()

    def drain(self, name: str) -> None:
        """Have a machine emptied: it takes no new pods, and those there are evicted with their grace period."""
        self.cordon(name)
        self.advance()
        now = self._clock()
        for attempt, job in self._jobs.items():
            evicted = [index for index in job.living() if job.pods[index].node == name]
            if not evicted:
                continue
            if not job.is_over and job.phase is not ReportedPhase.STOPPING:
                job.reason = "drained"
                job.message = f"Pod {evicted[0]} on {name} was evicted, as when its node is drained."
                job.phase, job.ended_at = ReportedPhase.FAILED, now
            seconds = played.stop_seconds(job.assignment.workload, job.assignment.grace_seconds)
            self._schedule(attempt, job, JobTimer(at=now + seconds, what=Due.GONE, pods=evicted))
            self._touch(attempt)

    def delete_pods(self, attempt: UUID) -> None:
        """Take an attempt's pods away behind the agent's back."""
        job = self._jobs[attempt]
        self._take_away(job, job.living())
        job.phase = ReportedPhase.GONE
        self._touch(attempt)

    def used_milli(self) -> dict[tuple[str, int], int]:
        """Return how much of each device pods have, by node and index."""
        self.advance()
        return {device: milli for device, milli in self._used.items() if milli}

    def living_attempts(self) -> dict[UUID, list[UUID]]:
        """Return the attempts that have pods, by workload."""
        self.advance()
        found: dict[UUID, list[UUID]] = defaultdict(list)
        for attempt, job in self._jobs.items():
            if job.living():
                found[job.assignment.workload].append(attempt)
        return dict(found)

    def advance(self) -> None:
        """Let everything happen that is due."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            at, _, attempt = heapq.heappop(self._heap)
            job = self._jobs.get(attempt)
            due = [timer for timer in job.timers if timer.at <= at] if job is not None else []
            if job is None or not due:
                continue
            job.timers = [timer for timer in job.timers if timer.at > at]
            for timer in due:
                self._happen(attempt, job, timer)
            self._touch(attempt)

    def save(self) -> None:
        """Store what changed, and what the agent learned, in the state file, where there is one."""
        if self._state_file is not None and (self._unsaved or self._state_file.is_behind):
            known = ChainMap(self._jobs, self._past)
            changed = {attempt: known.get(attempt) for attempt in self._unsaved}
            self._state_file.write(changed, known)
        self._unsaved = set()

    # Inside

    def _clock(self) -> float:
        """Return the time by which pods live; it goes on from where the state file left it."""
        return self._monotonic() + self._ahead_seconds

    def _job_with(self, attempt: UUID, pod: int) -> Job | None:
        """Return the attempt's job where it has this pod, as it is now."""
        self.advance()
        job = self._jobs.get(attempt)
        return job if job is not None and pod in job.states else None

    def _add(self, job: Job, pods: Sequence[AssignedPod], now: float) -> None:
        for pod in pods:
            job.pods[pod.index], job.states[pod.index] = pod, PodState.PENDING
            for device in pod.devices:
                self._used[pod.node, device.index] += device.share_milli
        job.created_at = job.created_at or now
        seconds = played.start_seconds(job.assignment.workload)
        timer = JobTimer(at=now + seconds, what=Due.RUN, pods=[pod.index for pod in pods])
        self._schedule(job.assignment.attempt, job, timer)

    def _happen(self, attempt: UUID, job: Job, timer: JobTimer) -> None:
        if timer.what is Due.GONE:
            self._take_away(job, timer.pods if timer.pods is not None else job.living())
            if not job.living() and not job.is_over:
                job.phase = ReportedPhase.GONE
        elif job.is_over or job.phase is ReportedPhase.STOPPING:
            return
        elif timer.what is Due.RUN:
            self._run(attempt, job, timer)
        elif timer.what is Due.LIMIT:
            limit = job.assignment.time_limit_seconds
            job.reason, job.message = "time-limit", f"It ran for {limit} s, its time limit."
            self._end(job, ReportedPhase.FAILED, timer.at)
        else:
            job.exit_code = played.play(job.assignment).exit_code
            job.reason = "exit-code" if job.exit_code else ""
            self._end(job, ReportedPhase.FAILED if job.exit_code else ReportedPhase.SUCCEEDED, timer.at)

    def _run(self, attempt: UUID, job: Job, timer: JobTimer) -> None:
        for index in timer.pods or ():
            if job.states.get(index) is PodState.PENDING:
                job.states[index] = PodState.RUNNING
        if job.running_at is not None or PodState.PENDING in job.states.values():
            return
        job.phase, job.running_at = ReportedPhase.RUNNING, timer.at
        seconds, limit = played.play(job.assignment).seconds, job.assignment.time_limit_seconds
        if limit is not None and seconds > limit:
            self._schedule(attempt, job, JobTimer(at=timer.at + limit, what=Due.LIMIT))
        elif seconds < math.inf:
            self._schedule(attempt, job, JobTimer(at=timer.at + seconds, what=Due.END))

    def _end(self, job: Job, phase: ReportedPhase, at: float) -> None:
        """End all pods at once, each as the whole."""
        state = PodState.SUCCEEDED if phase is ReportedPhase.SUCCEEDED else PodState.FAILED
        for index in job.living():
            self._give_back(job.pods[index])
            job.states[index] = state
        job.phase, job.ended_at = phase, at

    def _take_away(self, job: Job, indexes: Iterable[int]) -> None:
        for index in indexes:
            state, pod = job.states.pop(index, None), job.pods.pop(index, None)
            if pod is not None and state in LIVING:
                self._give_back(pod)

    def _give_back(self, pod: AssignedPod) -> None:
        for device in pod.devices:
            self._used[pod.node, device.index] -= device.share_milli

    def _lose(self, name: str) -> None:
        """Fail what has pods on a machine; its other pods wait to be stopped."""
        self.advance()
        for attempt, job in self._jobs.items():
            lost = [index for index in job.living() if job.pods[index].node == name]
            if not lost:
                continue
            self._take_away(job, lost)
            if job.phase is not ReportedPhase.STOPPING:
                job.reason, job.message = "node-lost", f"Node {name} was lost while its pods ran there."
                job.phase, job.ended_at = ReportedPhase.FAILED, self._clock()
            elif not job.living():
                job.phase = ReportedPhase.GONE
            self._touch(attempt)

    def _problem(self, assignment: DesiredAttempt, pods: Sequence[AssignedPod]) -> str:
        """Return why the pods cannot be created, as a sentence; "" where they can."""
        asked: dict[tuple[str, int], int] = defaultdict(int)
        for pod in pods:
            node = self._nodes.get(pod.node)
            if node is None or not node.ready or node.cordoned:
                return f"Node {pod.node} takes no pods of {assignment.slug}: it is gone, down or cordoned."
            if problem := self._problem_of(node, pod):
                return problem
            for share in pod.devices:
                asked[pod.node, share.index] += share.share_milli
        for (name, index), milli in asked.items():
            whole = next(each.share_milli for each in self._nodes[name].devices if each.index == index)
            if self._used[name, index] + milli > whole:
                wanted = f"{milli / GPU_MILLI:g} GPU{'' if milli == GPU_MILLI else 's'}"
                return f"GPU {index} of {name} has less than {wanted} left for {assignment.slug}."
        return ""

    @staticmethod
    def _problem_of(node: NodeReport, pod: AssignedPod) -> str:
        """Return why a node cannot give a pod its devices, as a device plugin would see it; "" where it can."""
        devices = {device.index: device for device in node.devices}
        for share in pod.devices:
            device = devices.get(share.index)
            if device is None:
                return f"Node {node.name} has no GPU {share.index}."
            if device.slicing != "whole" and share.share_milli != device.share_milli:
                return (
                    f"Node {node.name} gives out GPU {share.index}, a slice, whole, as "
                    f"{device.share_milli / GPU_MILLI:g} GPUs; {share.share_milli / GPU_MILLI:g} are planned."
                )
        cut = any(devices[share.index].slicing != "whole" for share in pod.devices)
        if cut and len(pod.devices) > 1:
            return f"A pod on node {node.name} can have one slice; {len(pod.devices)} devices are planned."
        return ""

    def _schedule(self, attempt: UUID, job: Job, timer: JobTimer) -> None:
        job.timers.append(timer)
        heapq.heappush(self._heap, (timer.at, str(attempt), attempt))
        self._ring()

    def _touch(self, attempt: UUID) -> None:
        self._version += 1
        self._changed_at[attempt] = self._version
        self._changed_at.move_to_end(attempt)
        self._unsaved.add(attempt)
        self._ring()

    def _touch_nodes(self) -> None:
        self._version += 1
        self._nodes_version = self._version
        self._ring()

    def _ring(self) -> None:
        for bell in self._waiting:
            bell.set()

    def _seconds_to_next(self) -> float:
        if not self._heap:
            return LOOK_AGAIN_SECONDS
        return min(LOOK_AGAIN_SECONDS, max(0.0, self._heap[0][0] - self._clock()))

    def _load(self, jobs: dict[UUID, Job]) -> None:
        """Go on with these jobs."""
        self._jobs = {attempt: job for attempt, job in jobs.items() if not job.is_past}
        self._past.update((attempt, job) for attempt, job in jobs.items() if job.is_past)
        # The machine's clock began anew with the machine: no pod waits until that runs as long as it did before.
        last = max((job.last_at() for job in jobs.values()), default=0.0)
        self._ahead_seconds = max(0.0, last - self._monotonic())
        for attempt, job in self._jobs.items():
            for index in job.living():
                for device in job.pods[index].devices:
                    self._used[job.pods[index].node, device.index] += device.share_milli
            for timer in job.timers:
                heapq.heappush(self._heap, (timer.at, str(attempt), attempt))
            self._version += 1
            self._changed_at[attempt] = self._version


def _pieces(job: Job, script: Script, first: int, count: int) -> Iterator[LogPiece]:
    """Yield the lines from `first` up to `count`; notes by themselves, with their times."""
    held: list[str] = []
    for number in range(first, count):
        held.append(f"{script.line(number)}\n")
        if MARK in held[-1] or number == count - 1:
            at = (
                calendar_time(job, (job.running_at or 0.0) + script.second(number))
                if MARK in held[-1]
                else None
            )
            yield LogPiece("".join(held).encode(), f"{number + 1:012}", at)
            held = []


def _tail(script: Script, count: int, tail_bytes: int) -> int:
    """Return the number of the first of the last lines that fit."""
    first, size = count, 0
    while first > 0 and (size := size + len(script.line(first - 1).encode()) + 1) <= tail_bytes:
        first -= 1
    return first
