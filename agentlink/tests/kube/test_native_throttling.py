"""An API server whose fairness has one seat for the agent: it waits its turn, and everything happens once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentlink.agent.backends.native.cluster import NativeCluster
from agentlink.agent.backends.native.inventory import Settings
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.resources import NAMESPACES
from agentlink.protocol import ReportedPhase
from agentlink.tests.kube.native import Agent, items, pods_on, work
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube

FLOWS = "flowcontrol.apiserver.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
PATIENCE_SECONDS = 90.0


class Seat:
    """One seat for all requests of one account; whoever comes meanwhile is turned away at once."""

    def __init__(self, namespace: Namespace) -> None:
        self._admin, self.name = namespace.admin, namespace.name

    def make(self) -> None:
        """Give the account the role of an admin and a priority level of its own."""
        account = {"kind": "ServiceAccount", "name": "default", "namespace": self.name}
        role = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": "cluster-admin"}
        metadata = {"name": self.name, "labels": {f"chamber.test/{self.name}": "true"}}
        binding = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata}
        self._admin.create(binding | {"roleRef": role, "subjects": [account]}, "clusterrolebindings")
        level = {"apiVersion": FLOWS, "kind": "PriorityLevelConfiguration", "metadata": {"name": self.name}}
        # Of no share at all one request is let in nevertheless, while no other is under way.
        limited = {
            "nominalConcurrencyShares": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }
        spec: Json = {"type": "Limited", "limited": limited}
        self._admin.create(level | {"spec": spec}, "prioritylevelconfigurations")
        whom = {"kind": "ServiceAccount", "serviceAccount": {"namespace": self.name, "name": "default"}}
        every = {
            "verbs": ["*"],
            "apiGroups": ["*"],
            "resources": ["*"],
            "namespaces": ["*"],
            "clusterScope": True,
        }
        spec = {
            "priorityLevelConfiguration": {"name": self.name},
            "matchingPrecedence": 50,
            "rules": [{"subjects": [whom], "resourceRules": [every]}],
        }
        schema = {"apiVersion": FLOWS, "kind": "FlowSchema", "metadata": {"name": self.name}, "spec": spec}
        self._admin.create(schema, "flowschemas")

    def remove(self) -> None:
        """Leave the API server as it was."""
        for plural in ("flowschemas", "prioritylevelconfigurations"):
            self._admin.delete(FLOWS, plural, self.name)


@asynccontextmanager
async def seat_of(namespace: Namespace) -> AsyncIterator[None]:
    """Have the namespace's account have one seat within the block."""
    seat = Seat(namespace)
    try:
        await asyncio.to_thread(seat.make)
        yield
    finally:
        await asyncio.to_thread(seat.remove)


async def turned_away(kube: Kube, level: str) -> bool:
    """Return whether the API server has turned a request of the priority level away."""
    lines = (await kube.raw("GET", "/metrics")).decode().splitlines()
    name = "apiserver_flowcontrol_rejected_requests_total{"
    return any(line.startswith(name) and f'priority_level="{level}"' in line for line in lines)


async def test_an_agent_that_is_turned_away_waits_and_makes_its_pods_once(
    namespace: Namespace, tmp_path: Path
) -> None:
    (node,) = await asyncio.to_thread(namespace.add_nodes, 1)
    kubeconfig = await asyncio.to_thread(namespace.account_kubeconfig, "default", tmp_path)
    gang = work(*pods_on(*((node, (index,)) for index in range(8))))
    settings = Settings(node_selector=namespace.selector)
    async with (
        seat_of(namespace),
        Kube(load(kubeconfig), patience_seconds=PATIENCE_SECONDS) as kube,
        NativeCluster(kube, own_namespace=namespace.name, settings=settings) as cluster,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        agent = Agent(cluster)
        await agent.begin(gang)
        while not await turned_away(kube, namespace.name):
            await asyncio.gather(*(kube.get(NAMESPACES, namespace.name) for _ in range(20)))
        await agent.until(gang, ReportedPhase.RUNNING, seconds=PATIENCE_SECONDS)
        assert len(await items(namespace, "v1", "pods")) == 8
        assert len(await items(namespace, "batch/v1", "jobs")) == 1
