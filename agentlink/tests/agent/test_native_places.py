"""Namespaces that an admin made: kept where their pods are held to a Pod Security level, else told how to set one."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from agentlink.agent.backends.native.inventory import Inventory
from agentlink.agent.backends.native.names import Names
from agentlink.agent.backends.native.places import Keeper, Place
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import Forbidden
from agentlink.agent.kube.resources import NAMESPACES, RESOURCE_QUOTAS, Resource
from agentlink.protocol import BoundNamespace, NamespaceReport

BOUND = BoundNamespace(id=uuid4(), namespace="nlp-jobs", team="nlp")


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
    keeper = Keeper(cast(Kube, api), cast(Inventory, None), Names(), own_namespace="chamber-agent")
    return await keeper.keep(BOUND, Place(team="nlp", binding="", security=security, going=False))


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
    api = Api(may_label=False, words="No.\x00 " * 1000)
    inventory = cast(Inventory, SimpleNamespace(quota_keys=tuple))
    keeper = Keeper(cast(Kube, api), inventory, Names(), own_namespace="chamber-agent")
    for problem, begins in (
        (await keeper.keep(BOUND, None), "It does not exist, and the agent may not make it: No. No."),
        (await keeper.set_quota("nlp-jobs", ()), "Its quota cannot be written: No. No."),
    ):
        told = NamespaceReport(namespace="nlp-jobs", ready=False, problem=problem)
        assert told.problem.startswith(begins)
