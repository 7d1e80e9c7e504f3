"""Bound namespaces in a real cluster: made, kept, guarded by a quota, and never taken from anybody."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentlink import spaces
from agentlink.agent.backends.native import reasons
from agentlink.agent.backends.native import spaces as agents_spaces
from agentlink.models import Assignment, BoundNamespace
from agentlink.tests.agents import in_database, until
from agentlink.tests.kube.adopting import ADMIN, World, job_body, world_of
from rig import charts
from rig.namespaces import Json, Namespace, Refused
from teams.models import Team
from teams.tests.factories import make_team
from workloads import actions
from workloads.models import Attempt, EndReason, Status, Workload

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

GPU = "requests.nvidia.com/gpu"
BASELINE = "pod-security.kubernetes.io/enforce"


def pod_body(name: str, **spec: object) -> Json:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "registry.test/x:1", "resources": limits}
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return body | {"spec": {"containers": [container], **spec}}


async def refusal_of(world: World, body: Json) -> str:
    """Return what the API server says to the developer's pod."""
    with pytest.raises(Refused) as refused:
        await asyncio.to_thread(world.dev.create, body, "pods", world.space.name)
    assert refused.value.status == 403
    return str(refused.value)


async def hard(world: World, count: str) -> None:
    """Wait until the quota leaves room for so many GPUs."""
    await world.eventually(
        lambda quotas: [each for each in quotas if each["status"].get("hard", {}).get(GPU) == count],
        "v1",
        "resourcequotas",
    )


async def test_a_bound_namespace_holds_the_plan_and_nothing_else(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents_spaces, "LOOK_AGAIN_SECONDS", 1.0)
    async with world_of(namespace, tmp_path) as world:
        made = await asyncio.to_thread(namespace.admin.get, "v1", "namespaces", world.space.name)
        labels = made["metadata"]["labels"]
        assert (labels["chamber.internal/team"], labels[BASELINE]) == ("nlp", "baseline")
        await hard(world, "0")
        assert "exceeded quota: chamber-plan" in await refusal_of(world, pod_body("mine"))
        gated = pod_body("gated", schedulingGates=[{"name": "chamber.internal/placed"}])
        assert "exceeded quota" in await refusal_of(world, gated)
        assert "hostNetwork" in await refusal_of(world, pod_body("host", hostNetwork=True))
        for plural, name in (("resourcequotas", "chamber-plan"), ("rolebindings", "chamber-agent")):
            version = "v1" if plural == "resourcequotas" else "rbac.authorization.k8s.io/v1"
            with pytest.raises(Refused, match="forbidden"):
                await asyncio.to_thread(world.dev.delete, version, plural, name, world.space.name)

        workload = await in_database(world.submit)
        attempt = await world.admit(workload, [(f"{namespace.name}-0", 0), (f"{namespace.name}-0", 1)])
        await until(lambda: Workload.objects.get(pk=workload.pk).status == Status.RUNNING)
        await hard(world, "2")
        assert len(await asyncio.to_thread(world.space.items, "batch/v1", "jobs")) == 1
        assert "exceeded quota" in await refusal_of(world, pod_body("beside"))
        await in_database(world.cancel, attempt)
        await hard(world, "0")
        # Deleted by an admin, it is there again though the plan stays as it is.
        await asyncio.to_thread(
            world.base.admin.delete, "v1", "resourcequotas", "chamber-plan", world.space.name
        )
        await hard(world, "0")


async def test_a_pending_pod_of_others_that_uses_up_the_quota_is_named_while_it_does_and_after(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "ASK_UNMADE_SECONDS", 1.0)
    monkeypatch.setattr(reasons, "PLAN_QUOTA_SECONDS", 3600.0)
    async with world_of(namespace, tmp_path) as world:
        space = world.space.name
        await asyncio.to_thread(world.base.admin.delete, "v1", "resourcequotas", "chamber-plan", space)
        notebook = pod_body("notebook", nodeSelector={"chamber.test/none": "true"})
        await asyncio.to_thread(world.dev.create, notebook, "pods", space)
        seen = BoundNamespace.objects.filter(foreign_pods=1, foreign_gpus=1, foreign_pod_names=["notebook"])
        await until(seen.exists)

        workload = await in_database(world.submit)
        attempt = await world.admit(workload, [(f"{namespace.name}-0", 0), (f"{namespace.name}-0", 1)])

        def kept() -> Json | None:
            pods = Assignment.objects.get(attempt=attempt.pk).pods
            return next((pod for pod in pods if "(notebook: 1 GPU)" in pod.get("message", "")), None)

        told = await until(kept)
        assert (told["cause"], bool(told["until"])) == ("plan-quota", True)
        monkeypatch.setattr(reasons, "PLAN_QUOTA_SECONDS", 0.0)
        (job,) = await asyncio.to_thread(world.space.items, "batch/v1", "jobs")
        change = {"metadata": {"annotations": {"chamber.test/look": "again"}}}
        await asyncio.to_thread(
            world.base.admin.merge, "batch/v1", "jobs", job["metadata"]["name"], change, space
        )
        refused = await until(
            lambda: Workload.objects.filter(pk=workload.pk, reason__code="plan-quota").first()
        )
        assert "(notebook: 1 GPU)" in refused.reason["message"]
        assert f"kubectl get pods -n {space}" in refused.reason["next_step"]
        await asyncio.to_thread(world.dev.delete, "v1", "pods", "notebook", space)
        await until(BoundNamespace.objects.filter(foreign_pods=0, foreign_gpus=0).exists)


async def test_a_quota_has_room_for_newcomers_while_others_leave(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        node = f"{namespace.name}-0"
        leaver = await in_database(lambda: world.submit(CHAMBER_TEST_STOPS_IN="25"))
        attempt = await world.admit(leaver, [(node, 0), (node, 1)])
        await until(lambda: Workload.objects.get(pk=leaver.pk).status == Status.RUNNING)
        await in_database(world.cancel, attempt)
        newcomer = await in_database(world.submit)
        await world.admit(newcomer, [(node, 2), (node, 3)])
        await until(lambda: Workload.objects.get(pk=newcomer.pk).status == Status.RUNNING)
        await hard(world, "4")
        pods = await asyncio.to_thread(world.space.items, "v1", "pods")
        for leaving in (pod for pod in pods if "deletionTimestamp" in pod["metadata"]):
            name = leaving["metadata"]["name"]
            await asyncio.to_thread(
                world.space.admin.delete, "v1", "pods", name, world.space.name, gracePeriodSeconds="0"
            )
        await hard(world, "2")


async def test_a_quota_has_room_for_newcomers_while_pods_of_a_lost_node_are_still_counted(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path, nodes=2) as world:
        lost, there = (f"{namespace.name}-{number}" for number in range(2))
        stays = await in_database(world.submit)
        leaves = await world.admit(stays, [(lost, 0), (lost, 1)])
        await until(lambda: Workload.objects.get(pk=stays.pk).status == Status.RUNNING)
        await asyncio.to_thread(namespace.admin.delete, "v1", "nodes", lost)
        await until(Attempt.objects.filter(pk=leaves.pk, end_reason=EndReason.DISPLACED).exists)
        newcomer = await in_database(world.submit)
        attempt = await world.admit(newcomer, [(there, 2), (there, 3)])
        await until(
            lambda: (
                Workload.objects.get(pk=newcomer.pk).status == Status.RUNNING
                or Attempt.objects.get(pk=attempt.pk).end_detail
            )
        )
        assert (await in_database(lambda: Attempt.objects.get(pk=attempt.pk))).end_detail == {}
        await hard(world, "4")
        for pod in await asyncio.to_thread(world.space.items, "v1", "pods"):
            if pod["spec"].get("nodeName") == lost:  # as the cluster's garbage collector does some time later
                name = pod["metadata"]["name"]
                await asyncio.to_thread(
                    world.space.admin.delete, "v1", "pods", name, world.space.name, gracePeriodSeconds="0"
                )
        await hard(world, "2")


async def test_a_quota_has_no_room_in_the_place_of_a_gang_that_lost_a_node(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path, nodes=2) as world:
        lost, there = (f"{namespace.name}-{number}" for number in range(2))
        gang = await in_database(world.submit)
        attempt = await world.admit(gang, [(lost, 0), (there, 0)])
        await until(lambda: Workload.objects.get(pk=gang.pk).status == Status.RUNNING)
        await hard(world, "2")
        await asyncio.to_thread(namespace.admin.delete, "v1", "nodes", lost)
        await hard(world, "1")  # what the cluster's garbage collector has not taken away yet
        (pod,) = await asyncio.to_thread(world.space.items, "v1", "pods")
        assert pod["spec"]["nodeName"] == lost
        assert "exceeded quota" in await refusal_of(world, pod_body("beside"))
        assert (
            await in_database(lambda: Attempt.objects.get(pk=attempt.pk))
        ).end_reason == EndReason.DISPLACED


async def test_a_namespace_that_was_there_is_taken_only_when_it_is_labelled_for_that(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        foreign = Namespace(namespace.admin, f"{namespace.name}-old")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": foreign.name}}
        await asyncio.to_thread(namespace.admin.create, body, "namespaces")
        try:
            vision = await in_database(lambda: make_team(Team.objects.get(parent=None), "Vision"))
            await in_database(world.bind, vision, foreign.name)
            bound = await until(
                lambda: BoundNamespace.objects.filter(team=vision).exclude(problem="").first()
            )
            assert "is there and is not labelled as a team's. To hand it over: kubectl label" in bound.problem
            untouched = await asyncio.to_thread(namespace.admin.get, "v1", "namespaces", foreign.name)
            assert not [
                key for key in untouched["metadata"]["labels"] if "chamber" in key or "security" in key
            ]

            def has_baseline(found: list[Json]) -> bool:
                labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in found}
                return bool(labels[foreign.name].get(BASELINE) == "baseline")

            for team, ready in (("nlp", False), ("vision", True)):
                labels = {"metadata": {"labels": {"chamber.internal/team": team, BASELINE: "restricted"}}}
                await asyncio.to_thread(namespace.admin.merge, "v1", "namespaces", foreign.name, labels)
                words = "" if ready else "is labelled as team nlp's"
                wanted = BoundNamespace.objects.filter(team=vision, ready=ready, problem__contains=words)
                await until(wanted.all().exists)
            taken = await asyncio.to_thread(namespace.admin.get, "v1", "namespaces", foreign.name)
            assert taken["metadata"]["labels"][BASELINE] == "restricted"
            for level in ("privileged", None):
                weaker = {"metadata": {"labels": {BASELINE: level}}}
                await asyncio.to_thread(namespace.admin.merge, "v1", "namespaces", foreign.name, weaker)
                await asyncio.to_thread(namespace.admin.until, has_baseline, "v1", "namespaces")
        finally:
            await asyncio.to_thread(foreign.remove)


async def test_a_namespace_is_made_again_when_it_is_deleted_and_stays_when_it_is_unbound(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with world_of(namespace, tmp_path) as world:
        before = await asyncio.to_thread(namespace.admin.get, "v1", "namespaces", world.space.name)
        await asyncio.to_thread(namespace.admin.delete, "v1", "namespaces", world.space.name)

        def again(found: list[Json]) -> Json | None:
            uids = {each["metadata"]["name"]: each for each in found}
            now = uids.get(world.space.name)
            return now if now and now["metadata"]["uid"] != before["metadata"]["uid"] else None

        await asyncio.to_thread(namespace.admin.until, again, "v1", "namespaces")
        await hard(world, "0")
        await until(lambda: BoundNamespace.objects.filter(ready=True).exists())
        await in_database(
            lambda: spaces.unbind_namespace(
                by=ADMIN, bound=BoundNamespace.objects.select_related("cluster", "team").get()
            )
        )
        workload = await in_database(world.submit)
        await world.admit(workload, [(f"{namespace.name}-0", 0), (f"{namespace.name}-0", 1)])
        await until(lambda: Workload.objects.get(pk=workload.pk).status == Status.RUNNING)
        assert len(await asyncio.to_thread(namespace.items, "batch/v1", "jobs")) == 1
        assert await asyncio.to_thread(namespace.admin.get, "v1", "namespaces", world.space.name)


@contextmanager
def installed(own: Namespace) -> Iterator[str]:
    """Install the chart's agent, which may make namespaces; give the name of its service account."""
    given = {"enabled": True, "url": "https://chamber.example.org", "makesNamespaces": True}
    given |= {"workloadNamespace": f"{own.name}-work", "createWorkloadNamespace": True}
    where = ("--namespace", own.name)
    charts.helm(
        "install", own.name, str(charts.CHART), *where, kubeconfig=own.kubeconfig, values={"agent": given}
    )
    try:
        yield f"{own.name}-chamber-agent"
    finally:
        charts.helm("uninstall", own.name, *where, "--no-hooks", kubeconfig=own.kubeconfig)


async def test_the_rights_that_the_chart_gives_are_enough_to_bind_and_adopt(
    namespace: Namespace, tmp_path: Path
) -> None:
    with installed(namespace) as name:
        account = (namespace.account_kubeconfig(name, tmp_path), f"{name}-workloads")
        async with world_of(namespace, tmp_path, account=account) as world:
            await hard(world, "0")
            await world.create(job_body())
            workload = await world.workload("train")
            await world.event("train", "Adopted")
            for device in (0, 1):
                attempt = await world.admit(workload, [(f"{namespace.name}-0", device)])
                await world.workload("train", lambda row: row.status == Status.RUNNING)
                await in_database(world.cancel, attempt)
                await until(Attempt.objects.filter(pk=attempt.pk, released_at__isnull=False).exists)
                await in_database(lambda: actions.requeue(by=ADMIN, workload=workload))
