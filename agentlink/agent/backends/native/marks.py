"""What proves that a Job is Chamber's: a mark that only the agent can make.

A user who may create Jobs in a namespace may give them any label, also the id of another team's attempt. So each
Job that the agent makes or adopts bears an HMAC of where it is, which attempt it stands for, its plan, and what it is
bound to, under a key that lies in a Secret of the agent's own namespace. That of a Job that the agent made is bound to
what its pods run, which cannot be changed of a Job: under its name there may be another one, but none that does
anything else. That of an adopted Job, which its owner may change while it is suspended, is bound to its uid. A Job
without its mark is not Chamber's, whatever it says: never observed, stopped or deleted.
"""

import hashlib
import hmac
import json
import secrets
from base64 import b64decode, b64encode
from enum import StrEnum

from agentlink.agent.backends.native.names import DOMAIN, DomainNames
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import AlreadyExists, NotFound
from agentlink.agent.kube.quantities import number
from agentlink.agent.kube.resources import SECRETS, JsonObject

SECRET = "chamber-agent-mark"  # noqa: S105 - the name of the object
KEY_BYTES = 32
FILLED_IN = {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
"""What the API server adds to the specification of pods that does not say it."""
FILLED_IN_OF_CONTAINERS = ("imagePullPolicy", "terminationMessagePath")


class JobOrigin(StrEnum):
    """How a Job became Chamber's."""

    OWN = "own"
    ADOPTED = "adopted"


class Marks:
    """Makes marks, and tells them from others."""

    def __init__(self, key: bytes, names: DomainNames | None = None) -> None:
        self._key, self._names = key, names or DomainNames()

    @classmethod
    async def load(cls, kube: Kube, namespace: str, *, domain: str = DOMAIN) -> "Marks":
        """Return marks under the key in the agent's namespace, which is made where there is none."""
        found = await cls.find(kube, namespace, domain=domain)
        return found or cls._under(await cls._make(kube, namespace), domain)

    @classmethod
    async def find(cls, kube: Kube, namespace: str, *, domain: str = DOMAIN) -> "Marks | None":
        """Return marks under the key in this namespace; None where no agent has made one there."""
        try:
            return cls._under(await kube.get(SECRETS, SECRET, namespace), domain)
        except NotFound:
            return None

    @classmethod
    def _under(cls, secret: JsonObject, domain: str) -> "Marks":
        return cls(b64decode(secret["data"]["key"]), DomainNames(domain))

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

    def made(self, job: JsonObject) -> str:
        """Return the mark of a Job that the agent makes: it is worth nothing on one whose pods run anything else."""
        return self._of(job, bound_to=digest(job["spec"]["template"]["spec"]))

    def adopted(self, job: JsonObject, plan: str) -> str:
        """Return the mark of an adopted Job with the text of its plan: it is worth nothing on another of its name."""
        annotations = {self._names.plan: plan}
        return self._of(
            {"metadata": {**job["metadata"], "annotations": annotations}}, bound_to=job["metadata"]["uid"]
        )

    def kind(self, job: JsonObject) -> JobOrigin | None:
        """Return how the Job became Chamber's; None where its mark is missing or of something else."""
        mark = (job["metadata"].get("annotations") or {}).get(self._names.mark, "")
        if not mark or not mark.isascii():
            return None
        if hmac.compare_digest(self._of(job, bound_to=job["metadata"]["uid"]), mark):
            return JobOrigin.ADOPTED
        return JobOrigin.OWN if hmac.compare_digest(self.made(job), mark) else None

    def _of(self, job: JsonObject, *, bound_to: str) -> str:
        metadata = job["metadata"]
        content = (metadata.get("annotations") or {}).get(self._names.plan, "")
        plan = JobPlan.read(content)
        attempt = "" if plan is None else str(plan.attempt)
        said = "\n".join((attempt, metadata["namespace"], metadata["name"], bound_to, content))
        return hmac.digest(self._key, said.encode(), "sha256").hex()


def digest(pod: JsonObject) -> str:
    """Return a digest of a specification of pods, the same before and after the API server has filled it in."""
    said = {key: value for key, value in pod.items() if FILLED_IN.get(key) != value}
    if "volumes" in said:
        said["volumes"] = [_volume(each) for each in said["volumes"]]
    for kind in ("initContainers", "containers"):
        if kind in said:
            said[kind] = [_container(each) for each in said[kind]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _volume(volume: JsonObject) -> JsonObject:
    """Return a volume; the API server writes how large one in memory may be as it likes."""
    size = (volume.get("emptyDir") or {}).get("sizeLimit")
    if size is None:
        return volume
    return {**volume, "emptyDir": {**volume["emptyDir"], "sizeLimit": f"{number(size).normalize():f}"}}


def _container(container: JsonObject) -> JsonObject:
    said = {key: value for key, value in container.items() if key not in FILLED_IN_OF_CONTAINERS}
    said["env"] = [_variable(each) for each in container.get("env", ())]
    said["resources"] = {
        key: {name: f"{number(amount).normalize():f}" for name, amount in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in container.get("resources", {}).items()
    }
    return said


def _variable(variable: JsonObject) -> JsonObject:
    """Return one of a container's variables; those that are fields of the pod are of the only version there is."""
    field = variable.get("valueFrom", {}).get("fieldRef")
    return variable if field is None else {"name": variable["name"], "field": field["fieldPath"]}
