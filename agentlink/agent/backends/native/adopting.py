"""Beginning adopted Jobs, and letting go of them: what is written on a Job that a user made."""

import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from agentlink.agent.backends.native import adoption, budgets, events, manifests, policies, reasons, refusals
from agentlink.agent.backends.native.events import KubeEvent
from agentlink.agent.backends.native.facts import JobFacts
from agentlink.agent.backends.native.inventory import NodeInventory
from agentlink.agent.backends.native.making import NotMade, drop_budget
from agentlink.agent.backends.native.marks import JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Invalid, KubeError, NotFound
from agentlink.agent.kube.resources import JOBS, JsonObject
from agentlink.protocol import Adopted, AssignedPod, DesiredAttempt

logger = logging.getLogger(__name__)

MOST_WORDS = 850
"""Of why a Job was refused in an event, so that what follows is not cut off."""


class Busy(KubeError):  # noqa: N818 - passes by itself
    """Something of an earlier attempt is still there: it is tried again."""


@dataclass(frozen=True, slots=True)
class Adopter:
    """Lets adopted Jobs run as they were planned. `cluster` is what their label says of where they are."""

    kube: Kube
    names: DomainNames
    marks: Marks
    inventory: NodeInventory
    cluster: str

    async def start(self, assignment: DesiredAttempt, pods: Iterable[AssignedPod]) -> None:
        """Unsuspend an adopted Job with its pods gated; raise `NotMade` where that cannot be, `Busy` not yet."""
        job = assignment.adopted
        assert job is not None  # noqa: S101 - asked of adopted ones
        try:
            body = await self.kube.get(JOBS, job.name, job.namespace)
        except NotFound:
            body = None
        if body is None or body["metadata"]["uid"] != job.uid:
            raise NotMade("job-deleted", f"The Job {job.namespace}/{job.name} is not there any more.")
        plan = _plan(assignment, pods)
        if self.marks.kind(body) is JobOrigin.ADOPTED and self._is_begun(body, plan):
            return
        self._check(body, plan)
        if body.get("status", {}).get("startTime"):
            # Only what has no start time may be given other labels and gates.
            await self._forget_start(body)
            body = await self.kube.get(JOBS, job.name, job.namespace)
        labels = manifests.labels_of(assignment, self.names, cluster=self.cluster)
        patch = adoption.started(
            body,
            plan,
            self.names,
            slug=assignment.slug,
            labels={name: labels[name] for name in adoption.written(self.names) if name in labels},
            resources=adoption.gpus_of(body["spec"]["template"]["spec"], self.inventory.settings.resources),
            mark=lambda text: self.marks.adopted(body, text),
            at=datetime.now(UTC),
        )
        try:
            await self.kube.patch(JOBS, job.name, patch, job.namespace)
        except Invalid as error:
            said = refusals.sentence(error.message)
            raise NotMade("refused", f"The cluster does not let it run: {said}") from error
        logger.info("Unsuspended the adopted Job %s/%s.", job.namespace, job.name)

    async def release(self, job: JobFacts) -> None:
        """Take off an adopted Job what Chamber wrote on it, unless it stands for another attempt by now; raise `Busy`
        while its template cannot be changed. Its plan goes last: as long as it is there, the next agent looks again.
        """
        name, namespace = job.name, job.namespace
        with suppress(NotFound):
            body = await self.kube.get(JOBS, name, namespace)
            if body["metadata"]["uid"] != job.uid or self._plan_of(body) != job.plan.as_text():
                return
            # The next attempt may have more pods, or is never planned.
            await drop_budget(self.kube, job)
            await self._free_template(body)
            await self.kube.patch(JOBS, name, adoption.released(body, self.names), namespace)
            logger.info("Released the adopted Job %s/%s.", namespace, name)

    async def _free_template(self, body: JsonObject) -> None:
        """Take off what the pods would have that a Job makes later. One that has ended makes none."""
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        suspended, finished = bool(body["spec"].get("suspend")), adoption.is_finished(body)
        if finished and not suspended:
            return
        if not suspended:  # of one without pods, which the cluster refused, nothing had to be stopped
            change = {"metadata": {"uid": body["metadata"]["uid"]}, "spec": {"suspend": True}}
            await self.kube.patch(JOBS, name, change, namespace)
        try:
            await self._forget_start(body)
            await self.kube.patch(JOBS, name, adoption.ungated(body, self.names), namespace)
        except Invalid as error:
            if not finished:
                text = (
                    f"The pods' template of the Job {namespace}/{name} cannot be changed yet: {error.message}"
                )
                raise Busy(0, "Busy", text) from error

    async def tell_refused(self, job: Adopted, slug: str, message: str) -> None:
        """Say on a Job why the cluster does not run it, and where it stands when it is tried again: only the server
        knows whether that is before it is released.
        """
        text = f"{message[:MOST_WORDS]} Chamber suspends it. When it is tried again: chamber why {slug}"
        await self._tell(job, "NotStarted", text)

    async def tell_evictable(self, job: JobFacts, *, budget: str) -> None:
        """Say on a Job what an eviction would do to it."""
        there = Adopted(namespace=job.namespace, name=job.name, uid=job.uid)
        kind = "Normal" if budget else "Warning"
        other = budget if budget != budgets.name_of(job) else ""
        words = policies.warning(job.eviction, has_budget=bool(budget), other=other)
        await self._tell(there, "EndsByEviction", words, kind=kind)

    async def tell_ended(self, job: Adopted, message: str) -> None:
        """Say on a Job that it had ended when it was to run, and how it runs again."""
        await self.tell_failed(
            job, f"{message[:MOST_WORDS]} {policies.to_run_again(job.namespace, job.name)}"
        )

    async def tell_displaced(self, job: Adopted, slug: str, message: str) -> None:
        """Say on a Job what took its pods away, which is no failure of its own, and that it runs again."""
        text = (
            f"{message[:MOST_WORDS]} Chamber suspends it and starts it again when its turn comes; no retry is spent. "
            f"When that is: chamber why {slug}"
        )
        await self._tell(job, "Displaced", text, kind="Normal")

    async def tell_failed(self, job: Adopted, message: str) -> None:
        """Say on a Job how its attempt ended."""
        await self._tell(job, "Ended", message)

    async def _tell(self, job: Adopted, reason: str, message: str, *, kind: str = "Warning") -> None:
        await events.write(
            self.kube, KubeEvent(job.namespace, job.name, job.uid, kind, reason, message[:1000])
        )

    async def was_begun(self, assignment: DesiredAttempt) -> bool:
        """Return whether its Job stands for the attempt, by a fresh look."""
        job = assignment.adopted
        assert job is not None  # noqa: S101 - asked of adopted ones
        try:
            body = await self.kube.get(JOBS, job.name, job.namespace)
        except NotFound:
            return False
        plan = JobPlan.read(self._plan_of(body))
        return plan is not None and plan.attempt == assignment.attempt and self.marks.kind(body) is not None

    def _plan_of(self, body: JsonObject) -> str:
        return str((body["metadata"].get("annotations") or {}).get(self.names.plan, ""))

    def _is_begun(self, body: JsonObject, plan: JobPlan) -> bool:
        return not body["spec"].get("suspend") and self._plan_of(body) == plan.as_text()

    def _check(self, body: JsonObject, plan: JobPlan) -> None:
        """Raise where the Job is not one that the plan can be carried out with."""
        entry = adoption.read_entry(
            body, self.marks.kind(body), self.names, resources=self.inventory.settings.resources
        )
        name = f"{entry.namespace}/{entry.name}"
        if entry.finished:
            raise NotMade(reasons.JOB_ENDED, f"The Job {name} has ended and cannot run again.")
        if entry.mark is JobOrigin.ADOPTED:
            raise Busy(0, "Busy", f"The Job {name} still stands for an earlier attempt.")
        status = body.get("status", {})
        if not entry.suspended or status.get("active") or status.get("terminating"):
            raise Busy(0, "Busy", f"The Job {name} has pods that are still leaving.")
        asked = entry.described
        if asked is None or asked.problems or asked.pods != len(plan.pods):
            raise NotMade("job-changed", f"The Job {name} is not what it was when it was planned.")
        spec = body["spec"]["template"]["spec"]
        wanted = adoption.gpus_of(spec, self.inventory.settings.resources)
        for pod in plan.pods:
            if self._given(pod) != wanted:
                told = " and ".join(f"{count} {resource}" for resource, count in sorted(wanted.items()))
                raise NotMade(
                    "unschedulable", f"The Job {name} asks for {told}; node {pod.node} gives other GPUs."
                )
            self._check_taints(name, spec, pod.node)

    def _check_taints(self, name: str, pod: JsonObject, node: str) -> None:
        """Raise where the pods do not tolerate what keeps others off a node: it would not run them."""
        facts = self.inventory.nodes.items.get(node)
        for taint in facts.taints if facts is not None else ():
            if not adoption.tolerates(pod, taint):
                raise NotMade(
                    "unschedulable", f"The Job {name} does not tolerate the taint {taint} of node {node}."
                )

    def _given(self, pod: AssignedPod) -> "Counter[str]":
        """Return what a pod of the plan asks for on its node."""
        found = (self.inventory.device(pod.node, share.index) for share in pod.devices)
        return Counter(device.resource if device is not None else "" for device in found)

    async def _forget_start(self, body: JsonObject) -> None:
        metadata = body["metadata"]
        if body.get("status", {}).get("startTime"):
            status = {"metadata": {"uid": metadata["uid"]}, "status": {"startTime": None}}
            await self.kube.patch(JOBS, metadata["name"], status, metadata["namespace"], subresource="status")


def _plan(assignment: DesiredAttempt, pods: Iterable[AssignedPod]) -> JobPlan:
    """Return the plan of an adopted Job: one Job, its pods by their indexes."""
    ordered = tuple(sorted(pods, key=lambda pod: pod.index))
    return JobPlan(
        workload=assignment.workload,
        attempt=assignment.attempt,
        number=assignment.number,
        pods=ordered,
        size=len(ordered),
        time_limit_seconds=assignment.time_limit_seconds,
        memory_mib=assignment.memory_mib,
    )
