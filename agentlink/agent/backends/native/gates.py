"""Letting pods go, pure: when, and by which patch.

The pods of a wave are let go together, once the last of them has been made: each is then tied to its own planned node
and freed of its gate in one patch, which the API server takes while the pod is gated, whole or not at all.
"""

from collections.abc import Iterable, Iterator

from agentlink.agent.backends.native.facts import PodFacts
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.phases import ObservedAttempt, Slot
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import AssignedPod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ready(attempt: ObservedAttempt, names: DomainNames) -> list[Slot]:
    """Return the gated pods of those waves of which all pods have been made."""
    if attempt.stopping or any(job.verdict or job.deleting or job.suspended for job in attempt.jobs):
        return []
    waves: dict[int, list[Slot]] = {}
    for slot in attempt.slots:
        waves.setdefault(slot.job.plan.wave, []).append(slot)
    return [slot for wave in waves.values() if _is_whole(wave) for slot in _gated(wave, names)]


def _is_whole(wave: list[Slot]) -> bool:
    there = sum(slot.pod is not None or slot.succeeded or slot.is_removed for slot in wave)
    return there == wave[0].job.plan.size


def _gated(slots: Iterable[Slot], names: DomainNames) -> Iterator[Slot]:
    for slot in slots:
        pod = slot.pod
        if pod is not None and names.gate in pod.gates and pod.deleted_at is None and not slot.is_removed:
            yield slot


def lift(pod: PodFacts, planned: AssignedPod, names: DomainNames) -> JsonObject:
    """Return the strategic patch that ties a gated pod to its node and frees it.

    It fails where the pod is another by now, or was freed and is not tied: an affinity is changed of gated pods only.
    """
    devices = ",".join(str(share.index) for share in planned.devices)
    return {
        "metadata": {
            "uid": pod.uid,
            "labels": {names.pod: str(planned.index)},
            "annotations": {names.devices: devices},
        },
        "spec": {
            "schedulingGates": [{"name": names.gate, "$patch": "delete"}],
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": tied(pod.affinity, planned.node)}}},
        },
    }


def tied(affinity: JsonObject | None, node: str) -> list[JsonObject]:
    """Return the terms of the affinity to nodes, narrowed to one node: each of them asks for that besides."""
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    required: JsonObject = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    return [
        {**term, "matchFields": [*term.get("matchFields", ()), on_node]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
