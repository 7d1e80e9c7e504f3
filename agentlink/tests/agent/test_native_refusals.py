"""The API server's words, sorted: what passes by itself, and what somebody has to change."""

import pytest

from agentlink.agent.backends.native.making import refused_for_now
from agentlink.agent.backends.native.refusals import LONGEST, code_of, sentence
from agentlink.agent.kube.errors import Forbidden, KubeError, Throttled, Unreachable
from workloads.reasons import LASTING, PASSING, REFUSAL_STEPS

OWN_QUOTA = 'pods "x" is forbidden: exceeded quota: chamber-plan, requested: {}, used: a=2, limited: a={}'
QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: {}, used: {}, limited: {}'


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (QUOTA.format("requests.cpu=1", "requests.cpu=4", "requests.cpu=4"), "quota-exceeded"),
        (
            QUOTA.format("requests.cpu=5,pods=1", "requests.cpu=0,pods=0", "requests.cpu=4500m,pods=9"),
            "quota-too-small",
        ),
        (
            QUOTA.format("requests.memory=1Gi", "requests.memory=0", "requests.memory=512Mi"),
            "quota-too-small",
        ),
        (QUOTA.format("odd", "odd", "odd"), "quota-exceeded"),
        (OWN_QUOTA.format("requests.nvidia.com/gpu=1", 2), "plan-quota"),
        (OWN_QUOTA.format("requests.nvidia.com/gpu=4", 2), "plan-quota"),
        ('pods "x" is forbidden: failed quota: q: must specify limits.cpu for: main', "quota-too-small"),
        ('pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes', "pod-security"),
        ('admission webhook "w" denied the request: no\n latest tags', "admission-denied"),
        (
            'Internal error occurred: failed calling webhook "w": failed to call webhook: EOF',
            "webhook-unreachable",
        ),
        ("minimum memory usage per Pod is 1Gi, but request is 512Mi", "limit-range"),
        (
            'jobs.batch is forbidden: User "system:serviceaccount:a:b" cannot create resource',
            "rights-missing",
        ),
        ("the server is currently unable to handle the request", "cluster-busy"),
        ("spec.x: Required value", "refused"),
        ("", "refused"),
    ],
)
def test_words_have_a_code(words: str, code: str) -> None:
    assert code_of(words) == code
    passing = ("quota-exceeded", "plan-quota", "webhook-unreachable", "cluster-busy")
    assert (code in LASTING) is (code not in passing)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Throttled(429, "TooManyRequests", "the server has received too many requests"), "cluster-busy"),
        (
            KubeError(500, "InternalError", 'failed calling webhook "w": connection refused'),
            "webhook-unreachable",
        ),
        (KubeError(500, "InternalError", "etcdserver: request timed out"), "cluster-busy"),
        (Unreachable(503, "ServiceUnavailable", "the server is currently unable"), "cluster-busy"),
    ],
)
def test_what_the_api_server_cannot_do_now_is_told_after_some_tries(error: KubeError, code: str) -> None:
    refused = refused_for_now(error, 3)
    assert refused is not None
    assert refused.code == code
    assert "tried 3 times" in refused.message
    assert error.message in refused.message


def test_the_agents_own_quota_is_told_as_nobodys_to_change() -> None:
    words = OWN_QUOTA.format("requests.nvidia.com/gpu=1", 2)
    refused = refused_for_now(Forbidden(403, "Forbidden", words), 7)
    assert refused is not None
    assert refused.code in PASSING
    assert refused.message == (
        "Chamber's own quota chamber-plan is used up by pods in the namespace that Chamber did not make, or that are "
        f"not gone yet: {words}."
    )
    assert "raise" not in REFUSAL_STEPS[refused.code]


@pytest.mark.parametrize("error", [Unreachable(0), Forbidden(403), KubeError(401)])
def test_what_nobody_answered_is_told_as_nothing(error: KubeError) -> None:
    assert refused_for_now(error, 99) is None


def test_words_come_in_one_bounded_line() -> None:
    assert sentence("a\n b. ") == "a b."
    assert sentence(" ") == "the cluster does not say why."
    assert len(sentence("x " * 2000)) <= LONGEST + 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            '0/3 nodes are available: persistentvolumeclaim "absent" not found. not found',
            '0/3 nodes are available: persistentvolumeclaim "absent" not found.',
        ),
        (
            '0/3 nodes are available: persistentvolumeclaim "absent" not found. not found.',
            '0/3 nodes are available: persistentvolumeclaim "absent" not found.',
        ),
        ('pods "x" is forbidden. Pods "x" is forbidden.', 'pods "x" is forbidden.'),
        ("exec of v1.2 failed. It was not found.", "exec of v1.2 failed. It was not found."),
        ("no node.. no node", "no node."),
    ],
)
def test_what_the_cluster_says_twice_is_told_once(words: str, told: str) -> None:
    assert sentence(words) == told
