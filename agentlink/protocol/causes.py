"""Codes of a report's `reason` that say what became of an attempt through no doing of its workload."""

DISPLACING = frozenset(
    {
        "node-lost",  # its node is gone, or was not ready for too long
        "node-shutdown",  # its node shut down
        "drained",  # evicted by the eviction API, or deleted while its node is cordoned
        "node-pressure",  # evicted by its node, for what others used up
        "scheduler-preempted",  # taken away by the cluster's scheduler for a pod of a higher priority class
        "displaced",  # the same, from agents before `scheduler-preempted`
        "pod-deleted",  # by hand
        "pods-vanished",  # with all that told of them
        "misplaced",  # let go by hand to a node that was not planned
        "registry-unreachable",  # its image's registry gave no answer
        "unschedulable",  # pods that were added to a running workload did not come to their nodes,
        "not-created",  # were not made,
        "volume-not-mounted",  # do not get their volumes,
        "config-missing",  # name a ConfigMap or Secret that is not there,
        "quota-exceeded",  # or are not allowed, for whatever the cluster says
        "plan-quota",
        "quota-too-small",
        "limit-range",
        "pod-security",
        "admission-denied",
        "webhook-unreachable",
        "cluster-busy",
        "rights-missing",
        "refused",
        "name-taken",
        "namespace-missing",
        "namespace-not-kept",
        "namespace-terminating",
        "ended-after-backup",  # it is over, and the server's database knows nothing of it
    }
)
"""The attempt is displaced: no retry or requeue is spent."""
