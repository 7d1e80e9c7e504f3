"""What moves a workload through its statuses: the plan, the cluster's reports, time, and people.

Callers hold the transaction. Each function locks the rows that it is about, leaves out (or answers False
for) those that are no longer what the caller saw, changes the rest by `status.change_status`, ends attempts,
and appends events. The number of queries does not depend on the number of workloads, but for the batches in
which a database takes rows.
"""

from workloads.lifecycle.acts import cancel_many, requeue_many
from workloads.lifecycle.displaced import Displacement, displace_many, lost
from workloads.lifecycle.failures import Ended, backoff, finish_many, refuse_many
from workloads.lifecycle.plan import (
    OpenedAttempt,
    PlannedStart,
    PreemptionOrder,
    WaitingFailure,
    admit_many,
    fail_waiting,
    preempt_many,
    recharge,
    resize,
    set_reasons,
)
from workloads.lifecycle.progress import Progress, progress_many
from workloads.lifecycle.refusals import hold_many, in_a_row, try_again_many
from workloads.lifecycle.reports import finished, pods_created, pods_running, refused, released
from workloads.lifecycle.status import IllegalChange, Row, lock, lock_waiting

__all__ = [
    "Displacement",
    "Ended",
    "IllegalChange",
    "OpenedAttempt",
    "PlannedStart",
    "PreemptionOrder",
    "Progress",
    "Row",
    "WaitingFailure",
    "admit_many",
    "backoff",
    "cancel_many",
    "displace_many",
    "fail_waiting",
    "finish_many",
    "finished",
    "hold_many",
    "in_a_row",
    "lock",
    "lock_waiting",
    "lost",
    "pods_created",
    "pods_running",
    "preempt_many",
    "progress_many",
    "recharge",
    "refuse_many",
    "refused",
    "released",
    "requeue_many",
    "resize",
    "set_reasons",
    "try_again_many",
]
