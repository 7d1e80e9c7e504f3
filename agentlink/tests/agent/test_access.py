"""How a cluster is reached: kubeconfigs, service accounts, and what is wrong with them."""

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes.config import incluster_config

from agentlink.agent.kube import access
from agentlink.agent.kube.access import BadAccess, load


def kubeconfig(folder: Path, **changes: Any) -> Path:
    told: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.test:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}, {"name": "nobody", "user": {}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "training"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
            {"name": "anonymous", "context": {"cluster": "c", "user": "nobody"}},
        ],
        "current-context": "main",
        **changes,
    }
    path = folder / "config"
    path.write_text(json.dumps(told))
    return path


def test_a_kubeconfig_gives_server_credentials_and_namespace(tmp_path: Path) -> None:
    found = load(kubeconfig(tmp_path))
    assert (found.server, found.namespace) == ("https://k8s.test:6443", "training")
    assert load(kubeconfig(tmp_path), "other").namespace == "default"


@pytest.mark.parametrize(
    ("changes", "context", "why"),
    [
        ({}, "nowhere", "Expected object with name nowhere"),
        ({}, "anonymous", "gives no credentials for https://k8s.test:6443"),
        ({"current-context": "gone"}, None, "Expected object with name gone"),
        ({"clusters": []}, None, "Expected object with name c"),
        ({"contexts": "text"}, None, "is no kubeconfig"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_with_a_sentence(
    tmp_path: Path, changes: dict[str, Any], context: str | None, why: str
) -> None:
    with pytest.raises(BadAccess) as refused:
        load(kubeconfig(tmp_path, **changes), context)
    assert str(tmp_path) in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize("text", [None, "", "just words", "[1, 2]", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadAccess, match="config"):
        load(path)


def test_a_plugin_that_fails_leaves_no_credentials(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}
    users = [{"name": "u", "user": {"exec": plugin}}]
    with pytest.raises(BadAccess, match="or its plugin did not"):
        load(kubeconfig(tmp_path, users=users))


def test_outside_of_a_cluster_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadAccess, match="This is no pod with a service account"):
        load()


async def test_a_service_accounts_token_is_read_anew_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority, namespace = (tmp_path / name for name in ("token", "ca.crt", "namespace"))
    token.write_text("first")
    namespace.write_text("chamber")
    authority.write_text(Path(ssl.get_default_verify_paths().cafile or "").read_text())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr(access, "NAMESPACE_FILE", namespace)
    found = load()
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "chamber")
    assert await signed(found) == "bearer first"
    token.write_text("second")
    monkeypatch.setattr(access, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(incluster_config.datetime, "datetime", Tomorrow)
    assert await signed(found) == "bearer second"


class Tomorrow(incluster_config.datetime.datetime):  # type: ignore[misc]
    """A clock that shows the time at which what was read today is old."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return super().now(tz) + incluster_config.datetime.timedelta(days=1)


async def signed(found: access.Access) -> str:
    """Return what a request bears."""
    flow = found.async_auth_flow(httpx.Request("GET", found.server))
    request = await anext(flow)
    await flow.aclose()
    return request.headers["Authorization"]
