"""Credentials in a cluster: Secrets of the Job that go with it, and what its pods have of them."""

import base64
import json
from typing import Any

import pytest

from agentlink.agent.backends.native import credentials, manifests
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import (
    AssignedCredentials,
    AssignedLogin,
    AssignedSecret,
    DesiredAttempt,
    ReportedPhase,
)
from agentlink.tests.kube.made import assigned
from agentlink.tests.kube.native import Agent, agent_of, items, pods_on, work
from rig.namespaces import Namespace

MARKER = "m4rker-value-that-nobody-else-writes"
DIRECTORY = "/var/run/chamber/credentials"
GIVEN = AssignedCredentials(
    directory=DIRECTORY,
    variables={"HF_TOKEN": f"$(A){MARKER}"},
    files={"gcp/key.json": MARKER, "gcp/other": "2", ".git-credentials": MARKER},
    logins=(AssignedLogin(server="registry.example.org", username="robot", password=MARKER),),
    secrets=(
        AssignedSecret(secret="wandb", use="variables", folder="wandb", variables={"WANDB_API_KEY": "key"}),
        AssignedSecret(secret="certs", use="files", folder="certs"),
        AssignedSecret(secret="pull", use="registry", folder="pull"),
    ),
)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}


def made(assignment: DesiredAttempt) -> JsonObject:
    wave = Wave(assignment, assignment.pods, "ns")
    ask = ContainerRequest(limits=(("nvidia.com/gpu", "1"),))
    (part,) = manifests.parts(wave, {each.index: ask for each in assignment.pods})
    return manifests.job(part, wave, DomainNames(), cluster="c")


def test_a_job_names_keys_of_its_secrets_and_has_no_value() -> None:
    body = made(work(*assigned(0), credentials=GIVEN))
    assert MARKER not in json.dumps(body)
    name = body["metadata"]["name"]
    spec = body["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    by_name = {each["name"]: each for each in container["env"]}
    assert by_name["HF_TOKEN"]["valueFrom"] == {
        "secretKeyRef": {"name": f"{name}-credentials", "key": "HF_TOKEN"}
    }
    assert by_name["WANDB_API_KEY"]["valueFrom"] == {"secretKeyRef": {"name": "wandb", "key": "key"}}
    assert by_name["CHAMBER_CREDENTIALS"]["value"] == DIRECTORY
    assert spec["imagePullSecrets"] == [{"name": f"{name}-registry"}, {"name": "pull"}]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts.keys() == {
        "/dev/shm",  # noqa: S108 - in the container
        *(f"{DIRECTORY}/{top}" for top in ("gcp", ".git-credentials", "certs")),
    }
    assert mounts[f"{DIRECTORY}/gcp"] == {
        "name": "credentials", "mountPath": f"{DIRECTORY}/gcp", "subPath": "gcp", "readOnly": True,
    }  # fmt: skip
    sources = {each["name"]: each.get("secret", {}) for each in spec["volumes"]}
    assert sources["credentials"]["secretName"] == f"{name}-credentials"
    assert sources["credentials-1"] == {"secretName": "certs", "defaultMode": 0o444}


def test_secrets_are_owned_by_the_job_and_hold_the_values_as_they_are() -> None:
    assignment = work(*assigned(0), credentials=GIVEN)
    values, logins = credentials.secrets("train", assignment, OWNER, {"a": "b"})
    for body in (values, logins):
        assert body["metadata"]["ownerReferences"] == [OWNER]
        assert body["immutable"] is True
    data = {key: base64.b64decode(text).decode() for key, text in values["data"].items()}
    assert data == {"HF_TOKEN": f"$(A){MARKER}", "file-0": MARKER, "file-1": "2", "file-2": MARKER}
    assert logins["type"] == "kubernetes.io/dockerconfigjson"
    config = json.loads(base64.b64decode(logins["data"][".dockerconfigjson"]))
    login = config["auths"]["registry.example.org"]
    assert base64.b64decode(login["auth"]).decode() == f"robot:{MARKER}"


def test_without_credentials_a_job_is_as_before() -> None:
    assignment = work(*assigned(0))
    spec = made(assignment)["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in spec
    assert [each["name"] for each in spec["volumes"]] == ["shm"]
    assert list(credentials.secrets("train", assignment, OWNER, {})) == []


@pytest.mark.kube
async def test_they_are_made_before_the_pods_start_and_go_with_the_job(
    namespace: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    (node,) = namespace.add_nodes(1)
    plain = GIVEN.model_copy(update={"secrets": ()})
    assignment = work(*pods_on((node, [0])), credentials=plain)
    async with agent_of(namespace) as agent:
        await agent.begin(assignment)
        await agent.until(assignment, ReportedPhase.RUNNING)
        found = await _secrets(namespace)
        assert {each["metadata"]["name"].rpartition("-")[2] for each in found} == {"credentials", "registry"}
        (job,) = await items(namespace, "batch/v1", "jobs")
        for each in found:
            (owner,) = each["metadata"]["ownerReferences"]
            assert owner["uid"] == job["metadata"]["uid"]
        assert MARKER not in json.dumps(job)
        for plural in ("pods", "events", "services"):
            assert MARKER not in json.dumps(list(await items(namespace, "v1", plural)))
        await _goes(agent, assignment)
    assert MARKER not in caplog.text


async def _secrets(namespace: Namespace) -> list[Any]:
    found = await items(namespace, "v1", "secrets")
    return [each for each in found if each["metadata"].get("ownerReferences")]


async def _goes(agent: Agent, assignment: DesiredAttempt) -> None:
    await agent.stop(assignment)
    await agent.until(assignment, ReportedPhase.GONE)
    await agent.forgotten(assignment)
