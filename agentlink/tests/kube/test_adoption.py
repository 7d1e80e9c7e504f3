"""Jobs that somebody creates with kubectl in a bound namespace, and what he may try, on a real control plane."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentlink.models import BoundNamespace
from agentlink.tests.agents import in_database, until
from agentlink.tests.kube.adopting import ADMIN, job_body, world_of
from rig.namespaces import Namespace
from workloads import actions
from workloads.models import Attempt, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]


async def test_a_job_is_adopted_runs_where_it_is_planned_is_suspended_and_runs_again(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path, nodes=2) as world:
        first, second = (f"{namespace.name}-{index}" for index in range(2))
        theirs = {"chamber.internal/priority": "90", "app.kubernetes.io/managed-by": "Helm"}
        await world.create(job_body(pods=2, labels=theirs))
        workload = await world.workload("train")
        assert (workload.team.slug, workload.pods, workload.gpu_milli, workload.priority) == (
            "nlp",
            2,
            1000,
            75,
        )
        await world.event("train", "Adopted", workload.slug, "priority 90 was lowered to 75")

        attempt = await world.admit(workload, [(second, 0), (first, 3)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        pods = {
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod["spec"][
                "nodeName"
            ]
            for pod in await world.pods("train")
        }
        assert pods == {"0": second, "1": first}

        await in_database(lambda: actions.cancel(by=ADMIN, workload=workload))
        await until(lambda: Attempt.objects.get(pk=attempt.pk).released_at is not None)
        job = await world.job("train", lambda job: job["spec"]["suspend"] and not _marked(job))
        assert await world.pods("train") == []
        assert "schedulingGates" not in job["spec"]["template"]["spec"]
        assert theirs.items() <= job["metadata"]["labels"].items()
        assert "chamber.internal/owner" not in job["metadata"]["labels"]

        await in_database(lambda: actions.requeue(by=ADMIN, workload=workload))
        again = await world.admit(workload, [(first, 0), (first, 1)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        for pod in await world.pods("train"):
            assert pod["spec"]["nodeName"] == first
            world.space.play(pod["metadata"]["name"], run_for="0s")
        await world.workload("train", lambda row: row.status == Status.COMPLETED)
        await until(lambda: Attempt.objects.get(pk=again.pk).released_at is not None)
        await world.job("train", lambda job: not _marked(job))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "path": ({"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, "a path of the node (/etc)"),
    "network": ({"hostNetwork": True}, "hostNetwork"),
    "privileged": ({"container": {"securityContext": {"privileged": True}}}, "main is privileged"),
    "account": ({"serviceAccountName": "dev"}, "service account 'dev'"),
    "volume": ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "It mounts csi"),
    "class": ({"priorityClassName": "system-node-critical"}, "for Kubernetes' own parts"),
    "index": ({"pods": 2, "spec": {"completionMode": "NonIndexed"}}, "is not Indexed"),
    "retries": ({"spec": {"backoffLimit": 6}}, "backoffLimit 6"),
    "gpus": ({"gpus": 0}, "asks for no GPUs"),
    "large": ({"gpus": 64}, "at once"),
    "word": ({"labels": {"chamber.internal/priority": "urgent"}}, "'urgent'"),
}


async def test_what_cannot_be_adopted_is_told_why_and_stays_suspended(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        for name, (changes, _) in REFUSED.items():
            await world.create(job_body(name, **changes))
        for name, (_, words) in REFUSED.items():
            assert "It stays suspended." in await world.event(name, "NotAdopted", words)
        jobs = await asyncio.to_thread(world.space.items, "batch/v1", "jobs")
        assert [job["spec"]["suspend"] for job in jobs] == [True] * len(REFUSED)
        assert not await in_database(Workload.objects.exists)
        (bound,) = await in_database(lambda: list(BoundNamespace.objects.all()))
        assert {job["name"] for job in bound.refused} == REFUSED.keys()


async def test_who_unsuspends_by_hand_finds_it_suspended_again(namespace: Namespace, tmp_path: Path) -> None:
    async with world_of(namespace, tmp_path) as world:
        await world.create(job_body("waits"))
        workload = await world.workload("waits")
        await world.patch("waits", {"spec": {"suspend": False}})
        await world.event("waits", "Suspended", "runs when Chamber has planned it")
        await world.job("waits", lambda job: job["spec"]["suspend"])
        await world.create(job_body("runs", spec={"suspend": False}))
        await world.event("runs", "Suspended")
        await world.job("runs", lambda job: job["spec"]["suspend"])

        attempt = await world.admit(workload, [(f"{namespace.name}-0", 0)])
        await world.workload("waits", lambda row: row.status == Status.RUNNING)
        await in_database(lambda: actions.cancel(by=ADMIN, workload=workload))
        await until(lambda: Attempt.objects.get(pk=attempt.pk).released_at is not None)
        await world.job("waits", lambda job: job["spec"]["suspend"] and not _marked(job))
        await world.patch("waits", {"spec": {"suspend": False}})
        await world.job("waits", lambda job: job["spec"]["suspend"])
        assert await world.eventually(lambda pods: not pods, "v1", "pods")


async def test_a_job_that_its_user_deletes_cancels_its_workload(namespace: Namespace, tmp_path: Path) -> None:
    async with world_of(namespace, tmp_path) as world:
        for name in ("waits", "runs"):
            await world.create(job_body(name))
        running = await world.workload("runs")
        attempt = await world.admit(running, [(f"{namespace.name}-0", 1)])
        await world.workload("runs", lambda row: row.status == Status.RUNNING)
        for name in ("waits", "runs"):
            await world.delete(name)
            ended = await world.workload(name, lambda row: not row.is_open)
            assert (ended.status, ended.reason_code) == (Status.CANCELLED, "job-deleted")
        await until(lambda: Attempt.objects.get(pk=attempt.pk).released_at is not None)
        assert await world.eventually(lambda jobs: not jobs, "batch/v1", "jobs")


async def test_who_changes_a_job_that_runs_gains_nothing(namespace: Namespace, tmp_path: Path) -> None:
    async with world_of(namespace, tmp_path) as world:
        await world.create(job_body(pods=2))
        first = await world.workload("train")
        node = f"{namespace.name}-0"
        attempt = await world.admit(first, [(node, 0), (node, 1)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        await world.patch("train", {"spec": {"parallelism": 4, "completions": 4}})
        second = await world.workload("train", lambda row: row.pk != first.pk)
        assert (second.status, second.pods) == (Status.PENDING, 4)
        await in_database(first.refresh_from_db)
        assert (first.status, first.reason_code) == (Status.CANCELLED, "job-changed")
        await until(lambda: Attempt.objects.get(pk=attempt.pk).released_at is not None)
        await world.job("train", lambda job: job["spec"]["suspend"])
        assert await world.eventually(lambda pods: not pods, "v1", "pods")
        assert (await world.event("train", "Adopted", second.slug)) != first.slug
        bound = await asyncio.to_thread(world.space.items, "v1", "events")
        assert not [event for event in bound if "4 pods were" in event["message"]]

        await world.patch("train", {"metadata": {"labels": {"chamber.internal/adopt": None}}})
        ended = await world.workload("train", lambda row: not row.is_open)
        assert ended.status == Status.CANCELLED


async def test_a_job_that_pretends_to_be_chambers_or_another_teams_gains_nothing(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        victim = await in_database(world.submit_elsewhere)
        attempt = await world.admit(victim, [(node, 0)])
        await until(lambda: Workload.objects.get(pk=victim.pk).status == Status.RUNNING)
        (true,) = await asyncio.to_thread(namespace.items, "batch/v1", "jobs")

        forged = job_body("forged", gpus=0, spec={"suspend": False})
        for part in ("labels", "annotations"):
            forged["metadata"][part] = dict(true["metadata"][part])
        await world.create(forged)
        await world.event("forged", "NotChambers", "did not make it")
        labels = {"chamber.internal/team": "vision", "chamber.internal/attempt": str(attempt.pk)}
        await world.create(job_body("other", labels=labels))
        adopted = await world.workload("other")
        assert adopted.team == world.team

        await in_database(lambda: actions.cancel(by=ADMIN, workload=adopted))
        assert await world.eventually(
            lambda pods: [p for p in pods if p["spec"].get("nodeName")], "v1", "pods"
        )
        await world.job("forged", lambda job: not job["spec"].get("suspend") and job["status"].get("active"))
        assert (await in_database(lambda: Workload.objects.get(pk=victim.pk))).status == Status.RUNNING
        await until(lambda: BoundNamespace.objects.get(foreign_jobs=1))


async def test_a_job_without_the_label_is_counted_and_never_touched(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        foreign = job_body("foreign", gpus=0, spec={"suspend": False})
        foreign["metadata"]["labels"] = {}
        made = await world.create(foreign)
        await until(lambda: BoundNamespace.objects.filter(foreign_jobs=1, foreign_gpus=0).exists())
        quiet = job_body("quiet")
        quiet["metadata"]["labels"] = {"chamber.internal/adopt": "false"}
        await world.create(quiet)
        await world.create(job_body("asks"))
        await world.workload("asks")
        job = await world.job("foreign", lambda job: job.get("status", {}).get("active"))
        assert job["metadata"].get("annotations") == made["metadata"].get("annotations")
        assert (job["metadata"]["generation"], "finalizers" in job["metadata"]) == (1, False)
        events = await asyncio.to_thread(world.space.items, "v1", "events")
        assert {
            e["involvedObject"]["name"] for e in events if e["source"].get("component") == "chamber-agent"
        } == {"asks"}


async def test_a_new_agent_goes_on_with_what_runs_and_suspends_what_may_not(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        for name in ("runs", "waits"):
            await world.create(job_body(name))
        workload = await world.workload("runs")
        await world.workload("waits")
        await world.admit(workload, [(f"{namespace.name}-0", 2)])
        await world.workload("runs", lambda row: row.status == Status.RUNNING)
        (before,) = await world.pods("runs")
        async with world.without_agent():
            await world.patch("waits", {"spec": {"suspend": False}})
        await world.job("waits", lambda job: job["spec"]["suspend"])
        (after,) = await world.pods("runs")
        assert (after["metadata"]["uid"], after["status"]["phase"]) == (before["metadata"]["uid"], "Running")
        await asyncio.to_thread(world.space.play, after["metadata"]["name"], run_for="0s", ends="3")
        failed = await world.workload("runs", lambda row: not row.is_open)
        assert (failed.status, failed.reason_code) == (Status.FAILED, "exit-code")


def _marked(job: dict[str, dict[str, dict[str, str]]]) -> bool:
    said = {**job["metadata"].get("annotations", {}), **job["metadata"]["labels"]}
    return any(key in said for key in ("chamber.internal/mark", "chamber.internal/attempt"))
