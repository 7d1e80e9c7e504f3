"""What is told of a workload whose pods are on nodes that are not ready: what they do there is not known.

Nothing is decided by that. Kubernetes waits for the node, five minutes as a rule, before it gives the pods up.
"""

from agentlink.models import Hold, Placement
from chamber.words import plural
from workloads.models import Status, Workload
from workloads.reasons import named

CODE = "node-not-ready"
RETURNS = "the workload returns to the queue at no charge."
ENDS = "the Job ends (delete it and create it again), unless its podFailurePolicy ignores disruptions."
"""A pod that is given up counts as a failure, and an adopted Job allows none."""


def told(workload: Workload) -> tuple[str, str] | None:
    """Return what is said of a workload with pods on nodes that are there and not ready, and what follows; None of any
    other (1 query of those that have pods, 1 more where it has to look whether one was adopted).
    """
    if workload.status not in (Status.STARTING, Status.RUNNING):
        return None
    placed = Placement.objects.filter(attempt=workload.attempt_id, hold=Hold.HELD)
    down = placed.filter(device__node__ready=False, device__node__gone_at__isnull=True)
    rows = set(down.order_by().values_list("pod_index", "device__node__name"))
    if not rows:
        return None
    pods, nodes = sorted({index for index, _ in rows}), sorted({name for _, name in rows})
    sentence = (
        f"{plural(len(nodes), 'Node')} {named(nodes)} {plural(len(nodes), 'is')} not ready; what "
        f"{plural(len(pods), 'pod')} {named([str(index) for index in pods])} {plural(len(pods), 'does', 'do')} there "
        "is not known."
    )
    follows = RETURNS if getattr(workload, "adopted_job", None) is None else ENDS
    return sentence, (
        f"Nothing to do: what runs goes on when {plural(len(nodes), 'the node is', 'the nodes are')} back. Else the "
        f"cluster gives the pods up, as a rule after five minutes, and {follows}"
    )
