"""What a workload's status may become: the one table, and what the database refuses is made from it."""

from workloads.models.workload import Status

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.QUEUED, Status.CANCELLED, Status.FAILED}),
    Status.QUEUED: frozenset(
        {Status.STARTING, Status.PREEMPTED, Status.CANCELLED, Status.FAILED, Status.PENDING}
    ),
    # Back to Pending: the attempt was displaced.
    Status.STARTING: frozenset(
        {Status.RUNNING, Status.PREEMPTED, Status.CANCELLED, Status.FAILED, Status.PENDING}
    ),
    Status.RUNNING: frozenset(
        {Status.COMPLETED, Status.FAILED, Status.PREEMPTED, Status.CANCELLED, Status.PENDING}
    ),
    # An end; a retry or a requeue is a new attempt, back in Pending.
    Status.COMPLETED: frozenset({Status.PENDING}),
    Status.FAILED: frozenset({Status.PENDING}),
    Status.PREEMPTED: frozenset({Status.PENDING}),
    Status.CANCELLED: frozenset({Status.PENDING}),
}
