"""Letting go of a cluster, and `helm uninstall` with workloads left: nothing hangs, nothing of others is touched."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent import release as releasing
from agentlink.agent.backends.base import Observation
from agentlink.agent.backends.native import reasons
from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.backends.native.marks import Marks
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.farewell import ServerAddress
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.native import AgentOptions
from agentlink.agent.release import Left, NotReleased, release
from agentlink.protocol import Adopted, DesiredAttempt, ReportedPhase
from agentlink.tests.kube.adopting import job_body, left_of_chamber
from agentlink.tests.kube.native import Agent, agent_of, pods_on, work
from rig import charts
from rig.charts import HelmFailed
from rig.namespaces import Json, Namespace
from rig.namespaces import namespace as another_namespace

pytestmark = pytest.mark.kube
NAMES = DomainNames()


def options(namespace: Namespace, **more: Any) -> AgentOptions:
    return AgentOptions(namespace=namespace.name, node_selectors=(namespace.selector,), **more)


async def let_go(
    namespace: Namespace, folder: Path, *, stop_workloads: bool = False, server: ServerAddress | None = None
) -> Left:
    """Let go of the cluster as far as the agent of this namespace made it."""
    access = load(kubeconfig(namespace, folder))
    return await release(
        access,
        options(namespace),
        stop_workloads=stop_workloads,
        timeout_seconds=120,
        settle_seconds=0,
        server=server,
    )


def kubeconfig(namespace: Namespace, folder: Path) -> Path:
    """Write the admin's kubeconfig with this namespace as its own."""
    read = json.loads(namespace.kubeconfig.read_text())
    read["contexts"][0]["context"]["namespace"] = namespace.name
    written = folder / "own.kubeconfig"
    written.write_text(json.dumps(read))
    return written


async def begun(namespace: Namespace, phase: ReportedPhase, **play: str) -> DesiredAttempt:
    """Return an attempt that an agent has brought to this phase, and left."""
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    made = work(*pods_on((node, (0,))), play=play)
    async with agent_of(namespace) as agent:
        await agent.begin(made)
        await agent.until(made, phase)
    if phase is ReportedPhase.SUCCEEDED:
        await asyncio.to_thread(namespace.until, lambda jobs: all(map(is_complete, jobs)), "batch/v1", "jobs")
    return made


def is_complete(job: Json) -> bool:
    return any(each["type"] == "Complete" for each in job.get("status", {}).get("conditions", []))


def foreign_jobs(namespace: Namespace) -> list[Json]:
    """Make a Job of somebody's own, and one that pretends to be Chamber's with its finalizer; return both."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    labels = {NAMES.cluster: "x", NAMES.workload: "x", NAMES.attempt: "x"}
    kinds: dict[str, Json] = {"own": {}, "forged": {"labels": labels, "finalizers": [NAMES.report]}}
    for name, metadata in kinds.items():
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **metadata}}
        job["spec"] = {"suspend": True, "template": {"spec": pod}}
        namespace.admin.create(job, "jobs", namespace.name)
    return unchanging(namespace)


def unchanging(namespace: Namespace) -> list[Json]:
    """Return the specification and metadata of the Jobs that are nobody's to touch."""
    return [job for job in written(namespace) if job["name"] in ("own", "forged")]


def written(namespace: Namespace) -> list[Json]:
    """Return the specification and metadata of all Jobs; their status is the Job controller's, which may be late."""
    jobs = sorted(namespace.items("batch/v1", "jobs"), key=lambda job: str(job["metadata"]["name"]))
    return [
        {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "spec": job["spec"], **told(job)}
        for job in jobs
    ]


def told(job: Json) -> Json:
    return {key: job["metadata"].get(key) for key in ("labels", "annotations", "finalizers")}


def jobs_of(namespace: Namespace) -> set[str]:
    return {job["metadata"]["name"] for job in namespace.items("batch/v1", "jobs")}


async def test_what_ended_is_let_go_of_and_nothing_else_is_touched(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(namespace, ReportedPhase.SUCCEEDED, run_for="0s")
    before = await asyncio.to_thread(foreign_jobs, namespace)
    told: list[ReportedPhase] = []

    async def tell(_: ServerAddress, uid: str, ended: Iterable[Observation]) -> str:
        assert uid
        told.extend(each.phase for each in ended)
        return ""

    async def look(kube: Kube, marks: Marks | None) -> Left:
        left = await real_look(kube, marks)  # other tests have theirs in the same control plane
        return replace(left, active=tuple(key for key in left.active if key.startswith(f"{namespace.name}/")))

    real_look = releasing.look
    monkeypatch.setattr(releasing, "look", look)
    monkeypatch.setattr(releasing, "tell", tell)
    with another_namespace(namespace.kubeconfig) as others:
        await asyncio.to_thread(foreign_jobs, others)
        left = await let_go(namespace, tmp_path, server=ServerAddress("http://chamber.test", lambda: "cha_x"))
    assert (told, left.untold) == ([ReportedPhase.SUCCEEDED], "")
    assert [len(left.running), len(left.ended)] == [0, 1]
    assert [key for key in left.unmarked if key.startswith(f"{namespace.name}/")] == [
        f"{namespace.name}/forged"
    ]
    assert jobs_of(namespace) == {"own", "forged"}
    assert unchanging(namespace) == before


async def test_while_something_runs_it_is_refused_and_nothing_changes(
    namespace: Namespace, tmp_path: Path
) -> None:
    await begun(namespace, ReportedPhase.RUNNING)
    before = written(namespace)
    with another_namespace(namespace.kubeconfig) as elsewhere:
        with pytest.raises(NotReleased, match=f"namespace {elsewhere.name} has no Secret"):
            await let_go(elsewhere, tmp_path)
        assert elsewhere.items("v1", "secrets") == []
    with pytest.raises(NotReleased, match=rf"1 Job \({namespace.name}/train-"):
        await let_go(namespace, tmp_path)
    assert written(namespace) == before
    assert namespace.items("coordination.k8s.io/v1", "leases") == []


async def test_what_runs_is_stopped_where_that_is_asked_for(namespace: Namespace, tmp_path: Path) -> None:
    await begun(namespace, ReportedPhase.RUNNING)
    left = await let_go(namespace, tmp_path, stop_workloads=True)
    assert len(left.running) == 1
    assert jobs_of(namespace) == set()
    await asyncio.to_thread(namespace.until, lambda pods: not pods, "v1", "pods")
    (lease,) = namespace.items("coordination.k8s.io/v1", "leases")
    assert lease["spec"]["leaseDurationSeconds"] == 120  # nobody begins again meanwhile


async def adopted(namespace: Namespace, node: str, **changes: Any) -> DesiredAttempt:
    """Return an attempt of a Job that somebody made."""
    made = await asyncio.to_thread(namespace.admin.create, job_body(**changes), "jobs", namespace.name)
    there = Adopted(namespace=namespace.name, name=made["metadata"]["name"], uid=made["metadata"]["uid"])
    return work(*pods_on((node, (0,))), adopted=there)


async def test_an_adopted_job_is_suspended_and_freed_and_never_deleted(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs, and one of which no pod was ever made: the cluster's admission refuses its pods."""
    monkeypatch.setattr(reasons, "UNMADE_SECONDS", 1.0)
    quota: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    await asyncio.to_thread(
        namespace.admin.create, quota | {"spec": {"hard": {"requests.ephemeral-storage": "1Gi"}}},
        "resourcequotas", namespace.name,
    )  # fmt: skip
    first, second = await asyncio.to_thread(namespace.add_nodes, 2)
    sizes = [
        {"resources": {"limits": {"nvidia.com/gpu": "1", "ephemeral-storage": size}}}
        for size in ("1Gi", "2Gi")
    ]
    runs = await adopted(namespace, first, name="runs", container=sizes[0])
    refused = await adopted(namespace, second, name="refused", container=sizes[1])
    async with agent_of(namespace) as agent:
        await agent.begin(runs, refused)
        await agent.until(runs, ReportedPhase.RUNNING)
        await agent.until(refused, ReportedPhase.FAILED)
    await let_go(namespace, tmp_path, stop_workloads=True)
    jobs = {job["metadata"]["uid"]: job for job in namespace.items("batch/v1", "jobs")}
    for attempt in (runs, refused):
        assert attempt.adopted is not None
        job = jobs[str(attempt.adopted.uid)]
        assert (job["spec"].get("suspend"), left_of_chamber(job)) == (True, set()), attempt.adopted.name


@pytest.fixture
def workloads(control_plane: Path) -> Iterator[Namespace]:
    """Where workloads run, beside the agent's own namespace."""
    with another_namespace(control_plane) as made:
        yield made


@contextmanager
def installed(own: Namespace, workloads: Namespace, **uninstall: Any) -> Iterator[None]:
    """Install the chart's agent; remove what is left of it after the block."""
    given = {"enabled": True, "url": "https://chamber.example.org", "uninstall": uninstall, "replicas": 1}
    given |= {"workloadNamespace": workloads.name, "createWorkloadNamespace": False}
    own_nodes = {own.label: "true"}  # other tests drain and delete theirs
    given |= {"nodeSelector": own_nodes, "pods": {"nodeSelector": own_nodes}}
    where = ("--namespace", own.name)
    charts.helm(
        "install", own.name, str(charts.CHART), *where, kubeconfig=own.kubeconfig, values={"agent": given}
    )
    try:
        yield
    finally:
        gone = ("--no-hooks", "--ignore-not-found")
        charts.helm("uninstall", own.name, *where, *gone, kubeconfig=own.kubeconfig)


def uninstall(own: Namespace, folder: Path) -> str:
    """Remove the release while this test is the hook's kubelet; return what the hook's process wrote."""
    account = own.account_kubeconfig(f"{own.name}-chamber-agent", folder)
    said: list[str] = []
    kubelet = threading.Thread(target=lambda: said.append(run_hook(own, account)))
    kubelet.start()
    try:
        charts.helm(
            "uninstall", own.name, "--namespace", own.name, "--timeout", "3m", kubeconfig=own.kubeconfig
        )
    except HelmFailed as failed:
        kubelet.join(180)
        raise HelmFailed(f"{failed} {said}") from failed
    kubelet.join(180)
    return said[0]


def helm_status(own: Namespace) -> str:
    """Return what Helm calls the release's last revision."""
    history = charts.helm(
        "history", own.name, "--namespace", own.name, "-o", "json", kubeconfig=own.kubeconfig
    )
    return str(json.loads(history)[-1]["status"])


def run_hook(own: Namespace, account: Path) -> str:
    """Run the hook's command with its account where its pod has come to a node, and have the pod end likewise."""
    name = own.until(_hooks_pod, "v1", "pods")
    pod = own.admin.get("v1", "pods", name, own.name)
    [container] = pod["spec"]["containers"]
    words = [word for word in container["command"][1:] if word != "--in-cluster"]
    settings = {said["name"]: said["value"] for said in container["env"]}
    done = subprocess.run(
        [sys.executable, "-m", "chamber.cli", *words, "--kubeconfig", str(account)],
        env={**settings, "PATH": "/usr/bin:/bin"}, cwd=Path(__file__).parents[3],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    own.play(name, run_for="0s", ends=str(done.returncode))
    return done.stdout + done.stderr


def _hooks_pod(pods: list[Json]) -> str:
    found = (pod for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "release")
    return next((pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"), "")


async def began(own: Namespace, workloads: Namespace) -> None:
    """Have a workload run and another one end, both without anybody who hears of it."""
    first, second = await asyncio.to_thread(own.add_nodes, 2)
    runs, ends = work(*pods_on((first, (0,)))), work(*pods_on((second, (0,))), play={"run_for": "0s"})
    where: dict[str, Any] = {"own_namespace": own.name, "namespace": workloads.name}
    where["settings"] = Settings(node_selector=own.selector)
    async with Kube(load(own.kubeconfig)) as kube, NativeCluster(kube, **where) as cluster:
        await cluster.synced()
        agent = Agent(cluster)
        await agent.begin(runs, ends)
        await agent.until(runs, ReportedPhase.RUNNING)
        await agent.until(ends, ReportedPhase.SUCCEEDED)


async def test_helm_uninstall_ends_without_anything_removed_while_workloads_run(
    namespace: Namespace, workloads: Namespace, tmp_path: Path
) -> None:
    with installed(namespace, workloads):
        await began(namespace, workloads)
        before = jobs_of(workloads)
        with pytest.raises(HelmFailed, match=r"-chamber-agent-release not ready.*Failed"):
            await asyncio.to_thread(uninstall, namespace, tmp_path)
        assert jobs_of(workloads) == before
        assert namespace.items("apps/v1", "deployments")
        assert helm_status(namespace) == "uninstalling"
        charts.helm(
            "rollback", namespace.name, "1", "--namespace", namespace.name, kubeconfig=namespace.kubeconfig
        )
        assert helm_status(namespace) == "deployed"


async def test_helm_uninstall_stops_and_leaves_nothing_that_hangs(
    namespace: Namespace, workloads: Namespace, tmp_path: Path
) -> None:
    with installed(namespace, workloads, stopWorkloads=True):
        await began(namespace, workloads)
        before = await asyncio.to_thread(foreign_jobs, workloads)
        said = await asyncio.to_thread(uninstall, namespace, tmp_path)
        assert "Let go of 2 Jobs; the agent may be removed." in said
        # Why: no token is here; or first, in the same control plane, Jobs of other tests that run without this mark.
        assert re.search(
            "Chamber was not told: (/run/secrets/chamber/token cannot be read|still running with .* finalizer)",
            said,
        )
        assert jobs_of(workloads) == {"own", "forged"}
        assert unchanging(workloads) == before
        assert namespace.items("apps/v1", "deployments") == []
        for kind in ("clusterroles", "clusterrolebindings"):
            there = namespace.admin.items("rbac.authorization.k8s.io/v1", kind)
            assert not [each for each in there if each["metadata"]["name"].startswith(namespace.name)]
