"""Jobs that somebody creates with kubectl in a bound namespace, and what he may try, on a real control plane."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentlink.models import BoundNamespace
from agentlink.tests.agents import in_database, until
from agentlink.tests.kube.adopting import ADMIN, job_body, world_of
from agentlink.tests.kube.test_native_displaced import annotate, drain, evict, terminated
from rig.namespaces import Namespace, suppress_missing
from workloads import actions
from workloads.models import Attempt, AttemptNotes, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]
BEGUN = "chamber.internal/begun-at"


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
        assert BEGUN not in job["metadata"].get("annotations", {})
        assert "chamber.internal/owner" not in job["metadata"]["labels"]

        await in_database(lambda: actions.requeue(by=ADMIN, workload=workload))
        unsuspended = datetime.now(UTC)
        again = await world.admit(workload, [(first, 0), (first, 1)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        job = await world.job("train")
        assert datetime.fromisoformat(job["metadata"]["annotations"][BEGUN]) >= unsuspended
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


async def test_what_a_job_says_of_checkpoints_in_its_annotations_is_known(
    namespace: Namespace, tmp_path: Path
) -> None:
    def said(attempt: Attempt) -> AttemptNotes | None:
        return (
            AttemptNotes.objects.select_related("attempt")
            .filter(attempt=attempt.pk, step__isnull=False)
            .first()
        )

    async with world_of(namespace, tmp_path) as world:
        old = {"chamber.internal/checkpoint": "step=1 at=2026-01-31T12:00:00Z"}
        await world.create(job_body())
        await world.patch("train", {"metadata": {"annotations": old}})
        workload = await world.workload("train")
        attempt = await world.admit(workload, [(f"{namespace.name}-0", 1)])
        await world.workload("train", lambda row: row.status == Status.RUNNING)
        at = datetime.now(UTC)
        new = {"checkpoint": f"step=1200 at={at.isoformat()}", "progress": "0.42"}
        await world.patch(
            "train",
            {"metadata": {"annotations": {f"chamber.internal/{key}": text for key, text in new.items()}}},
        )
        await until(lambda: said(attempt))
        stored = await in_database(said, attempt)
        assert (stored.step, stored.checkpoints, stored.attempt.checkpointed_at) == (1200, 1, at)
        assert (stored.progress_millionths, stored.refused) == (420_000, 0)
        bad = {"metadata": {"annotations": {"chamber.internal/progress": "42"}}}
        await world.patch("train", bad)
        await until(lambda: AttemptNotes.objects.get(attempt=attempt.pk).refused == 1)
        assert (await world.workload("train")).status == Status.RUNNING


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
        await world.event("asks", "Adopted")
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


SPARED = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


async def test_no_eviction_ends_a_job_and_a_node_is_drained_all_the_same(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        env = [{"name": "CHAMBER_TEST_STOPS_IN", "value": "60"}]
        waits: dict[str, Any] = {"container": {"env": env}, "terminationGracePeriodSeconds": 90}
        await world.create(job_body("ends"))
        await world.create(job_body("spared", spec={"podFailurePolicy": SPARED}, **waits))
        for index, name in enumerate(("ends", "spared")):
            await world.admit(await world.workload(name), [(node, index)])
            await world.workload(name, lambda row: row.status == Status.RUNNING)
        await world.event("ends", "EndsByEviction", "`kubectl drain` wait", "drain-elastic-at")
        (budget,) = await asyncio.to_thread(world.space.items, "policy/v1", "poddisruptionbudgets")
        assert budget["metadata"]["ownerReferences"][0]["name"] == "ends"

        cordon = {"spec": {"unschedulable": True}}
        await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, cordon)
        (pod,) = await world.pods("ends")
        assert not await evict(world.space, pod["metadata"]["name"])

        # Its controller makes another pod once this one has ended: that one is not let go, also by an agent that saw
        # nothing of the first.
        (pod,) = await world.pods("spared")
        name = pod["metadata"]["name"]
        async with world.without_agent():
            assert await evict(world.space, name)
            ended = {"exitCode": 143, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
            failed = {"status": {"phase": "Failed", "containerStatuses": [terminated(ended)]}}
            await asyncio.to_thread(
                namespace.admin.merge, "v1", "pods", name, failed, world.space.name, part="status"
            )
            with suppress_missing():
                await asyncio.to_thread(
                    namespace.admin.delete, "v1", "pods", name, world.space.name, gracePeriodSeconds="0"
                )
            assert await world.eventually(lambda pods: _only_another_of("spared", pods, name), "v1", "pods")
        spared = await world.workload("spared", lambda row: row.status == Status.PENDING)
        attempt = await in_database(spared.attempts.get)
        assert (spared.failures, attempt.end_detail["code"]) == (0, "drained")
        await world.job("spared", lambda job: job["spec"]["suspend"] and not _marked(job))
        assert await world.eventually(  # the evicted one goes when its Job's controller has counted it
            lambda pods: all(pod["metadata"]["labels"]["job-name"] != "spared" for pod in pods), "v1", "pods"
        )

        draining = asyncio.create_task(drain(namespace, node, "--timeout=300s"))
        await annotate(namespace, node, **{"drain-elastic-at": "now"})
        assert await draining == 0
        await world.workload("ends", lambda row: row.status == Status.PENDING)
        job = await world.job("ends", lambda job: job["spec"]["suspend"] and not _marked(job))
        assert not {"Failed", "FailureTarget"} & {each["type"] for each in job["status"]["conditions"]}
        assert await world.eventually(lambda found: not found, "policy/v1", "poddisruptionbudgets")

        await annotate(namespace, node, **{"drain-elastic-at": None})
        await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, {"spec": {"unschedulable": None}})
        for index, name in enumerate(("ends", "spared")):
            await world.admit(await world.workload(name), [(node, index)])
            await world.workload(name, lambda row: row.status == Status.RUNNING)


async def test_a_job_that_an_eviction_ended_before_its_pods_ran_says_so_and_nothing_else(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        env = [{"name": "CHAMBER_TEST_WAITS", "value": "ContainerCreating"}]
        await world.create(job_body(container={"env": env}))
        await world.admit(await world.workload("train"), [(node, 0)])
        pod = await world.eventually(_pulls, "v1", "pods")
        assert await evict(world.space, pod["metadata"]["name"])
        row = await world.workload("train", lambda row: row.status == Status.CANCELLED)
        assert row.reason["message"] == (
            f"Its Job {world.space.name}/train has ended in the cluster and cannot run again, for it allows no failure "
            f"(backoffLimit 0): Pod 0 on {node} was evicted, as when its node is drained."
        )
        again = f"delete the Job first: kubectl delete job train -n {world.space.name}. Then create it again"
        assert again in row.reason["next_step"]
        attempt = await in_database(row.attempts.get)
        assert (attempt.end_reason, attempt.number) == ("cancelled", 1)  # it was never back in the queue
        told = await in_database(lambda: list(row.events.values_list("message", flat=True)))
        assert "All its pods run." not in told
        await world.event("train", "Ended", "was evicted", "delete it first: kubectl delete job train")
        await world.job("train", lambda job: not _marked(job) and _has_failed(job))
        events = await asyncio.to_thread(world.space.items, "v1", "events")
        assert not [each for each in events if each["message"].startswith("Suspended: it is labelled")]

        await world.delete("train")
        await world.eventually(lambda jobs: not jobs, "batch/v1", "jobs")
        await world.create(job_body())
        anew = await until(lambda: Workload.objects.filter(status=Status.PENDING).first())
        await world.admit(anew, [(node, 0)])
        await until(lambda: Workload.objects.get(pk=anew.pk).status == Status.RUNNING)


def _has_failed(job: dict[str, Any]) -> bool:
    return any(each["type"] == "Failed" for each in job["status"].get("conditions", ()))


def _pulls(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a pod that is on its node and waits there."""
    return next((pod for pod in pods if pod["status"].get("containerStatuses")), None)


async def test_a_job_whose_people_have_a_budget_gets_none_of_chambers(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "theirs"},
            "spec": {
                "minAvailable": 0,
                "selector": {
                    "matchExpressions": [{"key": "job-name", "operator": "In", "values": ["train"]}]
                },
            },
        }
        await asyncio.to_thread(namespace.admin.create, budget, "poddisruptionbudgets", world.space.name)
        for index, name in enumerate(("train", "other")):
            await world.create(job_body(name))
            await world.admit(await world.workload(name), [(node, index)])
            await world.workload(name, lambda row: row.status == Status.RUNNING)
        await world.event("train", "EndsByEviction", "Your PodDisruptionBudget theirs", "Chamber makes none")
        await world.event("other", "EndsByEviction", "`kubectl drain` waits")
        budgets = await asyncio.to_thread(world.space.items, "policy/v1", "poddisruptionbudgets")
        owners = [owner["name"] for each in budgets for owner in each["metadata"].get("ownerReferences", ())]
        assert (len(budgets), owners) == (2, ["other"])
        (pod,) = await world.pods("train")
        assert await evict(world.space, pod["metadata"]["name"])  # 500 where two budgets select it


def _only_another_of(job: str, pods: list[dict[str, Any]], name: str) -> bool:
    """Return whether a Job has a pod, and not the one of this name any more."""
    names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"].get("job-name") == job]
    return bool(names) and name not in names


def _marked(job: dict[str, dict[str, dict[str, str]]]) -> bool:
    said = {**job["metadata"].get("annotations", {}), **job["metadata"]["labels"]}
    return any(key in said for key in ("chamber.internal/mark", "chamber.internal/attempt"))
