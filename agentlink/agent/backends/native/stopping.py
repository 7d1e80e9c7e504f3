"""Stopping pods, and what is written of them on their Jobs.

A Job is stopped by suspending it: its controller deletes the pods, each with its grace period, and the Job itself stays
as the record of what became of them. Devices are free when the pods are gone, however long that takes. Pods that a
controller no longer looks after are deleted one by one, as are those that are taken from a Job that goes on.
"""

import logging
import math
from collections.abc import Collection, Iterable
from datetime import datetime

from agentlink.agent.backends.native.facts import JobFacts, PodFacts, as_indexes
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Invalid, NotFound, ObjectConflict
from agentlink.agent.kube.resources import JOBS, PODS, JsonObject

logger = logging.getLogger(__name__)


async def stop(
    kube: Kube,
    job: JobFacts,
    pods: Iterable[PodFacts],
    names: DomainNames,
    *,
    at: datetime,
    grace_seconds: int | None = None,
) -> None:
    """Have a Job's pods deleted with their grace period, or with the part of it that is left (`grace_seconds`)."""
    pods = list(pods)
    if not (job.vanished or (job.stopping and job.suspended)):
        await _change(
            kube, job, {"metadata": _noted(job, names.stop, at.isoformat()), "spec": {"suspend": True}}
        )
        logger.info("Suspended Job %s: its controller deletes its pods.", job.key)
        if grace_seconds is not None:
            # What the controller grants is what the pod was made with; a request for less shortens it.
            for pod in pods:
                await _delete(kube, pod, grace_seconds=max(1, grace_seconds))
    if job.vanished or job.deleting or job.failed or job.complete:
        for pod in pods:
            await _delete(kube, pod)


async def remove(
    kube: Kube, job: JobFacts, pods: Iterable[PodFacts], indexes: Collection[int], names: DomainNames
) -> None:
    """Take pods, by their index in the workload, from a Job that goes on with the others."""
    removed = job.removed | set(indexes)
    if removed != job.removed:
        change: JsonObject = {"metadata": _noted(job, names.removed, as_indexes(removed))}
        # Before the first of them ends: else their end would be the Job's.
        await _change(kube, job, {**change, "spec": {"backoffLimit": len(removed)}})
    for pod in pods:
        if pod.index < len(job.plan.pods) and job.plan.pods[pod.index].index in indexes:
            await _delete(kube, pod)


async def record(kube: Kube, job: JobFacts, verdict: AttemptVerdict, names: DomainNames) -> None:
    """Write on a Job how its attempt ended; raise `NotFound` where it is not there any more."""
    await _change(kube, job, {"metadata": _noted(job, names.verdict, verdict.as_text())}, missing_ok=False)


async def note_let_go(kube: Kube, job: JobFacts, pods: Iterable[str], names: DomainNames) -> None:
    """Write on a Job which pods are let go, by the ends of their uids: another in their place is not."""
    await _change(kube, job, {"metadata": _noted(job, names.let_go, ",".join(sorted(pods)))})


async def limit(kube: Kube, job: JobFacts, *, running_at: datetime) -> None:
    """Have the cluster itself end a Job when it has run for its time limit, which counts from when all pods ran.

    Never before: the cluster tells of whole seconds, so all pods ran up to one later than it says.
    """
    assert job.started_at is not None  # noqa: S101 - asked of Jobs that have begun
    before = (running_at - job.started_at).total_seconds()
    seconds = math.ceil(before + (job.plan.time_limit_seconds or 0)) + 1
    await _change(kube, job, {"metadata": {"uid": job.uid}, "spec": {"activeDeadlineSeconds": seconds}})


async def forget(kube: Kube, job: JobFacts, names: DomainNames) -> None:
    """Delete a Job and take the finalizer off; what it owns goes with it."""
    try:
        await kube.delete(JOBS, job.name, job.namespace, uid=job.uid)
        body = await kube.get(JOBS, job.name, job.namespace)
        finalizers = body["metadata"].get("finalizers", [])
        if names.report in finalizers:
            place = f"/metadata/finalizers/{finalizers.index(names.report)}"
            off = [
                {"op": "test", "path": "/metadata/uid", "value": job.uid},
                {"op": "test", "path": place, "value": names.report},
                {"op": "remove", "path": place},
            ]
            await kube.patch(JOBS, job.name, off, job.namespace, kind="json")
    except NotFound:
        return
    except (ObjectConflict, Invalid):
        # Another of its name is no business of ours; a change in between is.
        if (await _uid(kube, job)) == job.uid:
            raise


async def _uid(kube: Kube, job: JobFacts) -> str | None:
    try:
        return str((await kube.get(JOBS, job.name, job.namespace))["metadata"]["uid"])
    except NotFound:
        return None


def _noted(job: JobFacts, annotation: str, text: str) -> JsonObject:
    """Return metadata that change nothing but one annotation, and of this very Job only."""
    return {"uid": job.uid, "annotations": {annotation: text}}


async def _change(kube: Kube, job: JobFacts, change: JsonObject, *, missing_ok: bool = True) -> None:
    try:
        await kube.patch(JOBS, job.name, change, job.namespace)
    except NotFound:
        if not missing_ok:
            raise
    except (ObjectConflict, Invalid) as error:
        if (await _uid(kube, job)) == job.uid:
            raise
        if not missing_ok:
            raise NotFound(404, "NotFound", f"The Job {job.key} is another by now.") from error


async def give_notice(kube: Kube, pod: PodFacts, text: str, names: DomainNames) -> None:
    """Write on a pod that it is about to be stopped; one that is gone needs to hear nothing."""
    try:
        await kube.patch(
            PODS,
            pod.name,
            {"metadata": {"uid": pod.uid, "annotations": {names.notice: text}}},
            pod.namespace,
        )
    except (NotFound, ObjectConflict, Invalid):
        return


async def _delete(kube: Kube, pod: PodFacts, *, grace_seconds: int | None = None) -> None:
    if pod.deleted_at is not None or pod.is_over:
        return
    try:
        await kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace_seconds)
    except (NotFound, ObjectConflict):
        return
