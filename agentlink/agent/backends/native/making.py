"""Making what an attempt becomes: its Jobs at first; before its pods are let go, their Service and their claims."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agentlink.agent.backends.native import budgets, credentials, gates, manifests, refusals, stopping
from agentlink.agent.backends.native.budgets import Disruption
from agentlink.agent.backends.native.devices import CannotHold, DeviceClaim
from agentlink.agent.backends.native.facts import CONTROLLER_UID, JobFacts, PodFacts, read_job, read_pod
from agentlink.agent.backends.native.inventory import NodeInventory
from agentlink.agent.backends.native.manifests import Part, Wave
from agentlink.agent.backends.native.marks import JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.phases import ObservedAttempt, Slot
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import AlreadyExists, Forbidden, Invalid, KubeError, NotFound, ObjectConflict
from agentlink.agent.kube.resources import (
    BUDGETS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    JsonObject,
    key_of,
)
from agentlink.protocol import DesiredAttempt

logger = logging.getLogger(__name__)

BAD_REQUEST = 400
UNMOUNTED = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
"""Reasons of events that tell of volumes."""


class NotMade(Exception):  # noqa: N818 - an answer to the plan
    """Why the cluster does not take an attempt: a code, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes objects. `cluster` is what their label says of where they are."""

    kube: Kube
    names: DomainNames
    marks: Marks
    inventory: NodeInventory
    cluster: str
    disruption: Disruption = field(default_factory=Disruption)

    async def jobs(self, wave: Wave) -> None:
        """Make the Jobs of a wave that are not there yet; raise `NotMade` where the cluster does not take one."""
        try:
            asks = {pod.index: self.inventory.ask(pod, wave.namespace) for pod in wave.pods}
        except CannotHold as error:
            raise NotMade("unschedulable", str(error)) from error
        for part in manifests.parts(wave, asks):
            await self._job(part, wave)

    async def _job(self, part: Part, wave: Wave) -> None:
        body = manifests.job(part, wave, self.names, cluster=self.cluster)
        body["spec"]["template"]["metadata"]["annotations"] |= self.disruption.annotations(wave.assignment)
        body["metadata"]["annotations"][self.names.mark] = self.marks.made(body)
        try:
            made = await self.kube.create(JOBS, body, wave.namespace)
            if (
                self.marks.kind(made) is not JobOrigin.OWN
            ):  # the cluster's admission changed what its pods run
                await self._mark(made)
        except AlreadyExists as error:
            there = await self.kube.get(JOBS, part.name, wave.namespace)
            if await self._is_unmarked(there, body):
                left = read_job(there, self.names, adopted=False)
                assert left is not None  # noqa: S101 - its plan is this one
                await stopping.forget(self.kube, left, self.names)
                raise  # it is made anew
            if self.marks.kind(there) is not JobOrigin.OWN:
                message = f"There is a Job {part.name} in namespace {wave.namespace} that is not Chamber's."
                raise NotMade("name-taken", message) from error
            if there["metadata"]["annotations"][self.names.plan] != part.plan.as_text():
                raise  # of other pods: it is seen before this is tried again
        except KubeError as error:
            raise _refused(error, wave.namespace) or error from error

    async def _mark(self, made: JsonObject) -> None:
        """Mark a Job as what the cluster's admission made of it."""
        metadata = made["metadata"]
        change = {"uid": metadata["uid"], "annotations": {self.names.mark: self.marks.made(made)}}
        try:
            await self.kube.patch(JOBS, metadata["name"], {"metadata": change}, metadata["namespace"])
        except NotFound as error:  # another agent took it for left behind: it is made anew
            raise ObjectConflict(
                409, "Conflict", f"The Job {key_of(made)} went before it was marked."
            ) from error

    async def _is_unmarked(self, there: JsonObject, asked: JsonObject) -> bool:
        """Return whether a Job was left behind between its making and its marking, and nothing of it ever ran.

        It bears the mark of what was asked for and is something else: that is what admission made of it, or a user's
        forgery. So it is not taken over, but may go, as long as all its pods wait behind Chamber's gate.
        """
        mark, plan = self.names.mark, self.names.plan
        said, own = there["metadata"].get("annotations") or {}, asked["metadata"]["annotations"]
        gates_of = there["spec"]["template"]["spec"].get("schedulingGates") or ()
        if self.marks.kind(there) is not None or (said.get(mark), said.get(plan)) != (own[mark], own[plan]):
            return False
        if all(gate["name"] != self.names.gate for gate in gates_of):
            return False
        pods = await self.pods(there["metadata"]["namespace"], there["metadata"]["uid"])
        return all(self.names.gate in pod.gates for pod in pods)

    async def was_made(self, assignment: DesiredAttempt, namespace: str) -> bool:
        """Return whether the first Job of an attempt is there, by a fresh look."""
        try:
            there = await self.kube.get(JOBS, manifests.base_name(assignment), namespace)
        except NotFound:
            return False
        return self.marks.kind(there) is JobOrigin.OWN

    async def pods(self, namespace: str, uid: str) -> list[PodFacts]:
        """Return the pods of a Job, by a fresh look."""
        there = await self.kube.list(PODS, namespace, labels=f"{CONTROLLER_UID}={uid}")
        return [pod for pod in map(read_pod, there.items) if pod.owner == uid]

    async def provide(self, attempt: ObservedAttempt, slots: list[Slot], assignment: DesiredAttempt) -> None:
        """Make what these pods need before they are let go; raise `NotMade`."""
        labels = manifests.labels_of(assignment, self.names, cluster=self.cluster)
        first = attempt.jobs[0]
        try:
            if first.plan.service:
                await self._service(first, labels)
            for job in {slot.job.uid: slot.job for slot in slots if not slot.job.adopted}.values():
                ask = self.inventory.ask(job.plan.pods[0], job.namespace)
                for claim in ask.claims:
                    await self._claim(claim, job, labels)
                await self._credentials(job, assignment, labels)
                await self.protect(job, assignment)
        except CannotHold as error:
            raise NotMade("unschedulable", str(error)) from error
        except KubeError as error:
            raise _refused(error, first.namespace) or error from error

    async def _service(self, first: JobFacts, labels: Mapping[str, str]) -> None:
        owner = manifests.owned_by(first.name, first.uid)
        body = manifests.service(first.plan, owner, labels, self.names)
        try:
            await self.kube.create(SERVICES, body, first.namespace)
        except AlreadyExists:
            logger.debug("The Service %s/%s is there already.", first.namespace, first.plan.service)

    async def _credentials(
        self, job: JobFacts, assignment: DesiredAttempt, labels: Mapping[str, str]
    ) -> None:
        """Make the Secrets of a Job, which go with it. One that is there is this agent's, from before it was stopped:
        reading it is none of the agent's rights.
        """
        owner = manifests.owned_by(job.name, job.uid)
        for body in credentials.secrets(job.name, assignment, owner, dict(labels)):
            try:
                await self.kube.create(SECRETS, body, job.namespace)
            except AlreadyExists:
                logger.debug("The Secret %s/%s is there already.", job.namespace, body["metadata"]["name"])

    async def protect(self, job: JobFacts, assignment: DesiredAttempt) -> str:
        """Have a Job's pods protected from evictions, where such are to be; return by which budget, "" by none."""
        if other := await self._other_budget(job):
            logger.info(
                "The pods of %s have the PodDisruptionBudget %s and get none of Chamber's.", job.key, other
            )
            await drop_budget(self.kube, job)
            return other
        if not self.disruption.has_budget(assignment, job):
            return ""
        labels = manifests.labels_of(assignment, self.names, cluster=self.cluster)
        return budgets.name_of(job) if await self._budget(job, labels) else ""

    async def _other_budget(self, job: JobFacts) -> str:
        """Return a budget of others that selects pods of a Job; "" where none does, or the agent may not see any."""
        try:
            there = (await self.kube.list(BUDGETS, job.namespace)).items
        except Forbidden:
            return ""
        for body in there:
            name = str(body["metadata"]["name"])
            labels = budgets.selector(body, job)
            own = any(owner["uid"] == job.uid for owner in body["metadata"].get("ownerReferences") or ())
            if labels and not own and (await self.kube.list(PODS, job.namespace, labels=labels)).items:
                return name
        return ""

    async def _budget(self, job: JobFacts, labels: Mapping[str, str]) -> bool:
        """Have a Job's pods protected; a cluster that does not take that runs them all the same."""
        try:
            await self.kube.create(BUDGETS, budgets.budget(job, labels), job.namespace)
        except AlreadyExists:
            logger.debug("The PodDisruptionBudget of %s is there already.", job.key)
        except (Forbidden, Invalid, NotFound) as error:
            logger.warning("The pods of %s may be evicted, they have no budget: %s", job.key, error)
            return False
        return True

    async def _claim(self, claim: DeviceClaim, job: JobFacts, labels: Mapping[str, str]) -> None:
        # What several share is no single workload's.
        own = {self.names.cluster: self.cluster} if claim.shared else dict(labels)
        owner = manifests.owned_by(job.name, job.uid)
        await self.inventory.provide(claim, job.name, job.namespace, own, owner)

    async def let_go(self, slot: Slot) -> None:
        """Tie a pod to its node and free it; raise `NotMade` where the cluster will not have it there."""
        pod = slot.pod
        assert pod is not None  # noqa: S101 - only pods that are there are let go
        patch = gates.lift(pod, slot.planned, self.names)
        try:
            await self.kube.patch(PODS, pod.name, patch, pod.namespace, kind="strategic")
        except (Invalid, NotFound) as error:
            if await self._is_gated(pod.namespace, pod.name, pod.uid):
                said = refusals.sentence(error.message)
                message = f"Pod {slot.planned.index} cannot be let go to {slot.planned.node}: {said}"
                raise NotMade("unschedulable", message) from error

    async def _is_gated(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether the pod still waits behind its gate, by a fresh look."""
        try:
            body = await self.kube.get(PODS, name, namespace)
        except NotFound:
            return False
        gated = any(gate["name"] == self.names.gate for gate in body["spec"].get("schedulingGates", ()))
        return gated and body["metadata"]["uid"] == uid and "deletionTimestamp" not in body["metadata"]

    async def has_node(self, node: str) -> bool:
        """Return whether a node is there, by a fresh look where it is not in the inventory."""
        if node in self.inventory.nodes.items:
            return True
        return bool((await self.kube.list(NODES, fields=f"metadata.name={node}")).items)

    def closed(self, nodes: Iterable[str]) -> set[str]:
        """Return those of the nodes that take no new pods."""
        known = ((name, self.inventory.nodes.items.get(name)) for name in nodes)
        return {name for name, node in known if node is not None and (node.cordoned or not node.ready)}

    async def why_unmade(self, attempt: ObservedAttempt) -> str | None:
        """Return why the Jobs' controller cannot make pods, in the latest event's words; None where none says.

        What was said before a Job began (or, suspended in between, went on) is of an earlier attempt.
        """
        told: list[JsonObject] = []
        for job in attempt.jobs:
            fields = f"involvedObject.uid={job.uid},reason=FailedCreate"
            events = (await self.kube.list(EVENTS, job.namespace, fields=fields)).items
            told += [event for event in events if _is_since(event, job.started_at)]
        latest = max(told, key=lambda event: event.get("lastTimestamp") or "", default=None)
        return None if latest is None else str(latest.get("message", ""))

    async def why_unmounted(self, pod: PodFacts) -> str:
        """Return why a pod does not get its volumes, in the latest event's words; "" where none says."""
        fields = f"involvedObject.uid={pod.uid},type=Warning"
        told = (await self.kube.list(EVENTS, pod.namespace, fields=fields)).items
        mounts = [event for event in told if event.get("reason") in UNMOUNTED]
        latest = max(mounts, key=lambda event: event.get("lastTimestamp") or "", default={})
        return str(latest.get("message", ""))


async def drop_budget(kube: Kube, job: JobFacts) -> None:
    """Delete the budget that Chamber gave a Job's pods, where it did."""
    try:
        await kube.delete(BUDGETS, budgets.name_of(job), job.namespace)
    except NotFound:
        return
    except Forbidden as error:
        logger.warning("The PodDisruptionBudget of %s stays: %s", job.key, error)


def _is_since(event: JsonObject, began_at: datetime | None) -> bool:
    """Return whether an event was last told since then; events tell whole seconds."""
    told_at = event.get("lastTimestamp")
    return bool(told_at and began_at and datetime.fromisoformat(told_at) >= began_at.replace(microsecond=0))


def _refused(error: KubeError, namespace: str) -> NotMade | None:
    """Return what a refusal means; None for a failure that may pass."""
    said = refusals.sentence(error.message)
    if isinstance(error, NotFound) and f'namespaces "{namespace}"' in error.message:
        return NotMade("namespace-missing", f"The namespace {namespace} does not exist in the cluster.")
    if isinstance(error, Forbidden) and "NamespaceTerminating" in error.causes:
        return NotMade("namespace-terminating", f"The namespace {namespace} is being deleted in the cluster.")
    if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
        return None
    code = refusals.code_of(error.message)
    if code == refusals.PLAN_QUOTA:
        return None
    if code == refusals.QUOTA_EXCEEDED:
        return NotMade(code, f"A quota of namespace {namespace} refuses it: {said}")
    return NotMade(code, f"The cluster refuses it: {said}")


def refused_for_now(error: KubeError, tries: int, foreign: str = "") -> NotMade | None:
    """Return what it means that the API server answered so many times that it cannot take something now; None where it
    gave no answer, so that nothing is known. `foreign`: which pods the agent's own quota counts that it did not make.
    """
    if not (code := refusals.passing_code(error)):
        return None
    if code == refusals.PLAN_QUOTA:
        return NotMade(code, refusals.plan_quota(error.message, foreign))
    what = "cannot ask a webhook" if code == refusals.WEBHOOK_UNREACHABLE else "cannot take it now"
    return NotMade(code, f"The cluster {what}, tried {tries} times: {refusals.sentence(error.message)}")
