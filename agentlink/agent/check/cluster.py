"""Questions to a cluster's API server."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from agentlink.agent.backends.native.events import OF_NODES
from agentlink.agent.backends.native.facts import time
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.nodes import read_drain
from agentlink.agent.backends.native.places import LEVELS, SECURITY
from agentlink.agent.check.found import CheckOptions, Problem
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden, NotFound, Unauthorised, Unreachable
from agentlink.agent.kube.resources import (
    ACCESS_REVIEWS,
    LEASES,
    NAMESPACES,
    NODES,
    RESOURCE_SLICES,
    JsonObject,
)
from agentlink.agent.rights import RIGHTS, Right, Where

LEAST_VERSION = (1, 30)
"""Scheduling gates, by which pods wait for their planned nodes, are complete since then; indexed Jobs since 1.24."""
LEAST_VERSION_OF_CLAIMS = (1, 34)
"""Since then `resource.k8s.io/v1` is served."""
APART = timedelta(seconds=5)
"""How far clocks may be apart; the API server tells its own by the second."""
LEASE = "chamber-agent"


async def api_server(kube: Kube) -> list[Problem]:
    """Look whether the API server answers, and knows the client."""
    try:
        await kube.raw("GET", "/version")
    except Unreachable as error:
        return [
            Problem(
                str(error),
                "See that the address is right, that nothing on the way stops it, and that the certificate authority "
                "is the cluster's.",
            )
        ]
    except Unauthorised:
        return [
            Problem(
                f"{kube.access.server} does not know who asks.",
                "Renew the token or certificate that the kubeconfig or the service account gives.",
            )
        ]
    return []


async def version(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether Kubernetes is new enough."""
    told = str((await _object(kube, "/version")).get("gitVersion", ""))
    found = re.match(r"v?(\d+)\.(\d+)", told)
    if found is None:
        return [
            Problem(f"The API server calls its version {told!r}.", "It is to be Kubernetes 1.30 or later.")
        ]
    number = int(found[1]), int(found[2])
    if number < LEAST_VERSION:
        return [
            Problem(
                f"The cluster runs Kubernetes {told}; Chamber needs 1.30, for pods wait behind scheduling gates.",
                "Upgrade the cluster to Kubernetes 1.30 or later.",
            )
        ]
    if asked.uses_claims and number < LEAST_VERSION_OF_CLAIMS:
        return [
            Problem(
                f"The cluster runs Kubernetes {told}; Dynamic Resource Allocation is complete since 1.34.",
                "Upgrade the cluster to Kubernetes 1.34 or later, or use a device plugin.",
            )
        ]
    return []


async def clock(kube: Kube, _: CheckOptions) -> list[Problem]:
    """Look whether this machine's clock and the API server's show the same time."""
    before = datetime.now(UTC)
    await kube.raw("GET", "/version")
    after = datetime.now(UTC)
    theirs = _server_time(kube)
    if theirs is None:
        return []
    # Their second had just begun, or was nearly over, at any moment in between.
    ahead, behind = before - theirs - timedelta(seconds=1), theirs - after
    apart, word = max((ahead, "ahead of"), (behind, "behind"))
    if apart <= APART:
        return []
    return [
        Problem(
            f"This machine's clock is {apart.total_seconds():.0f} s {word} the API server's.",
            "Have all machines keep the time by NTP.",
        )
    ]


async def namespaces(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether the namespaces are there that the agent works in."""
    problems = []
    for name in _namespaces(kube, asked):
        found = (await kube.list(NAMESPACES, fields=f"metadata.name={name}")).items
        if not found:
            problems.append(
                Problem(f"There is no namespace {name}.", f"Create it: `kubectl create namespace {name}`.")
            )
        elif "deletionTimestamp" in found[0]["metadata"]:
            problems.append(
                Problem(
                    f"The namespace {name} is being deleted: nothing can be made in it.",
                    "Wait until it is gone and create it again, or name another.",
                )
            )
    return problems


async def rights(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether the account may do what the agent does; rights that only some installations give are not asked.

    Unless namespaces of workloads are named, they are those bound to a team, and the agent's own if it may do anything
    of it there: where all workloads run in bound namespaces it needs none.
    """
    try:
        bound = list(await bound_namespaces(kube))
    except Forbidden:
        bound = []
    places = [
        (right, place) for right in RIGHTS if not right.value for place in _places(right, kube, asked, bound)
    ]
    missing = await asyncio.gather(*(_missing(kube, right, place) for right, place in places))
    if bound and not asked.workloads:
        places, missing = _without_unused(places, missing, kube.access.namespace)
    return [
        Problem(
            f"This account may not {' or '.join(verbs)} {_object_of(right)} {_where(right, place)}: "
            f"the agent needs that {right.purpose}.",
            "Bind the roles of the chart in deploy/chart to it, in each namespace where workloads run.",
        )
        for (right, place), verbs in zip(places, missing, strict=True)
        if verbs
    ]


def _without_unused(
    places: list[tuple[Right, str]], missing: list[list[str]], own: str
) -> tuple[list[tuple[Right, str]], list[list[str]]]:
    """Return places and missing verbs without those for workloads in the agent's own namespace, if all lack there but
    what it needs there for itself.
    """
    pairs = list(zip(places, missing, strict=True))
    for_itself = {
        (right.resource, verb) for right in RIGHTS if right.where is Where.OWN for verb in right.verbs
    }
    given = {
        (right.resource, verb)
        for (right, place), lacking in pairs
        if right.where is Where.WORKLOADS and place == own
        for verb in set(right.verbs) - set(lacking)
    }
    if given - for_itself:
        return places, missing
    kept = [each for each in pairs if each[0][0].where is not Where.WORKLOADS or each[0][1] != own]
    return [place for place, _ in kept], [verbs for _, verbs in kept]


async def security(kube: Kube, _: CheckOptions) -> list[Problem]:
    """Look whether bound namespaces have a Pod Security level: the agent keeps none without where it may not label."""
    return [
        Problem(
            f"The namespace {name} is bound to a team and {_lacks(level)}: its pods may do anything to their node, and "
            "an agent that may not label namespaces does not keep it.",
            f"Set one: `kubectl label --overwrite namespace {name} {SECURITY}={LEVELS[0]}`.",
        )
        for name, level in (await bound_namespaces(kube)).items()
        if level not in LEVELS
    ]


def _lacks(level: str) -> str:
    return f"has the Pod Security level {level!r}" if level else "has no Pod Security level"


async def bound_namespaces(kube: Kube) -> dict[str, str]:
    """Return the Pod Security levels of the namespaces that their labels bind to a team, by name."""
    bound = {DomainNames().binding, DomainNames().team}  # by the agent, or by a person who hands it over
    found = {}
    for body in (await kube.list(NAMESPACES)).items:
        labels = body["metadata"].get("labels") or {}
        if "deletionTimestamp" not in body["metadata"] and not bound.isdisjoint(labels):
            found[str(body["metadata"]["name"])] = str(labels.get(SECURITY, ""))
    return dict(sorted(found.items()))


async def claims(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether GPUs can be claimed, where they are to be."""
    if not asked.uses_claims:
        return []
    try:
        await kube.raw("GET", f"/apis/{RESOURCE_SLICES.api_version}")
    except NotFound:
        return [
            Problem(
                f"The API server does not serve {RESOURCE_SLICES.api_version}: no GPU can be claimed.",
                "Enable Dynamic Resource Allocation (Kubernetes 1.34 or later), or use a device plugin.",
            )
        ]
    return []


async def nodes(kube: Kube, asked: CheckOptions) -> list[Problem]:
    """Look whether there are nodes with GPUs among those that the agent is to take."""
    found = (await kube.list(NODES, labels=asked.node_selector)).items
    if not found:
        return [_no_nodes(asked)]
    return [*_unread_drains(found), *await _unusable(kube, found)]


def _unread_drains(nodes: Sequence[JsonObject]) -> Iterator[Problem]:
    """Yield the nodes with an annotation of a drain that says no time."""
    for node in nodes:
        metadata = node["metadata"]
        drain = read_drain(metadata.get("annotations") or {}, DomainNames())
        if drain is not None and drain.problem:
            yield Problem(
                f"Node {metadata['name']} is to be drained. {drain.problem}",
                _annotated_anew(metadata["name"], metadata["annotations"]),
            )


def _annotated_anew(node: str, annotations: JsonObject) -> str:
    """Return commands that have a drain said in time, or not at all."""
    names = DomainNames()
    given = [key for key in (names.drain_elastic, names.drain_reserved) if key in annotations]
    anew = " ".join(f"{key}=now" for key in given)
    off = " ".join(f"{key}-" for key in given)
    return (
        f"Say from when, or `now`: `kubectl annotate --overwrite node {node} {anew}`. To drain it no more: "
        f"`kubectl annotate node {node} {off}`."
    )


async def _unusable(kube: Kube, found: Sequence[JsonObject]) -> list[Problem]:
    """Return why none of the nodes can take a pod with GPUs, if so."""
    published = await published_devices(kube)
    with_gpus = [node for node in found if _plugin_gpus(node) or node["metadata"]["name"] in published]
    if not with_gpus:
        count = (
            "The only node offers no GPU"
            if len(found) == 1
            else f"None of the {len(found)} nodes offers a GPU"
        )
        return [
            Problem(
                f"{count}.",
                "Install NVIDIA's GPU operator or device plugin, or a driver for Dynamic Resource Allocation; "
                "`kubectl describe node` shows nvidia.com/gpu under Allocatable.",
            )
        ]
    if not any(_takes_pods(node) for node in with_gpus):
        which = (
            "only node with GPUs: it is"
            if len(with_gpus) == 1
            else f"{len(with_gpus)} nodes with GPUs: they are"
        )
        return [
            Problem(
                f"No pod can come to the {which} cordoned or not ready.",
                "See `kubectl get nodes`; `kubectl uncordon` lets pods come again.",
            )
        ]
    return []


def _no_nodes(asked: CheckOptions) -> Problem:
    if asked.node_selector:
        return Problem(
            f"No node has the labels {asked.node_selector}.",
            "Label the nodes that are Chamber's, or correct the selector (`agent.nodeSelector` of the chart).",
        )
    return Problem("The cluster has no nodes.", "Add nodes with GPUs.")


async def lease(kube: Kube, _: CheckOptions) -> list[Problem]:
    """Look whether the agent that leads is still there; one that no agent ever had says nothing."""
    try:
        spec = (await kube.get(LEASES, LEASE, kube.access.namespace))["spec"]
    except NotFound:
        return []
    renewed_at, now = time(spec.get("renewTime")), _server_time(kube)
    if not spec.get("holderIdentity") or renewed_at is None or now is None:
        return []
    silent = now - renewed_at
    if silent <= 2 * timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + APART:
        return []
    return [
        Problem(
            f"The agent {spec['holderIdentity']} led and has said nothing for {silent.total_seconds():.0f} s; "
            "nobody leads since.",
            f"Look for the agents' pods: `kubectl --namespace {kube.access.namespace} get pods`; "
            "the lease itself is in nobody's way.",
        )
    ]


# Inside


async def _object(kube: Kube, path: str) -> JsonObject:
    found = json.loads(await kube.raw("GET", path))
    return found if isinstance(found, dict) else {}


def _server_time(kube: Kube) -> datetime | None:
    """Return the time of the API server's last answer."""
    try:
        return parsedate_to_datetime(kube.server_date).astimezone(UTC)
    except ValueError:
        return None


def _namespaces(kube: Kube, asked: CheckOptions) -> list[str]:
    return list(dict.fromkeys([kube.access.namespace, *asked.workloads]))


def _places(right: Right, kube: Kube, asked: CheckOptions, bound: Sequence[str]) -> list[str]:
    """Return the namespaces in which a right is needed; an empty text for the whole cluster."""
    if right.where is Where.CLUSTER:
        return [""]
    if right.where is Where.DEFAULT:
        return [OF_NODES]
    own = [kube.access.namespace]
    if right.where is Where.OWN:
        return own
    return list(asked.workloads) or list(dict.fromkeys([*own, *bound]))


async def _missing(kube: Kube, right: Right, namespace: str) -> list[str]:
    """Return the verbs of a right that the account does not have."""
    allowed = await asyncio.gather(*(_may(kube, right, verb, namespace) for verb in right.verbs))
    return [verb for verb, may in zip(right.verbs, allowed, strict=True) if not may]


async def _may(kube: Kube, right: Right, verb: str, namespace: str) -> bool:
    attributes = {
        "group": right.resource.group,
        "resource": right.resource.plural,
        "subresource": right.subresource,
        "name": right.name,
        "namespace": namespace,
        "verb": verb,
    }
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    answer = await kube.create(ACCESS_REVIEWS, review)
    return bool(answer["status"]["allowed"])


def _object_of(right: Right) -> str:
    return f"the {right.resource.kind} {right.name}" if right.name else right.words


def _where(right: Right, namespace: str) -> str:
    return f"in the namespace {namespace}" if namespace else str(right.where)


async def published_devices(kube: Kube) -> Counter[str]:
    """Return how many devices the drivers that give GPUs publish of each node; none where they cannot be listed."""
    try:
        slices = (await kube.list(RESOURCE_SLICES)).items
    except (NotFound, Forbidden):
        return Counter()
    found: Counter[str] = Counter()
    for spec in (each["spec"] for each in slices):
        if spec.get("driver") in Settings().drivers:
            found[str(spec.get("nodeName"))] += len(spec.get("devices") or ())
    return found


def _plugin_gpus(node: JsonObject) -> bool:
    allocatable = node.get("status", {}).get("allocatable", {})
    return any(
        str(count) != "0" and any(fnmatchcase(name, pattern) for pattern in Settings().resources)
        for name, count in allocatable.items()
    )


def _takes_pods(node: JsonObject) -> bool:
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("unschedulable")
