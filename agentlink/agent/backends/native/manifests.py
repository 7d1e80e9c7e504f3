"""The objects that an attempt becomes, pure.

Pods that are equal but for their place are one Indexed Job: `backoffLimit: 0`, so that one pod that fails ends them
all also while no agent looks, and `backoffLimitPerIndex: 0`, so that no pod is ever made a second time. An attempt is
one Job, then, as a rule. It is more where pods differ (each names its own devices; nodes offer theirs under different
names), and where pods were added to a gang that runs: a Job's indexes can only be cut off at the end, while Chamber
takes away and adds whichever pods it will. Taking one away allows its Job one failure more.

The Job's own deadline counts from when its pods were made, gates, images and all; Chamber's time limit counts from
when all pods run. So a Job gets its deadline only then, with what had passed by then added.

Values of credentials stand in Secrets of a Job's own (`credentials`), never in the Job.

A command and its environment are run exactly as they were submitted: Kubernetes would replace `$(NAME)` in them, and
is told not to.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentlink.agent.backends.native import credentials, mounts
from agentlink.agent.backends.native.claims import name_of
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.kube.resources import JOBS, SERVICES, JsonObject
from agentlink.protocol import NOTICE_FROM_SECONDS, AssignedPod, DesiredAttempt

CONTAINER = "main"
MASTER_PORT = "29500"
NOTICE = "notice"
NOTICE_FOLDER = "/run/chamber"
"""Where a pod finds the file with its notice."""
SCRATCH = "scratch"
SCRATCH_FOLDER = "/scratch"
GPU_TAINTS = ("nvidia.com/gpu", "amd.com/gpu")
"""What keeps others off GPU nodes; besides, the name of whatever resource a pod asks for."""
LONGEST_NAME = 50
"""Of a Job: its pods' names are ten characters longer, and must be names of machines."""
SHORTEST_GRACE_SECONDS = 1
"""With 0 a pod's record would be gone before the pod."""

_UNFIT = re.compile(r"[^a-z0-9]+")
_UNFIT_FOR_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Wave:
    """Pods of an attempt that are made together, all in one namespace, and let go together.

    `size` counts also those pods of the wave that have been made already, `taken` the attempt's Jobs.
    """

    assignment: DesiredAttempt
    pods: Sequence[AssignedPod]
    namespace: str
    number: int = 0
    size: int = 0
    taken: int = 0
    master: str = ""
    """The name of the machine at which the others find the first; empty where it is among these."""


def base_name(assignment: DesiredAttempt) -> str:
    """Return a name for the attempt's objects that no other attempt has and every kind of object may have."""
    tail = f"{assignment.number}-{assignment.attempt.hex[-8:]}"
    slug = _UNFIT.sub("-", assignment.slug.lower())[: LONGEST_NAME - len(tail) - 6].strip("-")
    return f"{slug or 'w'}-{tail}" if not slug[:1].isdigit() else f"w-{slug}-{tail}"


@dataclass(frozen=True, slots=True)
class Part:
    """One Job of a wave: equal pods, and what each of them asks for."""

    name: str
    plan: JobPlan
    ask: ContainerRequest
    master: str
    """The name of the machine at which its pods find the first."""


def parts(wave: Wave, asks: Mapping[int, ContainerRequest]) -> list[Part]:
    """Return the Jobs of a wave: one for all pods that ask for the same (`asks`, by the pods' indexes)."""
    assignment = wave.assignment
    base = base_name(assignment)
    groups: dict[ContainerRequest, list[AssignedPod]] = {}
    for pod in sorted(wave.pods, key=lambda each: each.index):
        groups.setdefault(asks[pod.index], []).append(pod)
    found: list[Part] = []
    for place, (ask, pods) in enumerate(groups.items(), start=wave.taken):
        plan = JobPlan(
            workload=assignment.workload,
            attempt=assignment.attempt,
            number=assignment.number,
            pods=tuple(pods),
            wave=wave.number,
            size=wave.size or len(wave.pods),
            service=base if is_distributed(assignment) else "",
            time_limit_seconds=assignment.time_limit_seconds,
            memory_mib=assignment.memory_mib,
        )
        name = base if place == 0 else f"{base}-{place}"
        master = wave.master or (found[0].master if found else f"{name}-0")
        found.append(Part(name, plan, ask, master))
    return found


def is_distributed(assignment: DesiredAttempt) -> bool:
    """Return whether its pods must find each other."""
    return max(len(assignment.pods), assignment.most_pods) > 1


def job(part: Part, wave: Wave, names: DomainNames, *, cluster: str) -> JsonObject:
    """Return a Job of the wave, without its mark."""
    name, plan, assignment = part.name, part.plan, wave.assignment
    labels = labels_of(assignment, names, cluster=cluster)
    count = len(plan.pods)
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": name,
            "namespace": wave.namespace,
            "labels": labels,
            "annotations": {**annotations_of(assignment, names), names.plan: plan.as_text()},
            "finalizers": [names.report],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "backoffLimitPerIndex": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": labels, "annotations": annotations_of(assignment, names)},
                "spec": _pod_spec(part, assignment, names),
            },
        },
    }


def _pod_spec(part: Part, assignment: DesiredAttempt, names: DomainNames) -> JsonObject:
    tolerated = gpu_taints(name for name, _ in part.ask.limits)
    spec: JsonObject = {
        "schedulingGates": [{"name": names.gate}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(assignment.grace_seconds, SHORTEST_GRACE_SECONDS),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [toleration(text) for text in (*assignment.tolerations, *tolerated)],
        "containers": [_container(part, assignment, names)],
        # Data loaders exchange batches through shared memory, of which a container has 64 MiB otherwise.
        "volumes": [
            {"name": "shm", "emptyDir": _shared_memory(assignment)},
            *_scratch_volume(assignment),
            *mounts.volumes(assignment),
            *_notice_volume(assignment, names),
            *credentials.volumes(part.name, assignment),
        ],
    }
    if logins := credentials.pull_secrets(part.name, assignment):
        spec["imagePullSecrets"] = logins
    if part.plan.service:
        spec["subdomain"] = part.plan.service
    if part.ask.claims:
        spec["resourceClaims"] = [
            {"name": f"gpus-{number}", "resourceClaimName": name_of(claim, part.name)}
            for number, claim in enumerate(part.ask.claims)
        ]
    return spec


def _shared_memory(assignment: DesiredAttempt) -> JsonObject:
    """Return a volume in memory, which counts as its pod's: half of that where no size is given."""
    size = assignment.memory_mib // 2 if assignment.shm_mib is None else assignment.shm_mib
    return {"medium": "Memory", "sizeLimit": f"{size}Mi"} if size else {"medium": "Memory"}


def _scratch_volume(assignment: DesiredAttempt) -> list[JsonObject]:
    """Return a volume on the node's disk for what a pod needs only while it runs; a pod that writes more is evicted."""
    if not assignment.scratch_mib:
        return []
    return [{"name": SCRATCH, "emptyDir": {"sizeLimit": f"{assignment.scratch_mib}Mi"}}]


def _notice_volume(assignment: DesiredAttempt, names: DomainNames) -> list[JsonObject]:
    """Return the volume in which a pod finds its notice, empty until it has one; none where it gets none."""
    if assignment.reserved or assignment.grace_seconds < NOTICE_FROM_SECONDS:
        return []
    field = {"fieldPath": f"metadata.annotations['{names.notice}']"}
    return [{"name": NOTICE, "downwardAPI": {"items": [{"path": NOTICE, "fieldRef": field}]}}]


def _container(part: Part, assignment: DesiredAttempt, names: DomainNames) -> JsonObject:
    amounts = {
        "cpu": f"{assignment.cpu_milli}m" if assignment.cpu_milli else "",
        "memory": f"{assignment.memory_mib}Mi" if assignment.memory_mib else "",
        **dict(part.ask.limits),
    }
    known = {name: amount for name, amount in amounts.items() if amount}
    resources: JsonObject = {"requests": known, "limits": known}
    if part.ask.claims:
        resources["claims"] = [{"name": f"gpus-{number}"} for number in range(len(part.ask.claims))]
    container: JsonObject = {
        "name": CONTAINER,
        "image": assignment.image,
        "env": _environment(part, assignment, names),
        "resources": resources,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - in the container
            *({"name": SCRATCH, "mountPath": SCRATCH_FOLDER} for _ in _scratch_volume(assignment)),
            *mounts.mounts(assignment),
            *credentials.mounts(assignment),
        ],
    }
    if assignment.working_dir:
        container["workingDir"] = assignment.working_dir
    if _notice_volume(assignment, names):
        container["volumeMounts"].append({"name": NOTICE, "mountPath": NOTICE_FOLDER, "readOnly": True})
    if assignment.command:
        container["command"] = [literal(word) for word in assignment.command]
    return container


def _environment(part: Part, assignment: DesiredAttempt, names: DomainNames) -> list[JsonObject]:
    """Return the environment: what Chamber tells, over what the workload brings, over what is only a default."""
    index = _field(f"metadata.labels['{names.pod}']")
    devices = max(1, len(part.plan.pods[0].devices))
    told: dict[str, str | JsonObject] = {
        "CHAMBER_WORKLOAD": assignment.slug,
        "CHAMBER_TEAM": assignment.team,
        "CHAMBER_ATTEMPT": str(assignment.number),
        "CHAMBER_POD": index,
        "CHAMBER_PODS": str(len(assignment.pods)),
        "CHAMBER_NODE": _field("spec.nodeName"),
        **mounts.environment(assignment),
    }
    if assignment.scratch_mib:
        told["CHAMBER_SCRATCH"] = SCRATCH_FOLDER
    if assignment.resumed_from is not None:
        told["CHAMBER_RESUMED_FROM"] = str(assignment.resumed_from)
    if assignment.notes_url:
        told |= {"CHAMBER_NOTES_URL": assignment.notes_url, "CHAMBER_NOTES_TOKEN": assignment.notes_token}
    alone: dict[str, str | JsonObject] = {"PET_NPROC_PER_NODE": str(devices)}
    defaults = _ranks(part, assignment, index, devices) if part.plan.service else alone
    handed = credentials.environment(part.name, assignment)
    merged = {**defaults, **assignment.environment, **handed, **told}
    return [
        {"name": name, "value": literal(value)}
        if isinstance(value, str)
        else {"name": name, "valueFrom": value}
        for name, value in merged.items()
    ]


def _ranks(
    part: Part, assignment: DesiredAttempt, index: JsonObject, devices: int
) -> dict[str, str | JsonObject]:
    """Return by what the processes of several pods find each other.

    `RANK` and its like are right for one process in each pod. With one for each GPU a launcher starts them: torchrun
    reads `PET_*` in place of its options and gives the processes ranks of their own; for others there are the number of
    pods and `NODE_RANK`. How many pods there are of an elastic workload changes while it runs, and torchrun is told
    between which bounds; `WORLD_SIZE` is the number when the pod was made.
    """
    pods, address = len(assignment.pods), f"{part.master}.{part.plan.service}"
    elastic = 0 < assignment.least_pods < assignment.most_pods
    found: dict[str, str | JsonObject] = {
        "MASTER_ADDR": address,
        "MASTER_PORT": MASTER_PORT,
        "WORLD_SIZE": str(pods),
        "RANK": index,
        "LOCAL_WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "NODE_RANK": index,
        "PET_NNODES": f"{assignment.least_pods}:{assignment.most_pods}" if elastic else str(pods),
        "PET_NPROC_PER_NODE": str(devices),
        "PET_NODE_RANK": index,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": MASTER_PORT,
    }
    if elastic:
        endpoint = f"{address}:{MASTER_PORT}"
        found |= {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": endpoint, "PET_RDZV_ID": assignment.slug}
    return found


def _field(path: str) -> JsonObject:
    return {"fieldRef": {"fieldPath": path}}


def service(plan: JobPlan, owner: JsonObject, labels: Mapping[str, str], names: DomainNames) -> JsonObject:
    """Return the headless Service by which an attempt's pods have names; it goes with the Job that owns it."""
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": plan.service, "labels": dict(labels), "ownerReferences": [owner]},
        "spec": {
            "clusterIP": "None",
            "selector": {names.attempt: str(plan.attempt)},
            # They look for each other before all of them are ready.
            "publishNotReadyAddresses": True,
        },
    }


def owned_by(name: str, uid: str) -> JsonObject:
    """Return the reference by which an object goes when the Job does."""
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": name, "uid": uid}


def labels_of(assignment: DesiredAttempt, names: DomainNames, *, cluster: str) -> dict[str, str]:
    """Return the labels of all that an attempt becomes: Chamber's own over those of its people."""
    own = {
        "app.kubernetes.io/name": label(assignment.name),
        "app.kubernetes.io/instance": label(assignment.slug),
        "app.kubernetes.io/component": label(assignment.job_class),
        "app.kubernetes.io/part-of": "chamber",
        "app.kubernetes.io/managed-by": "chamber",
        names.owner: label(assignment.owner),
        names.cluster: cluster,
        names.workload: str(assignment.workload),
        names.attempt: str(assignment.attempt),
        names.number: str(assignment.number),
        names.team: label(assignment.team),
    }
    return {**assignment.labels, **{name: value for name, value in own.items() if value}}


def annotations_of(assignment: DesiredAttempt, names: DomainNames) -> dict[str, str]:
    """Return the annotations of an attempt's Jobs and pods: Chamber's own over those of its people."""
    told = {names.slug: assignment.slug, names.title: assignment.name, names.owner: assignment.owner}
    return {**assignment.annotations, **{name: text for name, text in told.items() if text}}


def label(text: str) -> str:
    """Return the text as far as a label can hold it."""
    return _UNFIT_FOR_LABEL.sub("-", text)[:63].strip("-_.")


def gpu_taints(resources: Iterable[str]) -> list[str]:
    """Return the keys of the taints that keep others off the nodes of pods that ask for these GPU resources."""
    return sorted({*GPU_TAINTS, *resources})


def toleration(text: str) -> JsonObject:
    """Return a toleration written as `key=value`, or `key` for any value; as in the plan, of every effect."""
    key, has_value, value = text.partition(":")[0].partition("=")
    return (
        {"key": key, "operator": "Equal", "value": value} if has_value else {"key": key, "operator": "Exists"}
    )


def literal(text: str) -> str:
    """Return the text so that Kubernetes replaces nothing in it."""
    return text.replace("$", "$$")
