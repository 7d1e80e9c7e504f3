"""Adopted Jobs start on tainted nodes or say why not, and are tried so many times, on a real control plane."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent.backends.native import care, reasons
from agentlink.models import Assignment, Device
from agentlink.tests.agents import in_database, until
from agentlink.tests.kube.adopting import ADMIN, World, job_body, left_of_chamber, world_of
from rig.namespaces import Json, Namespace
from workloads import actions
from workloads.models import Attempt, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TEAM_TAINT = {"key": "team", "value": "vision", "effect": "NoExecute"}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "training-data"}}


def tolerations(job: Json) -> list[Json]:
    found: list[Json] = job["spec"]["template"]["spec"].get("tolerations", [])
    return found


async def refused(world: World, job: str, *, node: str) -> tuple[Workload, Attempt]:
    """Admit the Job's workload on a node; return it once its cluster has refused it and its devices are free."""
    workload = await world.workload(job)
    await in_database(lambda: Workload.objects.filter(pk=workload.pk).update(backoff_until=None))
    attempt = await world.admit(workload, [(node, 0)])
    over = Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=False, released_at__isnull=False)
    await until(over.exists)
    return await world.workload(job), attempt


async def test_a_job_without_a_toleration_starts_where_the_taint_is_the_gpus_own(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path, taints=[GPU_TAINT]) as world:
        await world.create(job_body(tolerations=[{"key": "mine", "operator": "Exists"}]))
        workload = await world.workload("train")
        attempt = await world.admit(workload, [(f"{namespace.name}-0", 0)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        begun = await world.job("train", lambda job: not job["spec"]["suspend"])
        assert {each["key"] for each in tolerations(begun)} == {"mine", "nvidia.com/gpu", "amd.com/gpu"}

        await in_database(lambda: actions.cancel(by=ADMIN, workload=workload))
        await until(lambda: Attempt.objects.get(pk=attempt.pk).released_at is not None)
        back = await world.job("train", lambda job: job["spec"]["suspend"] and len(tolerations(job)) == 1)
        assert tolerations(back) == [{"key": "mine", "operator": "Exists"}]
        assert (await world.workload("train")).pk == workload.pk  # what Chamber adds is no change of the Job

        (cut,) = await asyncio.to_thread(lambda: namespace.add_nodes(1, gpus=0, profiles={"1g.10gb": 1}))
        await until(Device.objects.filter(slicing="mig").exists)
        one = {"nvidia.com/mig-1g.10gb": "1"}
        await world.create(job_body("slice", container={"resources": {"limits": one}}))
        sliced = await world.workload("slice")
        assert (sliced.gpu_types, sliced.gpu_milli) == (["mig-1g.10gb"], 1000)
        await world.admit(sliced, [(cut, 0)], share=143)
        await world.workload("slice", lambda row: row.status == Status.RUNNING)
        (pod,) = await world.pods("slice")
        assert pod["spec"]["nodeName"] == cut


async def test_a_taint_that_is_not_the_gpus_own_is_told_at_once_and_keeps_the_job_suspended(
    namespace: Namespace, tmp_path: Path
) -> None:
    """As where the taint came after the plan."""
    async with world_of(namespace, tmp_path, taints=[TEAM_TAINT]) as world:
        await world.create(
            job_body(tolerations=[{"key": "team", "operator": "Exists", "effect": "NoSchedule"}])
        )
        workload, _ = await refused(world, "train", node=f"{namespace.name}-0")
        words = "does not tolerate the taint team=vision:NoExecute of node"
        assert words in workload.reason["message"]
        assert (workload.status, workload.held, workload.backoff_until is not None) == (
            Status.PENDING,
            False,
            True,
        )
        await world.event("train", "NotStarted", words)
        assert await world.pods("train") == []
        assert (await world.job("train"))["spec"]["suspend"]


async def test_a_missing_claim_is_the_workloads_reason_and_an_event_and_the_third_time_holds_it(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "UNBOUND_SECONDS", 1.0)
    words = 'persistentvolumeclaim "training-data" not found'
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        await world.create(job_body(volumes=[CLAIM]))
        for tries in (1, 2, 3):
            workload, _ = await refused(world, "train", node=node)
            assert words in workload.reason["message"]
            assert workload.held is (tries == 3)
        await world.event("train", "NotStarted", words)
        await world.event("train", "Adopted", "on hold", words, "kubectl annotate")
        assert (await world.job("train"))["spec"]["suspend"]

        await asyncio.to_thread(world.dev.create, claim_body(), "persistentvolumeclaims", world.space.name)
        await world.patch("train", {"metadata": {"annotations": {"chamber.internal/retry": "1"}}})
        again = await world.workload("train", lambda row: not row.held)
        assert (again.pk, again.backoff_until, again.reason) == (workload.pk, None, {})


async def test_pods_that_the_cluster_does_not_make_are_a_reason_and_an_event(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "UNMADE_SECONDS", 1.0)
    async with world_of(namespace, tmp_path) as world:
        quota: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
        quota["spec"] = {"hard": {"requests.cpu": "1"}}
        await asyncio.to_thread(world.base.admin.create, quota, "resourcequotas", world.space.name)
        body = job_body(container={"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}})
        await world.create(body)
        workload, _ = await refused(world, "train", node=f"{namespace.name}-0")
        assert "exceeded quota: small" in workload.reason["message"]
        await world.event("train", "NotStarted", "exceeded quota: small")
        free = await world.job("train", lambda job: not left_of_chamber(job))
        assert free["spec"]["suspend"]


async def test_what_keeps_a_pod_from_starting_is_told_while_it_is_kept(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        await world.create(job_body(volumes=[CLAIM]))
        workload = await world.workload("train")
        attempt = await world.admit(workload, [(f"{namespace.name}-0", 0)])

        def told() -> str:
            pods = Assignment.objects.get(attempt=attempt.pk).pods
            return next((pod["message"] for pod in pods if pod.get("message")), "")

        assert 'persistentvolumeclaim "training-data" not found' in await until(told)


async def test_volumes_that_cannot_be_mounted_are_told_and_refused_in_the_kubelets_words(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "ASK_UNMOUNTED_SECONDS", 0.5)
    monkeypatch.setattr(reasons, "UNMOUNTED_SECONDS", 2.0)
    monkeypatch.setattr(care, "ASK_VOLUMES_AGAIN", timedelta(seconds=0.2))
    words = 'MountVolume.SetUp failed for volume "settings" : configmap "settings" not found'
    async with world_of(namespace, tmp_path) as world:
        waits = [{"name": "CHAMBER_TEST_WAITS", "value": "ContainerCreating"}]
        await world.create(job_body(container={"env": waits}))
        workload = await world.workload("train")
        await world.admit(workload, [(f"{namespace.name}-0", 0)])
        pod = await world.eventually(
            lambda pods: next((each for each in pods if each["spec"].get("nodeName")), None), "v1", "pods"
        )
        await asyncio.to_thread(world.base.admin.create, mount_event(pod, words), "events", world.space.name)
        refused = await world.workload("train", lambda row: row.reason)
        assert (refused.status, refused.reason["code"]) == (Status.PENDING, "volume-not-mounted")
        assert words in refused.reason["message"]
        await world.event("train", "NotStarted", words)


def mount_event(pod: Json, words: str) -> Json:
    """Return the event by which a kubelet says that it cannot mount a volume."""
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    about["namespace"] = pod["metadata"]["namespace"]
    body: Json = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "mount"}, "involvedObject": about}
    return body | {
        "type": "Warning",
        "reason": "FailedMount",
        "message": words,
        "lastTimestamp": "2026-11-23T12:00:00Z",
    }


def claim_body() -> Json:
    """Return the claim that the Job names."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "training-data"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
