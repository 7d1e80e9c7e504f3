"""What is kept of Jobs and pods in memory: a few fields of each, read once from what the API server writes."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentlink.agent.backends.native import images, policies
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import AttemptVerdict, JobPlan
from agentlink.agent.backends.native.policies import Eviction
from agentlink.agent.kube.quantities import asked
from agentlink.agent.kube.resources import JsonObject
from chamber.notes import LONGEST_LINE, MARK

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""The label of pods with the uid of their Job."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
ENDED = frozenset({"Succeeded", "Failed"})
BACKING_OFF = "ImagePullBackOff"
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
"""Why a container ended whose command could not be run."""
MOST_PODS = 100_000
"""Of a Job, as far as Kubernetes goes."""
UID_TAIL = 8
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Said:
    """A code of Kubernetes with its words; empty where nothing is said."""

    reason: str = ""
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


NOTHING = Said()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod. `owner` is the uid of its controller, `index` its completion index there, 0 where it has none."""

    namespace: str
    name: str
    uid: str
    owner: str
    index: int
    created_at: datetime | None
    gates: tuple[str, ...] = ()
    affinity: JsonObject | None = None
    node: str = ""
    phase: str = "Pending"
    status: Said = NOTHING
    deleted_at: datetime | None = None
    """When its end was asked for; it may take its grace period from then."""
    started_at: datetime | None = None
    """When its node began with it, images and all."""
    unschedulable: str = ""
    disrupted: Said = NOTHING
    waiting: Said = NOTHING
    pull_error: str = ""
    """What the last try to pull its image met, also while the next one is waited for."""
    running_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    ended: Said = NOTHING
    """Why its container ended."""
    cpu_milli: int = 0
    memory_mib: int = 0
    requests: tuple[tuple[str, int], ...] = ()
    """What it asks of devices, by the device plugin's names."""
    claims: tuple[str, ...] = ()
    image: str = ""
    """What its node pulled for its first container, by digest."""

    @property
    def is_over(self) -> bool:
        """Return whether it has given its devices back."""
        return self.phase in ENDED


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A Job that bears the agent's mark."""

    namespace: str
    name: str
    uid: str
    version: str
    plan: JobPlan
    adopted: bool
    begun_at: datetime
    """When it was made; of an adopted one, when it was unsuspended: its controller owes it no pods before."""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    deleting: bool = False
    vanished: bool = False
    """It is not there any more, and was not forgotten."""
    suspended: bool = False
    stopping: bool = False
    verdict: AttemptVerdict | None = None
    removed: frozenset[int] = frozenset()
    """Pods, by their index in the workload, that were taken away."""
    completed: frozenset[int] = frozenset()
    """Completion indexes that ended well, also where their pods are not there any more."""
    complete: bool = False
    failed: Said = NOTHING
    failed_at: datetime | None = None
    deadline_seconds: int | None = None
    failures_allowed: int = 0
    eviction: Eviction = Eviction.ENDS
    """What an eviction does to it; where it does not end it, the cluster makes another pod."""
    let_go: frozenset[str] = frozenset()
    """The pods that were let go first, as `tail` shortens their uids; kept of Jobs that get other pods for those."""
    slug: str = ""
    """The workload's name at the server."""
    requests: tuple[tuple[str, int], ...] = ()
    """What each of its pods asks of devices, by the device plugin's names."""
    claims: bool = False
    """Its pods have their devices by claims."""
    finalizers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What an adopted one says in its annotations of checkpoints and progress, as notes."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def read_job(body: JsonObject, names: DomainNames, *, adopted: bool) -> JobFacts | None:
    """Return what is kept of a Job that bears the mark; None where its plan cannot be read."""
    metadata, spec, status = body["metadata"], body["spec"], body.get("status", {})
    annotations = metadata.get("annotations", {})
    plan = JobPlan.read(annotations.get(names.plan, ""))
    created_at, started_at = time(metadata["creationTimestamp"]), time(status.get("startTime"))
    if plan is None or created_at is None:
        return None
    begun_at = created_at
    if adopted:  # an agent before 0.2 did not write when it unsuspended one
        begun_at = _written_time(annotations.get(names.begun, "")) or started_at or created_at
    conditions = {each["type"]: each for each in status.get("conditions", ()) if each["status"] == "True"}
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    return JobFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        plan=plan,
        adopted=adopted,
        begun_at=begun_at,
        started_at=started_at,
        completed_at=time(status.get("completionTime")),
        deleting="deletionTimestamp" in metadata,
        suspended=bool(spec.get("suspend")),
        stopping=names.stop in annotations,
        verdict=AttemptVerdict.read(annotations.get(names.verdict, "")),
        removed=frozenset(indexes(annotations.get(names.removed, ""))),
        completed=frozenset(indexes(status.get("completedIndexes", ""))),
        complete="Complete" in conditions,
        failed=_said(failed) if failed else NOTHING,
        failed_at=time(failed.get("lastTransitionTime")) if failed else None,
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        failures_allowed=spec.get("backoffLimit", 0),
        eviction=policies.eviction(spec),
        let_go=frozenset(filter(None, annotations.get(names.let_go, "").split(","))),
        slug=annotations.get(names.slug, ""),
        requests=_requests(spec["template"]["spec"]),
        claims=bool(spec["template"]["spec"].get("resourceClaims")),
        finalizers=tuple(metadata.get("finalizers", ())),
        notes=_notes(annotations, names) if adopted else (),
    )


def _notes(annotations: Mapping[str, str], names: DomainNames) -> tuple[str, ...]:
    """Return what annotations say, each as a line that holds a note."""
    said = {
        kind: annotations.get(key)
        for kind, key in (("checkpoint", names.checkpoint), ("progress", names.progress))
    }
    return tuple(f"{MARK}{kind} {text[:LONGEST_LINE]}::" for kind, text in said.items() if text)


def read_pod(body: JsonObject) -> PodFacts:
    """Return what is kept of a pod, whosever it is."""
    metadata, spec, status = body["metadata"], body["spec"], body.get("status", {})
    owner = next((each for each in metadata.get("ownerReferences", ()) if each.get("controller")), None)
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    disrupted = conditions.get("DisruptionTarget")
    waiting, ended = _containers(status)
    terminated = ended or {}
    began = [_began(each.get("state", {})) for each in status.get("containerStatuses", ())]
    cpu_milli, memory_mib = asked(spec)
    index = metadata.get("annotations", {}).get(COMPLETION_INDEX, "0")
    return PodFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        owner=owner["uid"] if owner else "",
        index=int(index) if _NUMBER.fullmatch(index) else 0,
        created_at=time(metadata.get("creationTimestamp")),
        gates=tuple(each["name"] for each in spec.get("schedulingGates", ())),
        affinity=spec.get("affinity") if spec.get("schedulingGates") else None,
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        status=_said(status),
        deleted_at=_deleted_at(metadata),
        started_at=time(status.get("startTime")),
        unschedulable=scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else "",
        disrupted=_said(disrupted) if disrupted and disrupted["status"] == "True" else NOTHING,
        waiting=_said(waiting) if waiting else NOTHING,
        pull_error=_pull_error(waiting or {}),
        running_at=max((at for at in map(time, began) if at), default=None) if all(began) else None,
        finished_at=time(terminated.get("finishedAt")),
        exit_code=terminated.get("exitCode"),
        ended=_said(terminated),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        requests=_requests(spec),
        claims=_claims(spec, status),
        image=images.pulled(spec, status),
    )


def tail(uid: str) -> str:
    """Return the end of a pod's uid, which tells it from the others of a Job: annotations have little space."""
    return uid[-UID_TAIL:]


def _deleted_at(metadata: JsonObject) -> datetime | None:
    """Return when its deletion was asked for: the API server writes when the grace period will be over."""
    over = time(metadata.get("deletionTimestamp"))
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return None if over is None else over - grace


def _containers(status: JsonObject) -> tuple[JsonObject | None, JsonObject | None]:
    """Return what the first container waits for that waits, and how the one ended that tells most: a failed one."""
    every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    states = [each.get("state", {}) for each in every]
    waiting = next((state["waiting"] for state in states if state.get("waiting")), None)
    ended = [state["terminated"] for state in states if state.get("terminated")]
    failed = next((each for each in ended if each.get("exitCode")), None)
    return waiting, failed or next(iter(ended), None)


def _began(state: JsonObject) -> str | None:
    """Return since when a container ran; None of one that could not, for which some kubelets tell a time, too."""
    terminated = state.get("terminated") or {}
    if terminated.get("reason") in NEVER_RAN:
        return None
    began: str | None = (state.get("running") or terminated).get("startedAt")
    return began


def _pull_error(waiting: JsonObject) -> str:
    """Return what a try to pull an image met; older kubelets do not say it while they wait for the next one."""
    reason, message = waiting.get("reason", ""), str(waiting.get("message", ""))
    if reason == BACKING_OFF:
        return message if ": " in message else ""
    return message if reason in ("ErrImagePull", "RegistryUnavailable") else ""


def _requests(spec: JsonObject) -> tuple[tuple[str, int], ...]:
    """Return what a pod asks of devices: all its containers together, or its greediest init container."""
    wanted: Counter[str] = Counter()
    for container in spec.get("containers", ()):
        wanted.update(_devices(container))
    for container in spec.get("initContainers", ()):
        asked = _devices(container)
        wanted = wanted + asked if container.get("restartPolicy") == "Always" else wanted | asked
    return tuple(sorted(wanted.items()))


def _devices(container: JsonObject) -> "Counter[str]":
    resources = container.get("resources", {})
    asked = {**resources.get("requests", {}), **resources.get("limits", {})}
    return Counter(
        {
            name: int(count)
            for name, count in asked.items()
            if name not in STANDARD_RESOURCES and str(count).isdigit()
        }
    )


def _claims(spec: JsonObject, status: JsonObject) -> tuple[str, ...]:
    named = [each.get("resourceClaimName") for each in spec.get("resourceClaims", ())]
    made = [each.get("resourceClaimName") for each in status.get("resourceClaimStatuses", ())]
    return tuple(sorted({name for name in (*named, *made) if name}))


def _said(body: JsonObject) -> Said:
    return Said(str(body.get("reason", "")), str(body.get("message", "")))


def time(text: str | None) -> datetime | None:
    """Return a time as the API server writes it."""
    return datetime.fromisoformat(text) if text else None


def _written_time(text: str) -> datetime | None:
    """Return the time that an annotation holds, which may have been changed; None where it holds none."""
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        return None
    return written if written.tzinfo is not None else None


def indexes(text: str) -> Iterable[int]:
    """Yield the numbers of a text like `0-3,7`, each once and in order; nothing of what is none, or comes too late."""
    following = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last or first):
            begin, end = max(int(first), following), min(int(last or first), MOST_PODS)
            yield from range(begin, end + 1)
            following = max(following, end + 1)


def as_indexes(numbers: Iterable[int]) -> str:
    """Return the numbers as `indexes` reads them."""
    return ",".join(str(number) for number in sorted(numbers))
