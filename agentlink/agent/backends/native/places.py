"""Keeping a bound namespace: its labels, the agent's role in it, and the quota that only the plan can fill.

A namespace is kept where the agent made it for this binding, or where a person who may label namespaces says by
`chamber.internal/team` that it is that team's; any other that exists is left alone, and the server is told whose it
seems to be. None is ever deleted. Pods in it are held to the Pod Security level `baseline`, or `restricted` where its
label says so: a namespace without either gets the first, and is not kept where the agent may not label it.

The quota on GPUs is what the plan has in the namespace. Pods count from when they are created, gated ones too, until
they are gone, so it is raised before an attempt's pods are made and lowered half a second after they went: who creates
pods with GPUs himself finds it full. Of an attempt that is over only pods that are there count, none that it had. Those
that are there count as what their Job has them ask for, also where their node has left the cluster, which gives them up
a minute or two later.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from agentlink.agent.backends.native import manifests
from agentlink.agent.backends.native.attempts import CountedPod
from agentlink.agent.backends.native.devices import CannotHold, is_gpu
from agentlink.agent.backends.native.inventory import NodeInventory
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.refusals import QUOTA, sentence
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, Invalid, NotFound
from agentlink.agent.kube.resources import (
    NAMESPACES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SELF_REVIEWS,
    JsonObject,
)
from agentlink.protocol import AssignedPod, NamespaceBinding

logger = logging.getLogger(__name__)

ROLE = "chamber-agent-workloads"
"""The ClusterRole of what the agent may do where workloads run; the chart makes it."""
AGENT = "chamber-agent"
SECURITY = "pod-security.kubernetes.io/enforce"
LEVELS = ("baseline", "restricted")
QUOTA_SECONDS = 2.0
"""How long a quota that was raised is waited for: what it says is not what holds until its controller has seen it."""


@dataclass(frozen=True, slots=True)
class KeptNamespace:
    """What is kept of a namespace: which team and binding its labels name, its security level, whether it goes."""

    team: str
    binding: str
    security: str
    going: bool


def read_place(body: JsonObject, names: DomainNames) -> KeptNamespace:
    """Return what is kept of a namespace."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    return KeptNamespace(
        team=labels.get(names.team, ""),
        binding=labels.get(names.binding, ""),
        security=labels.get(SECURITY, ""),
        going="deletionTimestamp" in metadata,
    )


def taken(place: KeptNamespace, bound: NamespaceBinding, names: DomainNames) -> str:
    """Return why a namespace that exists is not for the agent to keep, as a sentence; "" where it is."""
    team = manifests.label(bound.team)
    if place.going:
        return "It is being deleted in the cluster."
    if str(bound.id) == place.binding or team == place.team:
        return ""
    whose = (
        f"is labelled as team {place.team}'s" if place.team else "is there and is not labelled as a team's"
    )
    return f"It {whose}. To hand it over: kubectl label --overwrite namespace {bound.namespace} {names.team}={team}"


def _insecure(namespace: str, level: str) -> str:
    """Return why a namespace is not kept in which pods may do anything to their node, and what to do."""
    lacks = f"Its Pod Security level is {level!r}" if level else "It has no Pod Security level"
    return (
        f"{lacks}, and the agent may not label namespaces. To set one: "
        f"kubectl label --overwrite namespace {namespace} {SECURITY}={LEVELS[0]}"
    )


class NamespaceKeeper:
    """Makes and keeps namespaces."""

    def __init__(
        self,
        kube: Kube,
        inventory: NodeInventory,
        names: DomainNames,
        *,
        own_namespace: str,
        role: str = ROLE,
    ) -> None:
        self._kube, self._inventory, self._names = kube, inventory, names
        self._own_namespace, self._role = own_namespace, role
        self._self = ""
        self._quotas: dict[str, dict[str, str]] = {}
        """Quotas as they were last written."""
        self._claimed: dict[str, dict[AssignedPod, Counter[str]]] = {}
        """What pods with claims were last known to take, by namespace: their node may be gone by now."""

    async def keep(self, bound: NamespaceBinding, place: KeptNamespace | None) -> str:
        """Make the namespace, or take one that is this team's; return why not, as a sentence."""
        if bound.namespace == self._own_namespace:
            return "It is the agent's own namespace."
        if place is not None and (problem := taken(place, bound, self._names)):
            return problem
        level = place.security if place is not None and place.security in LEVELS else LEVELS[0]
        wanted = KeptNamespace(manifests.label(bound.team), str(bound.id), level, going=False)
        if place != wanted:
            labels = {
                self._names.team: wanted.team,
                self._names.binding: wanted.binding,
                SECURITY: wanted.security,
            }
            try:
                await self._kube.apply(NAMESPACES, {"metadata": {"name": bound.namespace, "labels": labels}})
            except Forbidden as error:
                # One that an admin made and labelled stays as the admin has it, but for what its pods may do.
                if place is None:
                    return f"It does not exist, and the agent may not make it: {sentence(error.message)}"
                if place.security not in LEVELS:
                    return _insecure(bound.namespace, place.security)
        await self._let_in(bound.namespace)
        return ""

    async def _let_in(self, namespace: str) -> None:
        """Give the agent itself its role in the namespace; where it may not, it may have it from elsewhere."""
        if not self._self:
            review = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
            answer = await self._kube.create(SELF_REVIEWS, review)
            self._self = answer["status"]["userInfo"]["username"]
        group = ROLE_BINDINGS.group
        body = {
            "metadata": {"name": AGENT},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": self._role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self._self}],
        }
        try:
            await self._kube.apply(ROLE_BINDINGS, body, namespace)
        except (Forbidden, Invalid) as error:
            logger.info("The agent gives itself no role in namespace %s: %s", namespace, error)

    async def has_quota(self, namespace: str) -> bool:
        """Return whether the quota is there as it was last written; also where that cannot be seen."""
        try:
            body = await self._kube.get(RESOURCE_QUOTAS, QUOTA, namespace)
        except NotFound:
            return False
        except Forbidden:
            return True
        hard = body["spec"].get("hard", {})
        return all(hard.get(key) == count for key, count in self._quotas.get(namespace, {}).items())

    def forget(self, namespace: str) -> None:
        """Write the namespace's quota anew next time, whatever was written before."""
        self._quotas.pop(namespace, None)

    async def set_quota(
        self, namespace: str, coming: Iterable[AssignedPod], there: Iterable[CountedPod] = ()
    ) -> str:
        """Have the quota leave room for pods that are to come and those that are there, and wait until it holds where
        it grew; return why it cannot be written, as a sentence.
        """
        planned: Counter[str] = Counter()
        claimed, self._claimed[namespace] = self._claimed.get(namespace, {}), {}
        for pod in coming:
            planned.update(self._counted(pod, namespace))
        for each in there:
            planned.update(self._taken(each, claimed))
        known = {"requests.nvidia.com/gpu", *self._inventory.quota_keys()}
        hard = {key: str(planned[key]) for key in sorted({*known, *planned})}
        before = self._quotas.get(namespace, {})
        if hard == before:
            return ""
        try:
            body = {"metadata": {"name": QUOTA}, "spec": {"hard": hard}}
            await self._kube.apply(RESOURCE_QUOTAS, body, namespace)
        except (Forbidden, NotFound) as error:
            logger.warning("The quota of namespace %s cannot be written: %s", namespace, error)
            return f"Its quota cannot be written: {sentence(error.message)}"
        self._quotas[namespace] = hard
        if any(int(count) > int(before.get(key, 0)) for key, count in hard.items()):
            await self._await_quota(namespace, hard)
        return ""

    def _taken(self, pod: CountedPod, before: "Mapping[AssignedPod, Counter[str]]") -> "Counter[str]":
        """Return what a pod that is there takes of the quota; one with claims as the plan has it, or had it."""
        patterns = self._inventory.settings.resources
        found = Counter({f"requests.{name}": n for name, n in pod.requests if is_gpu(name, patterns)})
        if not found:
            found = self._counted(pod.planned, pod.namespace) or before.get(pod.planned, found)
            self._claimed[pod.namespace][pod.planned] = found
        return found

    def _counted(self, pod: AssignedPod, namespace: str) -> "Counter[str]":
        """Return what a pod of the plan takes of the quota."""
        found: Counter[str] = Counter()
        with suppress(CannotHold):
            ask = self._inventory.ask(pod, namespace)
            for resource, count in ask.limits:
                found[f"requests.{resource}"] += int(count)
            for claim in ask.claims:
                for _, device in claim.devices:
                    found[self._inventory.quota_key(device)] += 1
        return found

    async def _await_quota(self, namespace: str, hard: dict[str, str]) -> None:
        with suppress(TimeoutError, NotFound):
            async with asyncio.timeout(QUOTA_SECONDS):
                while True:
                    body = await self._kube.get(RESOURCE_QUOTAS, QUOTA, namespace)
                    if body.get("status", {}).get("hard") == hard:
                        return
                    await asyncio.sleep(0.05)
