"""Letting go of a cluster before its agent is removed: of nothing that is left behind does a finalizer hold the end.

In this order:

1. While workloads have pods, and are not to be stopped, it is refused: nothing was changed.
2. The lease is taken from whichever agent leads. That one stops acting, so nothing new comes; the server sees it go.
3. What runs is stopped with its grace period. Jobs that Chamber made are deleted, adopted ones are suspended and freed
   of what Chamber wrote on them.
4. The lease is kept for a while: agents that are about to be removed do not begin again.
5. The server is told, where it is named and can be reached: what had ended by itself, and that the cluster was let go
   of. Nothing waits for that: who is not told goes on thinking that workloads run there.

What bears no mark of this agent is nobody's to touch, whatever its labels say. Namespaces and their quotas stay.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native.cluster import NativeCluster, cluster_uid
from agentlink.agent.backends.native.facts import read_job
from agentlink.agent.backends.native.marks import Mark, Marks
from agentlink.agent.backends.native.names import Names
from agentlink.agent.farewell import Server, tell
from agentlink.agent.kube.access import Access
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.lease import RENEW_WITHIN_SECONDS, Leadership
from agentlink.agent.kube.resources import JOBS, JsonObject, key_of
from agentlink.agent.native import Options
from agentlink.protocol import ENDED, LIVING, Phase

logger = logging.getLogger(__name__)

MOST_NAMED = 10
LOOK_AGAIN_SECONDS = 0.5
NOT_NAMED = "no --token-file was named"


class NotReleased(Exception):  # noqa: N818 - an answer to the user
    """Why the cluster was not let go of, as a sentence."""


@dataclass(frozen=True, slots=True)
class Left:
    """What Chamber has in a cluster: Jobs by their keys. `unmarked` bear its finalizer without its mark.

    `untold` is why the server was not told; empty where it was.
    """

    running: tuple[str, ...]
    ended: tuple[str, ...]
    unmarked: tuple[str, ...]
    untold: str = ""


async def release(
    access: Access,
    options: Options,
    *,
    stop_workloads: bool,
    timeout_seconds: float,
    settle_seconds: float = RENEW_WITHIN_SECONDS,
    server: Server | None = None,
) -> Left:
    """Let go of the cluster, tell the `server`, and return what there was; raise `NotReleased`.

    `settle_seconds` are for the agent that led: until then it has noticed that it does not any more.
    """
    async with Kube(access) as kube:
        left = await look(kube, access.namespace)
        _refuse_running(left.running, stop_workloads=stop_workloads)
        ended: list[Observation] = []

        async def work() -> None:
            await asyncio.sleep(settle_seconds)
            ended.extend(await _let_go(kube, access, options, stop_workloads=stop_workloads))

        try:
            async with asyncio.timeout(timeout_seconds):
                done = await Leadership(access, namespace=access.namespace).take_over(work)
        except TimeoutError as error:
            there = await look(kube, access.namespace)
            raise NotReleased(
                f"After {timeout_seconds:.0f} s there are still {_count(there.running + there.ended)}. Pods may take "
                "their grace period to stop; try again."
            ) from error
        if not done:
            raise NotReleased("An agent took the lease back meanwhile; try again.")
        untold = await tell(server, await cluster_uid(kube), ended) if server else NOT_NAMED
        return replace(left, untold=untold)


async def look(kube: Kube, own_namespace: str) -> Left:
    """Return what Chamber has in the cluster; raise `KubeError`."""
    names = Names()
    marks = await Marks.load(kube, own_namespace)
    running: list[str] = []
    ended: list[str] = []
    unmarked: list[str] = []
    for body in (await kube.list(JOBS, labels=names.cluster)).items:
        mark = marks.kind(body)
        if mark is None or read_job(body, names, adopted=mark is Mark.ADOPTED) is None:
            if names.report in body["metadata"].get("finalizers", ()):
                unmarked.append(key_of(body))
        elif _is_running(body):
            running.append(key_of(body))
        else:
            ended.append(key_of(body))
    return Left(tuple(sorted(running)), tuple(sorted(ended)), tuple(sorted(unmarked)))


def _is_running(body: JsonObject) -> bool:
    """Return whether a Job has pods, or will have some by itself."""
    status = body.get("status", {})
    if status.get("active") or status.get("terminating"):
        return True
    conditions = status.get("conditions", ())
    over = any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
    return not (over or body["spec"].get("suspend"))


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


async def _let_go(kube: Kube, access: Access, options: Options, *, stop_workloads: bool) -> list[Observation]:
    """Stop what runs, forget every attempt, and return how each ended; raise `NotReleased` where something began to run
    meanwhile.
    """
    async with NativeCluster(
        kube,
        own_namespace=access.namespace,
        namespace=options.namespace,
        settings=options.inventory,
        role=options.role,
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
        return await _until_gone(cluster, found)


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
    over = seen.phase in ENDED or seen.phase is Phase.GONE
    return over and all(pod.state not in LIVING for pod in seen.pods)
