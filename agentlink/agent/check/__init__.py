"""What an operator must mend before the agent can work in a cluster: `chamber doctor --cluster`. Nothing is written."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from agentlink.agent.backends.native.cluster import cluster_uid
from agentlink.agent.check import admission, cluster, server
from agentlink.agent.check.found import CheckOptions, CheckReport, Problem
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, KubeError

__all__ = ["CheckOptions", "CheckReport", "Problem", "examine"]

Check = Callable[[Kube, CheckOptions], Awaitable[Iterable[Problem]]]
IN_CLUSTER: dict[str, Check] = {
    "version": cluster.version,
    "clock": cluster.clock,
    "namespaces": cluster.namespaces,
    "rights": cluster.rights,
    "security": cluster.security,
    "jobs": admission.jobs,
    "pods": admission.pods,
    "claims": cluster.claims,
    "nodes": cluster.nodes,
    "lease": cluster.lease,
}


async def examine(kube: Kube, asked: CheckOptions) -> CheckReport:
    """Return what is wrong. What the account may not look at is left out: the missing right is a problem already."""
    report = CheckReport()
    answers = await _make(report, "api-server", cluster.api_server(kube))
    for name, check in IN_CLUSTER.items():
        if answers:
            await _make(report, name, check(kube, asked))
        else:
            report.left_out.append(name)
    if asked.url:
        uid = ""
        if answers:
            with suppress(KubeError):  # then it is not compared; what the account lacks is told above
                uid = await cluster_uid(kube)
        await _make(report, "server", server.server(asked, uid))
    return report


async def _make(report: CheckReport, name: str, check: Awaitable[Iterable[Problem]]) -> bool:
    """Make a check; return whether it found nothing."""
    try:
        found = list(await check)
    except Forbidden:
        report.left_out.append(name)
        return False
    except KubeError as error:
        found = [Problem(f"The API server failed: {error}", "Look into the log of the API server.")]
    report.made.append(name)
    report.problems += [(name, problem) for problem in found]
    return not found
