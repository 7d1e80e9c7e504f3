"""Jobs that people create in bound namespaces, pure: what they ask for, why one cannot be adopted, how one is begun.

What may be changed of a Job is little: while it is suspended and has no start time, the labels, annotations and
scheduling of its pods; parallelism and deadline at any time. So an adopted Job gets Chamber's gate and labels before it
is unsuspended, and is stopped by suspending it again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from agentlink.agent.backends.native import policies
from agentlink.agent.backends.native.affinity import Demands, demands
from agentlink.agent.backends.native.devices import is_gpu
from agentlink.agent.backends.native.gates import REQUIRED
from agentlink.agent.backends.native.manifests import gpu_taints, toleration
from agentlink.agent.backends.native.marks import JobOrigin
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.backends.native.unmanaged import QUEUE, for_kueue
from agentlink.agent.kube.quantities import asked
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import DiscoveredJob, profiles
from agentlink.protocol.profiles import GPU_MILLI

WHOLE = "/gpu"
"""How the name of a resource ends that counts whole GPUs."""
SHARED = ".shared"
"""How the name of a resource ends that counts replicas."""
ENDED = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""Conditions of a Job that has ended, or ends once its last pod is gone."""
LONGEST = 1000
"""Of an argument of the command that is told: what runs is the Job's own template."""
MOST_WORDS = 50
HARMLESS = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""Capabilities that the Pod Security level `baseline` lets containers add."""
SAFE_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
        "net.ipv4.tcp_syncookies",
    }
)
"""Kernel parameters of a pod alone, which `baseline` lets it set."""
SELINUX_TYPES = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
"""Types of SELinux that `baseline` lets a process have."""
OF_KUBERNETES = "system-"
"""How the names of the PriorityClasses begin that Kubernetes keeps for its own parts."""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """What is kept of a Job in a bound namespace, whosever it is.

    `described` is what it asks for, where it asks to be adopted. `pretends`: it bears Chamber's labels and no mark.
    `gpus_milli` counts MIG slices by the share that their profile names. `queue` is Kueue's that it is for, where
    nothing else made it. `held`: its controller has suspended it.
    """

    uid: str
    namespace: str
    name: str
    mark: JobOrigin | None
    suspended: bool
    finished: bool
    stopping: bool
    pretends: bool
    gpus_milli: int
    described: DiscoveredJob | None
    queue: str = ""
    held: bool = False


def written(names: DomainNames) -> tuple[str, ...]:
    """Return the labels that an adopted Job bears while Chamber runs it; all others are its people's."""
    return names.cluster, names.workload, names.attempt, names.number, names.team


def read_entry(
    body: JsonObject, mark: JobOrigin | None, names: DomainNames, *, resources: Iterable[str]
) -> JobEntry:
    """Return what is kept of a Job."""
    metadata, spec = body["metadata"], body["spec"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    finished = is_finished(body)
    wants = (
        labels.get(names.adopt) == "true"
        and mark is not JobOrigin.OWN
        and "deletionTimestamp" not in metadata
    )
    patterns = tuple(resources)
    return JobEntry(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        mark=mark,
        suspended=bool(spec.get("suspend")),
        finished=finished,
        held="Suspended" in _conditions(body),
        stopping=names.stop in annotations,
        pretends=mark is None and not {names.attempt, names.workload}.isdisjoint(labels),
        gpus_milli=_pods(spec) * milli_of(gpus_of(spec["template"]["spec"], patterns)),
        described=_described(body, names, patterns, finished=finished) if wants else None,
        queue="" if mark is not None or _is_owned(metadata) else labels.get(QUEUE, ""),
    )


def is_finished(body: JsonObject) -> bool:
    """Return whether a Job has ended, or its controller has decided that it does."""
    return not ENDED.isdisjoint(_conditions(body))


def _conditions(body: JsonObject) -> set[str]:
    conditions = body.get("status", {}).get("conditions") or ()
    return {each["type"] for each in conditions if each["status"] == "True"}


def _is_owned(metadata: JsonObject) -> bool:
    return any(each.get("controller") for each in metadata.get("ownerReferences") or ())


def _described(
    body: JsonObject, names: DomainNames, resources: tuple[str, ...], *, finished: bool
) -> DiscoveredJob:
    """Return what a Job asks for; of one that asks for what no message can say, that it cannot be adopted."""
    try:
        return describe(body, names, resources=resources, finished=finished)
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"])[:LONGEST]
        metadata = body["metadata"]
        return DiscoveredJob(
            uid=metadata["uid"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            problems=(f"What it says of {field} is out of bounds.",),
            finished=finished,
        )


def describe(
    body: JsonObject, names: DomainNames, *, resources: Iterable[str], finished: bool = False
) -> DiscoveredJob:
    """Return what a Job asks for; nothing of it changes by what Chamber itself does to the Job."""
    metadata, spec = body["metadata"], body["spec"]
    pod = spec["template"]["spec"]
    gpus, demanded = gpus_of(pod, resources), demands(pod)
    cpu_milli, memory_mib = asked(pod)
    main = pod["containers"][0]
    command = [*(main.get("command") or ()), *(main.get("args") or ())]
    limits = [
        limit for limit in (spec.get("activeDeadlineSeconds"), pod.get("activeDeadlineSeconds")) if limit
    ]
    return DiscoveredJob(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        pods=_pods(spec),
        gpus=sum(gpus.values()),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        image=_text(main.get("image") or ""),
        command=tuple(_text(word) for word in command[:MOST_WORDS]),
        node_selector={key: _text(value) for key, value in demanded.labels.items()},
        gpu_types=demanded.gpu_types or tuple(filter(None, [slice_of(gpus)])),
        tolerations=tuple(sorted(set(_planned_tolerations(_own_tolerations(body, names))))),
        time_limit_seconds=min(limits, default=None),
        grace_seconds=pod.get("terminationGracePeriodSeconds", 30),
        priority=_text((metadata.get("labels") or {}).get(names.priority, "")),
        priority_class=_text(pod.get("priorityClassName") or ""),
        who=_text((metadata.get("annotations") or {}).get(names.owner, "")),
        service_account=pod.get("serviceAccountName") or "default",
        volumes=tuple(sorted({_kind(volume) for volume in pod.get("volumes") or ()} - {"hostPath"})),
        secrets=named(pod, "secret"),
        config_maps=named(pod, "configMap"),
        images=tuple(dict.fromkeys(_text(each.get("image") or "") for each in _containers(pod))),
        problems=(*_of_queue(metadata, names), *problems(spec, gpus, demanded, names)),
        finished=finished,
        revision=revision(body, names),
    )


def revision(body: JsonObject, names: DomainNames) -> str:
    """Return a digest of what its people wrote of a Job: nothing that Chamber writes on it changes this."""
    metadata, spec = body["metadata"], body["spec"]
    template = spec["template"]
    written = template.get("metadata") or {}
    theirs = {
        kind: {key: value for key, value in (written.get(kind) or {}).items() if not names.owns(key)}
        for kind in ("labels", "annotations")
    }
    gates = [gate for gate in template["spec"].get("schedulingGates") or () if gate["name"] != names.gate]
    pod = {**template["spec"], "schedulingGates": gates, "tolerations": _own_tolerations(body, names)}
    rest = {key: value for key, value in spec.items() if key not in {"suspend", "template"}}
    said = [rest, theirs, pod, (metadata.get("annotations") or {}).get(names.retry, "")]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _pods(spec: JsonObject) -> int:
    return int(spec.get("parallelism", 1))


def _text(text: str) -> str:
    return text.replace("\x00", "")[:LONGEST]


def _own_tolerations(body: JsonObject, names: DomainNames) -> list[JsonObject]:
    """Return a Job's tolerations without those that Chamber added."""
    given = body["spec"]["template"]["spec"].get("tolerations") or ()
    noted = (body["metadata"].get("annotations") or {}).get(names.tolerated, "")
    added = [toleration(key) for key in noted.split(",") if key]
    return [each for each in given if each not in added]


def _planned_tolerations(tolerations: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the tolerations that Chamber plans by: of a key, or of its one value, for as long as it runs."""
    for each in tolerations:
        lasting = "tolerationSeconds" not in each and each.get("effect") != "PreferNoSchedule"
        if each.get("key") and lasting:
            exists = each.get("operator") == "Exists"
            yield _text(each["key"] if exists else f"{each['key']}={each.get('value', '')}")


def _kind(volume: JsonObject) -> str:
    return next((key for key in sorted(volume) if key != "name"), "emptyDir")[:60]


def named(pod: JsonObject, kind: str) -> tuple[str, ...]:
    """Return the names of the Secrets (`secret`), or ConfigMaps (`configMap`), that a pod's containers can read."""
    references = [
        reference
        for container in _containers(pod)
        for reference in (
            *(each.get(f"{kind}Ref") for each in container.get("envFrom") or ()),
            *((each.get("valueFrom") or {}).get(f"{kind}KeyRef") for each in container.get("env") or ()),
        )
    ]
    volumes = pod.get("volumes") or ()
    projected = [part for each in volumes for part in (each.get("projected") or {}).get("sources") or ()]
    references += [source.get(kind) for source in projected]
    found = {reference.get("name", "") for reference in references if reference}
    found |= {name for each in volumes for name in _mounted(each, kind)}
    return tuple(sorted(found - {""}))


def _mounted(volume: JsonObject, kind: str) -> Iterator[str]:
    """Yield what a volume mounts of a kind, and the Secret that its driver is given."""
    if kind == "configMap":
        yield (volume.get("configMap") or {}).get("name", "")
        return
    yield (volume.get("secret") or {}).get("secretName", "")
    for source in volume.values():
        if isinstance(source, dict):
            for key in ("secretRef", "nodePublishSecretRef"):
                yield (source.get(key) or {}).get("name", "")


def _containers(pod: JsonObject) -> tuple[JsonObject, ...]:
    return (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))


def gpus_of(pod: JsonObject, resources: Iterable[str]) -> "Counter[str]":
    """Return how many devices a pod asks for, by resource: all its containers, or its greediest init container."""
    patterns = tuple(resources)
    wanted: Counter[str] = Counter()
    for container in pod.get("containers") or ():
        wanted.update(_gpus(container, patterns))
    for container in pod.get("initContainers") or ():
        own = _gpus(container, patterns)
        wanted = wanted + own if container.get("restartPolicy") == "Always" else wanted | own
    return wanted


def slice_of(gpus: "Counter[str]") -> str:
    """Return the MIG profile of which a pod asks for one slice (`mig-1g.10gb`); "" of any other."""
    name = next(iter(gpus), "")
    return name.rpartition("/")[2] if gpus.total() == 1 and _counts_slices(name) else ""


def _counts_slices(resource: str) -> bool:
    return profiles.is_mig(resource.rpartition("/")[2]) and not resource.endswith(SHARED)


def milli_of(gpus: "Counter[str]") -> int:
    """Return what devices count as in milli-GPUs, as far as the names of their resources tell."""
    shares = ((profiles.mig_share_milli(name.rpartition("/")[2]) or GPU_MILLI, gpus[name]) for name in gpus)
    return sum(share_milli * count for share_milli, count in shares)


def _gpus(container: JsonObject, patterns: tuple[str, ...]) -> "Counter[str]":
    given = container.get("resources") or {}
    amounts = {**(given.get("requests") or {}), **(given.get("limits") or {})}
    return Counter(
        {
            name: int(count)
            for name, count in amounts.items()
            if is_gpu(name, patterns) and str(count).isdigit() and int(count)
        }
    )


# Why one cannot be adopted


def problems(spec: JsonObject, gpus: "Counter[str]", demanded: Demands, names: DomainNames) -> Iterator[str]:
    """Yield a sentence for each thing for which no policy lets a Job be adopted."""
    pod = spec["template"]["spec"]
    yield from _of_shape(spec)
    yield from _of_gpus(pod, gpus, demanded)
    yield from _of_place(pod, names)
    yield from demanded.problems
    yield from _of_host(pod)


def _of_queue(metadata: JsonObject, names: DomainNames) -> Iterator[str]:
    """Yield why it is not for two to decide when a Job runs."""
    queue = (metadata.get("labels") or {}).get(QUEUE)
    if queue:
        yield for_kueue(queue, names, suspended=True, adopts=True)


def _of_shape(spec: JsonObject) -> Iterator[str]:
    """What would run other pods, or at other times, than were planned."""
    pods, completions = _pods(spec), spec.get("completions")
    if pods < 1:
        yield "It has no pods (parallelism 0)."
    elif pods > 1 and spec.get("completionMode") != "Indexed":
        yield f"It has {pods} pods and is not Indexed; set completionMode: Indexed."
    if pods >= 1 and completions not in {None, pods}:
        at_once = "1 pod" if pods == 1 else f"{pods} pods"
        wants = "1 completion" if completions == 1 else f"{completions} completions"
        yield f"It wants {wants} of {at_once} at once; all its pods must run together."
    for limit, usual in (("backoffLimit", 6), ("backoffLimitPerIndex", 0)):
        if retries := spec.get(limit, usual):
            yield f"It retries by itself ({limit} {retries}); set {limit}: 0, for retries are not planned."
    yield from policies.problems(spec)
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        yield "It restarts its containers by itself; set restartPolicy: Never."
    if spec.get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
        yield f"It is run by {spec['managedBy']}, not by Kubernetes itself."


def _of_gpus(pod: JsonObject, gpus: "Counter[str]", demanded: Demands) -> Iterator[str]:
    if pod.get("resourceClaims"):
        yield "It claims devices by resourceClaims; ask for nvidia.com/gpu, or submit it to Chamber."
    elif not gpus:
        yield "It asks for no GPUs; ask for them by a container's limit on nvidia.com/gpu."
    elif slice_of(gpus):
        if demanded.gpu_types:
            yield (
                f"It asks for a slice {next(iter(gpus))} and requires one of several GPU types by its node affinity "
                f"({', '.join(demanded.gpu_types)}); require one by a nodeSelector."
            )
    elif len(gpus) > 1 or not next(iter(gpus)).endswith(WHOLE):
        told = " and ".join(f"{count} of {name}" for name, count in sorted(gpus.items()))
        pods = " Give it one pod for each slice (parallelism)." if all(map(_counts_slices, gpus)) else ""
        yield (
            f"It asks for {told} in a pod; whole GPUs of one kind, or one MIG slice, can be planned for a pod of a "
            f"Job.{pods}"
        )


def _of_place(pod: JsonObject, names: DomainNames) -> Iterator[str]:
    """What decides where pods go, or which pods must make way for them, instead of the plan."""
    if pod.get("nodeName"):
        yield f"It names its node ({pod['nodeName']}); use a nodeSelector."
    if pod.get("schedulerName", "default-scheduler") != "default-scheduler":
        yield f"It is placed by the scheduler {pod['schedulerName']}."
    if str(pod.get("priorityClassName") or "").startswith(OF_KUBERNETES):
        yield (
            f"Its priorityClassName {pod['priorityClassName']} is for Kubernetes' own parts; use another one, or the "
            f"label {names.priority}."
        )
    if [gate["name"] for gate in pod.get("schedulingGates") or () if gate["name"] != names.gate]:
        yield "Its pods have scheduling gates of their own."
    if any(not each.get("key") for each in pod.get("tolerations") or ()):
        yield "It tolerates every taint; name the keys of the taints that it is to tolerate."
    affinity = pod.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get(REQUIRED):
            yield f"It requires a {kind}, which is not planned by; Chamber takes it where it is only preferred."
    spread = pod.get("topologySpreadConstraints") or ()
    if any(each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for each in spread):
        yield "It requires a topology spread, which is not planned by; set whenUnsatisfiable: ScheduleAnyway."


def _of_host(pod: JsonObject) -> Iterator[str]:
    """What reaches out of its containers to the node."""
    shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    if shared:
        yield f"It shares the node's own: {', '.join(shared)}."
    paths = sorted(
        each["hostPath"].get("path", "") for each in pod.get("volumes") or () if "hostPath" in each
    )
    if paths:
        yield f"It mounts a path of the node ({_text(paths[0])})."
    yield from _of_security("pods", pod.get("securityContext") or {})
    for container in _containers(pod):
        context: dict[str, Any] = container.get("securityContext") or {}
        yield from _of_security(f"container {container['name']}", context)
        if context.get("privileged"):
            yield f"Its container {container['name']} is privileged."
        if (mount := context.get("procMount") or "Default") != "Default":
            yield f"Its container {container['name']} has the procMount {_text(mount)}; only Default is adopted."
        added = sorted(set((context.get("capabilities") or {}).get("add") or ()) - HARMLESS)
        if added:
            yield f"Its container {container['name']} adds the capabilities {', '.join(added)[:200]}."
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            yield f"Its container {container['name']} takes a port of the node."


def _of_security(whose: str, context: JsonObject) -> Iterator[str]:
    """What weakens the walls between its pods, or a container, and the node."""
    verb = "run" if whose == "pods" else "runs"
    for field, what in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if (context.get(field) or {}).get("type") == "Unconfined":
            yield f"Its {whose} {verb} without {what} (Unconfined); leave that out, or set RuntimeDefault."
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"Its {whose} {verb} as a process of the node (hostProcess)."
    options = context.get("seLinuxOptions") or {}
    wrong = [f"{key} {options[key]}" for key in ("role", "user") if options.get(key)]
    if options.get("type") and options["type"] not in SELINUX_TYPES:
        wrong.append(f"type {options['type']}")
    if wrong:
        allowed = ", ".join(sorted(SELINUX_TYPES))
        yield f"Its {whose} {verb} with the SELinux {_text(', '.join(wrong))}; only a type may be set: {allowed}."
    unsafe = {each["name"] for each in context.get("sysctls") or ()} - SAFE_SYSCTLS
    if unsafe:
        yield f"Its {whose} set kernel parameters that are not theirs alone: {_text(', '.join(sorted(unsafe)))}."


# Beginning, and letting go of it


def started(
    body: JsonObject,
    plan: JobPlan,
    names: DomainNames,
    *,
    slug: str,
    labels: dict[str, str],
    resources: Iterable[str],
    mark: Callable[[str], str],
    at: datetime,
) -> JsonObject:
    """Return the merge patch by which a suspended Job runs as the plan has it; it fails where the Job changed since.

    `at`: the time, from which its pods are waited for. `mark` gives the mark for the text of a plan. Its pods tolerate
    the taints of the GPU `resources` that they ask for.
    """
    text = plan.as_text()
    own = _own_tolerations(body, names)
    added = [key for key in gpu_taints(resources) if not any(_tolerates_key(each, key) for each in own)]
    over = dict.fromkeys((names.stop, names.verdict, names.removed, names.let_go))
    gates = list(body["spec"]["template"]["spec"].get("schedulingGates") or ())
    if all(gate["name"] != names.gate for gate in gates):
        gates.append({"name": names.gate})
    return {
        "metadata": {
            "uid": body["metadata"]["uid"],
            "resourceVersion": body["metadata"]["resourceVersion"],
            "labels": labels,
            "annotations": {
                **over,
                names.slug: slug,
                names.plan: text,
                names.mark: mark(text),
                names.begun: at.isoformat(),
                names.tolerated: ",".join(added) or None,
            },
        },
        "spec": {
            "suspend": False,
            "template": {
                # With an annotation, so that a pod has some: it gets one more with its node.
                "metadata": {"labels": labels, "annotations": {names.slug: slug}},
                "spec": {"schedulingGates": gates, "tolerations": [*own, *map(toleration, added)] or None},
            },
        },
    }


def _tolerates_key(given: JsonObject, key: str) -> bool:
    """Return whether a toleration lets pods onto nodes with a taint of this key, whatever its value and effect."""
    lasting = given.get("operator") == "Exists" and not given.get("effect")
    return lasting and given.get("key") in (None, "", key) and "tolerationSeconds" not in given


def tolerates(pod: JsonObject, taint: str) -> bool:
    """Return whether a pod's tolerations let it onto a node with a taint, written as `key=value:Effect`."""
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    return any(
        each.get("effect") in (None, "", effect)
        and each.get("key") in (None, "", key)
        and (each.get("operator") == "Exists" or each.get("value", "") == value)
        and (effect != "NoExecute" or "tolerationSeconds" not in each)
        for each in pod.get("tolerations") or ()
    )


def released(body: JsonObject, names: DomainNames) -> JsonObject:
    """Return the merge patch that takes off what Chamber wrote on a Job. Which tolerations were added is kept for as
    long as they can be taken off.
    """
    labels = written(names)
    annotations = [
        *(names.slug, names.plan, names.mark, names.begun),
        *(names.stop, names.verdict, names.removed, names.let_go),
    ]
    if is_finished(body):
        annotations.append(names.tolerated)
    return {"metadata": {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)}}


def ungated(body: JsonObject, names: DomainNames) -> JsonObject:
    """Return the merge patch that takes Chamber's gate, labels and tolerations off the pods that a suspended Job would
    make.
    """
    labels = written(names)
    gates = body["spec"]["template"]["spec"].get("schedulingGates") or ()
    kept = [gate for gate in gates if gate["name"] != names.gate]
    metadata = {"labels": dict.fromkeys(labels), "annotations": {names.slug: None}}
    pod = {"schedulingGates": kept or None, "tolerations": _own_tolerations(body, names) or None}
    return {
        "metadata": {"annotations": {names.tolerated: None}},
        "spec": {"template": {"metadata": metadata, "spec": pod}},
    }
