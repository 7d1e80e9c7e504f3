"""What pods get of credentials: Secrets that the Job owns and that go with it, named in its pods, pure.

Values stand in these Secrets only; a Job names their keys. A Job has Secrets of its own, which are made once it is
there and before its pods are let go: until then nothing reads them.
"""

import base64
import json
from collections.abc import Iterator

from agentlink.agent.kube.resources import SECRETS, JsonObject
from agentlink.protocol import AssignedCredentials, DesiredAttempt

VARIABLE = "CHAMBER_CREDENTIALS"
"""In which pods are told where the files are."""
VOLUME = "credentials"
READABLE = 0o444
DOCKER_CONFIG = ".dockerconfigjson"


def values_name(job: str) -> str:
    """Return the name of the Secret with a Job's variables and files."""
    return f"{job}-credentials"


def logins_name(job: str) -> str:
    """Return the name of the Secret by which a Job's images are pulled."""
    return f"{job}-registry"


def secrets(
    job: str, assignment: DesiredAttempt, owner: JsonObject, labels: dict[str, str]
) -> Iterator[JsonObject]:
    """Yield the Secrets that a Job owns; none where nothing is handed to it."""
    given = assignment.credentials
    if given is None:
        return
    if given.variables or given.files:
        content = {
            **given.variables,
            **{_key(place): text for place, text in enumerate(given.files.values())},
        }
        yield _secret(values_name(job), "Opaque", content, owner, labels)
    if given.logins:
        auths = {
            each.server: {
                "username": each.username,
                "password": each.password,
                "auth": base64.b64encode(f"{each.username}:{each.password}".encode()).decode(),
            }
            for each in given.logins
        }
        content = {DOCKER_CONFIG: json.dumps({"auths": auths})}
        yield _secret(logins_name(job), "kubernetes.io/dockerconfigjson", content, owner, labels)


def _secret(
    name: str, kind: str, content: dict[str, str], owner: JsonObject, labels: dict[str, str]
) -> JsonObject:
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": [owner]},
        "type": kind,
        "immutable": True,
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in content.items()},
    }


def _key(place: int) -> str:
    return f"file-{place}"


def environment(job: str, assignment: DesiredAttempt) -> dict[str, str | JsonObject]:
    """Return the variables of a Job's pods: which key of which Secret each is, and where the files are."""
    given = assignment.credentials
    if given is None:
        return {}
    found: dict[str, str | JsonObject] = {name: _of_key(values_name(job), name) for name in given.variables}
    for each in given.secrets:
        found.update({name: _of_key(each.secret, key) for name, key in each.variables.items()})
    if given.files or any(each.use == "files" for each in given.secrets):
        found[VARIABLE] = given.directory
    return found


def _of_key(secret: str, key: str) -> JsonObject:
    return {"secretKeyRef": {"name": secret, "key": key}}


def volumes(job: str, assignment: DesiredAttempt) -> list[JsonObject]:
    """Return the volumes of a Job's pods."""
    given = assignment.credentials
    if given is None:
        return []
    found: list[JsonObject] = []
    if given.files:
        items = [{"key": _key(place), "path": path} for place, path in enumerate(given.files)]
        source = {"secretName": values_name(job), "items": items, "defaultMode": READABLE}
        found.append({"name": VOLUME, "secret": source})
    for place, secret in _as_files(given):
        source = {"secretName": secret, "defaultMode": READABLE}
        found.append({"name": f"{VOLUME}-{place}", "secret": source})
    return found


def mounts(assignment: DesiredAttempt) -> list[JsonObject]:
    """Return where a pod has the files: each folder by itself, for nothing can be mounted in a volume of a Secret."""
    given = assignment.credentials
    if given is None:
        return []
    tops = dict.fromkeys(path.partition("/")[0] for path in given.files)
    found: list[JsonObject] = [
        {"name": VOLUME, "mountPath": f"{given.directory}/{top}", "subPath": top, "readOnly": True}
        for top in tops
    ]
    folders = {place: each.folder for place, each in enumerate(given.secrets)}
    found += [
        {"name": f"{VOLUME}-{place}", "mountPath": f"{given.directory}/{folders[place]}", "readOnly": True}
        for place, _ in _as_files(given)
    ]
    return found


def _as_files(given: AssignedCredentials) -> list[tuple[int, str]]:
    return [(place, each.secret) for place, each in enumerate(given.secrets) if each.use == "files"]


def pull_secrets(job: str, assignment: DesiredAttempt) -> list[JsonObject]:
    """Return by which Secrets a Job's images are pulled."""
    given = assignment.credentials
    if given is None:
        return []
    own = [logins_name(job)] if given.logins else []
    return [
        {"name": name} for name in (*own, *(each.secret for each in given.secrets if each.use == "registry"))
    ]
