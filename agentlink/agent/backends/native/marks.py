"""What proves that a Job is Chamber's: a mark that only the agent can make.

Whoever may create Jobs in a namespace may give them any label, the id of another team's attempt among them. So each
Job that the agent makes or adopts bears an HMAC of where it is, which attempt it stands for and its plan, under a key
that lies in a Secret of the agent's own namespace. The mark of an adopted Job covers its uid, too: it is of no use on
another one of that name. A Job without its mark is nobody's, whatever it says: never observed, stopped or deleted.
"""

import hmac
import secrets
from base64 import b64decode, b64encode
from enum import StrEnum
from uuid import UUID

from agentlink.agent.backends.native.names import DOMAIN, Names
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import AlreadyExists, NotFound
from agentlink.agent.kube.resources import SECRETS, JsonObject

SECRET = "chamber-agent-mark"  # noqa: S105 - the name of the object
KEY_BYTES = 32


class Mark(StrEnum):
    """How a Job became Chamber's."""

    OWN = "own"
    ADOPTED = "adopted"


class Marks:
    """Makes marks, and tells them from others."""

    def __init__(self, key: bytes, names: Names | None = None) -> None:
        self._key, self._names = key, names or Names()

    @classmethod
    async def load(cls, kube: Kube, namespace: str, *, domain: str = DOMAIN) -> "Marks":
        """Return marks under the key in the agent's namespace, which is made where there is none."""
        try:
            body = await kube.get(SECRETS, SECRET, namespace)
        except NotFound:
            body = await cls._make(kube, namespace)
        return cls(b64decode(body["data"]["key"]), Names(domain))

    @staticmethod
    async def _make(kube: Kube, namespace: str) -> JsonObject:
        key = b64encode(secrets.token_bytes(KEY_BYTES)).decode()
        body = {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {"name": SECRET, "namespace": namespace},
            "type": "Opaque",
            "immutable": True,
            "data": {"key": key},
        }
        try:
            return await kube.create(SECRETS, body, namespace)
        except AlreadyExists:  # the other agent was quicker
            return await kube.get(SECRETS, SECRET, namespace)

    def of(self, attempt: UUID, namespace: str, name: str, uid: str = "", content: str = "") -> str:
        """Return the mark of a Job: of an adopted one with its `uid`; `content` is its plan as it is written."""
        said = "\n".join((str(attempt), namespace, name, uid, content))
        return hmac.digest(self._key, said.encode(), "sha256").hex()

    def kind(self, job: JsonObject) -> Mark | None:
        """Return how the Job became Chamber's; None where its mark is missing or of something else."""
        metadata = job["metadata"]
        annotations = metadata.get("annotations") or {}
        mark, content = annotations.get(self._names.mark, ""), annotations.get(self._names.plan, "")
        plan = JobPlan.read(content)
        if plan is None or not mark.isascii():
            return None
        place = (plan.attempt, metadata["namespace"], metadata["name"])
        for kind, uid in ((Mark.OWN, ""), (Mark.ADOPTED, metadata["uid"])):
            if hmac.compare_digest(self.of(*place, uid, content), mark):
                return kind
        return None
