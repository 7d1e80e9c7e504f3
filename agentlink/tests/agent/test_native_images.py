"""Which failures to pull an image are the registry's."""

import pytest

from agentlink.agent.backends.native.facts import read_pod
from agentlink.agent.backends.native.images import is_registry_away

PULL = 'failed to pull and unpack image "r.example/a:1": failed to resolve reference "r.example/a:1": '


@pytest.mark.parametrize(
    ("reason", "message", "away"),
    [
        ("ErrImagePull", PULL + "failed to do request: Head: dial tcp 10.0.0.9:443: i/o timeout", True),
        ("ErrImagePull", PULL + "dial tcp 10.0.0.9:443: connect: connection refused", True),
        ("ErrImagePull", PULL + "dial tcp 10.0.0.9:443: connect: no route to host", True),
        ("ErrImagePull", PULL + "dial tcp: lookup r.example on 10.96.0.10:53: no such host", True),
        ("ErrImagePull", PULL + "dial tcp: lookup r.example: Temporary failure in name resolution", True),
        ("ErrImagePull", PULL + "dial tcp: lookup r.example on 10.96.0.10:53: server misbehaving", True),
        ("ErrImagePull", PULL + "unexpected status code [manifests 1]: 503 Service Unavailable", True),
        ("ErrImagePull", PULL + "received unexpected HTTP status: 502 Bad Gateway", True),
        ("ErrImagePull", PULL + "429 Too Many Requests - toomanyrequests", True),
        ("ErrImagePull", PULL + "net/http: TLS handshake timeout", True),
        ("ErrImagePull", PULL + "context deadline exceeded", True),
        ("ErrImagePull", "failed to copy: read: connection reset by peer", True),
        ("RegistryUnavailable", "pinging container registry r.example", True),
        ("ErrImagePull", PULL + "r.example/a:1: not found", False),
        ("ErrImagePull", PULL + "manifest unknown", False),
        ("ErrImagePull", PULL + "pull access denied, repository does not exist", False),
        ("ErrImagePull", PULL + "unexpected status: 401 Unauthorized", False),
        ("ErrImagePull", PULL + "unexpected status: 403 Forbidden", False),
        ("ErrImagePull", PULL + "tls: failed to verify certificate: x509: unknown authority", False),
        ("ImagePullBackOff", 'Back-off pulling image "r.example/a:1"', False),
        ("InvalidImageName", "timeout", False),
        ("CreateContainerError", "context deadline exceeded", False),
    ],
)
def test_a_registry_that_gives_no_answer_is_away_and_one_that_refuses_is_not(
    reason: str, message: str, away: bool
) -> None:
    assert is_registry_away(reason, message) is away


@pytest.mark.parametrize(
    ("reason", "message", "kept"),
    [
        ("ErrImagePull", "dial tcp: i/o timeout", "dial tcp: i/o timeout"),
        ("ImagePullBackOff", 'Back-off pulling image "r:5000/a:1"', ""),
        (
            "ImagePullBackOff",
            'Back-off pulling image "a": ErrImagePull: i/o timeout',
            'Back-off pulling image "a": ErrImagePull: i/o timeout',
        ),
        ("ContainerCreating", "", ""),
    ],
)
def test_what_the_last_try_met_is_read_where_it_is_said(reason: str, message: str, kept: str) -> None:
    waiting = {"reason": reason, "message": message}
    metadata = {"namespace": "ns", "name": "p", "uid": "u"}
    status = {"containerStatuses": [{"state": {"waiting": waiting}}]}
    assert read_pod({"metadata": metadata, "spec": {}, "status": status}).pull_error == kept
