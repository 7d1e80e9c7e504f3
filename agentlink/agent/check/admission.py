"""Questions to a cluster's admission: whether it would take a workload's Job and its pods. Nothing is stored.

A Job tells of Pod Security only by a warning, and nothing of quotas and webhooks that are about pods. Pods are made by
the Jobs' controller, so the agent has no right to: that they would be taken is asked only as a client that has it.
"""

from dataclasses import dataclass
from uuid import UUID

from agentlink.agent.backends.native import manifests, refusals
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.nodes import read_node
from agentlink.agent.backends.native.places import SECURITY
from agentlink.agent.check.cluster import bound_namespaces, published_devices
from agentlink.agent.check.found import CheckOptions, Problem
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, KubeError, NotFound
from agentlink.agent.kube.resources import JOBS, NAMESPACES, NODES, PODS, JsonObject, Resource
from agentlink.protocol import AssignedPod, AssignedShare, DesiredAttempt

PART = 0.75
"""How much of what a node has for each of its GPUs a pod gets by default; see `workloads.defaults`, of the server."""
STEP_CPU_MILLI, STEP_MEMORY_MIB = 100, 256
IMAGE = "registry.k8s.io/pause:3.10"
GPU = "nvidia.com/gpu"
NO_DRY_RUN = "does not support dry run"
ADVICE = {
    "pod-security": f"Allow more: `kubectl label --overwrite namespace NAMESPACE {SECURITY}=baseline`.",
    refusals.QUOTA_EXCEEDED: "Raise the ResourceQuota that the message names.",
    refusals.QUOTA_TOO_SMALL: "Raise the ResourceQuota that the message names.",
    refusals.WEBHOOK_UNREACHABLE: "See that the webhook that the message names runs and can be reached.",
    "limit-range": "Change the namespace's LimitRange, or the pools' defaults of CPU and memory for each GPU.",
}
OTHERWISE = "Change the policy that the message names, or exempt the namespace from it."


@dataclass(frozen=True, slots=True)
class Size:
    """CPU and memory of the pod that is tried; half of its memory is /dev/shm."""

    cpu_milli: int = 1000
    memory_mib: int = 1024


async def jobs(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether a typical Job would be taken wherever workloads run, and its pods as far as the Job tells."""
    found, size = [], await _default_size(kube, asked)
    for namespace, level in (await _places(kube, asked)).items():
        words, warnings = await _tried(kube, JOBS, _job(asked, namespace, size), namespace)
        if words:
            found.append(_problem("A workload's Job", namespace, words))
        insecure = [each for each in warnings if level and f'would violate PodSecurity "{level}:' in each]
        found += [_problem("A workload's pods", namespace, each, code="pod-security") for each in insecure]
    return found


async def pods(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether a typical pod would be taken wherever workloads run; raise `Forbidden` where that may not be
    asked."""
    found, size = [], await _default_size(kube, asked)
    for namespace in await _places(kube, asked):
        words, _ = await _tried(kube, PODS, _pod(asked, namespace, size), namespace, is_right=False)
        if (
            refusals.code_of(words) == refusals.PLAN_QUOTA
        ):  # Chamber's own: it has room for what is planned only
            body = _pod(asked, namespace, size, gpus=0)
            words, _ = await _tried(kube, PODS, body, namespace, is_right=False)
        if words:
            found.append(_problem("A workload's pods", namespace, words))
    return found


async def _default_size(kube: Kube, asked: CheckOptions) -> Size:
    """Return what a pod with one GPU gets where its workload names nothing: that of the node that has the least.

    A pool's own policy is known to the server only.
    """
    try:
        published = await published_devices(kube)
        nodes = [
            read_node(body, Settings().resources)
            for body in (await kube.list(NODES, labels=asked.node_selector)).items
        ]
    except KubeError:  # told by another check
        return Size()
    sizes = []
    for node in nodes:
        count = sum(node.available.values()) or published[node.name]
        if count and node.cpu_milli and node.memory_mib:
            sizes.append((node.cpu_milli / count, node.memory_mib / count))
    if not sizes:
        return Size()
    cpu_milli, memory_mib = (min(each) for each in zip(*sizes, strict=True))
    return Size(
        max(STEP_CPU_MILLI, int(cpu_milli * PART) // STEP_CPU_MILLI * STEP_CPU_MILLI),
        max(STEP_MEMORY_MIB, int(memory_mib * PART) // STEP_MEMORY_MIB * STEP_MEMORY_MIB),
    )


async def _places(kube: Kube, asked: CheckOptions) -> dict[str, str]:
    """Return the namespaces in which workloads run, bound ones among them, with their enforced Pod Security levels."""
    named, bound = set(asked.workloads) or {kube.access.namespace}, await bound_namespaces(kube)
    labels = {
        body["metadata"]["name"]: body["metadata"].get("labels") or {}
        for body in (await kube.list(NAMESPACES)).items
        if "deletionTimestamp" not in body["metadata"]
    }
    return {
        name: said.get(SECURITY, "")
        for name, said in sorted(labels.items())
        if name in named or name in bound
    }


async def _tried(
    kube: Kube, resource: Resource, body: JsonObject, namespace: str, *, is_right: bool = True
) -> tuple[str, tuple[str, ...]]:
    """Return why an object would be refused ("" where it would not), and warnings.

    A right that is missing is told by another check; with `is_right` off it is raised.
    """
    try:
        return "", await kube.try_create(resource, body, namespace)
    except NotFound:  # the namespace went, or was never there: told by another check
        return "", ()
    except KubeError as error:
        lacks = isinstance(error, Forbidden) and refusals.code_of(error.message) == "rights-missing"
        if lacks and not is_right:
            raise
        if lacks or NO_DRY_RUN in error.message or not error.status:
            return "", ()
        return error.message, ()


def _problem(what: str, namespace: str, words: str, *, code: str = "") -> Problem:
    advice = ADVICE.get(code or refusals.code_of(words), OTHERWISE)
    return Problem(
        f"{what} would be refused in the namespace {namespace}: {refusals.sentence(words)}",
        advice.replace("NAMESPACE", namespace),
    )


def _job(asked: CheckOptions, namespace: str, size: Size, *, gpus: int = 1) -> JsonObject:
    """Return the Job of a workload of one pod, as the agent would make it."""
    pod = AssignedPod(index=0, node="chamber-doctor", devices=(AssignedShare(index=0, share_milli=1000),))
    assignment = DesiredAttempt(
        workload=UUID(int=0),
        slug="chamber-doctor",
        attempt=UUID(int=0),
        number=1,
        pods=(pod,),
        let_go=False,
        image=IMAGE,
        cpu_milli=size.cpu_milli,
        memory_mib=size.memory_mib,
        grace_seconds=30,
    )
    limits = ((GPU, str(gpus)),) if gpus and not asked.uses_claims else ()
    wave = Wave(assignment, (pod,), namespace)
    (part,) = manifests.parts(wave, {0: ContainerRequest(limits=limits)})
    return manifests.job(part, wave, DomainNames(), cluster="chamber-doctor")


def _pod(asked: CheckOptions, namespace: str, size: Size, *, gpus: int = 1) -> JsonObject:
    """Return a pod of that Job."""
    job = _job(asked, namespace, size, gpus=gpus)
    template = job["spec"]["template"]
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {**template["metadata"], "name": "chamber-doctor", "namespace": namespace},
        "spec": template["spec"],
    }
