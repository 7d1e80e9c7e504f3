"""What the cluster did to a pod, pure: a code, and a sentence that names the cause as far as the cluster tells it.

A pod's condition `DisruptionTarget` names the kind of act; nodes tell besides what empties them. What a pod used beyond
its own limits, or beyond what it asked for while its node ran short, is its workload's doing: `evicted`.
"""

import re
from collections.abc import Mapping

from agentlink.agent.backends.native.facts import PodFacts, Said
from agentlink.agent.backends.native.refusals import sentence

NODE_SHUT_DOWN = frozenset({"Shutdown", "Terminated", "NodeShutdown"})
"""Reasons of a pod's status, of kubelets of all ages."""
NODE_LOST = "NodeLost"
PREEMPTED_BY_KUBELET = "Preempting"
EVICTED = "Evicted"
UNDER_PRESSURE = ("The node was low on resource", "The node had condition")
"""How the kubelet's words begin where the node ran short; others name a limit of the pod that was exceeded."""
_REQUEST = re.compile(r"request is (\S+?)[,.]")


def of_condition(pod: PodFacts, where: str, emptied: Mapping[str, str]) -> tuple[str, str]:
    """Return code and sentence of a pod with the condition; `emptied`: what empties each node."""
    told = pod.disrupted
    who = emptied.get(pod.node)
    if told.reason == "EvictionByEvictionAPI":
        return "drained", f"{where} was evicted, as when its node is drained{_by(who)}."
    if told.reason == "DeletionByTaintManager" and who is not None:
        return "drained", f"{where} was evicted: its node is being emptied{_by(who)}."
    if told.reason in ("DeletionByTaintManager", "DeletionByPodGC"):
        return "node-lost", f"{where} was deleted: its node was lost, or not ready for too long."
    if told.reason == "PreemptionByScheduler":
        return (
            "scheduler-preempted",
            f"{where} was taken away by the cluster's scheduler: {sentence(told.message)}",
        )
    return of_status(pod.status if pod.status.reason in ENDS else Said(EVICTED, told.message), where)


def of_status(status: Said, where: str) -> tuple[str, str]:
    """Return code and sentence of a pod that its node ended, from the reason in its status: one of `ENDS`."""
    said = sentence(status.message or status.reason)
    if status.reason == NODE_LOST:
        return "node-lost", f"{where} ended with its node: {said}"
    if status.reason in NODE_SHUT_DOWN or "node shutdown" in status.message:
        return "node-shutdown", f"{where} ended with its node: {said}"
    if status.reason == PREEMPTED_BY_KUBELET:
        return (
            "node-pressure",
            f"{where} was ended by its node for a pod that the cluster itself needs: {said}",
        )
    code = "evicted" if is_own_doing(status.message) else "node-pressure"
    return code, f"{where} was evicted by its node: {said}"


ENDS = NODE_SHUT_DOWN | {NODE_LOST, PREEMPTED_BY_KUBELET, EVICTED}


def is_own_doing(message: str) -> bool:
    """Return whether a pod was evicted for what it used: beyond a limit, or beyond a request that it had made."""
    if not message.startswith(UNDER_PRESSURE):
        return bool(message)
    return any(amount != "0" for amount in _REQUEST.findall(message))


def deleted_with_node(where: str, who: str) -> tuple[str, str]:
    """Return code and sentence of a pod that was deleted while its node is being emptied."""
    return "drained", f"{where} was deleted while its node is being emptied{_by(who)}."


def _by(who: str | None) -> str:
    return f" ({who})" if who else ""
