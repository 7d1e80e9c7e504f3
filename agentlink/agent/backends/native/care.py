"""What is done about one attempt: what was asked for, and what its Jobs and pods show that is to be done.

It is level-triggered: called whenever something of the attempt changes, and again when time alone may change something,
it does what is to be done now and forgets nothing that is not done yet.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native import gates, phases, policies, reasons, stopping
from agentlink.agent.backends.native.adopting import MOST_WORDS, Adopter
from agentlink.agent.backends.native.attempts import AttemptIndex
from agentlink.agent.backends.native.facts import PodFacts, tail
from agentlink.agent.backends.native.maintenance import Maintenance
from agentlink.agent.backends.native.making import Maker, NotMade, refused_for_now
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.phases import ObservedAttempt, Slot
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.agent.backends.native.policies import Eviction
from agentlink.agent.backends.native.refusals import PLAN_QUOTA
from agentlink.agent.kube.errors import KubeError, NotFound
from agentlink.protocol import (
    DISPLACING,
    MAX_SENTENCE,
    NOTICE_SECONDS,
    Adopted,
    AssignedPod,
    DesiredAttempt,
    PodState,
    ReportedPhase,
    StopNotice,
)
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

UNSEEN_SECONDS = 1.0
"""How soon a Job that was made and is not seen yet is looked for again."""
NO_ROOM_SECONDS = 0.1
"""How soon pods are tried again for which their namespace's quota has no room yet."""
MOST_TRIES = 3
"""How often objects are asked for of an API server that answers that it cannot now. Then the attempt goes back to the
queue with that as its reason, and others may have its GPUs meanwhile.
"""
MOST_QUOTA_TRIES = 7
"""How often where the agent's own quota still counts the claims of Jobs that were deleted: for half a minute."""

ASK_VOLUMES_AGAIN = timedelta(seconds=reasons.ASK_UNMOUNTED_SECONDS - 1)
"""How soon the cluster may be asked again why a pod does not get its volumes, however often that pod changes."""
ASK_REFUSAL_AGAIN = timedelta(seconds=reasons.ASK_UNMADE_SECONDS - 1)
"""How soon it may be asked again why it does not make pods."""


@dataclass(slots=True)
class OpenOrders:
    """What was asked for an attempt and is not done yet."""

    assignment: DesiredAttempt | None = None
    pods: dict[int, AssignedPod] = field(default_factory=dict)
    remove: set[int] = field(default_factory=set)
    stop: bool = False
    notice: StopNotice | None = None
    signal_by: float | None = None
    """When the signal comes at the latest, by the monotonic clock: not all clocks are right."""
    noticed: set[str] = field(default_factory=set)
    """Pods, by uid, that have their notice."""
    forget: bool = False
    tried: bool = False
    """Objects of it may have been made."""


class Care:
    """Looks after attempts. `touch` is called with each that is to be observed anew; `namespace` is that of workloads
    whose assignment names none. `has_room` says whether the quota of its namespace lets an assignment's pods in,
    `why_closed` why nothing is made in its namespace ("" where it is), `maintenance` what is done to nodes, `foreign`
    which pods with GPUs a namespace has that Chamber did not make.
    """

    def __init__(
        self,
        maker: Maker,
        adopter: Adopter,
        attempts: AttemptIndex,
        *,
        namespace: str,
        touch: Callable[[UUID], None],
        has_room: Callable[[DesiredAttempt], bool] = lambda _: True,
        why_closed: Callable[[DesiredAttempt], str] = lambda _: "",
        maintenance: Maintenance | None = None,
        foreign: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._foreign = foreign
        self._adopter, self._has_room, self._why_closed = adopter, has_room, why_closed
        self._maintenance = maintenance
        self._maker, self._attempts, self._namespace, self._touch = maker, attempts, namespace, touch
        self._kube, self._names = maker.kube, maker.names
        self._asked: dict[UUID, OpenOrders] = {}
        self._expected: dict[UUID, DesiredAttempt] = {}
        self._unmade: dict[UUID, Observation] = {}
        """Attempts of which nothing is in the cluster: refused, or stopped before anything was made."""
        self._free: dict[UUID, dict[str, datetime]] = {}
        """Since when pods, by uid, may go to their nodes and have not."""
        self._removed: dict[str, set[int]] = {}
        """Pods that were taken from Jobs, by the Jobs' uids."""
        self._freed: dict[UUID, set[str]] = {}
        """Pods, by uid, that were freed of their gates, also while that is not seen yet."""
        self._begun: dict[UUID, frozenset[str]] = {}
        """The pods of adopted attempts, by the ends of their uids, that were first let go, or are being."""
        self._ending: dict[UUID, tuple[datetime, AttemptVerdict]] = {}
        """Since when adopted attempts may end with their Jobs, for a pod that these lost, and for which cause."""
        self._provided: dict[UUID, set[int]] = {}
        """Waves that have all they need besides their pods."""
        self._protected: set[UUID] = set()
        self._unprotected = Lasting()
        """Adopted attempts that have a budget, or are to have none."""
        self._tries: dict[UUID, int] = {}
        """How often in a row the API server could not take something of an attempt."""
        self._unmounted: dict[UUID, dict[int, str]] = {}
        """Why pods, by index, do not get their volumes."""
        self._asked_volumes: dict[UUID, datetime] = {}
        """When the cluster was last asked about volumes of attempts."""
        self._refusals: dict[UUID, str | None] = {}
        """Why the cluster does not make pods of attempts, None where it does not say."""
        self._asked_refusals: dict[UUID, datetime] = {}

    def ask(self, attempt: UUID) -> OpenOrders:
        """Return what is asked for an attempt, to be added to."""
        return self._asked.setdefault(attempt, OpenOrders())

    def makes(self, attempt: UUID, index: int) -> bool:
        """Return whether a pod was asked for and is not seen yet."""
        asked, found = self._asked.get(attempt), self._attempts.get(attempt)
        if asked is not None and index in asked.pods:
            return True
        slots = found.slots if found is not None else ()
        return any(
            slot.planned.index == index and slot.pod is None and slot.state is PodState.PENDING
            for slot in slots
        )

    def expect(self, assignments: Collection[DesiredAttempt]) -> set[UUID]:
        """Take in which attempts are wanted and let go; return those that were not before."""
        before, self._expected = self._expected, {each.attempt: each for each in assignments}
        return self._expected.keys() - before.keys()

    def knows(self, attempt: UUID) -> bool:
        """Return whether there is anything of an attempt, or anything to be done about it."""
        return attempt in self._attempts or attempt in self._asked or attempt in self._unmade

    def about(self, attempt: UUID) -> dict[str, object]:
        """Return what each line of the log says that is about an attempt: its workload, and its number."""
        asked, found = self._asked.get(attempt), self._attempts.get(attempt)
        assignment = self._expected.get(attempt) or (asked.assignment if asked is not None else None)
        if assignment is not None:
            return {"workload": assignment.slug, "attempt": assignment.number}
        job = found.jobs[0] if found is not None else None
        return {"workload": job.slug or job.plan.workload, "attempt": job.plan.number} if job else {}

    def see(self, attempt: UUID) -> Observation | None:
        """Return what is observed of an attempt; None where nothing is, or it is being forgotten."""
        asked = self._asked.get(attempt)
        if asked is not None and asked.forget:
            return None
        found = self._attempts.get(attempt)
        if found is None:
            return self._unmade.get(attempt)
        refusal = self._refusals.get(attempt)
        kept = reasons.kept(
            found, let_go=self._free.get(attempt, {}), unmounted=self._unmounted.get(attempt, {}), refusal=refusal,
            foreign=self._foreign(found.jobs[0].namespace) if refusal else "",
        )  # fmt: skip
        return phases.observation(found, kept)

    async def look_after(self, attempt: UUID) -> float | None:
        """Do what is to be done about an attempt now; return when to look again, should nothing happen."""
        asked = self._asked.get(attempt)
        if asked is not None and asked.forget:
            await self._forget(attempt)
            return None
        if asked is not None and asked.stop:
            return await self._stop(attempt, asked)
        found = self._attempts.get(attempt)
        if found is not None and found.is_over:
            return None
        if asked is not None and asked.remove and found is not None:
            await self._remove(found, asked)
        later: float | None = None
        if asked is not None and asked.assignment is not None and asked.pods:
            if self._has_room(asked.assignment):
                await self._create(asked.assignment, asked, found)
            else:
                later = NO_ROOM_SECONDS
        if found is None:
            return later
        judgement = await self._judge(found)
        if judgement.verdict is not None:
            return await self._end(found, judgement.verdict)
        await self._protect(attempt, found)
        await self._let_go(attempt, found)
        await self._limit(found)
        return later or judgement.look_again_seconds

    async def _create(
        self, assignment: DesiredAttempt, asked: OpenOrders, found: ObservedAttempt | None
    ) -> None:
        """Make the pods that were asked for; a refusal ends the attempt."""
        namespace = assignment.namespace or self._namespace
        made = {
            pod.index
            for job in (found.jobs if found else ())
            for pod in job.plan.pods
            if pod.index not in job.removed | self._removed.get(job.uid, set())
        }
        pods = tuple(pod for index, pod in sorted(asked.pods.items()) if index not in made)
        asked.tried = True
        try:
            if pods and (closed := self._why_closed(assignment)):
                raise NotMade(
                    "namespace-not-kept", f"The agent does not keep namespace {namespace}: {closed}"
                )
            if pods and assignment.adopted is not None:
                await self._adopter.start(assignment, pods)
            elif pods:
                await self._maker.jobs(self._wave(assignment, pods, namespace, found))
        except NotMade as refusal:
            await self._refuse(assignment, refusal, found)
        except KubeError as error:
            await self._refuse(assignment, self._refused_for_now(assignment, error), found)
        self._tries.pop(assignment.attempt, None)
        asked.pods.clear()

    def _refused_for_now(self, assignment: DesiredAttempt, error: KubeError) -> NotMade:
        """Return the refusal of a cluster that could not take something too often; raise the error before that."""
        attempt, namespace = assignment.attempt, assignment.namespace or self._namespace
        tries = self._tries[attempt] = self._tries.get(attempt, 0) + 1
        refusal = refused_for_now(error, tries, self._foreign(namespace))
        if refusal is None:
            self._tries.pop(attempt)
        most = MOST_QUOTA_TRIES if refusal and refusal.code == PLAN_QUOTA else MOST_TRIES
        if refusal is None or tries < most:
            raise error
        return refusal

    @staticmethod
    def _wave(
        assignment: DesiredAttempt, pods: Sequence[AssignedPod], namespace: str, found: ObservedAttempt | None
    ) -> Wave:
        """Return the wave that the pods are: the attempt's first, one more, or the rest of one that is not whole."""
        if found is None:
            return Wave(assignment, pods, namespace, size=len(pods))
        last = found.jobs[-1].plan
        there = sum(len(job.plan.pods) for job in found.jobs if job.plan.wave == last.wave)
        first = next(iter(found.wanted), found.slots[0])
        rest = there < last.size
        return Wave(
            assignment, pods, namespace,
            number=last.wave + (not rest), size=last.size if rest else len(pods), taken=len(found.jobs),
            master=f"{first.job.name}-{first.completion}",
        )  # fmt: skip

    async def _refuse(
        self, assignment: DesiredAttempt, refusal: NotMade, found: ObservedAttempt | None
    ) -> None:
        """End an attempt that the cluster does not take, on its Jobs where it has some."""
        verdict = AttemptVerdict(refusal.code, refusal.message[:MAX_SENTENCE], _now(), refused=True)
        if found is None and assignment.adopted is not None and refusal.code == reasons.JOB_ENDED:
            await self._adopter.tell_ended(assignment.adopted, verdict.message)
        elif found is None and assignment.adopted is not None:
            await self._adopter.tell_refused(assignment.adopted, assignment.slug, verdict.message)
        logger.warning("Attempt %s of %s: %s", assignment.number, assignment.slug, refusal.message)
        if found is not None:
            await self._record(found, replace(verdict, refused=found.running_at is None))
            return
        self._unmade[assignment.attempt] = Observation(
            workload=assignment.workload, attempt=assignment.attempt, number=assignment.number,
            phase=ReportedPhase.FAILED, reason=verdict.code, message=verdict.message, ended_at=verdict.at,
        )  # fmt: skip
        self._touch(assignment.attempt)

    async def _stop(self, attempt: UUID, asked: OpenOrders) -> float | None:
        found = self._attempts.get(attempt)
        if found is None:
            return await self._stop_unseen(attempt, asked)
        wait = await self._give_notice(attempt, asked)
        if wait > 0:
            return wait
        left = asked.notice.grace_seconds if asked.notice is not None and asked.noticed else None
        for job in found.jobs:
            pods = [pod for pod in self._attempts.pods(attempt) if pod.owner == job.uid]
            await stopping.stop(self._kube, job, pods, self._names, at=_now(), grace_seconds=left)
        return None

    async def _give_notice(self, attempt: UUID, asked: OpenOrders) -> float:
        """Tell running pods that they are about to be stopped; return how many seconds they have until they are."""
        notice = asked.notice
        if notice is None:
            return 0.0
        if asked.signal_by is None:
            ahead = (notice.signal_at - _now()).total_seconds()
            asked.signal_by = time.monotonic() + min(ahead, NOTICE_SECONDS)
        wait = asked.signal_by - time.monotonic()
        living = [
            pod
            for pod in self._attempts.pods(attempt)
            if pod.running_at and not (pod.is_over or pod.deleted_at)
        ]
        if wait <= 0 or not living:
            return 0.0
        ends_at = notice.signal_at + timedelta(seconds=notice.grace_seconds)
        said = {"why": notice.why, "signal_at": notice.signal_at.isoformat(), "ends_at": ends_at.isoformat()}
        for pod in living:
            if pod.uid not in asked.noticed:
                await stopping.give_notice(self._kube, pod, json.dumps(said, ensure_ascii=False), self._names)
                asked.noticed.add(pod.uid)
        return wait

    async def _stop_unseen(self, attempt: UUID, asked: OpenOrders) -> float | None:
        """Stop what may have been made a moment ago and is not seen yet; if nothing was, say that it is gone."""
        assignment = asked.assignment
        if assignment is None or attempt in self._unmade:
            return None
        if asked.tried and await self._was_made(assignment):
            return UNSEEN_SECONDS
        self._unmade[attempt] = Observation(
            workload=assignment.workload, attempt=attempt, number=assignment.number, phase=ReportedPhase.GONE
        )
        self._touch(attempt)
        return None

    async def _was_made(self, assignment: DesiredAttempt) -> bool:
        """Return whether a Job of the attempt is there, by a fresh look."""
        if assignment.adopted is not None:
            return await self._adopter.was_begun(assignment)
        return await self._maker.was_made(assignment, assignment.namespace or self._namespace)

    async def _remove(self, found: ObservedAttempt, asked: OpenOrders) -> None:
        """Take pods from Jobs that go on."""
        for job in found.jobs:
            indexes = {pod.index for pod in job.plan.pods} & asked.remove
            if indexes:
                # With those before, which may not be seen on the Job yet.
                removed = self._removed.setdefault(job.uid, set())
                removed |= indexes
                pods = [pod for pod in self._attempts.pods(job.plan.attempt) if pod.owner == job.uid]
                await stopping.remove(self._kube, job, pods, removed, self._names)
        asked.remove.clear()

    async def _forget(self, attempt: UUID) -> None:
        found = self._attempts.get(attempt)
        self._attempts.forget(attempt)
        for job in found.jobs if found is not None else ():
            self._removed.pop(job.uid, None)
            if job.adopted:
                await self._adopter.release(job)
            else:
                await stopping.forget(self._kube, job, self._names)
        if self._attempts.get(attempt) is None:
            self._asked.pop(attempt, None)
            self._unmade.pop(attempt, None)
            self._provided.pop(attempt, None)
            self._free.pop(attempt, None)
            self._unmounted.pop(attempt, None)
            self._asked_volumes.pop(attempt, None)
            self._refusals.pop(attempt, None)
            self._asked_refusals.pop(attempt, None)
            self._freed.pop(attempt, None)
            self._begun.pop(attempt, None)
            self._ending.pop(attempt, None)
            self._protected.discard(attempt)
            self._tries.pop(attempt, None)

    async def _end(self, found: ObservedAttempt, verdict: AttemptVerdict) -> float | None:
        """Record how an attempt ended; or return when to look again, where its adopted Job may be about to end for a
        pod that it lost: before that it is told to no one that it may be tried again.
        """
        job, now = found.jobs[0], _now()
        if reasons.may_end_its_job(found, verdict):
            self._ending.setdefault(job.plan.attempt, (now, verdict))
        since, _ = self._ending.get(job.plan.attempt, (None, verdict))
        if since is not None and not (job.failed or job.deleting or job.suspended):
            left = reasons.ENDED_SECONDS - (now - since).total_seconds()
            if left > 0:
                return left
        await self._record(found, verdict)
        return None

    async def _judge(self, found: ObservedAttempt) -> reasons.Judgement:
        """Return what is to be said of an attempt's end. What time alone brings about is looked at afresh: the API
        server may have been away, and the pods have gone on.
        """
        job = found.jobs[0]
        if job.plan.attempt in self._ending and not (job.deleting or job.suspended):
            _, first = self._ending[job.plan.attempt]  # the pod that tells the cause may be gone by now
            return reasons.Judgement(first)
        judgement = await self._judge_as(found)
        if judgement.verdict is not None and judgement.verdict.code in reasons.IN_TIME | DISPLACING:
            fresh = await self._seen_afresh(found)
            return reasons.Judgement() if fresh.succeeded else await self._judge_as(fresh)
        return judgement

    async def _judge_as(self, found: ObservedAttempt) -> reasons.Judgement:
        now = _now()
        if reasons.lacks_a_cause(found, now=now):
            found = await self._seen_afresh(found)
        unmade = reasons.asks_why_unmade(found, now=now)
        refusal = await self._look_for_refusal(found, now)
        nodes = {slot.pod.node for slot in found.wanted if slot.pod is not None and not slot.pod.is_over}
        vanished = {slot.planned.node for slot in found.wanted if slot.pod is None and slot.job.failed}
        nodes |= vanished
        lost = [node for node in sorted(nodes) if node and not await self._maker.has_node(node)]
        free = self._note_free(found, now)
        closed = self._maker.closed(slot.planned.node for slot in found.wanted if free)
        overtaken = self._attempts.overtaken(found) if unmade else None
        unready: set[str] = set()
        emptied: dict[str, str] = {}
        drains: dict[str, datetime] = {}
        replaced = self._replaced(found)
        assignment = self._expected.get(found.jobs[0].plan.attempt)
        if self._maintenance is not None and assignment is not None:
            drains = self._maintenance.drains(nodes, reserved=assignment.reserved)
        if self._maintenance is not None:
            pods = [slot.pod for slot in found.wanted if slot.pod is not None]
            taken = vanished | {pod.node for pod in pods if pod.disrupted or pod.deleted_at is not None}
            taken |= {slot.planned.node for slot in found.wanted if slot.pod and slot.pod.uid in replaced}
            unready = self._maintenance.unready(nodes)
            emptied = await self._maintenance.emptied(filter(None, nodes | taken), afresh=taken)
        return reasons.judge(
            found, now=now, let_go=free, lost=lost, closed=closed, unready=unready, emptied=emptied,
            drains=drains, replaced=replaced, refusal=refusal, overtaken=overtaken,
            foreign=self._foreign(found.jobs[0].namespace) if refusal else "",
            unmounted=await self._look_for_volumes(found, now),
        )  # fmt: skip

    async def _look_for_refusal(self, found: ObservedAttempt, now: datetime) -> str | None:
        """Return why the cluster does not make pods that should be there, and have that be observed."""
        attempt = found.jobs[0].plan.attempt
        if not reasons.asks_why_unmade(found, now=now, after=reasons.ASK_UNMADE_SECONDS):
            return None
        asked, before = self._asked_refusals.get(attempt), self._refusals.get(attempt)
        is_due = before is None and reasons.asks_why_unmade(found, now=now)
        if asked is not None and now - asked < ASK_REFUSAL_AGAIN and not is_due:
            return before
        self._asked_refusals[attempt] = now
        self._refusals[attempt] = await self._maker.why_unmade(found)
        if self._refusals[attempt] != before:
            self._touch(attempt)
        return self._refusals[attempt]

    async def _look_for_volumes(self, found: ObservedAttempt, now: datetime) -> dict[int, str]:
        """Return why a pod that is on its node does not get its volumes, and have that be observed."""
        attempt, slot = found.jobs[0].plan.attempt, reasons.unmounted(found, now=now)
        asked = self._asked_volumes.get(attempt)
        if slot is not None and asked is not None and now - asked < ASK_VOLUMES_AGAIN:
            return self._unmounted.get(attempt, {})
        if slot is not None:
            self._asked_volumes[attempt] = now
        words = await self._maker.why_unmounted(slot.pod) if slot is not None and slot.pod is not None else ""
        told = {slot.planned.index: words} if slot is not None and words else {}
        if told != self._unmounted.get(attempt, {}):
            self._unmounted[attempt] = told
            self._touch(attempt)
        return told

    async def _seen_afresh(self, found: ObservedAttempt) -> ObservedAttempt:
        """Return an attempt with its pods as they are now: what is heard of Jobs may be ahead of what is of pods."""
        pods = {pod.uid: pod for pod in self._attempts.pods(found.jobs[0].plan.attempt)}
        for job in found.jobs:
            pods |= {pod.uid: pod for pod in await self._maker.pods(job.namespace, job.uid)}
        return ObservedAttempt.of(found.jobs, pods.values())

    def _note_free(self, found: ObservedAttempt, now: datetime) -> dict[str, datetime]:
        """Return since when those pods are free to go that are not bound; noted when they are first seen so."""
        pods = (slot.pod for slot in found.slots if slot.pod is not None)
        free = [pod.uid for pod in pods if not (pod.gates or pod.node or pod.is_over)]
        before = self._free.pop(found.jobs[0].plan.attempt, {})
        if free:
            self._free[found.jobs[0].plan.attempt] = {uid: before.get(uid, now) for uid in free}
        return self._free.get(found.jobs[0].plan.attempt, {})

    def _replaced(self, found: ObservedAttempt) -> dict[str, PodFacts | None]:
        """Return gated pods of adopted Jobs, by uid, that came in the place of others, with these as far as they are
        known: those that are none of the pods that were let go first.
        """
        job = found.jobs[0]
        begun = self._begun.get(job.plan.attempt, frozenset()) | job.let_go
        replaced: dict[str, PodFacts | None] = {}
        for slot in found.wanted if job.adopted and begun else ():
            pod = slot.pod
            if pod is not None and self._names.gate in pod.gates and tail(pod.uid) not in begun:
                others = (each for each in self._attempts.pods(job.plan.attempt) if each.owner == job.uid)
                same = (each for each in others if each.index == slot.completion and each.uid != pod.uid)
                replaced[pod.uid] = next(same, None)
        return replaced

    async def _note_begun(self, found: ObservedAttempt, slots: Iterable[Slot]) -> None:
        """Note which pods of an adopted Job are let go, before the first is: on the Job itself, for the next agent,
        where its controller may make others in their place.
        """
        job = found.jobs[0]
        if not job.adopted:
            return
        attempt = job.plan.attempt
        if job.let_go or attempt in self._begun:
            return
        begun = frozenset(tail(slot.pod.uid) for slot in slots if slot.pod is not None)
        if job.eviction is not Eviction.ENDS:
            await stopping.note_let_go(self._kube, job, begun, self._names)
        self._begun[attempt] = begun

    async def _record(self, found: ObservedAttempt, verdict: AttemptVerdict) -> None:
        """Write down how an attempt ended before that is told; of an adopted one its Job is told, too."""
        job, ended = found.jobs[0], reasons.with_its_job(found, verdict)
        if job.adopted and not job.vanished:
            there = Adopted(namespace=job.namespace, name=job.name, uid=job.uid)
            if ended.refused:
                await self._adopter.tell_refused(there, job.slug, verdict.message)
            else:
                taken = any(slot.pod and (slot.pod.disrupted or slot.pod.deleted_at) for slot in found.wanted)
                ends = taken and job.eviction is not Eviction.SPARED
                does = job.eviction if ended is verdict else Eviction.ENDS
                tell = ends or ended is not verdict
                if tell:
                    again = policies.how_to_run_again(does, job.namespace, job.name)
                    await self._adopter.tell_failed(there, f"{verdict.message[:MOST_WORDS]} {again}")
                elif verdict.code in DISPLACING:
                    await self._adopter.tell_displaced(there, job.slug, verdict.message)
                else:
                    await self._adopter.tell_failed(there, verdict.message[:MOST_WORDS])
        verdict = replace(ended, message=ended.message[:MAX_SENTENCE])
        if not job.vanished:
            try:
                await stopping.record(self._kube, job, verdict, self._names)
            except NotFound:
                logger.info("The Job %s went before its end could be written on it.", job.key)
            else:
                return
        self._attempts.judge(job, verdict)

    async def _protect(self, attempt: UUID, found: ObservedAttempt) -> None:
        """Have an adopted Job protected from evictions, also one that runs since before this agent. Where that fails it
        runs all the same, and it is tried again at the next look. Before it runs it is told what an eviction would do.
        """
        assignment, job = self._expected.get(attempt), found.jobs[0]
        if assignment is None or not job.adopted or attempt in self._protected:
            return
        if all(slot.pod is None for slot in found.wanted):  # which budgets select them is not known yet
            return
        try:
            budget = await self._maker.protect(job, assignment)
            if job.eviction is not Eviction.SPARED and found.running_at is None:
                await self._adopter.tell_evictable(job, budget=budget)
        except KubeError as error:
            if self._unprotected.due(f"{job.key}: {error}"):
                logger.warning("The pods of %s are not protected yet: %s", job.key, error)
        else:
            self._protected.add(attempt)

    async def _let_go(self, attempt: UUID, found: ObservedAttempt) -> None:
        """Let the pods of whole waves go, where the attempt is wanted."""
        assignment = self._expected.get(attempt)
        freed = self._freed.setdefault(attempt, set())
        held = freed | self._replaced(found).keys()
        slots = [slot for slot in gates.ready(found, self._names) if slot.pod and slot.pod.uid not in held]
        if assignment is None or not slots:
            return
        try:
            waves = {slot.job.plan.wave for slot in slots}
            provided = self._provided.setdefault(attempt, set())
            if not waves <= provided:
                await self._maker.provide(found, slots, assignment)
                provided |= waves
            await self._note_begun(found, slots)
            results = await asyncio.gather(*map(self._maker.let_go, slots), return_exceptions=True)
            done = [slot for slot, failure in zip(slots, results, strict=True) if not failure]
            freed |= {slot.pod.uid for slot in done if slot.pod}
            logger.info("Let pods go to their nodes (%d).", sum(not failure for failure in results))
            _raise_first(results)
        except NotMade as refusal:
            await self._refuse(assignment, refusal, found)
        except KubeError as error:
            await self._refuse(assignment, self._refused_for_now(assignment, error), found)
        self._tries.pop(attempt, None)

    async def _limit(self, found: ObservedAttempt) -> None:
        running_at = found.running_at
        for job in found.jobs:
            limited = job.plan.time_limit_seconds is not None and job.deadline_seconds is None
            if running_at is not None and limited and job.started_at is not None and not job.adopted:
                await stopping.limit(self._kube, job, running_at=running_at)


def _raise_first(results: Iterable[object]) -> None:
    """Raise the first failure, a refusal before what may pass."""
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in sorted(failures, key=lambda each: not isinstance(each, NotMade)):
        raise failure


def _now() -> datetime:
    return datetime.now(UTC)
