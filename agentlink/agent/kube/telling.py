"""What the agent writes in a cluster, told once for all kinds of objects: a line in the log, and counts."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from agentlink.agent.figures import FIGURES
from agentlink.agent.kube.errors import AlreadyExists, KubeError, NotFound, ObjectConflict
from agentlink.agent.kube.resources import EVENTS, JsonObject, Resource

logger = logging.getLogger(__name__)

NO_FAILURE = (AlreadyExists, ObjectConflict, NotFound)
"""What another client's act in between comes to: the caller looks again."""


class WriteVerb(StrEnum):
    """What was done to an object."""

    CREATE = "create"
    APPLY = "apply"
    CHANGE = "change"
    DELETE = "delete"


_WORDS = {WriteVerb.CREATE: "Created", WriteVerb.APPLY: "Applied", WriteVerb.DELETE: "Deleted"}


@contextmanager
def telling(act: WriteVerb, resource: Resource, name: str, namespace: str | None) -> Iterator[None]:
    """Count what is done to an object inside the block, and log it; what has no name is a question, and no object."""
    try:
        yield
    except KubeError as error:
        if name and not isinstance(error, NO_FAILURE):
            FIGURES.failed[resource.kind, act.value] += 1
        raise
    if not name:
        return
    if act is WriteVerb.CREATE:
        FIGURES.created[resource.kind] += 1
    elif act is WriteVerb.DELETE:
        FIGURES.deleted[resource.kind] += 1
    if act in _WORDS:
        # An Event is a line of a log itself.
        level = logging.DEBUG if resource is EVENTS else logging.INFO
        where = f"{namespace}/{name}" if namespace else name
        about = {"kind": resource.kind, "namespace": namespace or "", "object": name}
        logger.log(level, "%s %s %s.", _WORDS[act], resource.kind, where, extra=about)


def name_in(body: JsonObject) -> str:
    """Return the name that an object is written with; empty where it has none."""
    return str((body.get("metadata") or {}).get("name") or "")
