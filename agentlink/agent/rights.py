"""What the agent may do in a cluster: one list, equal to the chart's roles, which `chamber doctor` goes through."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from agentlink.agent.kube.resources import (
    BUDGETS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    EVENTS,
    JOB_SETS,
    JOBS,
    LEASES,
    MPI_JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PYTORCH_JOBS,
    RAY_JOBS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    TRAIN_JOBS,
    Resource,
)


class Where(StrEnum):
    """Where a right is given."""

    CLUSTER = "in the whole cluster"
    OWN = "in the agent's own namespace"
    WORKLOADS = "where workloads run"
    DEFAULT = "in the namespace default"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one kind of objects, or (`subresource`) on a part of them; `name`: only on the object of that name.

    An API server that does not know the kind has no rights to it either: see `resources.Resource`. `value` names what
    of the chart's values gives the right; empty for those without which the agent is of no use.
    """

    where: Where
    resource: Resource
    verbs: tuple[str, ...]
    purpose: str
    subresource: str = ""
    name: str = ""
    value: str = ""

    @property
    def words(self) -> str:
        """Return the kind as a role names it, with its group where it is none of the oldest."""
        part = f"/{self.subresource}" if self.subresource else ""
        group = f" of {self.resource.group}" if self.resource.group else ""
        return f"{self.resource.plural}{part}{group}"


WATCH = ("list", "watch")
MAKES_NAMESPACES = "agent.makesNamespaces"
"""The chart's value by which the agent makes the namespaces that are bound to teams; without it an admin does."""

RIGHTS = (
    Right(Where.CLUSTER, NODES, WATCH, "to know which GPUs there are"),
    Right(Where.CLUSTER, PODS, WATCH, "to see what runs, and whose it is"),
    Right(Where.CLUSTER, NAMESPACES, WATCH, "to see whether a team's namespace is there"),
    Right(Where.CLUSTER, NAMESPACES, ("get",), "to know the cluster again by its id", name="kube-system"),
    Right(Where.CLUSTER, JOBS, WATCH, "to follow its Jobs, and find those to adopt"),
    Right(Where.CLUSTER, RESOURCE_SLICES, WATCH, "to know which devices drivers publish"),
    Right(Where.CLUSTER, RESOURCE_CLAIMS, WATCH, "to see which devices others hold"),
    *(
        Right(
            Where.CLUSTER, kind, WATCH, "to say of those in teams' namespaces that Chamber does not run them"
        )
        for kind in (JOB_SETS, PYTORCH_JOBS, RAY_JOBS, MPI_JOBS, TRAIN_JOBS, DEPLOYMENTS, STATEFUL_SETS)
    ),
    Right(
        Where.CLUSTER,
        NAMESPACES,
        ("get", "create", "patch"),
        "to make namespaces for teams",
        value=MAKES_NAMESPACES,
    ),
    Right(
        Where.CLUSTER,
        ROLE_BINDINGS,
        ("get", "create", "patch"),
        "to let itself work in namespaces of teams",
        value=MAKES_NAMESPACES,
    ),
    Right(
        Where.CLUSTER,
        CLUSTER_ROLES,
        ("bind",),
        "to let itself work in namespaces of teams",
        name="chamber-agent-workloads",
        value=MAKES_NAMESPACES,
    ),
    Right(Where.OWN, LEASES, ("create",), "to be the one agent that leads"),
    Right(Where.OWN, LEASES, ("get", "update"), "to be the one agent that leads", name="chamber-agent"),
    Right(Where.OWN, SECRETS, ("create",), "to keep the key by which it knows its Jobs"),
    Right(
        Where.OWN, SECRETS, ("get",), "to read the key by which it knows its Jobs", name="chamber-agent-mark"
    ),
    Right(Where.DEFAULT, EVENTS, ("create",), "to say on a node that its drain cannot be read"),
    Right(Where.WORKLOADS, JOBS, ("get", "create", "patch", "delete"), "to run and stop workloads"),
    Right(Where.WORKLOADS, JOBS, ("patch",), "to place an adopted Job that ran before", subresource="status"),
    Right(Where.WORKLOADS, PODS, ("get", "patch", "delete"), "to tie pods to their nodes, and to stop them"),
    Right(Where.WORKLOADS, PODS, ("get",), "to read logs", subresource="log"),
    Right(Where.WORKLOADS, SERVICES, ("create",), "to let the pods of a workload find each other"),
    Right(Where.WORKLOADS, SECRETS, ("create",), "to hand pods the credentials that their workload names"),
    Right(
        Where.WORKLOADS,
        BUDGETS,
        ("list", "create", "delete"),
        "to keep work from being evicted, by one budget and no second",
    ),
    Right(
        Where.WORKLOADS,
        EVENTS,
        ("list", "create"),
        "to read why pods are not made, and say why a Job is not adopted",
    ),
    Right(
        Where.WORKLOADS, RESOURCE_QUOTAS, ("get", "create", "patch"), "to let nothing past the plan use GPUs"
    ),
    Right(Where.WORKLOADS, RESOURCE_CLAIMS, ("get", "create", "patch"), "to claim planned devices"),
)


def rules(where: Where, *values: str) -> Iterator[dict[str, list[str]]]:
    """Yield the rules that a role for this place has, as Kubernetes writes them; `values` of the chart are on."""
    for right in RIGHTS:
        if right.where is where and (not right.value or right.value in values):
            part = f"/{right.subresource}" if right.subresource else ""
            rule = {
                "apiGroups": [right.resource.group],
                "resources": [f"{right.resource.plural}{part}"],
                "verbs": list(right.verbs),
            }
            yield rule | ({"resourceNames": [right.name]} if right.name else {})
