"""The agent with exactly the rights that the chart gives it: enough for a workload's life, and for nothing else."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.lease import Leadership
from agentlink.protocol import AssignedCredentials, AssignedPod, AssignedShare, DesiredAttempt, ReportedPhase
from agentlink.tests.kube.native import Agent, pods_on, work
from agentlink.tests.kube.test_dra import prepare
from rig import charts
from rig.namespaces import Admin, Json, Namespace, Refused
from rig.namespaces import namespace as another_namespace

pytestmark = pytest.mark.kube
SECONDS = 60


@pytest.fixture
def workloads(control_plane: Path) -> Iterator[Namespace]:
    """The namespace where workloads run, beside the agent's own."""
    with another_namespace(control_plane) as made:
        yield made


@contextmanager
def installed(own: Namespace, workloads: Namespace) -> Iterator[str]:
    """Install the chart's agent; give the name of its service account."""
    given = {"enabled": True, "url": "https://chamber.example.org"}
    given |= {"workloadNamespace": workloads.name, "createWorkloadNamespace": False}
    where = ("--namespace", own.name)
    charts.helm(
        "install", own.name, str(charts.CHART), *where, kubeconfig=own.kubeconfig, values={"agent": given}
    )
    try:
        yield f"{own.name}-chamber-agent"
    finally:
        charts.helm("uninstall", own.name, *where, "--no-hooks", kubeconfig=own.kubeconfig)


@pytest.fixture
def account(namespace: Namespace, workloads: Namespace, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with a token of the agent's service account, as the chart made it."""
    with installed(namespace, workloads) as name:
        yield namespace.account_kubeconfig(name, tmp_path)


def assignment(node: str, **fields: Any) -> DesiredAttempt:
    pods = tuple(
        AssignedPod(index=index, node=node, devices=(AssignedShare(index=index, share_milli=1000),))
        for index in range(2)
    )
    return DesiredAttempt(
        workload=uuid.uuid4(), slug="train-1", attempt=uuid.uuid4(), number=1, pods=pods, let_go=True,
        team="nlp", image="registry.test/train:1", grace_seconds=30, **fields,
    )  # fmt: skip


async def reaches(cluster: NativeCluster, attempt: uuid.UUID, *phases: ReportedPhase) -> None:
    """Wait until the attempt is in one of these phases."""
    async with asyncio.timeout(SECONDS):
        while True:
            version, seen = await cluster.observe(-1)
            if any(one.attempt == attempt and one.phase in phases for one in seen):
                return
            await cluster.changed(version)


KINDS = (("jobs", "batch/v1"), ("pods", "v1"), ("services", "v1"), ("poddisruptionbudgets", "policy/v1"))


async def is_gone(workloads: Namespace, plural: str, version: str = "v1") -> None:
    await asyncio.to_thread(workloads.until, lambda found: not found, version, plural)


async def test_it_runs_stops_and_forgets_workloads_with_these_rights(
    namespace: Namespace, workloads: Namespace, account: Path
) -> None:
    (node,) = namespace.add_nodes(1)
    ends, stays = (
        assignment(node, environment={"CHAMBER_TEST_RUN_FOR": "0s"}),
        assignment(
            node, credentials=AssignedCredentials(directory="/run/credentials", variables={"A": "secret"})
        ),
    )
    settings = Settings(node_selector=namespace.selector)
    async with (
        Kube(load(account)) as kube,
        NativeCluster(
            kube, own_namespace=namespace.name, namespace=workloads.name, settings=settings
        ) as cluster,
    ):
        _, nodes = await cluster.nodes(-1)
        assert [one.name for one in nodes or ()] == [node]
        await cluster.expect([ends, stays])
        await cluster.create(ends, ends.pods)
        await reaches(cluster, ends.attempt, ReportedPhase.SUCCEEDED)
        await cluster.forget(ends.attempt)
        await is_gone(workloads, "pods")
        await cluster.create(stays, stays.pods)
        await reaches(cluster, stays.attempt, ReportedPhase.RUNNING)
        assert len(workloads.items("policy/v1", "poddisruptionbudgets")) == 1
        await cluster.stop(stays.attempt, None)
        await reaches(cluster, stays.attempt, ReportedPhase.GONE)
        await cluster.forget(stays.attempt)
        for plural, version in KINDS:
            await is_gone(workloads, plural, version)


async def test_it_claims_and_shares_published_devices_with_these_rights(
    namespace: Namespace, workloads: Namespace, account: Path
) -> None:
    (node,), settings = await asyncio.to_thread(prepare, namespace, 1)
    shared = [work(*pods_on((node, (1,)), share=share)) for share in (250, 750)]
    options: dict[str, Any] = {"namespace": workloads.name, "settings": settings}
    async with (
        Kube(load(account)) as kube,
        NativeCluster(kube, own_namespace=namespace.name, **options) as cluster,
    ):
        agent = Agent(cluster)
        await agent.begin(*shared)
        for each in shared:
            await agent.until(each, ReportedPhase.RUNNING)
        for each in shared:
            await agent.stop(each)
            await agent.until(each, ReportedPhase.GONE)
            await agent.forgotten(each)
    await is_gone(workloads, "resourceclaims", "resource.k8s.io/v1")


async def test_it_leads_with_these_rights(namespace: Namespace, account: Path) -> None:
    leads = asyncio.Event()

    async def work() -> None:
        leads.set()

    async with asyncio.timeout(SECONDS):
        await Leadership(load(account), namespace=namespace.name).run(work)
    assert leads.is_set()


def job(name: str) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def pod(name: str) -> Json:
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def role_binding(name: str, account: str) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": name}],
    }


Try = Callable[[Admin, str, str], object]
"""What the agent's account tries, in the agent's own namespace (first) and where workloads run (second)."""
TRIES: dict[str, Try] = {
    "list its own namespace's secrets": lambda agent, own, _: agent.items("v1", "secrets", own),
    "read the release's token": lambda agent, own, _: agent.get("v1", "secrets", "chamber-agent-token", own),
    "list secrets where workloads run": lambda agent, _, there: agent.items("v1", "secrets", there),
    "delete a namespace": lambda agent, _, there: agent.delete("v1", "namespaces", there),
    "make a namespace": lambda agent, own, _: agent.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{own}-x"}}, "namespaces"
    ),
    "cordon a node": lambda agent, own, _: agent.merge(
        "v1", "nodes", f"{own}-0", {"spec": {"unschedulable": True}}
    ),
    "make a pod by itself": lambda agent, _, there: agent.create(pod("x"), "pods", there),
    "make a job in its own namespace": lambda agent, own, _: agent.create(job("x"), "jobs", own),
    "make a job elsewhere": lambda agent, _, __: agent.create(job("x"), "jobs", "default"),
    "delete all jobs at once": lambda agent, _, there: agent.delete_all("batch/v1", "jobs", there),
    "delete a pod elsewhere": lambda agent, _, __: agent.delete("v1", "pods", "x", "kube-system"),
    "run a command in a pod": lambda agent, _, there: agent.request(
        "POST", f"/api/v1/namespaces/{there}/pods/x/exec", command="sh"
    ),
    "give itself more rights": lambda agent, own, _: agent.create(
        role_binding(own, f"{own}-chamber-agent"), "rolebindings", own
    ),
    "make a token of another account": lambda agent, own, _: agent.request(
        "POST", f"/api/v1/namespaces/{own}/serviceaccounts/default/token", {}
    ),
    "take another's lease": lambda agent, own, _: agent.get("coordination.k8s.io/v1", "leases", "other", own),
}


def test_everything_else_is_refused(namespace: Namespace, workloads: Namespace, account: Path) -> None:
    namespace.add_nodes(1)
    with Admin(account) as agent:
        for what, attempt in TRIES.items():
            with pytest.raises(Refused) as refused:
                attempt(agent, namespace.name, workloads.name)
            assert refused.value.status == 403, f"{what}: {refused.value}"
