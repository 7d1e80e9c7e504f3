"""Which attempts there are in the cluster, from the Jobs that bear the agent's mark and the pods that these own.

Anything may write labels: a Job without the mark is not Chamber's, and a pod is Chamber's by its owner only, in
the owner's namespace: anything may write references to an owner in another one, too.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from agentlink.agent.backends.native.facts import BACKING_OFF, JobFacts, PodFacts
from agentlink.agent.backends.native.inventory import NodeUse
from agentlink.agent.backends.native.phases import ObservedAttempt
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.protocol import AssignedPod

K = TypeVar("K", bound=Hashable)

Owner = tuple[str, str]
"""A Job's namespace and uid."""


class CountedPod(NamedTuple):
    """A pod that a quota counts, and what it asks of devices by the device plugin's names; nothing where by claims.
    `leaving`: it was taken from its running Job, which may have another in its place.
    """

    namespace: str
    attempt: UUID
    planned: AssignedPod
    requests: tuple[tuple[str, int], ...]
    leaving: bool = False


class AttemptIndex:
    """Everything by attempt. `touch` is called with each attempt of which something changed, `touch_node` with each
    node whose pods did.

    A Job that is gone without having been forgotten stays as a ghost: what is left of its pods is still Chamber's.
    """

    def __init__(self, touch: Callable[[UUID], None], touch_node: Callable[[str], None]) -> None:
        self._touch, self._touch_node = touch, touch_node
        self._jobs: dict[UUID, dict[str, JobFacts]] = {}
        self._by_owner: dict[Owner, JobFacts] = {}
        self._all: dict[str, PodFacts] = {}
        self._pods: dict[Owner, dict[str, PodFacts]] = {}
        self._on_node: dict[str, dict[str, PodFacts]] = {}
        self._asking: dict[str, dict[str, PodFacts]] = {}
        """Pods that ask for devices, by namespace; quotas count those without a node, too."""
        self._forgotten: set[UUID] = set()

    def take_job(self, _: str, old: JobFacts | None, new: JobFacts | None) -> None:
        """Take in that a marked Job changed, came or went."""
        if old is not None and (new is None or new.uid != old.uid):
            self._lose(old)
        if new is not None:
            self._jobs.setdefault(new.plan.attempt, {})[new.uid] = new
            self._by_owner[new.namespace, new.uid] = new
            if old is None or new.uid != old.uid:
                self._touch_nodes(new)
            self._touch(new.plan.attempt)

    def take_pod(self, key: str, _: PodFacts | None, new: PodFacts | None) -> None:
        """Take in that a pod changed, came or went."""
        old = self._all.pop(key, None)
        if new is not None:
            new = self._all[key] = (
                _kept(old, new) if old is not None and self._job_of(old) is not None else new
            )
        _move(self._pods, key, _owner(old), _owner(new), new)
        _move(self._on_node, key, old.node if old else None, new.node if new else None, new)
        _move(self._asking, key, _asks_in(old), _asks_in(new), new)
        for pod in (old, new):
            if pod is None:
                continue
            if pod.node:
                self._touch_node(pod.node)
            job = self._job_of(pod)
            if job is not None:
                self._touch(job.plan.attempt)

    def lose_node(self, node: str) -> None:
        """Take in that a node is gone, or not looked at any more, or is to be left."""
        for pod in self._on_node.get(node, {}).values():
            job = self._job_of(pod)
            if job is not None:
                self._touch(job.plan.attempt)

    def __contains__(self, attempt: UUID) -> bool:
        return attempt in self._jobs

    def get(self, attempt: UUID) -> ObservedAttempt | None:
        """Return an attempt as the cluster has it; None where it has nothing."""
        jobs = self._jobs.get(attempt)
        if not jobs:
            return None
        return ObservedAttempt.of(jobs.values(), self.pods(attempt))

    def jobs(self, attempt: UUID) -> list[JobFacts]:
        """Return the Jobs of an attempt."""
        return list(self._jobs.get(attempt, {}).values())

    def pods(self, attempt: UUID) -> Iterator[PodFacts]:
        """Yield all pods of an attempt, also those that came before others at their index."""
        for job in self._jobs.get(attempt, {}).values():
            yield from self._pods.get((job.namespace, job.uid), {}).values()

    def _job_of(self, pod: PodFacts) -> JobFacts | None:
        owner = _owner(pod)
        return None if owner is None else self._by_owner.get(owner)

    def owns(self, namespace: str, uid: str) -> bool:
        """Return whether a Job of this uid is Chamber's."""
        return (namespace, uid) in self._by_owner

    def use_of(self, node: str) -> NodeUse:
        """Return the owners of the pods on a node."""
        foreign: list[PodFacts] = []
        held: set[int] = set()
        for pod in self._on_node.get(node, {}).values():
            if pod.is_over:
                continue
            job = self._job_of(pod)
            planned = job.plan.pods[pod.index] if job and pod.index < len(job.plan.pods) else None
            if planned is None or planned.node != node:  # somebody freed it by hand: it has what it asks for
                foreign.append(pod)
            else:
                held |= {share.index for share in planned.devices}
        return NodeUse(tuple(foreign), frozenset(held))

    def foreign_in(self, namespace: str) -> list[PodFacts]:
        """Return the pods of a namespace that ask for devices and that Chamber did not make."""
        return [pod for pod in self._asking.get(namespace, {}).values() if self._job_of(pod) is None]

    def is_foreign(self, pod: PodFacts) -> bool:
        """Return whether a pod asks for devices and Chamber did not make it, as far as its Jobs are known."""
        return bool(pod.requests) and self._job_of(pod) is None

    def on_nodes(self) -> Iterator[tuple[PodFacts, UUID]]:
        """Yield the pods that have a node and are not over, each with its workload."""
        for owner, job in self._by_owner.items():
            for pod in self._pods.get(owner, {}).values():
                if pod.node and not pod.is_over:
                    yield pod, job.plan.workload

    def counted(self) -> Iterator[CountedPod]:
        """Yield the pods that quotas count: until they are over, and those with claims until their Job is gone.

        One of each index: of more that name a Job as their owner, some may come from elsewhere.
        """
        for owner, job in self._by_owner.items():
            living = {pod.index for pod in self._pods.get(owner, {}).values() if not pod.is_over}
            claimed = job.claims and not job.vanished
            for index, planned in enumerate(job.plan.pods):
                if claimed or index in living:
                    leaving = planned.index in job.removed
                    yield CountedPod(job.namespace, job.plan.attempt, planned, job.requests, leaving=leaving)

    def overtaken(self, attempt: ObservedAttempt) -> datetime | None:
        """Return since when the Jobs' controller has dealt with Jobs that began after the attempt's."""
        begun = max(job.begun_at for job in attempt.jobs)
        later = (job for job in self._by_owner.values() if job.begun_at > begun)
        return min((job.started_at for job in later if job.started_at is not None), default=None)

    def judge(self, job: JobFacts, verdict: AttemptVerdict) -> None:
        """Note a verdict on a Job that is gone, or going: nothing can be written to it."""
        jobs = self._jobs.get(job.plan.attempt, {})
        if job.uid in jobs:
            jobs[job.uid] = replace(jobs[job.uid], verdict=verdict)
            self._touch(job.plan.attempt)

    def forget(self, attempt: UUID) -> None:
        """Let the attempt go with its Jobs, and its ghosts at once."""
        if attempt not in self._jobs:
            return
        self._forgotten.add(attempt)
        for job in list(self._jobs[attempt].values()):
            if job.vanished:
                self._drop(job)

    def _lose(self, job: JobFacts) -> None:
        attempt = job.plan.attempt
        kept = self._jobs.get(attempt, {}).get(job.uid, job)
        if attempt in self._forgotten:
            self._drop(job)
        else:
            lost = replace(kept, deleting=True, vanished=True)
            self._jobs[attempt][job.uid] = self._by_owner[job.namespace, job.uid] = lost
        self._touch(attempt)

    def _drop(self, job: JobFacts) -> None:
        self._by_owner.pop((job.namespace, job.uid), None)
        jobs = self._jobs.get(job.plan.attempt, {})
        jobs.pop(job.uid, None)
        if not jobs:
            self._jobs.pop(job.plan.attempt, None)
            self._forgotten.discard(job.plan.attempt)
        self._touch_nodes(job)

    def _touch_nodes(self, job: JobFacts) -> None:
        """Have the nodes looked at that a Job is on: it decides which workload has their devices."""
        pods = self._pods.get((job.namespace, job.uid), {}).values()
        for node in {pod.node for pod in pods} | {pod.node for pod in job.plan.pods}:
            if node:
                self._touch_node(node)


def _move(
    index: dict[K, dict[str, PodFacts]], key: str, before: K | None, after: K | None, pod: PodFacts | None
) -> None:
    """Have the pod stand in an index where it belongs after a change, and nowhere else."""
    if before and before != after:
        index[before].pop(key, None)
        if not index[before]:
            del index[before]
    if after and pod is not None:
        index.setdefault(after, {})[key] = pod


def _asks_in(pod: PodFacts | None) -> str | None:
    return pod.namespace if pod is not None and pod.requests and not pod.is_over else None


def _owner(pod: PodFacts | None) -> Owner | None:
    return (pod.namespace, pod.owner) if pod is not None and pod.owner else None


def _kept(old: PodFacts, new: PodFacts) -> PodFacts:
    """Return the pod as Chamber's still where its Job was deleted and it was left behind: it has its devices. While its
    node waits to pull its image again, it keeps what the last try met.
    """
    if new.uid != old.uid:
        return new
    if not new.owner:
        new = replace(new, owner=old.owner)
    if new.waiting.reason == BACKING_OFF and not new.pull_error:
        new = replace(new, pull_error=old.pull_error)
    return new
