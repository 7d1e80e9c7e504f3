"""The reference of statuses: what each means and what to do, as its page and `docs/statuses.md` say it."""

from dataclasses import dataclass

from workloads.models.workload import Status
from workloads.reasons import NEXT_STEPS, REFUSAL_STEPS


@dataclass(frozen=True, slots=True)
class StatusMeaning:
    """A status, or a code of an end: what it means, and what to do."""

    code: str
    meaning: str
    step: str


STATUSES = (
    StatusMeaning(
        Status.PENDING,
        "It was submitted and waits for GPUs, for what it depends on, or for its earliest start; or it is held.",
        "Read why on its page or by `chamber why`; the reason says whether time, you or an admin solves it.",
    ),
    StatusMeaning(
        Status.QUEUED,
        "Its GPUs are allocated. Its cluster has it, or still empties the GPUs.",
        "Nothing: it starts as soon as its GPUs are empty.",
    ),
    StatusMeaning(
        Status.STARTING,
        "Its pods are being created: images are pulled, volumes are mounted.",
        "Nothing for some minutes. If it stays so, its page says which pod cannot begin, and why.",
    ),
    StatusMeaning(
        Status.RUNNING,
        "All of its pods run, or at least its minimum of them.",
        "Follow its logs and its GPU use; a workload with idle GPUs is told on its page.",
    ),
    StatusMeaning(
        Status.COMPLETED,
        "Its command ended with exit code 0 in every pod.",
        "Collect the results where the command wrote them; its logs, events and GPU use stay on its page.",
    ),
    StatusMeaning(
        Status.FAILED,
        "It ended otherwise, and no retry is left.",
        "Read why on its page; the table of ends says what to do about each cause.",
    ),
    StatusMeaning(
        Status.PREEMPTED,
        "Its GPUs were needed by others with a right to them, and it does not return to the queue by itself.",
        "Requeue it; have it write checkpoints, so that little is lost.",
    ),
    StatusMeaning(
        Status.CANCELLED,
        "Somebody cancelled it; its events say who.",
        "Nothing. Requeue it to run it after all.",
    ),
)
"""In the order of a workload's life."""

_ENDS = {
    "time-limit": "It ran as long as its time limit allows.",
    "out-of-memory": "A pod used more memory than its limit, or than its node has, and was ended.",
    "image-not-pulled": "A pod's image could not be pulled for two minutes.",
    "displaced-too-often": "The cluster took its pods away many times in a row.",
    "evicted": "The node ended a pod, because the pod used more than it asks for.",
    "unschedulable": "A pod did not come to the node that was planned for it.",
    "container-not-made": "A pod's container could not be made for two minutes.",
    "container-not-started": "A pod's container was made, but its command did not start.",
    "job-deleted": "Its Job was deleted in the cluster, past Chamber.",
    "job-suspended": "Its Job was suspended in the cluster, past Chamber.",
    "exit-code": "Its command ended with another exit code than 0.",
    "pod-failed": "A pod failed; the message is the cluster's.",
    "dependency-failed": "A workload that it depends on did not complete.",
    "deadline-passed": "It had not started by its deadline.",
    "preempted": "Its GPUs were needed by others with a right to them.",
    "too-many-requeues": "It was preempted more often than it may return to the queue.",
    "cancelled": "Somebody cancelled it.",
}
_REFUSALS = {
    "pod-security": "The namespace's Pod Security level does not allow its pods.",
    "admission-denied": "A policy or webhook of the cluster refuses it.",
    "limit-range": "It asks for other CPU or memory than the namespace's LimitRange allows.",
    "quota-too-small": "It asks for more than the namespace's ResourceQuota allows in all.",
    "quota-exceeded": "Others use up the namespace's ResourceQuota at this moment.",
    "plan-quota": "Pods that Chamber did not make, or that are not gone yet, use up its quota in the namespace.",
    "webhook-unreachable": "A webhook of the cluster, which has to allow it, does not answer.",
    "cluster-busy": "The cluster's API server has too much to do.",
    "rights-missing": "The agent may not do in the cluster what it needs.",
    "namespace-missing": "There is no namespace for it.",
    "namespace-terminating": "Its namespace is being deleted.",
    "namespace-not-kept": "The agent does not keep its namespace.",
    "name-taken": "A Job of its name, which is not Chamber's, is there already.",
    "config-missing": "It names a ConfigMap or Secret that does not exist.",
    "not-created": "Its Job was made, but its pods were not.",
    "credential-unusable": "It names a credential that it may not be handed, or not any more.",
    "credential-unreadable": "It names a credential whose values the server cannot decrypt.",
    "secret-not-allowed": "It names a Secret that its team's rules do not allow in that namespace and cluster.",
    "data-elsewhere": "The cluster has not all the data that it mounts any more.",
    "data-read-only": "It mounts data to write that may only be read by now.",
    "agent-too-old": "The cluster's agent is of a release that does not know what it asks for.",
    "refused": "The cluster refuses it for another cause, which the message names.",
}
ENDS = tuple(StatusMeaning(code, meaning, NEXT_STEPS[code]) for code, meaning in _ENDS.items())
"""Why a workload failed, or was ended."""
REFUSALS = tuple(StatusMeaning(code, meaning, REFUSAL_STEPS[code]) for code, meaning in _REFUSALS.items())
"""Why a cluster does not take a workload, which then returns to the queue."""
PREEMPTED_OFTEN = (
    "Write checkpoints, and continue from the last one.",
    "Ask for a higher priority, where your team allows one.",
    "Submit what matters as reserved work (priority 100 and above): within its team's guarantee nobody preempts it.",
    "Ask an admin for a higher bursting priority of the team, or for more guaranteed GPUs.",
    "Run it when less is asked for: at night, at the weekend.",
)
"""What helps whoever is preempted often."""
COMPLETED = next(each for each in STATUSES if each.code == Status.COMPLETED)
