"""Nodes as the inventory tells of them: what is kept of a node, and its report."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from agentlink.agent.backends.native.devices import ClusterDevice, is_gpu
from agentlink.agent.backends.native.facts import PodFacts
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.kube.quantities import mebibytes, milli, number
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import MAX_SENTENCE, DeviceReport, NodeReport

LIFECYCLE = frozenset(
    f"node.kubernetes.io/{state}" for state in ("unschedulable", "not-ready", "unreachable")
)
"""Taints that say what `ready` and `cordoned` say."""
EMPTIERS = {
    "ToBeDeletedByClusterAutoscaler": "by the Cluster Autoscaler",
    "karpenter.sh/disrupted": "by Karpenter",
    "karpenter.sh/disruption": "by Karpenter",
    "cloud.google.com/impending-node-termination": "Google Cloud takes the machine back",
    "aws-node-termination-handler/spot-itn": "AWS takes the spot instance back",
    "aws-node-termination-handler/scheduled-maintenance": "scheduled maintenance of AWS",
    "node.kubernetes.io/out-of-service": "out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud shut it down",
}
"""What empties a node, by the taint that it sets."""
UNTOLD = ("feature.node.kubernetes.io/", "beta.kubernetes.io/")
"""Labels that begin so are many, and of no use for choosing GPUs."""
MOST_DEVICES = 1024
LONGEST_WORD = 60
LONGEST_NAME = 253


AT_ONCE = "now"
MOST_QUOTED = 100
LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Drain:
    """When work leaves a node that an operator asked to be drained, by class; None: not until it ends by itself.

    `problem` says which annotation is no time; empty where each is one.
    """

    elastic_at: datetime | None = None
    reserved_at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is kept of a node. `devices` count what there is of each GPU resource, `available` what is healthy of it."""

    name: str
    ready: bool
    cordoned: bool
    cpu_milli: int | None
    memory_mib: int | None
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    devices: Mapping[str, int]
    available: Mapping[str, int]
    emptied_by: str | None = None
    """What empties it, as far as it tells; None where nothing does."""
    drain: Drain | None = None
    uid: str = ""


def read_node(body: JsonObject, resources: Iterable[str], names: DomainNames | None = None) -> NodeFacts:
    """Return what is kept of a node; `resources` are the patterns of GPU resources. One that is to be drained takes
    nothing new.
    """
    patterns = tuple(resources)
    drain = read_drain(body["metadata"].get("annotations") or {}, names or DomainNames())
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    allocatable = status.get("allocatable") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return NodeFacts(
        name=metadata["name"],
        ready=conditions.get("Ready") == "True",
        cordoned=bool(spec.get("unschedulable") or drain) or "deletionTimestamp" in metadata,
        cpu_milli=milli(allocatable["cpu"]) if "cpu" in allocatable else None,
        memory_mib=mebibytes(allocatable["memory"]) if "memory" in allocatable else None,
        labels={
            name: value
            for name, value in sorted((metadata.get("labels") or {}).items())
            if not name.startswith(UNTOLD) and len(name) <= LONGEST_NAME
        },
        taints=tuple(sorted(_taints(spec, patterns))),
        devices=_counted(status.get("capacity") or {}, patterns),
        available=_counted(allocatable, patterns),
        emptied_by=_emptied_by(metadata, spec),
        drain=drain,
        uid=metadata.get("uid", ""),
    )


def read_drain(annotations: Mapping[str, str], names: DomainNames) -> Drain | None:
    """Return what a node's annotations say of a drain: times with their zone, or `now`.

    Without a time of its own elastic work leaves at once. What cannot be read is no time, and a problem.
    """
    elastic, reserved = annotations.get(names.drain_elastic), annotations.get(names.drain_reserved)
    if elastic is None and reserved is None:
        return None
    said = {"elastic": (names.drain_elastic, elastic), "reserved": (names.drain_reserved, reserved)}
    problems = [
        f"Its annotation {name} says {_quoted(text)}, which is no time, so {work} work is not "
        f"asked to leave. Write {AT_ONCE}, or a time with its zone, such as 2026-12-01T18:00:00Z."
        for work, (name, text) in said.items()
        if text is not None and _moment(text) is None
    ]
    return Drain(
        _moment(AT_ONCE if elastic is None else elastic),
        _moment(reserved or ""),
        " ".join(problems)[:MAX_SENTENCE],
    )


def _quoted(text: str) -> str:
    """Return a text from the cluster, in quotes and cut: what cannot be shown is longer as it is quoted."""
    said = repr(text[:MOST_QUOTED])
    return said if len(said) <= MOST_QUOTED else f"{said[: MOST_QUOTED - 2]}…{said[-1]}"


def _moment(text: str) -> datetime | None:
    if text == AT_ONCE:
        return LONG_AGO
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _emptied_by(metadata: JsonObject, spec: JsonObject) -> str | None:
    """Return what empties a node: by its taints, if these are known, else what cordoned it, else the taint."""
    taints = spec.get("taints") or ()
    for taint in taints:
        if who := EMPTIERS.get(taint["key"]):
            return who
    if spec.get("unschedulable"):
        wrote = (entry for entry in metadata.get("managedFields") or () if _cordoned(entry))
        who = next((str(entry.get("manager", "")) for entry in wrote), "")
        return f"cordoned by {who}" if who else "cordoned"
    for taint in taints:
        if taint["effect"] == "NoExecute" and taint["key"] not in LIFECYCLE:
            return f"taint {taint['key']}"
    return None


def _cordoned(entry: JsonObject) -> bool:
    """Return whether an entry of managed fields is of what cordoned the node."""
    return "f:unschedulable" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def _taints(spec: JsonObject, patterns: Sequence[str]) -> Iterable[str]:
    """Yield the taints that keep pods out, but for those that every pod with GPUs tolerates."""
    for taint in spec.get("taints") or ():
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        if effect != "PreferNoSchedule" and key not in LIFECYCLE and not is_gpu(key, patterns):
            yield f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _counted(amounts: Mapping[str, str], patterns: Sequence[str]) -> dict[str, int]:
    return {name: int(number(amount)) for name, amount in sorted(amounts.items()) if is_gpu(name, patterns)}


def report(
    node: NodeFacts,
    devices: Sequence[ClusterDevice],
    foreign: Collection[int],
    pods: Iterable[PodFacts],
    *,
    partition_label: str,
    sharing: bool,
    problem: str = "",
) -> NodeReport:
    """Return a node as the server is told of it: `foreign` are indexes that others have, `pods` the others' pods there.

    What those ask for of CPU and memory is not Chamber's to give. `problem`: why devices are taken though no pod has
    them.
    """
    cpu_milli = memory_mib = 0
    for pod in pods:
        cpu_milli += pod.cpu_milli
        memory_mib += pod.memory_mib
    return NodeReport(
        name=node.name,
        ready=node.ready,
        cordoned=node.cordoned,
        drained=node.drain is not None,
        cpu_milli=None if node.cpu_milli is None else max(0, node.cpu_milli - cpu_milli),
        memory_mib=None if node.memory_mib is None else max(0, node.memory_mib - memory_mib),
        labels=dict(node.labels),
        taints=node.taints,
        partition=node.labels.get(partition_label, "")[:LONGEST_WORD],
        sharing=sharing,
        problem=" ".join(filter(None, [node.drain.problem if node.drain else "", problem]))[:MAX_SENTENCE],
        devices=tuple(
            DeviceReport(
                index=device.index,
                gpu_type=device.gpu_type[:LONGEST_WORD],
                memory_mib=device.memory_mib,
                foreign=device.index in foreign,
                slicing=device.slicing,
                share_milli=device.share_milli,
            )
            for device in devices[:MOST_DEVICES]
        ),
    )
