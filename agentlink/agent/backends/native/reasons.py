"""Why an attempt ends badly, pure: the first cause that Jobs and pods show, as a code and a sentence to act on.

In this order, the first that holds:

1. Its Job was deleted or suspended, and not by Chamber.
2. It ran for its time limit.
3. A pod failed by itself: out of memory, evicted, turned away by its node, an exit code. Where several did, the one
   that had not been told to end, then the earliest. Where the cluster had begun to take another away by then, or that
   one's node is lost or not ready, it is this: what loses one of its pods fails.
4. A pod is being taken away by the cluster: evicted, its node lost; or is on another node than it was planned on. Its
   node is to be drained by now. Or an adopted Job's controller makes another in the place of one that was let go.
5. A pod cannot begin: its image cannot be had, what its environment names is not there, its container cannot be made.
   What may mend itself gets some time, a registry that gives no answer more.
6. A pod was deleted, and not by Chamber.
7. The cluster does not make its pods.
8. A pod that was let go does not come to its node.
9. A pod that is on its node does not get its volumes.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agentlink.agent.backends.native import disruptions, images, policies, refusals
from agentlink.agent.backends.native.facts import NEVER_RAN, JobFacts, PodFacts
from agentlink.agent.backends.native.phases import ObservedAttempt, Slot, StartProblem
from agentlink.agent.backends.native.plans import AttemptVerdict
from agentlink.agent.backends.native.refusals import one_line as _line
from agentlink.agent.backends.native.refusals import sentence as _sentence
from agentlink.protocol import DISPLACING, PodState

Passed = Callable[[datetime | None, float], bool]

UNBOUND_SECONDS = 60.0
"""How long a pod that was let go may be without its node."""
IMAGE_SECONDS = 120.0
"""How long an image may be unavailable, or a container impossible to make."""
REGISTRY_SECONDS = 300.0
"""How long a registry may give no answer: kubelets try it some times until then."""
DELETED_SECONDS = 3.0
"""How long a deletion that nothing explains may await its explanation: Jobs and pods are heard of separately."""
UNMADE_SECONDS = 20.0
"""How long pods may be refused to the Job's controller: those before them may still be counted."""
UNMOUNTED_SECONDS = 300.0
"""How long volumes may be impossible to mount: a disk that another node lets go of takes minutes."""
ASK_UNMOUNTED_SECONDS = 30.0
"""How often the cluster is asked why a pod that is on its node does not begin."""
ASK_UNMADE_SECONDS = 5.0
"""After how long the cluster is asked why it does not make pods."""
PLAN_QUOTA_SECONDS = 60.0
"""How long the agent's own quota may refuse them: it is raised and counted anew while they wait."""
NEVER_MADE_SECONDS = 300.0
"""How long no pod may be made without a reason told, from when the Jobs' controller came to the Job, or to later ones:
one that is only behind gets as long as it needs.
"""

ENDED_SECONDS = 5.0
"""How long the controller of an adopted Job may take to end it for a pod that it lost."""

JOB_ENDED = "job-ended"
"""An adopted Job has ended in the cluster: it cannot be tried again."""
IN_TIME = frozenset(
    {"image-not-pulled", "registry-unreachable", "container-not-made", "unschedulable", "not-created"}
    | {"time-limit"}
)
"""Ends that come when something has not happened for too long, or goes on for too long."""

SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
EXITS = frozenset({"exit-code", "out-of-memory", "container-not-started"})
"""Reasons of which the exit code tells something."""
CONTAINER_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
)
CONFIG_MISSING = "config-missing"
_NOT_THERE = re.compile(r"(?P<kind>secret|configmap)s? \"(?P<name>[^\"]+)\" not found", re.IGNORECASE)
_NO_KEY = re.compile(
    r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) [^\s/]+/(?P<name>[^\s/]+)"
)
_KINDS = {"secret": "Secret", "configmap": "ConfigMap"}
TURNED_AWAY = frozenset({"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TaintToleration"})
"""Why a node does not take a pod that the scheduler gave it; besides, `OutOf` something."""


NOBODY: Mapping[str, str] = {}
NO_TIMES: Mapping[str, datetime] = {}
NO_PODS: Mapping[str, PodFacts | None] = {}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict; or none yet, and after how many seconds there may be one without anything happening."""

    verdict: AttemptVerdict | None = None
    look_again_seconds: float | None = None


def judge(
    attempt: ObservedAttempt,
    *,
    now: datetime,
    let_go: Mapping[str, datetime],
    lost: Collection[str] = (),
    closed: Collection[str] = (),
    unready: Collection[str] = (),
    emptied: Mapping[str, str] = NOBODY,
    drains: Mapping[str, datetime] = NO_TIMES,
    replaced: Mapping[str, PodFacts | None] = NO_PODS,
    refusal: str | None = None,
    foreign: str = "",
    overtaken: datetime | None = None,
    unmounted: Mapping[int, str] | None = None,
) -> Judgement:
    """Return how an attempt that has no verdict yet, and is not being stopped, has ended badly, if it has.

    `let_go`: since when pods, by uid, are free to go to their nodes. `lost`: nodes that are not there, `closed`: those
    that take no new pods, `unready`: those that are not ready, `emptied`: what empties those that are, `drains`: from
    when the attempt is to leave those that an operator has drained. `replaced`: pods, by uid, that were made in the
    place of others, with these where they are still known. `refusal`: why the cluster does not make pods, None where
    that was not asked. `foreign`: which pods its own quota counts that Chamber did not make. `overtaken`: since when
    the Jobs' controller has dealt with Jobs that began later, None where it has not. `unmounted`: why pods, by index,
    do not get their volumes.
    """
    waits: list[float] = []

    def passed(since: datetime | None, seconds: float) -> bool:
        """Return whether so much time has passed since then; else plan another look for when it has."""
        left = seconds - (now - (since or now)).total_seconds()
        if left > 0:
            waits.append(left)
        return left <= 0

    verdict = _of_jobs(attempt, now, passed) or _of_lost(attempt, now, lost)
    verdict = verdict or _of_failed(attempt, now, unready, emptied)
    for slot in attempt.wanted:
        if verdict is None and slot.pod is not None and not slot.succeeded:
            verdict = _of_pod(slot, slot.pod, now, passed, emptied)
    verdict = verdict or _of_replaced(attempt, now, replaced, emptied)
    if verdict is None:
        verdict = _of_drained(attempt, now, passed, drains)
    if verdict is None:
        verdict = _of_vanished(attempt, now, passed, lost, emptied)
    if verdict is None:
        verdict = _of_unmade(attempt, now, passed, refusal, overtaken, foreign=foreign)
    if verdict is None:
        verdict = _of_unbound(attempt, now, passed, let_go, closed)
    if verdict is None:
        verdict = _of_unmounted(attempt, now, passed, unmounted or {})
    if verdict is not None and verdict.refused and attempt.running_at is not None:
        verdict = replace(verdict, refused=False)
    return Judgement(verdict, None if verdict else min(waits, default=None))


def asks_why_unmade(attempt: ObservedAttempt, *, now: datetime, after: float = UNMADE_SECONDS) -> bool:
    """Return whether pods should be there by now and are not: then the cluster may say why."""
    return any((now - slot.job.begun_at).total_seconds() >= after for slot in _unmade(attempt))


def kept(
    attempt: ObservedAttempt,
    *,
    let_go: Mapping[str, datetime] = NO_TIMES,
    unmounted: Mapping[int, str] | None = None,
    refusal: str | None = None,
    foreign: str = "",
) -> StartProblem | None:
    """Return what keeps the first pod that cannot start; None where nothing is told. What is given is what `judge` is
    given.
    """
    begun = max((slot.job.begun_at for slot in _unmade(attempt)), default=None)
    for slot in sorted(attempt.wanted, key=lambda each: each.planned.index):
        if slot.state is not PodState.PENDING:
            continue
        if slot.pod is not None:
            found = _kept(slot, slot.pod, let_go, (unmounted or {}).get(slot.planned.index, ""))
        elif refusal and begun is not None:
            code = refusals.code_of(refusal)
            said = refusals.plan_quota(refusal, foreign) if code == refusals.PLAN_QUOTA else _line(refusal)
            found = StartProblem(
                slot.planned.index, said, code, begun + timedelta(seconds=_unmade_patience(code))
            )
        else:
            found = None
        if found is not None and found.words:
            return found
    return None


def _kept(slot: Slot, pod: PodFacts, let_go: Mapping[str, datetime], unmounted: str) -> StartProblem | None:
    """Return what keeps a pod that is there."""
    index, began = slot.planned.index, pod.started_at or pod.created_at
    if pod.deleted_at is not None:
        return None
    if not pod.node:
        return _kept_until(index, pod.unschedulable, "unschedulable", let_go.get(pod.uid), UNBOUND_SECONDS)
    if pod.waiting.reason in images.REASONS | CONTAINER_REASONS:
        code, _ = _cannot_begin(slot, pod)
        words = pod.pull_error or pod.waiting.message
        return _kept_until(index, words, code, began, _begin_patience(code))
    if unmounted and not pod.waiting.message:
        return _kept_until(index, unmounted, "volume-not-mounted", began, UNMOUNTED_SECONDS)
    return StartProblem(index, _line(pod.waiting.message))


def _kept_until(index: int, words: str, cause: str, since: datetime | None, seconds: float) -> StartProblem:
    return StartProblem(index, _line(words), cause, since and since + timedelta(seconds=seconds))


def unmounted(attempt: ObservedAttempt, *, now: datetime) -> Slot | None:
    """Return the first pod that has been on its node for a while and whose containers wait for no reason told."""
    for slot in attempt.wanted:
        pod = slot.pod
        if pod is None or slot.state is not PodState.PENDING or pod.deleted_at is not None or not pod.node:
            continue
        since = pod.started_at or pod.created_at or now
        creating = pod.waiting.reason in ("", "ContainerCreating", "PodInitializing")
        if creating and (now - since).total_seconds() >= ASK_UNMOUNTED_SECONDS:
            return slot
    return None


def may_end_its_job(attempt: ObservedAttempt, verdict: AttemptVerdict) -> bool:
    """Return whether an adopted Job may be about to end for a pod that it lost, though its attempt is to be tried
    again: one that allows no failure ends with the first, unless it ignores evictions.
    """
    job = attempt.jobs[0]
    if not (job.adopted and _is_tried_again(verdict)) or job.failed or job.suspended or job.deleting:
        return False
    pods = (slot.pod for slot in attempt.wanted if slot.pod is not None)
    lost = (pod for pod in pods if pod.phase == "Failed" or pod.disrupted or pod.deleted_at is not None)
    return any(not (pod.disrupted and job.eviction is policies.Eviction.SPARED) for pod in lost)


def with_its_job(attempt: ObservedAttempt, verdict: AttemptVerdict) -> AttemptVerdict:
    """Return the verdict on an attempt that is to be tried again, where its adopted Job has ended and cannot run."""
    job = attempt.jobs[0]
    if not (job.adopted and job.failed and _is_tried_again(verdict)):
        return verdict
    text = (
        f"Its Job {job.key} has ended in the cluster and cannot run again, for it allows no failure (backoffLimit 0): "
        f"{verdict.message}"
    )
    return AttemptVerdict(JOB_ENDED, text, verdict.at)


def _is_tried_again(verdict: AttemptVerdict) -> bool:
    return verdict.refused or verdict.code in DISPLACING


def lacks_a_cause(attempt: ObservedAttempt, *, now: datetime) -> bool:
    """Return whether a Job failed a while ago and no pod says why: then its pods may not have been heard of since."""
    waited = ((now - (job.failed_at or now)).total_seconds() for job in _failed_jobs(attempt))
    return any(seconds >= DELETED_SECONDS for seconds in waited) and _of_failed(attempt, now) is None


def _of_jobs(attempt: ObservedAttempt, now: datetime, passed: Passed) -> AttemptVerdict | None:
    for job in attempt.jobs:
        name = f"Its Job {job.name} in namespace {job.namespace}"
        if job.deleting:
            return AttemptVerdict("job-deleted", _by_hand(name, "deleted"), now)
        if job.failed.reason == "DeadlineExceeded":
            return AttemptVerdict("time-limit", _limit(job), now)
        if job.suspended and not job.complete and not job.failed:
            return AttemptVerdict("job-suspended", _by_hand(name, "suspended"), now)
        if _is_over_time(attempt, job, passed):
            return AttemptVerdict("time-limit", _limit(job), now)
    return None


def _is_over_time(attempt: ObservedAttempt, job: JobFacts, passed: Passed) -> bool:
    """Return whether a Job has run for a limit of which the cluster knows nothing: adopted ones stay as they were
    written. Never before: the cluster tells of whole seconds, so all pods ran up to one later than it says.
    """
    limit = job.plan.time_limit_seconds
    if not job.adopted or limit is None or job.deadline_seconds is not None or attempt.running_at is None:
        return False
    return passed(attempt.running_at, limit + 1)


def _of_failed(
    attempt: ObservedAttempt,
    now: datetime,
    unready: Collection[str] = (),
    emptied: Mapping[str, str] = NOBODY,
) -> AttemptVerdict | None:
    failed = [slot for slot in attempt.wanted if slot.pod is not None and _failed_by_itself(slot.pod)]
    if not failed:
        return None
    slot = min(failed, key=_order)
    pod = slot.pod
    assert pod is not None  # noqa: S101 - those without one were left out
    ended_at = pod.finished_at or now
    for other in attempt.wanted:
        if other.pod is not None and other is not slot and _taken_by(other.pod, ended_at):
            return AttemptVerdict(*_disrupted(other, other.pod, emptied), now)
    code, message, refused = _failed(slot, pod, emptied)
    if code == "exit-code":
        for other in attempt.wanted:
            if other.pod is not None and not other.pod.is_over and other.pod.node in unready:
                index, node = other.planned.index, other.pod.node
                return AttemptVerdict(
                    "node-lost", f"{message} Node {node}, where pod {index} runs, is not ready.", now
                )
    exit_code = pod.exit_code if code in EXITS else None
    return AttemptVerdict(code, message, ended_at, exit_code, refused)


def _taken_by(pod: PodFacts, at: datetime) -> bool:
    """Return whether the cluster had begun to take a pod away by then."""
    began = pod.deleted_at or pod.finished_at
    return bool(pod.disrupted) and began is not None and began <= at


def _failed_by_itself(pod: PodFacts) -> bool:
    """Return whether it failed, and not just because it had been told to end."""
    told = pod.deleted_at is not None and not (pod.disrupted or pod.status or pod.ended.reason == "OOMKilled")
    return pod.phase == "Failed" and not told


def _order(slot: Slot) -> tuple[bool, float, int]:
    """Sort those first that were not told to end, then by time, then by index."""
    pod = slot.pod
    assert pod is not None  # noqa: S101 - asked of failed pods only
    finished = pod.finished_at.timestamp() if pod.finished_at else float("inf")
    return (pod.deleted_at is not None, finished, slot.planned.index)


def _failed(slot: Slot, pod: PodFacts, emptied: Mapping[str, str]) -> tuple[str, str, bool]:
    """Return code and sentence of a pod that failed, and whether its node did not take it at all."""
    where, reason = _where(slot, pod), pod.status.reason
    if reason in TURNED_AWAY or reason.startswith("OutOf"):
        said = _sentence(pod.status.message or reason)
        return "unschedulable", f"{where} was turned away by its node: {said}", True
    if reason == "DeadlineExceeded":
        return "time-limit", _limit(slot.job), False
    if reason in disruptions.ENDS:
        return (*disruptions.of_status(pod.status, where), False)
    return (*(_disrupted(slot, pod, emptied) if pod.disrupted else _exited(slot, pod)), False)


def _exited(slot: Slot, pod: PodFacts) -> tuple[str, str]:
    """Return how the container itself ended."""
    where = _where(slot, pod)
    if pod.ended.reason == "OOMKilled":
        memory = slot.job.plan.memory_mib
        bound = f"its {memory:,} MiB" if memory else "what its node has"
        return "out-of-memory", f"{where} was ended because it used more memory than {bound}."
    if pod.ended.reason in NEVER_RAN:
        return "container-not-started", f"{where} could not run its command: {_sentence(pod.ended.message)}"
    if pod.exit_code is None:
        return "pod-failed", f"{where} failed: {_sentence(pod.status.message or pod.status.reason)}"
    return "exit-code", f"{where} exited with code {_exit(pod.exit_code)}."


def _of_lost(attempt: ObservedAttempt, now: datetime, lost: Collection[str]) -> AttemptVerdict | None:
    for slot in attempt.wanted:
        if slot.pod is not None and not slot.pod.is_over and slot.pod.node in lost:
            gone = f"Node {slot.pod.node} was lost: it is not in the cluster any more."
            return AttemptVerdict("node-lost", f"{gone} Pod {slot.planned.index} ran there.", now)
    return None


def _limit(job: JobFacts) -> str:
    return f"It ran for its time limit of {_duration(job.plan.time_limit_seconds or 0)}."


def _disrupted(slot: Slot, pod: PodFacts, emptied: Mapping[str, str]) -> tuple[str, str]:
    return disruptions.of_condition(pod, _where(slot, pod), emptied)


def _cannot_begin(slot: Slot, pod: PodFacts) -> tuple[str, str]:
    said = _sentence(pod.pull_error or pod.waiting.message or pod.waiting.reason)
    if images.is_registry_away(pod.waiting.reason, pod.pull_error or pod.waiting.message):
        return (
            "registry-unreachable",
            f"{_where(slot, pod)} cannot have its image, its registry gives no answer: {said}",
        )
    if pod.waiting.reason in images.REASONS:
        return "image-not-pulled", f"{_where(slot, pod)} cannot have its image: {said}"
    if missing := _missing(pod):
        return CONFIG_MISSING, f"{_where(slot, pod)} cannot begin: {missing}: {said}"
    return "container-not-made", f"{_where(slot, pod)} cannot begin: {said}"


def _missing(pod: PodFacts) -> str:
    """Return which ConfigMap or Secret its environment names that is not there; "" for any other cause."""
    text = pod.waiting.message
    if found := _NOT_THERE.search(text):
        kind = _KINDS[found["kind"].lower()]
        return f"the {kind} {found['name']} in namespace {pod.namespace}, which the pod names, is not there"
    if found := _NO_KEY.search(text):
        where = f"{found['kind']} {found['name']} in namespace {pod.namespace}"
        return f"the {where} has no key {found['key']}, which the pod names"
    return ""


def _of_pod(
    slot: Slot, pod: PodFacts, now: datetime, passed: Passed, emptied: Mapping[str, str]
) -> AttemptVerdict | None:
    """Return what keeps one pod from running on, or from beginning."""
    if pod.disrupted:
        return AttemptVerdict(*_disrupted(slot, pod, emptied), now)
    if _is_misplaced(slot, pod):
        return AttemptVerdict(*_misplaced(slot, pod), now)
    if pod.deleted_at is not None:
        if pod.node in emptied:
            code, message = disruptions.deleted_with_node(_where(slot, pod), emptied[pod.node])
        else:
            code, message = "pod-deleted", _by_hand(f"Its pod {pod.name}", "deleted")
        return AttemptVerdict(code, message, now) if passed(pod.deleted_at, DELETED_SECONDS) else None
    if pod.waiting.reason in images.HOPELESS:
        return AttemptVerdict(*_cannot_begin(slot, pod), now)
    if pod.waiting.reason in images.REASONS | CONTAINER_REASONS:
        code, message = _cannot_begin(slot, pod)
        stuck = AttemptVerdict(code, message, now, refused=code == CONFIG_MISSING)
        return stuck if passed(pod.started_at or pod.created_at, _begin_patience(code)) else None
    return None


def _begin_patience(code: str) -> float:
    """Return for how many seconds a pod may be unable to begin for this reason."""
    return REGISTRY_SECONDS if code == "registry-unreachable" else IMAGE_SECONDS


def _unmade_patience(code: str) -> float:
    """Return for how many seconds pods may be refused for this reason."""
    return PLAN_QUOTA_SECONDS if code == refusals.PLAN_QUOTA else UNMADE_SECONDS


def _of_drained(
    attempt: ObservedAttempt, now: datetime, passed: Passed, drains: Mapping[str, datetime]
) -> AttemptVerdict | None:
    for slot in attempt.wanted:
        pod = slot.pod
        if pod is None or pod.is_over or pod.node not in drains or not passed(drains[pod.node], 0):
            continue
        text = f"{_where(slot, pod)} was asked to end: an operator drains its node."
        return AttemptVerdict("drained", text, now)
    return None


def _of_replaced(
    attempt: ObservedAttempt,
    now: datetime,
    replaced: Mapping[str, PodFacts | None],
    emptied: Mapping[str, str],
) -> AttemptVerdict | None:
    """Return the end of an attempt of which the cluster took a pod and made another: that one is not let go."""
    for slot in attempt.wanted:
        if slot.pod is None or slot.pod.uid not in replaced:
            continue
        before, node = replaced[slot.pod.uid], slot.planned.node
        if before is not None and before.disrupted:
            return AttemptVerdict(*_disrupted(slot, before, emptied), now)
        where = f"Pod {slot.planned.index} on {node}"
        if node in emptied:
            return AttemptVerdict(*disruptions.deleted_with_node(where, emptied[node]), now)
        return AttemptVerdict("pod-deleted", f"{where} was taken away in the cluster, not by Chamber.", now)
    return None


def _of_vanished(
    attempt: ObservedAttempt, now: datetime, passed: Passed, lost: Collection[str], emptied: Mapping[str, str]
) -> AttemptVerdict | None:
    """Return the end of a Job that failed and has no pod left that says why."""
    if attempt.succeeded:
        return None
    for job in _failed_jobs(attempt):
        if passed(job.failed_at, DELETED_SECONDS):
            nodes = [slot.planned.node for slot in attempt.wanted if slot.pod is None and not slot.succeeded]
            return AttemptVerdict(*_vanished(job, nodes, lost, emptied), now)
    return None


def _vanished(
    job: JobFacts, nodes: Sequence[str], lost: Collection[str], emptied: Mapping[str, str]
) -> tuple[str, str]:
    """Return code and sentence of a Job's pod that was deleted, on one of these nodes."""
    what = f"A pod of its Job {job.name}"
    for node in nodes:
        if node in lost:
            return "node-lost", f"Node {node} was lost: it is not in the cluster any more. {what} ran there."
    for node in nodes:
        if node in emptied:
            return disruptions.deleted_with_node(f"{what} on {node}", emptied[node])
    return "pod-deleted", _by_hand(what, "deleted")


def _failed_jobs(attempt: ObservedAttempt) -> Iterator[JobFacts]:
    """Yield the Jobs that failed, and not just because pods were taken from them."""
    for job in attempt.jobs:
        shrunk = bool(job.removed) and job.failed.reason == "FailedIndexes"
        if job.failed and not shrunk:
            yield job


def _of_unmade(
    attempt: ObservedAttempt,
    now: datetime,
    passed: Passed,
    refusal: str | None,
    overtaken: datetime | None,
    *,
    foreign: str,
) -> AttemptVerdict | None:
    unmade = list(_unmade(attempt))
    if not unmade:
        return None
    code = refusals.code_of(refusal) if refusal else refusals.NOT_CREATED
    begun = max(slot.job.begun_at for slot in unmade)
    passed(begun, ASK_UNMADE_SECONDS)
    refused = passed(begun, _unmade_patience(code)) and bool(refusal)
    since: datetime | None = None
    if overtaken is not None or all(slot.job.started_at for slot in unmade):
        # A start that is told of an adopted Job may be that of an earlier attempt.
        seen = (slot.job.started_at or overtaken for slot in unmade)
        since = max(*(slot.job.begun_at for slot in unmade), *filter(None, seen))
    if not refused and not passed(since, NEVER_MADE_SECONDS):
        return None
    pods = "a pod" if len(unmade) == 1 else f"{len(unmade)} pods"
    said = f": {_sentence(refusal)}" if refusal else "; it does not say why."
    if refusal and code == refusals.PLAN_QUOTA:
        said = f". {refusals.plan_quota(refusal, foreign)}"
    return AttemptVerdict(code, f"The cluster does not make {pods} of it{said}", now, refused=True)


def _of_unbound(
    attempt: ObservedAttempt,
    now: datetime,
    passed: Passed,
    let_go: Mapping[str, datetime],
    closed: Collection[str],
) -> AttemptVerdict | None:
    for slot in attempt.wanted:
        pod = slot.pod
        if pod is None or pod.node or pod.uid not in let_go or not passed(let_go[pod.uid], UNBOUND_SECONDS):
            continue
        node = slot.planned.node
        said = (
            f": {_sentence(pod.unschedulable)}" if pod.unschedulable else "; its scheduler does not say why."
        )
        if node in closed:
            said = ": the node is cordoned, as when it is drained, or not ready, and takes no new pods."
        text = f"Pod {slot.planned.index} was planned on {node}, but did not come there within {UNBOUND_SECONDS:.0f} s"
        return AttemptVerdict("unschedulable", text + said, now, refused=True)
    return None


def _of_unmounted(
    attempt: ObservedAttempt, now: datetime, passed: Passed, unmounted: Mapping[int, str]
) -> AttemptVerdict | None:
    for slot in attempt.wanted:
        pod = slot.pod
        if pod is None or slot.state is not PodState.PENDING or not pod.node:
            continue
        if pod.waiting.reason in ("", "ContainerCreating", "PodInitializing"):
            passed(now, ASK_UNMOUNTED_SECONDS)
        words = unmounted.get(slot.planned.index)
        if words and passed(pod.started_at or pod.created_at, UNMOUNTED_SECONDS):
            text = f"{_where(slot, pod)} does not get its volumes: {_sentence(words)}"
            return AttemptVerdict("volume-not-mounted", text, now, refused=True)
    return None


def _unmade(attempt: ObservedAttempt) -> Iterator[Slot]:
    """Yield the pods that should come and are not there."""
    return (slot for slot in attempt.wanted if slot.pod is None and slot.state is PodState.PENDING)


def _is_misplaced(slot: Slot, pod: PodFacts) -> bool:
    """Return whether its gate was taken off before it was tied to its node."""
    return bool(pod.node) and pod.node != slot.planned.node


def _misplaced(slot: Slot, pod: PodFacts) -> tuple[str, str]:
    planned, what = slot.planned.node, f"Pod {slot.planned.index}"
    return "misplaced", f"{what} was planned on {planned}, but was let go to {pod.node}, not by Chamber."


def _where(slot: Slot, pod: PodFacts) -> str:
    return f"Pod {slot.planned.index} on {pod.node or slot.planned.node}"


def _by_hand(what: str, done: str) -> str:
    return f"{what} was {done} in the cluster, not by Chamber."


def _exit(code: int) -> str:
    name = SIGNALS.get(code - 128)
    return f"{code} ({name})" if name else str(code)


def _duration(seconds: int) -> str:
    text = str(timedelta(seconds=seconds))
    return text if seconds >= 3600 else f"{seconds} s"
