"""What a control plane refuses by quotas, Pod Security and policies: found by the doctor before anybody submits, and
told as a workload's reason in the API server's own words afterwards.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent.backends.native import reasons, refusals
from agentlink.agent.check import CheckOptions, examine
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.protocol import LIVING, ReportedPhase
from agentlink.tests.kube.native import agent_of, pods_on, work
from rig.namespaces import Json, Namespace

pytestmark = pytest.mark.kube

ENFORCE = "pod-security.kubernetes.io/enforce"
ADMISSION = "admissionregistration.k8s.io/v1"
Obstacle = Callable[[Namespace], None]


def label(namespace: Namespace, **labels: str | None) -> None:
    namespace.admin.merge("v1", "namespaces", namespace.name, {"metadata": {"labels": labels}})


def restricted(namespace: Namespace) -> None:
    label(namespace, **{ENFORCE: "restricted"})


def quota(namespace: Namespace, **hard: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {key.replace("_", "."): amount for key, amount in hard.items()}},
    }
    namespace.admin.create(body, "resourcequotas", namespace.name)
    # What it says is not what holds until its controller has seen it.
    namespace.until(
        lambda found: any(each.get("status", {}).get("hard") for each in found), "v1", "resourcequotas"
    )


def small_quota(namespace: Namespace) -> None:
    quota(namespace, requests_cpu="500m")


def limits(namespace: Namespace) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]},
    }
    namespace.admin.create(body, "limitranges", namespace.name)


def _rules(resource: str, group: str) -> list[Json]:
    return [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]


def _policy(namespace: Namespace, resource: str, group: str) -> None:
    """Have a ValidatingAdmissionPolicy deny what is created in the namespace."""
    name = f"{namespace.name}-{resource}"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}
    labels = {namespace.label: "true"}
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": _rules(resource, group)},
            "validations": [{"expression": "false", "message": "nothing runs on Fridays"}],
        },
    }
    binding = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": labels},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": where},
    }
    namespace.admin.create(policy, "validatingadmissionpolicies")
    namespace.admin.create(binding, "validatingadmissionpolicybindings")
    _await_refusal(namespace, resource, group)


def _webhook(namespace: Namespace, resource: str, group: str) -> None:
    """Have a webhook be asked of what is created in the namespace that nobody serves."""
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}
    hook = {
        "name": "away.chamber.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:9/away"},
        "rules": _rules(resource, group),
        **where,
    }
    body = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"{namespace.name}-{resource}", "labels": {namespace.label: "true"}},
        "webhooks": [hook],
    }
    namespace.admin.create(body, "validatingwebhookconfigurations")
    _await_refusal(namespace, resource, group)


def _await_refusal(namespace: Namespace, resource: str, group: str) -> None:
    """Return when the API server knows of what was just configured: it hears of that like everybody else."""
    asked = CheckOptions(workloads=(namespace.name,))
    for _ in range(200):
        if any(check == resource for check, _ in looked_at(namespace.kubeconfig, asked)):
            return
    raise AssertionError(f"The API server admits {resource} of {group or 'v1'} still.")


def pods_denied(namespace: Namespace) -> None:
    _policy(namespace, "pods", "")


def jobs_denied(namespace: Namespace) -> None:
    _policy(namespace, "jobs", "batch")


def pods_unasked(namespace: Namespace) -> None:
    _webhook(namespace, "pods", "")


def jobs_unasked(namespace: Namespace) -> None:
    _webhook(namespace, "jobs", "batch")


def looked_at(kubeconfig: Path, asked: CheckOptions) -> list[tuple[str, str]]:
    """Return what the doctor finds wrong with admission in the namespaces that it is asked about, by check: it looks
    into bound ones besides, which other tests have in the same control plane.
    """

    async def look() -> list[tuple[str, str]]:
        async with Kube(load(kubeconfig)) as kube:
            report = await examine(kube, asked)
        return [
            (check, found.problem)
            for check, found in report.problems
            if check in ("jobs", "pods")
            and any(f"in the namespace {name}: " in found.problem for name in asked.workloads)
        ]

    return asyncio.run(look())


CASES: list[tuple[Obstacle, str, str, str]] = [
    (restricted, "pods", "pod-security", 'violates PodSecurity "restricted:latest"'),
    (small_quota, "pods", "quota-too-small", "exceeded quota: small, requested: requests.cpu="),
    (limits, "pods", "limit-range", "maximum cpu usage per Container is 500m"),
    (pods_denied, "pods", "admission-denied", "nothing runs on Fridays"),
    (jobs_denied, "jobs", "admission-denied", "nothing runs on Fridays"),
    (pods_unasked, "pods", "webhook-unreachable", 'failed calling webhook "away.chamber.test"'),
    (jobs_unasked, "jobs", "webhook-unreachable", 'failed calling webhook "away.chamber.test"'),
]


@pytest.mark.parametrize(
    ("obstacle", "check", "code", "words"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_what_admission_refuses_is_found_before_and_told_in_its_words_after(
    namespace: Namespace,
    monkeypatch: pytest.MonkeyPatch,
    *,
    obstacle: Obstacle,
    check: str,
    code: str,
    words: str,
) -> None:
    monkeypatch.setattr(reasons, "UNMADE_SECONDS", 1.0)
    asked = CheckOptions(workloads=(namespace.name,), node_selector=namespace.selector)
    assert looked_at(namespace.kubeconfig, asked) == []
    (node,) = namespace.add_nodes(1)
    obstacle(namespace)

    found = dict(looked_at(namespace.kubeconfig, asked))
    assert words.replace("violates", "violate") in found[check].replace("violates", "violate")
    assert f"would be refused in the namespace {namespace.name}: " in found[check]

    failed = asyncio.run(_refusal(namespace, work(*pods_on((node, (0,))), cpu_milli=1000)))
    assert (failed.reason, failed.created_at) == (code, None)
    assert words in failed.message
    assert "\n" not in failed.message
    assert len(failed.message) < refusals.LONGEST + 200


async def _refusal(namespace: Namespace, attempt: Any) -> Any:
    async with agent_of(namespace) as agent:
        await agent.begin(attempt)
        failed = await agent.until(attempt, ReportedPhase.FAILED)
        await agent.stop(attempt)
        await agent.until(attempt, lambda seen: not any(pod.state in LIVING for pod in seen.pods))
        await agent.forgotten(attempt)
    return failed


def test_the_agents_own_account_hears_of_pod_security_by_the_jobs_warning(namespace: Namespace) -> None:
    """Whoever may not create pods is warned with the Job; a stricter level that only warns is none that refuses."""
    asked = CheckOptions(workloads=(namespace.name,))
    label(namespace, **{ENFORCE: "baseline", "pod-security.kubernetes.io/warn": "restricted"})
    assert looked_at(namespace.kubeconfig, asked) == []
    label(namespace, **{ENFORCE: "restricted", "pod-security.kubernetes.io/warn": None})
    found = dict(looked_at(namespace.kubeconfig, asked))
    assert 'would violate PodSecurity "restricted:latest"' in found["jobs"]


def test_the_pod_that_is_tried_has_the_size_that_a_pod_gets_by_default(namespace: Namespace) -> None:
    namespace.add_nodes(1, cpu="96", memory="768Gi", gpus=8)
    asked = CheckOptions(workloads=(namespace.name,), node_selector=namespace.selector)
    quota(namespace, limits_cpu="8", limits_memory="64Gi")
    found = dict(looked_at(namespace.kubeconfig, asked))
    # Three quarters of 12 cores and of 96 GiB; a pod of one core would be taken.
    assert "requested: limits.cpu=9,limits.memory=72Gi" in found["pods"]


def test_chambers_own_quota_is_no_obstacle(namespace: Namespace) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "chamber-plan"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    namespace.admin.create(body, "resourcequotas", namespace.name)
    namespace.until(
        lambda found: any(each.get("status", {}).get("hard") for each in found), "v1", "resourcequotas"
    )
    assert looked_at(namespace.kubeconfig, CheckOptions(workloads=(namespace.name,))) == []
