"""Namespaces that an admin made: kept where their pods are held to a Pod Security level, else told how to set one."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from agentlink.agent.backends.native.attempts import CountedPod
from agentlink.agent.backends.native.devices import CannotHold, ContainerRequest, DeviceClaim
from agentlink.agent.backends.native.inventory import NodeInventory, Settings
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import KeptNamespace, NamespaceKeeper
from agentlink.agent.backends.native.slices import SliceDevice
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden
from agentlink.agent.kube.resources import NAMESPACES, RESOURCE_QUOTAS, Resource
from agentlink.protocol import AssignedPod, NamespaceBinding, NamespaceReport
from agentlink.tests.kube.made import assigned

BOUND = NamespaceBinding(id=uuid4(), namespace="nlp-jobs", team="nlp")


class Api:
    """An API server that lets the agent label namespaces, or not."""

    def __init__(self, *, may_label: bool, words: str = "namespaces is forbidden") -> None:
        self._may_label, self._words = may_label, words
        self.labels: dict[str, str] = {}

    async def apply(self, resource: Resource, body: dict[str, Any], *_: object) -> None:
        if resource is NAMESPACES:
            if not self._may_label:
                raise Forbidden(403, "Forbidden", self._words)
            self.labels = body["metadata"]["labels"]
        if resource is RESOURCE_QUOTAS:
            raise Forbidden(403, "Forbidden", self._words)

    async def create(self, *_: object) -> dict[str, Any]:
        return {"status": {"userInfo": {"username": "agent"}}}


async def kept(api: Api, security: str) -> str:
    keeper = NamespaceKeeper(
        cast(Kube, api), cast(NodeInventory, None), DomainNames(), own_namespace="chamber-agent"
    )
    return await keeper.keep(BOUND, KeptNamespace(team="nlp", binding="", security=security, going=False))


class Quota:
    """An API server that takes quotas."""

    def __init__(self) -> None:
        self.hard: dict[str, str] = {}

    async def apply(self, _: Resource, body: dict[str, Any], __: str) -> None:
        self.hard = body["spec"]["hard"]

    async def get(self, *_: object) -> dict[str, Any]:
        return {"status": {"hard": self.hard}}


class Nodes:
    """An inventory whose pods claim one GPU each, for as long as their node is there."""

    settings = Settings()

    def __init__(self) -> None:
        self.lost = False

    def quota_keys(self) -> set[str]:
        return set() if self.lost else {"gpus"}

    def quota_key(self, _: object) -> str:
        return "gpus"

    def ask(self, pod: AssignedPod, _: str) -> ContainerRequest:
        if self.lost:
            raise CannotHold(f"Node {pod.node} is not there any more.")
        return ContainerRequest(claims=(DeviceClaim(((0, cast(SliceDevice, None)),), shared=False),))


async def test_pods_of_a_lost_node_count_until_they_are_gone_as_what_their_job_asks_for_or_as_they_did() -> (
    None
):
    api, nodes = Quota(), Nodes()
    keeper = NamespaceKeeper(
        cast(Kube, api), cast(NodeInventory, nodes), DomainNames(), own_namespace="chamber-agent"
    )
    first, second = assigned(0, 1)
    asks = (("nvidia.com/gpu", 2), ("rdma/hca", 1))
    there = [CountedPod("ns", uuid4(), first, asks), CountedPod("ns", uuid4(), second, ())]
    for nodes.lost in (False, True, True):
        assert await keeper.set_quota("ns", (), there) == ""
        assert api.hard == {"gpus": "1", "requests.nvidia.com/gpu": "2"}
    assert await keeper.set_quota("ns", (first,)) == ""
    assert api.hard == {"requests.nvidia.com/gpu": "0"}


@pytest.mark.parametrize(
    ("has", "gets"), [("", "baseline"), ("privileged", "baseline"), ("restricted", "restricted")]
)
async def test_a_namespace_gets_a_pod_security_level_where_the_agent_may_label_it(
    has: str, gets: str
) -> None:
    api = Api(may_label=True)
    assert await kept(api, has) == ""
    assert api.labels["pod-security.kubernetes.io/enforce"] == gets


@pytest.mark.parametrize(
    ("has", "lacks"),
    [("", "It has no Pod Security level"), ("privileged", "Its Pod Security level is 'privileged'")],
)
async def test_one_without_a_level_that_the_agent_may_not_label_is_not_kept(has: str, lacks: str) -> None:
    assert await kept(Api(may_label=False), has) == (
        f"{lacks}, and the agent may not label namespaces. To set one: kubectl label --overwrite namespace nlp-jobs "
        "pod-security.kubernetes.io/enforce=baseline"
    )


@pytest.mark.parametrize("has", ["baseline", "restricted"])
async def test_one_that_an_admin_gave_a_level_is_kept_as_it_is(has: str) -> None:
    assert await kept(Api(may_label=False), has) == ""


async def test_why_one_is_not_kept_can_be_told_however_much_a_webhook_says() -> None:
    api = Api(may_label=False, words="".join(f"No {number}.\x00 " for number in range(1000)))
    inventory = cast(NodeInventory, SimpleNamespace(quota_keys=tuple))
    keeper = NamespaceKeeper(cast(Kube, api), inventory, DomainNames(), own_namespace="chamber-agent")
    for problem, begins in (
        (await keeper.keep(BOUND, None), "It does not exist, and the agent may not make it: No 0. No 1."),
        (await keeper.set_quota("nlp-jobs", ()), "Its quota cannot be written: No 0. No 1."),
    ):
        told = NamespaceReport(namespace="nlp-jobs", ready=False, problem=problem)
        assert told.problem.startswith(begins)
