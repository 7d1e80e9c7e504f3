"""Kinds that Chamber does not run yet and Jobs for Kueue, in a bound namespace of a real control plane."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from agentlink.agent.kube import reflector
from agentlink.models import BoundNamespace
from agentlink.tests.agents import until
from agentlink.tests.kube.adopting import ADOPT, World, job_body, world_of
from rig.namespaces import Admin, Json, Namespace

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

CRDS = os.environ.get("CHAMBER_TEST_CRDS", "")
"""A folder of the operators' own schemas, which this project does not carry."""
CRD = "apiextensions.k8s.io/v1"
TRAIN_JOB: Json = {
    "apiVersion": CRD,
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trainjobs.trainer.kubeflow.org"},
    "spec": {
        "group": "trainer.kubeflow.org",
        "scope": "Namespaced",
        "names": {"plural": "trainjobs", "singular": "trainjob", "kind": "TrainJob"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
POD = {"containers": [{"name": "main", "image": "registry.test/x:1"}], "restartPolicy": "Never"}
LABELS = {"app": "x"}


def asking(version: str, kind: str, spec: Json, **labels: str) -> Json:
    """Return an object that asks to be adopted."""
    metadata = {"name": "train", "labels": {**ADOPT, **labels}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def of_apps(kind: str) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": POD["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    return asking("apps/v1", kind, spec)


async def event(world: World, kind: str, name: str, *words: str) -> None:
    """Wait for the Event that says of an object that it is not run."""

    def found(events: list[Json]) -> bool:
        return any(
            (each["reason"], each["involvedObject"]["kind"], each["involvedObject"]["name"])
            == ("NotRun", kind, name)
            and all(word in each["message"] for word in words)
            for each in events
        )

    await world.eventually(found, "v1", "events")


async def told(*names: str) -> None:
    """Wait until the page of namespaces names just these."""

    def holds() -> bool:
        row = BoundNamespace.objects.get()
        return [f"{each['kind']} {each['name']}" for each in row.unmanaged_objects] == list(names)

    await until(holds)


@asynccontextmanager
async def installed(admin: Admin, *bodies: Json) -> AsyncIterator[None]:
    """Have custom kinds of objects for a while."""
    for body in bodies:
        name = body["metadata"]["name"]
        path = f"/apis/{CRD}/customresourcedefinitions/{name}"
        await asyncio.to_thread(
            admin.request,
            "PATCH",
            path,
            body,
            kind="application/apply-patch+yaml",
            fieldManager="test",
            force="true",
        )
    names = {body["metadata"]["name"] for body in bodies}

    def established(found: list[Json]) -> bool:
        ready = {
            each["metadata"]["name"]
            for each in found
            for condition in each.get("status", {}).get("conditions") or ()
            if (condition["type"], condition["status"]) == ("Established", "True")
        }
        return names <= ready

    await asyncio.to_thread(admin.until, established, CRD, "customresourcedefinitions")
    try:
        yield
    finally:
        for name in sorted(names):
            await asyncio.to_thread(admin.delete, CRD, "customresourcedefinitions", name)


async def test_deployments_sets_and_pods_that_ask_and_jobs_for_kueue_are_told(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        admin, name = world.base.admin, world.space.name
        for body, plural in (
            (of_apps("Deployment"), "deployments"),
            (of_apps("StatefulSet"), "statefulsets"),
            (asking("v1", "Pod", POD), "pods"),
        ):
            await asyncio.to_thread(admin.create, body, plural, name)
            await event(world, body["kind"], "train", f"does not run a {body['kind']} yet")
        quiet = of_apps("Deployment")
        quiet["metadata"] = {"name": "quiet"}
        await asyncio.to_thread(admin.create, quiet, "deployments", name)
        queued = job_body("queued")
        queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "user-queue"}
        await world.create(queued)
        await event(world, "Job", "queued", "for Kueue's queue user-queue")
        await told("Deployment train", "StatefulSet train", "Pod train", "Job queued")
        both = job_body("both", labels={"kueue.x-k8s.io/queue-name": "user-queue"})
        await world.create(both)
        await world.event("both", "NotAdopted", "for Kueue's queue user-queue")

        await asyncio.to_thread(admin.delete, "apps/v1", "deployments", "train", name)
        await world.delete("queued")
        await told("StatefulSet train", "Pod train")


async def test_a_kind_that_comes_later_is_noticed_and_one_that_goes_is_none_any_more(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "ABSENT_PAUSE_SECONDS", 0.5)
    async with world_of(namespace, tmp_path) as world:
        admin, name = world.base.admin, world.space.name
        await world.create(job_body("waits"))
        await world.workload("waits")
        async with installed(admin, TRAIN_JOB):
            body = asking("trainer.kubeflow.org/v1alpha1", "TrainJob", {})
            await asyncio.to_thread(admin.create, body, "trainjobs", name)
            await event(world, "TrainJob", "train", "does not run a TrainJob yet")
            await told("TrainJob train")
        await told()


OF_OPERATORS: dict[str, tuple[str, str, Json]] = {
    "jobset.x-k8s.io_jobsets.yaml": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": POD}}}}]},
    ),
    "kubeflow.org_pytorchjobs.yaml": (
        "kubeflow.org/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": POD}}}},
    ),
    "ray.io_rayjobs.yaml": ("ray.io/v1", "RayJob", {"entrypoint": "python x.py"}),
}


@pytest.mark.skipif(not CRDS, reason="CHAMBER_TEST_CRDS names no folder of operators' schemas")
async def test_the_operators_own_kinds_are_told(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "ABSENT_PAUSE_SECONDS", 0.5)
    texts = [await asyncio.to_thread((Path(CRDS) / name).read_text) for name in OF_OPERATORS]
    schemas = [
        json.loads(json.dumps(yaml.load(text, Loader=yaml.CSafeLoader), default=str)) for text in texts
    ]
    async with world_of(namespace, tmp_path) as world, installed(world.base.admin, *schemas):
        for version, kind, spec in OF_OPERATORS.values():
            body = {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}
            await asyncio.to_thread(world.base.admin.create, body, f"{kind.lower()}s", world.space.name)
            await event(world, kind, "train", f"does not run a {kind} yet")
        await told("JobSet train", "PyTorchJob train", "RayJob train")
