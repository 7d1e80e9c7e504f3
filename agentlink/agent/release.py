"""Letting go of a cluster before its agent is removed: of nothing that is left behind does a finalizer hold the end.

In this order:

1. Where no agent has worked from this namespace, or while workloads have pods and are not to be stopped, it is
   refused: nothing was changed.
2. The lease is taken from whichever agent leads. That one stops acting, so nothing new comes; the server sees it go.
3. What runs is stopped with its grace period. Jobs that Chamber made are deleted, adopted ones are suspended and freed
   of what Chamber wrote on them.
4. The lease is kept for a while: agents that are about to be removed do not begin again.
5. The server is told, where it is named and can be reached: what had ended by itself, and that the cluster was let go
   of. Nothing waits for that: a server that is not told takes the workloads for running. While a Job runs that bears
   Chamber's finalizer without this agent's mark, the server is not told: it may be a workload of another agent.

What bears no mark of this agent is left alone, whatever its labels say. Namespaces and their quotas stay.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native.cluster import NativeCluster, cluster_uid
from agentlink.agent.backends.native.facts import read_job
from agentlink.agent.backends.native.marks import SECRET, JobOrigin, Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.farewell import ServerAddress, tell
from agentlink.agent.kube.access import Access
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.lease import RENEW_WITHIN_SECONDS, Leadership
from agentlink.agent.kube.resources import JOBS, JsonObject, key_of
from agentlink.agent.native import AgentOptions
from agentlink.protocol import ENDED, LIVING, ReportedPhase

logger = logging.getLogger(__name__)

MOST_NAMED = 10
LOOK_AGAIN_SECONDS = 0.5
NOT_NAMED = "no --token-file was named"


class NotReleased(Exception):  # noqa: N818 - an answer to the user
    """Why the cluster was not let go of, as a sentence."""


@dataclass(frozen=True, slots=True)
class Left:
    """What Chamber has in a cluster: Jobs by their keys. `unmarked` bear its finalizer without its mark, and of these
    `active` have pods.

    `untold` is why the server was not told; empty where it was.
    """

    running: tuple[str, ...]
    ended: tuple[str, ...]
    unmarked: tuple[str, ...]
    active: tuple[str, ...] = ()
    untold: str = ""


async def release(
    access: Access,
    options: AgentOptions,
    *,
    stop_workloads: bool,
    timeout_seconds: float,
    settle_seconds: float = RENEW_WITHIN_SECONDS,
    server: ServerAddress | None = None,
    in_cluster: bool = False,
) -> Left:
    """Let go of the cluster, tell the `server`, and return what there was; raise `NotReleased`.

    `settle_seconds` are for the agent that led: until then it has noticed that it does not any more. `in_cluster`:
    this runs with the agent's own account, thus in its namespace.
    """
    async with Kube(access) as kube:
        marks = await Marks.find(kube, access.namespace)
        left = await look(kube, marks)
        if marks is None:
            _refuse_elsewhere(access.namespace, left.unmarked, in_cluster=in_cluster)
            return replace(left, untold=f"no agent has worked from the namespace {access.namespace}")
        _refuse_running(left.running, stop_workloads=stop_workloads)
        ended: list[Observation] = []

        async def work() -> None:
            await asyncio.sleep(settle_seconds)
            ended.extend(await _let_go(kube, access, options, marks, stop_workloads=stop_workloads))

        try:
            async with asyncio.timeout(timeout_seconds):
                done = await Leadership(access, namespace=access.namespace).take_over(work)
        except TimeoutError as error:
            there = await look(kube, marks)
            raise NotReleased(
                f"After {timeout_seconds:.0f} s there are still {_count(there.running + there.ended)}. Pods may take "
                "their grace period to stop; try again."
            ) from error
        if not done:
            raise NotReleased("An agent took the lease back meanwhile; try again.")
        now = await look(kube, marks)
        left = replace(left, unmarked=now.unmarked, active=now.active)
        return replace(left, untold=await _tell(kube, server, left.active, ended))


async def _tell(
    kube: Kube, server: ServerAddress | None, active: Sequence[str], ended: Iterable[Observation]
) -> str:
    """Tell the server; return why it was not told, empty where it was."""
    if server is None:
        return NOT_NAMED
    if active:
        return f"still running with Chamber's finalizer, without this agent's mark: {_count(active)}"
    return await tell(server, await cluster_uid(kube), ended)


async def look(kube: Kube, marks: Marks | None) -> Left:
    """Return what Chamber has in the cluster, none of it marked where there are no `marks`; raise `KubeError`."""
    names = DomainNames()
    running: list[str] = []
    ended: list[str] = []
    unmarked: list[str] = []
    active: list[str] = []
    for body in (await kube.list(JOBS, labels=names.cluster)).items:
        mark = marks.kind(body) if marks else None
        if mark is None or read_job(body, names, adopted=mark is JobOrigin.ADOPTED) is None:
            if names.report in body["metadata"].get("finalizers", ()):
                unmarked.append(key_of(body))
                active += [key_of(body)] if _is_running(body) else []
        elif _is_running(body):
            running.append(key_of(body))
        else:
            ended.append(key_of(body))
    return Left(tuple(sorted(running)), tuple(sorted(ended)), tuple(sorted(unmarked)), tuple(sorted(active)))


def _is_running(body: JsonObject) -> bool:
    """Return whether a Job has pods, or will have some by itself."""
    status = body.get("status", {})
    if status.get("active") or status.get("terminating"):
        return True
    conditions = status.get("conditions", ())
    over = any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
    return not (over or body["spec"].get("suspend"))


def _refuse_elsewhere(namespace: str, unmarked: Sequence[str], *, in_cluster: bool) -> None:
    """Refuse where the agent works from another namespace, or its mark is gone; not for an agent that never worked."""
    if in_cluster and not unmarked:
        return
    there = f" Chamber's finalizer is on {_count(unmarked)}." if unmarked else ""
    step = (
        "Release these Jobs by their own agent, or remove this one with `helm uninstall --no-hooks`."
        if in_cluster
        else "Name the agent's own namespace in the kubeconfig's context (kubectl config set-context --current "
        "--namespace NAMESPACE), or run this in the agent's pod."
    )
    raise NotReleased(
        f"The namespace {namespace} has no Secret {SECRET}: no agent has worked from there.{there} Nothing was "
        f"changed. {step}"
    )


def _refuse_running(jobs: Sequence[str], *, stop_workloads: bool) -> None:
    if jobs and not stop_workloads:
        raise NotReleased(
            f"Workloads still run here: {_count(jobs)}. Cancel them or let them end, or have them stopped: "
            "--stop-workloads, agent.uninstall.stopWorkloads=true of the chart."
        )


def _count(jobs: Sequence[str]) -> str:
    """Return how many Jobs these are, and the first few by name."""
    named = ", ".join(jobs[:MOST_NAMED])
    more = f" and {len(jobs) - MOST_NAMED} more" if len(jobs) > MOST_NAMED else ""
    return f"{len(jobs)} {'Job' if len(jobs) == 1 else 'Jobs'} ({named}{more})" if jobs else "no Jobs"


async def _let_go(
    kube: Kube, access: Access, options: AgentOptions, marks: Marks, *, stop_workloads: bool
) -> list[Observation]:
    """Stop what runs, forget every attempt, and return how those ended that were not stopped; raise `NotReleased` where
    something began to run meanwhile.
    """
    async with NativeCluster(
        kube,
        own_namespace=access.namespace,
        namespace=options.namespace,
        settings=options.inventory,
        role=options.role,
        marks=marks,
    ) as cluster:
        await cluster.synced()
        _, found = await cluster.observe(-1)
        jobs = cluster.attempts.jobs
        _refuse_running(
            [job.key for seen in found if not _is_over(seen) for job in jobs(seen.attempt)],
            stop_workloads=stop_workloads,
        )
        logger.info("Letting go of %d attempts.", len(found))
        for seen in found:
            if not _is_over(seen):
                await cluster.stop(seen.attempt, None)
        by_itself = {seen.attempt for seen in found if _is_over(seen)}
        return [seen for seen in await _until_gone(cluster, found) if seen.attempt in by_itself]


async def _until_gone(cluster: NativeCluster, found: Iterable[Observation]) -> list[Observation]:
    """Forget each attempt once none of its pods is left; return when there is nothing of any, with how each ended."""
    left = {seen.attempt for seen in found}
    forgotten: dict[object, Observation] = {}
    while left:
        _, seen = await cluster.observe(-1)
        for each in seen:
            if _is_over(each) and each.attempt not in forgotten:
                forgotten[each.attempt] = each
                await cluster.forget(each.attempt)
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        left = {attempt for attempt in left if cluster.attempts.get(attempt) is not None}
    return list(forgotten.values())


def _is_over(seen: Observation) -> bool:
    """Return whether an attempt has no pod that runs or will."""
    over = seen.phase in ENDED or seen.phase is ReportedPhase.GONE
    return over and all(pod.state not in LIVING for pod in seen.pods)
