"""The commands that install an agent, run as they are printed."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentlink.installing import commands, is_loopback
from agentlink.models import BackendKind, Cluster
from rig import charts, kubernetes
from rig.namespaces import Namespace
from rig.namespaces import namespace as another_namespace

EAST = Cluster(name="east", backend=BackendKind.NATIVE)
SERVER = "https://chamber.example.org"


def set_by(text: str) -> set[str]:
    """Return what the first command sets."""
    words = shlex.split(text.split("\nkubectl", 1)[0])
    return {value for word, value in pairwise(words) if word == "--set"}


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("", set()),
        ("registry.test/chamber:1.2", {"image.repository=registry.test/chamber", "image.tag=1.2"}),
        ("registry.test:5000/chamber", {"image.repository=registry.test:5000/chamber"}),
        (
            "registry.test:5000/chamber@sha256:0a1b",
            {"image.repository=registry.test:5000/chamber", "image.digest=sha256:0a1b"},
        ),
    ],
)
def test_the_agent_gets_the_image_that_the_server_runs(image: str, told: set[str], settings: Any) -> None:
    settings.CHAMBER_IMAGE = image
    always = {"agent.enabled=true", f"agent.url={SERVER}", "agent.cluster=east"}
    assert set_by(commands(EAST, server=SERVER)) == always | told


def test_the_agent_gets_the_authority_that_the_server_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_CA", "/etc/our ca.crt")
    text = commands(EAST, server=SERVER)
    assert "authorities.configMap=chamber-authorities" in set_by(text)
    assert "kubectl create configmap chamber-authorities --namespace chamber-agent" in text
    assert "--from-file='ca.crt=/etc/our ca.crt'" in text
    simulated = Cluster(name="east", backend=BackendKind.SIMULATED)
    assert commands(simulated, server=SERVER).startswith("CHAMBER_CA='/etc/our ca.crt' chamber agent --url")
    assert "CHAMBER_CA" not in commands(simulated, server="http://10.0.0.7:8000"), "nothing signs it"


def test_an_address_can_say_nothing_to_the_shell() -> None:
    text = commands(EAST, server="https://x.test;reboot")
    assert "agent.url=https://x.test;reboot" in set_by(text)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1:8000", True),
        ("localhost", True),
        ("[::1]:8000", True),
        ("chamber.example.org", False),
        ("10.0.0.7:8000", False),
        ("[2001:db8::1]", False),
    ],
)
def test_an_address_of_one_machine_alone_is_known(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


@pytest.fixture
def there(namespace: Namespace, control_plane: Path) -> Iterator[dict[str, str]]:
    """The names that the printed ones are replaced by, so that tests do not meet in them."""
    with another_namespace(control_plane) as workloads:
        yield {"own": namespace.name, "workloads": workloads.name}
        where = ("--namespace", namespace.name, "--no-hooks")  # no kubelet runs the hook's pod
        charts.helm("uninstall", namespace.name, *where, kubeconfig=control_plane)


@pytest.mark.kube
def test_they_work_as_printed_and_again_with_another_token(
    namespace: Namespace, there: dict[str, str], tmp_path: Path
) -> None:
    text = commands(EAST, server=SERVER).replace("--namespace chamber-agent ", f"--namespace {there['own']} ")
    # Cluster-wide names are the release's: one of its own here, as for a second agent in a cluster.
    text = text.replace(
        "--install chamber-agent ",
        f"--install {there['own']} --set agent.createWorkloadNamespace=false "
        f"--set agent.workloadNamespace={there['workloads']} ",
    )
    environment = os.environ | {
        "KUBECONFIG": str(namespace.kubeconfig),
        "PATH": f"{kubernetes.programs_folder()}:{os.environ['PATH']}",
    }
    assert re.search("^helm .*deploy/chart", text)
    for token in ("first", "second"):
        (tmp_path / "east.token").write_text(token)
        script = text.replace("deploy/chart", str(charts.CHART))
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        secret = namespace.admin.get("v1", "secrets", "chamber-agent-token", namespace.name)
        assert secret["data"] == {"token": {"first": "Zmlyc3Q=", "second": "c2Vjb25k"}[token]}
    [deployment] = namespace.items("apps/v1", "deployments")
    [volume, _] = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"]["secretName"] == "chamber-agent-token"
