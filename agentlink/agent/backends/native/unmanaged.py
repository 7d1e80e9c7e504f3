"""What people create in bound namespaces that Chamber does not run: other kinds of workloads, and Jobs for Kueue.

It is told on the object and on the cluster's page. Kinds that the API server does not know are looked for now and then:
their operators may be installed later.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import (
    DEPLOYMENTS,
    JOB_SETS,
    MPI_JOBS,
    PODS,
    PYTORCH_JOBS,
    RAY_JOBS,
    STATEFUL_SETS,
    TRAIN_JOBS,
    JsonObject,
    Resource,
)
from agentlink.protocol import Unmanaged

QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which a user has Kueue admit a workload."""
OTHER_KINDS = (JOB_SETS, PYTORCH_JOBS, RAY_JOBS, MPI_JOBS, TRAIN_JOBS)
"""Kinds of workloads that would use GPUs past the plan, whatever their labels."""
ASKING_KINDS = (DEPLOYMENTS, STATEFUL_SETS, PODS)
"""Kinds that run beside Chamber as they always did; told where they ask to be adopted."""
OVER = frozenset({"Complete", "Completed", "Succeeded", "Failed", "Finished"})
RAY_OVER = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
MOST_TOLD = 20
"""Objects of a namespace that are named; of more, how many there are."""


@dataclass(frozen=True, slots=True)
class UnmanagedEntry:
    """An object in some namespace that Chamber does not run, with why."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    why: str

    @property
    def told(self) -> Unmanaged:
        """Return it as the server is told of it."""
        return Unmanaged(kind=self.resource.kind, name=self.name, why=self.why)


def for_kueue(queue: str, names: DomainNames, *, suspended: bool, adopts: bool = False) -> str:
    """Return why a Job that Kueue is to admit is not run, as a sentence, with what is still to be done to it.

    `adopts`: it asks to be adopted; Chamber suspends such Jobs by itself.
    """
    steps = f"remove the label {QUEUE}"
    if not adopts:
        suspend = "" if suspended else "suspend it, "
        steps = f'{suspend}{steps}, and give it the label {names.adopt}: "true"'
    return f"It is for Kueue's queue {queue[:63]}, and Chamber plans the GPUs of this namespace: {steps}."


class UnmanagedKinds:
    """Follows kinds that Chamber does not run, in all namespaces; `on_change` is called with what there was and is."""

    def __init__(
        self,
        kube: Kube,
        names: DomainNames,
        *,
        on_change: Callable[[UnmanagedEntry | None, UnmanagedEntry | None], None],
    ) -> None:
        self._names, self._on_change = names, on_change
        self._reflectors = [
            self._reflector(kube, resource, labels="" if resource in OTHER_KINDS else f"{names.adopt}=true")
            for resource in (*OTHER_KINDS, *ASKING_KINDS)
        ]

    async def run(self) -> NoReturn:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
        raise AssertionError("a reflector ended")

    def of(self, namespace: str) -> Iterator[UnmanagedEntry]:
        """Yield what lies in a namespace, kind by kind, by name."""
        for reflector in self._reflectors:
            found = (entry for entry in reflector.items.values() if entry.namespace == namespace)
            yield from sorted(found, key=lambda entry: entry.name)

    def _reflector(self, kube: Kube, resource: Resource, *, labels: str) -> Reflector[UnmanagedEntry]:
        return Reflector(
            kube,
            resource,
            lambda body: read(body, resource, self._names),
            labels=labels,
            optional=True,
            on_change=lambda _, old, new: self._on_change(old, new),
        )


def read(body: JsonObject, resource: Resource, names: DomainNames) -> UnmanagedEntry | None:
    """Return what is kept of an object; None of what is over, is going, or belongs to something else."""
    metadata = body["metadata"]
    owned = any(each.get("controller") for each in metadata.get("ownerReferences") or ())
    if owned or "deletionTimestamp" in metadata or _is_over(body.get("status") or {}):
        return None
    article = "an" if resource is MPI_JOBS else "a"
    why = (
        f"Chamber does not run {article} {resource.kind} yet, and plans no GPUs for it; the namespace's quota refuses "
        f'its pods where they ask for some. Create a suspended Job with the label {names.adopt}: "true", or use '
        "`chamber submit`."
    )
    return UnmanagedEntry(resource, metadata["namespace"], metadata["name"], metadata["uid"], why)


def _is_over(status: JsonObject) -> bool:
    conditions = status.get("conditions") or ()
    ended = any(each.get("type") in OVER and each.get("status") == "True" for each in conditions)
    return ended or status.get("jobStatus") in RAY_OVER or status.get("phase") in {"Succeeded", "Failed"}
