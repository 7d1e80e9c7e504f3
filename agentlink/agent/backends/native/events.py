"""Events: what people are told about their Jobs and other objects, where `kubectl describe` shows it."""

import hashlib
import logging
from datetime import UTC, datetime
from typing import NamedTuple

from agentlink.agent.kube.client import FIELD_MANAGER, Kube
from agentlink.agent.kube.errors import AlreadyExists, Forbidden, NotFound
from agentlink.agent.kube.resources import EVENTS, JOBS, NODES, Resource

logger = logging.getLogger(__name__)

ADVICE = frozenset({"Adopted", "NotAdopted", "EndsByEviction", "NotChambers", "NotRun", "DrainNotRead"})
"""Reasons of events that tell how something stands, at each start and to each new agent: not what happened."""
OF_NODES = "default"
"""Where Kubernetes keeps events about what lies in no namespace."""


class KubeEvent(NamedTuple):
    """Something to be said about a Job, or an object of another `resource`, of this name: `kind` is Normal or Warning,
    `reason` a word, `message` a sentence. What is said about a node stands in the namespace OF_NODES.
    """

    namespace: str
    job: str
    uid: str
    kind: str
    reason: str
    message: str
    resource: Resource = JOBS


async def write(kube: Kube, event: KubeEvent) -> None:
    """Say it; in one minute once, however often it happens. Advice once for as long as the cluster keeps events."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    minute = "" if event.reason in ADVICE else now[:16]
    said = (event.resource.plural, *event[:-1], minute)
    digest = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    name = f"{event.job[:200]}.{digest}"
    about = {
        "apiVersion": event.resource.api_version,
        "kind": event.resource.kind,
        "namespace": "" if event.resource is NODES else event.namespace,
        "name": event.job,
        "uid": event.uid,
    }
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": event.namespace},
        "involvedObject": about,
        "type": event.kind,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await kube.create(EVENTS, body, event.namespace)
    except AlreadyExists:
        logger.debug("%s/%s was told so a moment ago: %s", event.namespace, event.job, event.message)
    except (NotFound, Forbidden) as error:
        logger.warning("%s/%s could not be told: %s (%s)", event.namespace, event.job, event.message, error)
