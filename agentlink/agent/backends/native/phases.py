"""What an attempt's Jobs and pods amount to, pure: the observation that the agent reports.

In this order:

1. All pods ended well: succeeded, whatever came after. Not where the cluster had begun to take a pod away: many end
   well when they are told to end, with their work half done.
2. A verdict was written: failed. Its other pods are reported for as long as they are there.
3. It is being stopped: stopping while pods have devices, then gone.
4. All pods that started together run: running, also while pods that were added later are on their way.
5. Else starting.

A pod that is being made counts as pending, one that was taken from a running Job counts until it has ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native.facts import JobFacts, PodFacts
from agentlink.protocol import (
    DISPLACING,
    LIVING,
    MOST_IMAGES,
    AssignedPod,
    PodReport,
    PodState,
    ReportedPhase,
)

TERMINATING = "terminating"
MOST_REASON = 60
MOST_WORDS = 1000
STATES = {"Running": PodState.RUNNING, "Succeeded": PodState.SUCCEEDED, "Failed": PodState.FAILED}


@dataclass(frozen=True, slots=True)
class StartProblem:
    """Why a pod, by its index, does not start, in the cluster's words; and the code by which its attempt ends if that
    is still so at a time, empty where nothing ends it.
    """

    index: int
    words: str
    cause: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod of the plan, and the pod that there is of it."""

    job: JobFacts
    completion: int
    planned: AssignedPod
    pod: PodFacts | None

    @property
    def is_removed(self) -> bool:
        """Return whether it was taken from its running Job."""
        return self.planned.index in self.job.removed

    @property
    def succeeded(self) -> bool:
        """Return whether it ended well, also where its pod is not there any more."""
        if self.pod is not None and self.pod.is_over:
            return self.pod.phase == "Succeeded" and not self.pod.disrupted
        return self.pod is None and (self.job.complete or self.completion in self.job.completed)

    @property
    def started(self) -> bool:
        """Return whether it runs, or ran until it ended."""
        ran = self.pod is not None and self.pod.running_at is not None
        return self.state in (PodState.RUNNING, PodState.SUCCEEDED) or (self.state is PodState.FAILED and ran)

    @property
    def state(self) -> PodState | None:
        """Return where the pod stands; None where there is none and none will come."""
        if self.pod is not None:
            return STATES.get(self.pod.phase, PodState.PENDING)
        if self.succeeded:
            return PodState.SUCCEEDED
        job = self.job
        over = self.is_removed or job.failed or job.deleting or job.suspended or job.verdict is not None
        return None if over else PodState.PENDING


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """An attempt as the cluster has it: its Jobs, in the order in which they were made, and the pods of each."""

    jobs: tuple[JobFacts, ...]
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, jobs: Iterable[JobFacts], pods: Iterable[PodFacts]) -> "ObservedAttempt":
        """Return the attempt of these Jobs with their pods."""
        ordered = tuple(sorted(jobs, key=lambda job: (job.plan.wave, job.plan.pods[0].index, job.name)))
        newest: dict[tuple[str, int], PodFacts] = {}
        for pod in sorted(pods, key=_age):
            newest[pod.owner, pod.index] = pod
        slots = (
            Slot(job, completion, planned, newest.get((job.uid, completion)))
            for job in ordered
            for completion, planned in enumerate(job.plan.pods)
        )
        return cls(ordered, tuple(slots))

    @property
    def wanted(self) -> Iterator[Slot]:
        """Yield the pods that were not taken away."""
        return (slot for slot in self.slots if not slot.is_removed)

    @property
    def stopping(self) -> bool:
        """Return whether it was asked to stop."""
        return any(job.stopping for job in self.jobs)

    @property
    def succeeded(self) -> bool:
        """Return whether all its pods ended well."""
        slots = list(self.wanted)
        return bool(slots) and all(slot.succeeded for slot in slots)

    @property
    def is_over(self) -> bool:
        """Return whether nothing more is to be begun of it."""
        return self.stopping or self.succeeded or any(job.verdict is not None for job in self.jobs)

    @property
    def first_wave(self) -> list[Slot]:
        """Return the pods that started together, as far as they are still wanted; else those that came next."""
        slots = list(self.wanted)
        wave = min((slot.job.plan.wave for slot in slots), default=0)
        return [slot for slot in slots if slot.job.plan.wave == wave]

    @property
    def running_at(self) -> datetime | None:
        """Return since when all that started together ran; None where they never all did, or are forgotten."""
        times = [slot.pod.running_at if slot.pod is not None else None for slot in self.first_wave]
        known = [at for at in times if at is not None]
        return max(known) if known and len(known) == len(times) else None


def _age(pod: PodFacts) -> tuple[bool, str, str]:
    """Sort the living last, then by time."""
    return (not pod.is_over, pod.created_at.isoformat() if pod.created_at else "", pod.uid)


def observation(attempt: ObservedAttempt, kept: StartProblem | None = None) -> Observation:
    """Return what is to be reported of an attempt that has Jobs; `kept` is what keeps its first pod from starting."""
    plan = attempt.jobs[0].plan
    verdicts = [job.verdict for job in attempt.jobs if job.verdict is not None]
    verdict = min(verdicts, key=lambda each: each.at, default=None)
    pods = tuple(_explained(_pods(attempt.slots), kept))
    # Of pods that are not there any more it is not known whether they were told to end.
    succeeded = attempt.succeeded and not (verdict and verdict.code in DISPLACING)
    if succeeded:
        verdict = None
    phase = (
        ReportedPhase.SUCCEEDED if succeeded else ReportedPhase.FAILED if verdict else _phase(attempt, pods)
    )
    created_at = min(job.begun_at for job in attempt.jobs)
    return Observation(
        workload=plan.workload,
        attempt=plan.attempt,
        number=plan.number,
        phase=phase,
        pods=pods,
        reason=verdict.code if verdict else "",
        message=verdict.message if verdict else "",
        exit_code=0 if succeeded else verdict.exit_code if verdict else None,
        created_at=None if verdict and verdict.refused else created_at,
        running_at=attempt.running_at,
        ended_at=_ended_at(attempt) if succeeded else verdict.at if verdict else None,
        images=_images(attempt.slots),
        notes=tuple(note for job in attempt.jobs for note in job.notes),
    )


def _images(slots: Iterable[Slot]) -> tuple[str, ...]:
    """Return what was pulled for the pods, each once, the lowest pod's first."""
    ordered = sorted(slots, key=lambda slot: slot.planned.index)
    found = dict.fromkeys(slot.pod.image[:MOST_WORDS] for slot in ordered if slot.pod and slot.pod.image)
    return tuple(found)[:MOST_IMAGES]


def _phase(attempt: ObservedAttempt, pods: Sequence[PodReport]) -> ReportedPhase:
    if attempt.stopping:
        return ReportedPhase.STOPPING if any(pod.state in LIVING for pod in pods) else ReportedPhase.GONE
    started = [slot.started for slot in attempt.first_wave]
    return ReportedPhase.RUNNING if started and all(started) else ReportedPhase.STARTING


def _pods(slots: Iterable[Slot]) -> Iterator[PodReport]:
    """Yield the pods that there are, or will be, by their index; one that came back at an index stands for it."""
    found: dict[int, PodReport] = {}
    for slot in slots:
        state, index = slot.state, slot.planned.index
        if state is None or (slot.is_removed and state not in LIVING):
            continue
        if index in found and state not in LIVING:
            continue
        node = slot.pod.node if slot.pod is not None and slot.pod.node else slot.planned.node
        found[index] = PodReport(index=index, node=node, state=state, reason=_reason(slot, state))
    yield from (found[index] for index in sorted(found))


def _explained(pods: Iterable[PodReport], kept: StartProblem | None) -> Iterator[PodReport]:
    """Yield the pods, the first that cannot start with the cluster's words: of many it is mostly the same."""
    for pod in pods:
        if kept is not None and pod.index == kept.index and pod.state is PodState.PENDING:
            told = {"message": kept.words[:MOST_WORDS], "cause": kept.cause, "until": kept.until}
            yield pod.model_copy(update=told)
        else:
            yield pod


def _reason(slot: Slot, state: PodState) -> str:
    pod = slot.pod
    if pod is None or state not in LIVING:
        return ""
    return TERMINATING if pod.deleted_at is not None else pod.waiting.reason[:MOST_REASON]


def _ended_at(attempt: ObservedAttempt) -> datetime | None:
    times = [slot.pod.finished_at if slot.pod is not None else None for slot in attempt.wanted]
    times += [job.completed_at for job in attempt.jobs]
    return max((at for at in times if at is not None), default=None)
