"""A served project and an agent on a test's cluster, a namespace bound to a team, and somebody with kubectl in it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from agentlink import spaces
from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import ROLE
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.runner import run_agent
from agentlink.models import AdoptedJob, BoundNamespace, Cluster, Device
from agentlink.tests.agents import admit, in_database, make_token, running, serving, until
from agentlink.tests.factories import make_cluster
from chamber.models import User
from rig.namespaces import Admin, Json, Namespace
from teams.actors import Actor
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads import actions
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload

ADMIN = Actor.system("test")
ADOPT = {"chamber.internal/adopt": "true"}
GPU_TAINTS = {"nvidia.com/gpu", "amd.com/gpu"}


class World:
    """What a test looks at. `dev` is who may edit what lies in the bound namespace, and nothing else anywhere."""

    def __init__(self, base: Namespace, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.space = Namespace(base.admin, f"{base.name}-nlp")
        self.dev: Admin = base.admin
        self.team: Team
        self.owner: User
        self.pool: Pool
        self.cluster: Cluster
        self.url, self.kubeconfig, self.role = "", base.kubeconfig, ROLE
        self._agent: AsyncExitStack

    def make(self) -> None:
        """Make the organisation, with the namespace bound to team NLP."""
        org = make_org("Acme")
        self.team, self.pool = make_team(org, "NLP"), make_pool("Main")
        self.owner = member(self.team, Role.RESEARCHER, "ada")
        self.cluster = make_cluster("east", connected=False, last_seen_at=None)
        self.bind(self.team, self.space.name)

    def bind(self, team: Team, namespace: str) -> BoundNamespace:
        """Bind a namespace of the cluster to a team."""
        return spaces.bind_namespace(by=ADMIN, cluster=self.cluster, team=team, namespace=namespace)

    def let_in(self) -> None:
        """Give somebody kubectl in the namespace, as a cluster's admin would."""
        name = self.space.name
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "dev"}}
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "dev"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "dev", "namespace": name}],
        }
        self.base.admin.create(account, "serviceaccounts", name)
        self.base.admin.create(role, "rolebindings", name)
        self.dev = Admin(self.space.account_kubeconfig("dev", self.folder))

    # What the developer does

    async def create(self, body: Json) -> Json:
        """Create a Job, as the developer."""
        return await asyncio.to_thread(self.dev.create, body, "jobs", self.space.name)

    async def patch(self, name: str, change: Json) -> Json:
        """Change a Job, as the developer."""
        return await asyncio.to_thread(self.dev.merge, "batch/v1", "jobs", name, change, self.space.name)

    async def delete(self, name: str) -> None:
        """Delete a Job, as the developer."""
        await asyncio.to_thread(
            self.dev.delete, "batch/v1", "jobs", name, self.space.name, propagationPolicy="Background"
        )

    async def job(self, name: str, holds: Callable[[Json], object] = bool) -> Json:
        """Return a Job once it holds."""

        def found(jobs: list[Json]) -> Json | None:
            return next((job for job in jobs if job["metadata"]["name"] == name and holds(job)), None)

        job: Json = await self.eventually(found, "batch/v1", "jobs")
        return job

    async def eventually(self, holds: Callable[[list[Json]], Any], version: str, plural: str) -> Any:
        """Wait for something of a collection in the bound namespace."""
        return await asyncio.to_thread(self.space.until, holds, version, plural)

    async def event(self, job: str, reason: str, *words: str) -> str:
        """Return the message of an Event about a Job that has this reason and these words."""

        def found(events: list[Json]) -> str | None:
            messages = (
                event["message"]
                for event in events
                if event["involvedObject"]["name"] == job and event["reason"] == reason
            )
            return next((text for text in messages if all(word in text for word in words)), None)

        message: str = await self.eventually(found, "v1", "events")
        return message

    async def pods(self, job: str) -> list[Json]:
        """Return the pods of a Job."""
        pods = await asyncio.to_thread(self.space.items, "v1", "pods")
        return [pod for pod in pods if pod["metadata"]["labels"].get("job-name") == job]

    # What the server has

    async def workload(self, job: str, holds: Callable[[Workload], object] = bool) -> Workload:
        """Return the workload that a Job is now, once it holds."""

        def found() -> Workload | None:
            row = AdoptedJob.objects.filter(name=job, current=True).select_related("workload__team").first()
            return row.workload if row is not None and holds(row.workload) else None

        workload: Workload = await until(found)
        return workload

    async def admit(
        self, workload: Workload, places: Iterable[tuple[str, int]], *, share: int = 1000
    ) -> Attempt:
        """Admit a workload as a cycle would: pod 0, 1, ... on one device each."""

        def work() -> Attempt:
            devices = [Device.objects.get(node__name=node, index=index) for node, index in places]
            return admit(
                self.team, self.owner, self.pool, self.cluster, devices, workload=workload, share=share
            )

        attempt: Attempt = await in_database(work)
        return attempt

    def submit(self, **environment: str) -> Workload:
        """Return a workload of the team, of two pods, that was submitted to Chamber."""
        return make_workload(
            self.team, self.owner, pods=2, image="registry.test/train:1", environment=environment
        )

    def cancel(self, attempt: Attempt) -> None:
        """Cancel an attempt's workload."""
        actions.cancel(by=ADMIN, workload=attempt.workload)

    def submit_elsewhere(self) -> Workload:
        """Return a workload of another team, which has no namespace of its own."""
        other = make_team(Team.objects.get(parent=None), "Vision")
        return make_workload(other, member(other, Role.RESEARCHER, "bob"), image="registry.test/train:1")

    @asynccontextmanager
    async def with_agent(self) -> AsyncIterator[None]:
        """Run the cluster's agent beside the test; `without_agent` stops it for a while."""
        self._agent = AsyncExitStack()
        try:
            await self._agent.enter_async_context(agent_of(self, self.url))
            yield
        finally:
            await self._agent.aclose()

    @asynccontextmanager
    async def without_agent(self) -> AsyncIterator[None]:
        """Stop the agent, and begin with a new one after the block."""
        await self._agent.aclose()
        yield
        await self._agent.enter_async_context(agent_of(self, self.url))


@asynccontextmanager
async def world_of(
    namespace: Namespace,
    folder: Path,
    *,
    nodes: int = 1,
    gpus: int = 4,
    account: tuple[Path, str] | None = None,
    **facts: Any,
) -> AsyncIterator[World]:
    """Give a world whose agent keeps the bound namespace already; `account` is its kubeconfig, and the name of the role
    that it may give itself, `facts` are those of its nodes.
    """
    world = World(namespace, folder)
    world.kubeconfig, world.role = account or (namespace.kubeconfig, ROLE)
    await in_database(world.make)
    await asyncio.to_thread(namespace.add_nodes, nodes, gpus=gpus, **facts)
    try:
        async with serving() as world.url, world.with_agent():
            await until(lambda: BoundNamespace.objects.filter(ready=True).exists())
            await until(lambda: Device.objects.count() == nodes * gpus)
            await asyncio.to_thread(world.let_in)
            with world.dev:
                yield world
    finally:
        await asyncio.to_thread(world.space.remove)


@asynccontextmanager
async def agent_of(world: World, url: str) -> AsyncIterator[NativeCluster]:
    """Run the cluster's agent beside the test."""
    secret = await in_database(make_token, world.cluster)
    settings = Settings(node_selector=world.base.selector)
    async with (
        Kube(load(world.kubeconfig)) as kube,
        NativeCluster(kube, own_namespace=world.base.name, settings=settings, role=world.role) as cluster,
        running(run_agent(url, secret, cluster, heartbeat_seconds=1.0)),
    ):
        yield cluster


def left_of_chamber(job: Json) -> set[str]:
    """Return what a Job still bears of Chamber, besides what its people wrote."""
    template = job["spec"]["template"]
    names = {gate["name"] for gate in template["spec"].get("schedulingGates", ())}
    names |= {each["key"] for each in template["spec"].get("tolerations", ())} & GPU_TAINTS
    for metadata in (job["metadata"], template["metadata"]):
        said = {
            *metadata.get("labels", ()),
            *metadata.get("annotations", ()),
            *metadata.get("finalizers", ()),
        }
        names |= {key for key in said if key.startswith(DomainNames().domain)}
    return names - ADOPT.keys()


def job_body(name: str = "train", *, pods: int = 1, gpus: int = 1, **changes: Any) -> Json:
    """Return a Job as somebody would write it for adoption; `changes` go into its pods' spec."""
    labels: dict[str, str] = {**ADOPT, **changes.pop("labels", {})}
    spec: Json = {"suspend": True, "backoffLimit": 0, "parallelism": pods, "completions": pods}
    spec |= ({"completionMode": "Indexed"} if pods > 1 else {}) | changes.pop("spec", {})
    container = {
        "name": "main",
        "image": "registry.test/train:1",
        "command": ["python", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {},
        **changes.pop("container", {}),
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **changes}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "template": {"spec": pod}},
    }
