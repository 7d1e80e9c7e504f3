"""What the API server's refusals mean: an end with a sentence, or something to try again."""

import pytest

from agentlink.agent.backends.native.making import _refused
from agentlink.agent.kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Throttled,
    Unreachable,
)

QUOTA = 'jobs.batch "x" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NotFound(404, "NotFound", 'namespaces "ns" not found'), "namespace-missing",
         "The namespace ns does not exist in the cluster."),
        (Forbidden(403, "Forbidden", "because it is being terminated", ("NamespaceTerminating",)),
         "namespace-terminating", "The namespace ns is being deleted in the cluster."),
        (Forbidden(403, "Forbidden", QUOTA), "quota-exceeded", f"A quota of namespace ns refuses it: {QUOTA}."),
        (Forbidden(403, "Forbidden", 'admission webhook "w" denied the request: no latest tags.'), "refused",
         'The cluster refuses it: admission webhook "w" denied the request: no latest tags.'),
        (Invalid(422, "Invalid", "spec.x: Required value"), "refused",
         "The cluster refuses it: spec.x: Required value."),
        (KubeError(400, "BadRequest", "strict decoding error"), "refused",
         "The cluster refuses it: strict decoding error."),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_the_clusters_words(error: KubeError, code: str, sentence: str) -> None:
    refused = _refused(error, "ns")
    assert refused is not None
    assert (refused.code, refused.message) == (code, sentence)


@pytest.mark.parametrize(
    "error", [Conflict(409), Throttled(429), Unreachable(0), KubeError(500), KubeError(401)]
)
def test_what_may_pass_is_no_refusal(error: KubeError) -> None:
    assert _refused(error, "ns") is None
