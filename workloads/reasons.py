"""How a workload ended, as data: a code, a sentence, and what to do next."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chamber.words import count, plural

if TYPE_CHECKING:
    from workloads.models import Attempt

BY_HAND = "Nothing was wrong with the workload: requeue it, and ask who works in its namespace by hand."
NEXT_STEPS = {
    "time-limit": "Submit it with a longer time limit, or have it write checkpoints and continue from them.",
    "out-of-memory": "Ask for more memory per pod, or make its batches smaller.",
    "image-not-pulled": "Check the image's name and tag, and that the cluster may pull it.",
    "displaced-too-often": "Nothing was wrong with the workload: ask the cluster's operator what takes its pods away "
    "(the events name each cause), then requeue it.",
    "evicted": "Requeue it; ask for the CPU and memory that it really uses.",
    "unschedulable": "Requeue it; if it happens again, tell the operator of the cluster.",
    "container-not-made": "Mend what the message names, then requeue it.",
    "container-not-started": "Check the command: its image has no such program, or does not let it run.",
    **dict.fromkeys(("job-deleted", "job-suspended"), BY_HAND),
    "exit-code": "Read the end of its logs, mend the cause, and requeue it.",
    "pod-failed": "Mend what the message names, and requeue it.",
    "dependency-failed": "Mend and requeue what it depends on, then requeue this one.",
    "deadline-passed": "Submit it again with a later deadline, or requeue it: then it has none.",
    "preempted": "Requeue it. With on_preemption: requeue it returns to the queue by itself.",
    "too-many-requeues": "Requeue it, or ask for GPUs inside your team's guarantee (priority 100 and above).",
    "cancelled": "Requeue it to run it after all.",
}
"""What to do about each way to end."""
MOST_NAMED = 5
OTHERWISE = "Mend what the message names, and requeue it."
"""What to do about ways to end that are not known here: their attempts may have no logs."""
REFUSAL_STEPS = {
    "pod-security": "Ask an admin to label its namespace with a Pod Security level that its pods meet: "
    "pod-security.kubernetes.io/enforce=baseline.",
    "admission-denied": "Change what the message names and submit it again, or ask an admin to change the policy.",
    "limit-range": "Ask for CPU and memory within the namespace's limits, or ask an admin to change its LimitRange.",
    "quota-too-small": "Ask for less, or ask an admin to raise the namespace's ResourceQuota.",
    "quota-exceeded": "Wait until others free what the quota counts, or ask an admin to raise it.",
    "plan-quota": "Nothing to do: it is tried again. If it comes again and again, ask an admin which pods with GPUs in "
    "its namespace are not Chamber's: `kubectl get pods -n NAMESPACE`.",
    "webhook-unreachable": "Ask an admin to look after the webhook that the message names.",
    "cluster-busy": "Ask an admin to look after the cluster's API server if it does not pass.",
    "rights-missing": "Ask an admin to run `chamber doctor --cluster`: the agent lacks rights.",
    "namespace-missing": "Ask an admin to make the namespace.",
    "namespace-terminating": "Wait until the namespace is gone and made again.",
    "namespace-not-kept": "Ask an admin to do what the message says.",
    "name-taken": "Ask an admin to delete the Job of that name.",
    "config-missing": "Make what the message names in that namespace.",
    "not-created": "Ask an admin to look at the Job with `kubectl describe`.",
    "credential-unusable": "Have what the message names put right, and it is started by itself; or cancel it and "
    "submit it again with credentials that you may use.",
    "credential-unreadable": "Give the credential its values again, or ask an admin: the server's operator "
    "has the keys.",
    "secret-not-allowed": "Ask an admin to allow the Secret in the rules of your team (cluster_secrets).",
    "data-elsewhere": "Nothing to do: it is started where its data is. If no cluster has it, ask an operator to say on "
    "the page of the data source which have.",
    "data-read-only": "Cancel it and submit it again with the data mounted :ro, or ask a lead of the team whose data "
    "it is to let workloads write to it.",
    "agent-too-old": "Ask an admin to upgrade the agent of that cluster, or choose other pools.",
    "refused": "Change what the message names and submit it again, or ask an admin.",
}
"""What to do about each way in which a cluster does not take a workload."""
JOB_AGAIN = "and create the Job again"
"""Said in place of submitting a workload again where it came from a Job."""
FAILING = {
    "image-not-pulled": NEXT_STEPS["image-not-pulled"],
    "container-not-made": "Mend what the message names.",
}
"""What to do while a pod cannot begin for a cause that fails its attempt."""
TRIED_AGAIN = (
    "Nothing to do: it is tried again. If it comes again and again, ask an admin to look at the cluster."
)
CREDENTIAL_UNUSABLE = "credential-unusable"
"""Said of waiting workloads that may not be handed what they name; they are started once they may."""
PLAN_QUOTA = "plan-quota"
"""Said of namespaces that are bound to a team only."""
REFUSED = "refused"
"""The kind of reason that a workload has while it waits, because its cluster did not take it."""
NOT_HANDED = frozenset(
    {CREDENTIAL_UNUSABLE, "credential-unreadable", "secret-not-allowed", "data-read-only", "agent-too-old"}
)
"""Why the server does not hand an attempt what its workload names, before a cluster is told of it."""
LASTING = frozenset(
    {
        "pod-security",
        "admission-denied",
        "limit-range",
        "quota-too-small",
        "rights-missing",
        "name-taken",
        "refused",
    }
    | {"namespace-missing", "namespace-not-kept", "config-missing"}
    | NOT_HANDED
)
"""Refusals that do not pass by themselves."""
OF_LEVEL = frozenset({"pod-security"})
NOT_KEPT = "namespace-not-kept"
"""Said of namespaces that are bound to a team only."""
OF_NAMESPACE = OF_LEVEL | {NOT_KEPT, "namespace-missing", "namespace-terminating"}
"""Refusals for which another Pod Security level of the namespace may help, or that it is kept again. An agent's
default namespace is bound to no team, and never told to be kept again.
"""
PASSING = frozenset(
    {"quota-exceeded", "plan-quota", "cluster-busy", "webhook-unreachable", "namespace-terminating"}
)
"""Refusals that pass by themselves, or by what others do."""


@dataclass(frozen=True, slots=True)
class WorkloadEnd:
    """Why a workload ended. `by` names who caused it, where somebody did."""

    code: str
    message: str
    kind: str = "failed"
    next_step: str = ""
    by: str = ""
    rule: str = ""
    level: str = ""

    def as_json(self) -> dict[str, str]:
        """Return what is stored in `Workload.reason`: all that is known, and always a next step."""
        step = self.next_step or NEXT_STEPS.get(self.code, OTHERWISE)
        known = {"kind": self.kind, "next_step": step, "by": self.by, "rule": self.rule, "level": self.level}
        return {
            "code": self.code,
            "message": self.message,
            **{key: text for key, text in known.items() if text},
        }


def of_refusal(code: str, message: str, *, namespace: str = "") -> WorkloadEnd:
    """Return why a cluster did not take a workload, in this namespace where it is known; an agent that does not say how
    gives no code.
    """
    step = refusal_step(code, namespace)
    return WorkloadEnd(code or "unplaced", message or "The cluster could not start it.", REFUSED, step)


def refusal_step(code: str, namespace: str = "") -> str:
    """Return what to do about a refusal for this reason, with the namespace where it is known."""
    step = REFUSAL_STEPS.get(code, TRIED_AGAIN)
    return step.replace("NAMESPACE", namespace) if namespace else step


def for_job(step: str) -> str:
    """Return what to do about a refusal as the people of a Job made with kubectl can do it."""
    return step.replace("and submit it again", JOB_AGAIN)


def while_kept(
    code: str, at: str, *, retries: int, namespace: str = "", adopted: bool = False
) -> tuple[str, str]:
    """Return the kind of the reason that a workload has whose pods cannot start, and what to do; both by the code with
    which its attempt ends `at` a time if that lasts. `retries` are those that it has left.
    """
    if code in FAILING:
        follows = f"fails {at} and is tried again ({count(retries, 'retry', 'retries')} left)"
        return (
            "change",
            f"{FAILING[code]} If that lasts, it {follows if retries else f'ends as Failed {at}'}.",
        )
    if code == "registry-unreachable":
        return "wait", (
            f"Nothing to do: if that lasts, it returns to the queue {at} at no charge, and is tried again. If it comes "
            "again and again, ask an admin to look after the registry, and the nodes' way to it."
        )
    if not code:
        return "change", "Mend what the message names."
    step = refusal_step(code, namespace) if code in REFUSAL_STEPS else "Mend what the message names."
    step = for_job(step) if adopted else step
    follows = f"If that lasts, the cluster refuses it {at}, and it is tried again after a pause."
    return ("wait" if code in PASSING else "change"), f"{step} {follows}"


def held_until(code: str) -> str:
    """Return what ends a hold that refusals for this reason set."""
    if code not in OF_NAMESPACE:
        return "it is not tried again before it is released"
    if code == NOT_KEPT:
        return "it is tried again when the agent keeps its namespace again, or it is released"
    level = "has another Pod Security level or " if code in OF_LEVEL else ""
    return (
        "it is tried again when it is released; in a namespace that is bound to its team, also when that "
        f"{level}is kept by the agent again"
    )


def of_displaced(attempt: "Attempt | None") -> WorkloadEnd | None:
    """Return what becomes of an open attempt that was displaced (1 query); None of another (no query)."""
    if attempt is None or attempt.ended_at is not None or not attempt.end_reason:
        return None
    cause = str(attempt.end_detail.get("message", ""))
    return WorkloadEnd(
        str(attempt.end_detail.get("code", "")),
        f"{cause} It returns to the queue, at no charge, once its pods are known to be gone.",
        kind="wait",
        next_step=_until_gone(attempt),
    )


def _until_gone(attempt: "Attempt") -> str:
    """Return what can be done to have a displaced attempt's pods gone, by how its nodes stand.

    Placements are reached by the name of their relation: the app that owns them lies above this one.
    """
    open_placements = attempt.placements.exclude(hold="released").order_by("device__node__name")
    columns = ("device__node__name", "device__node__ready", "device__node__gone_at")
    nodes = list(dict.fromkeys(open_placements.values_list(*columns)))
    down = [name for name, ready, gone_at in nodes if not ready and gone_at is None]
    gone = [name for name, _, gone_at in nodes if gone_at is not None]
    if down:
        which, it = plural(len(down), "node"), plural(len(down), "it", "them")
        return (
            f"Nothing to do. If {which} {named(down)} will not come back, have an operator delete {it}: then the "
            "cluster gives the pods up."
        )
    if gone:
        which, are = plural(len(gone), "Node"), plural(len(gone), "is", "are")
        return (
            f"Nothing to do. {which} {named(gone)} {are} not in the cluster any more, so the cluster gives the pods "
            "up by itself, mostly within a minute or two."
        )
    return "Nothing to do. Its pods have their grace period to end."


def named(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = names[:MOST_NAMED]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(shown) + more


def of_failure(exit_code: int | None, code: str, message: str) -> WorkloadEnd:
    """Return the reason of a failed attempt, from what the cluster reported."""
    if not code:
        code = "exit-code"
    if not message:
        message = (
            f"It exited with code {exit_code}."
            if exit_code is not None
            else "It failed; the cluster does not say why."
        )
    return WorkloadEnd(code, message)
