"""The doctor of a cluster against a real control plane, with accounts of more and fewer rights."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent.check import CheckOptions, CheckReport, Problem, examine, server
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.rights import RIGHTS, Where, rules
from rig.namespaces import Namespace

pytestmark = pytest.mark.kube
RBAC = "rbac.authorization.k8s.io/v1"


def found(kubeconfig: Path, **asked: Any) -> CheckReport:
    async def look() -> CheckReport:
        async with Kube(load(kubeconfig)) as kube:
            return await examine(kube, CheckOptions(**asked))

    return asyncio.run(look())


def words(report: CheckReport, check: str) -> list[str]:
    return [problem.problem for name, problem in report.problems if name == check]


@pytest.fixture
def account(namespace: Namespace, tmp_path: Path) -> Path:
    """A kubeconfig of a service account that may do nothing."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}}
    namespace.admin.create(body, "serviceaccounts", namespace.name)
    return namespace.account_kubeconfig("agent", tmp_path)


@pytest.fixture
def agent(namespace: Namespace, account: Path) -> Iterator[Path]:
    """A kubeconfig of a service account with exactly the rights that the agent needs; of its own all in one
    namespace.
    """
    name = f"{namespace.name}-agent"
    labels = {namespace.label: "true"}
    own = [*rules(Where.OWN), *rules(Where.WORKLOADS)]
    for kind, plural, given, where in (
        ("ClusterRole", "clusterroles", list(rules(Where.CLUSTER)), ""),
        ("Role", "roles", own, namespace.name),
        ("Role", "roles", list(rules(Where.DEFAULT)), "default"),
    ):
        role = {
            "apiVersion": RBAC,
            "kind": kind,
            "metadata": {"name": name, "labels": labels},
            "rules": given,
        }
        namespace.admin.create(role, plural, where)
        binding = {
            "apiVersion": RBAC,
            "kind": f"{kind}Binding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": namespace.name}],
        }
        namespace.admin.create(binding, f"{plural.removesuffix('s')}bindings", where)
    yield account
    for plural in ("roles", "rolebindings"):
        namespace.admin.delete_all(RBAC, plural, "default", labels=namespace.selector)


def test_an_account_without_rights_is_told_each_that_it_lacks_and_why(
    namespace: Namespace, account: Path
) -> None:
    report = found(account)
    said = words(report, "rights")
    assert len(said) == sum(not right.value for right in RIGHTS)
    assert (
        "This account may not list or watch nodes in the whole cluster: "
        "the agent needs that to know which GPUs there are."
    ) in said
    assert (
        f"This account may not get pods/log in the namespace {namespace.name}: the agent needs that to read logs."
    ) in said
    assert report.left_out == ["namespaces", "security", "jobs", "pods", "nodes", "lease"]


def test_exactly_the_rights_of_the_agent_are_enough(namespace: Namespace, agent: Path) -> None:
    namespace.add_nodes(1)
    report = found(agent, workloads=(namespace.name,), node_selector=namespace.selector)
    assert report.problems == []
    assert report.left_out == ["pods"]  # the Jobs' controller makes them
    assert report.made == [
        "api-server", "version", "clock", "namespaces", "rights", "security", "jobs", "claims", "nodes", "lease",
    ]  # fmt: skip


def test_the_server_is_asked_whether_it_lets_this_cluster_in(
    namespace: Namespace, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[str] = []

    async def lets_in(_: CheckOptions, uid: str) -> list[Problem]:
        asked_for.append(uid)
        return []

    monkeypatch.setattr(server, "server", lets_in)
    assert "server" in found(agent, url="http://chamber.test", token="cha_x").made
    system = namespace.admin.get("v1", "namespaces", "kube-system")
    assert asked_for == [system["metadata"]["uid"]]


def test_a_right_that_is_missing_in_one_namespace_is_told_of_that(namespace: Namespace, agent: Path) -> None:
    report = found(agent, workloads=(namespace.name, "default"), node_selector=namespace.selector)
    said = words(report, "rights")
    assert said
    assert all("in the namespace default" in sentence for sentence in said)
    assert any("may not get or create or patch or delete jobs of batch" in sentence for sentence in said)


def test_namespaces_that_are_missing_or_going_are_told(namespace: Namespace) -> None:
    going = f"{namespace.name}-going"
    held = {"name": going, "labels": {namespace.label: "true"}, "finalizers": ["chamber.test/held"]}
    namespace.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": held}, "namespaces")
    namespace.admin.delete("v1", "namespaces", going)
    try:
        report = found(namespace.kubeconfig, workloads=("nowhere-at-all", going))
    finally:
        namespace.admin.merge("v1", "namespaces", going, {"metadata": {"finalizers": None}})
    assert words(report, "namespaces") == [
        "There is no namespace nowhere-at-all.",
        f"The namespace {going} is being deleted: nothing can be made in it.",
    ]


def test_nodes_are_missing_without_gpus_or_closed_and_then_all_is_well(namespace: Namespace) -> None:
    def said() -> list[str]:
        return words(found(namespace.kubeconfig, node_selector=namespace.selector), "nodes")

    assert said() == [f"No node has the labels {namespace.selector}."]
    namespace.add_nodes(2, gpus=0)
    assert said() == ["None of the 2 nodes offers a GPU."]
    [name] = namespace.add_nodes(1, gpus=0, profiles={"1g.10gb": 7})
    assert said() == []
    drain = {"metadata": {"annotations": {"chamber.internal/drain-reserved-at": "18:00"}}}
    namespace.admin.merge("v1", "nodes", name, drain)
    (problem,) = said()
    assert problem.startswith(
        f"Node {name} is to be drained. Its annotation chamber.internal/drain-reserved-at says"
    )
    drain["metadata"]["annotations"]["chamber.internal/drain-reserved-at"] = "2099-01-01T18:00:00Z"
    namespace.admin.merge("v1", "nodes", name, drain)
    namespace.admin.merge("v1", "nodes", name, {"spec": {"unschedulable": True}})
    assert said() == ["No pod can come to the only node with GPUs: it is cordoned or not ready."]


def test_a_drain_that_says_no_time_is_told_with_whole_commands(namespace: Namespace) -> None:
    (name,) = namespace.add_nodes(1)
    drain = {"metadata": {"annotations": {"chamber.internal/drain-reserved-at": "18:00"}}}
    namespace.admin.merge("v1", "nodes", name, drain)
    report = found(namespace.kubeconfig, node_selector=namespace.selector)
    (advice,) = (problem.advice for check, problem in report.problems if check == "nodes")
    assert advice == (
        f"Say from when, or `now`: `kubectl annotate --overwrite node {name} chamber.internal/drain-reserved-at=now`. "
        f"To drain it no more: `kubectl annotate node {name} chamber.internal/drain-reserved-at-`."
    )


@pytest.fixture
def by_hand(namespace: Namespace) -> Iterator[str]:
    """A namespace that an admin labelled as a team's, without a Pod Security level, where the agent has its role."""
    name = f"{namespace.name}-nlp"
    labels = {namespace.label: "true", "chamber.internal/team": "nlp"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    namespace.admin.create(body, "namespaces")
    role = {
        "metadata": {"name": "agent"},
        "apiVersion": RBAC,
        "kind": "Role",
        "rules": list(rules(Where.WORKLOADS)),
    }
    namespace.admin.create(role, "roles", name)
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": namespace.name}],
    }
    namespace.admin.create(binding, "rolebindings", name)
    yield name
    namespace.admin.delete("v1", "namespaces", name)


def test_where_workloads_run_in_namespaces_prepared_by_hand_no_right_lacks_in_the_agents_own(
    namespace: Namespace, agent: Path, by_hand: str
) -> None:
    own = [{"metadata": {"name": f"{namespace.name}-agent"}, "rules": list(rules(Where.OWN))}]
    namespace.admin.merge(RBAC, "roles", f"{namespace.name}-agent", own[0], namespace.name)
    said = words(found(agent), "rights")
    assert not [each for each in said if namespace.name in each]
    namespace.admin.delete(RBAC, "rolebindings", "agent", by_hand)
    lacking = [each for each in words(found(agent), "rights") if f"in the namespace {by_hand}:" in each]
    assert len(lacking) == sum(right.where is Where.WORKLOADS and not right.value for right in RIGHTS)


def test_a_bound_namespace_without_a_pod_security_level_is_told(namespace: Namespace, by_hand: str) -> None:
    def said() -> list[Problem]:
        report = found(namespace.kubeconfig)
        return [each for name, each in report.problems if name == "security" and by_hand in each.problem]

    (problem,) = said()
    assert "is bound to a team and has no Pod Security level" in problem.problem
    label = "pod-security.kubernetes.io/enforce"
    assert f"`kubectl label --overwrite namespace {by_hand} {label}=baseline`" in problem.advice
    for level, told in (("privileged", ["has the Pod Security level 'privileged'"]), ("restricted", [])):
        namespace.admin.merge("v1", "namespaces", by_hand, {"metadata": {"labels": {label: level}}})
        assert [words in each.problem for each in said() for words in told] == [True] * len(told)
        assert len(said()) == len(told)


def lease(holder: str, renewed_at: datetime) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "chamber-agent"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": f"{renewed_at:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


@pytest.mark.parametrize(
    ("holder", "minutes_ago", "is_told"), [("agent-7", 0, False), ("agent-7", 10, True), ("", 10, False)]
)
def test_a_lease_whose_holder_is_gone_is_told(
    namespace: Namespace, agent: Path, *, holder: str, minutes_ago: int, is_told: bool
) -> None:
    body = lease(holder, datetime.now(UTC) - timedelta(minutes=minutes_ago))
    namespace.admin.create(body, "leases", namespace.name)
    said = words(found(agent), "lease")
    assert len(said) == is_told
    if is_told:  # The API server tells its time in whole seconds, and this machine may be slow.
        silent = re.fullmatch(r"The agent agent-7 led and has said nothing for (\d+) s; .*", said[0])
        assert silent is not None
        assert 599 <= int(silent[1]) < 1_200
