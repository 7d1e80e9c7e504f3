"""`chamber agent` on a cluster: what it refuses at once, and one process that leads and is told to stop."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
from click.testing import CliRunner

from agentlink.agent.kube.access import BadAccess
from agentlink.agent.native import AgentOptions
from chamber.cli import main
from rig import servers
from rig.namespaces import Namespace


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("cha_x")
    return file


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name the cluster by one of --in-cluster, --kubeconfig FILE and --simulate FILE."),
        (("--in-cluster", "--simulate", "n.csv"), "Name the cluster by one of"),
        (("--kubeconfig", "k", "--state-file", "s"), "--state-file is for --simulate."),
        (("--in-cluster", "--context", "c"), "--context is for --kubeconfig."),
        (("--in-cluster",), "This is no pod with a service account"),
        (("--kubeconfig", "nowhere"), "There is no kubeconfig nowhere."),
        (
            ("--simulate", "n.csv", "--namespace", "jobs"),
            "--namespace is for a real cluster, not for --simulate.",
        ),
        (("--in-cluster", "--namespace", "No Such"), "'No Such' is no name of a namespace."),
        (("--in-cluster", "--node-selector", "a b"), "'a b' selects nothing: write labels as key=value"),
    ],
)
def test_what_cannot_be_used_ends_the_command_with_a_sentence(
    token: Path, words: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    said = CliRunner().invoke(
        main, ["agent", "--url", "http://127.0.0.1:1", "--token-file", str(token), *words]
    )
    assert said.exit_code == 2
    assert sentence in " ".join(said.stderr.split())


@pytest.mark.parametrize(
    "selector", ["a=b", "pool", "!pool", "x.example/gpu in (a, b),c!=d", "a==b,c notin (d)", "a="]
)
def test_selectors_are_taken_as_kubernetes_writes_them(selector: str) -> None:
    assert AgentOptions(node_selectors=(selector,)).node_selectors == (selector,)


@pytest.mark.parametrize("selector", ["", "=b", "a=b;c", "a in b", "a=b,", "-a=b"])
def test_what_selects_nothing_is_refused(selector: str) -> None:
    with pytest.raises(BadAccess, match="selects nothing"):
        AgentOptions(node_selectors=(selector,))


def _page(port: int, name: str) -> tuple[int, str]:
    """Return status and text of a probe's page; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except URLError as error:
        return getattr(error, "code", 0), getattr(error, "read", bytes)().decode()


@pytest.mark.kube
def test_an_agent_leads_waits_for_its_server_and_gives_its_lease_up_when_told_to_stop(
    namespace: Namespace, token: Path
) -> None:
    read = json.loads(namespace.kubeconfig.read_text())
    read["contexts"][0]["context"]["namespace"] = namespace.name
    kubeconfig = token.with_name("kubeconfig")
    kubeconfig.write_text(json.dumps(read))
    port, words = servers.free_port(), ["--url", "http://127.0.0.1:1", "--token-file", str(token)]
    words += [
        "--kubeconfig",
        str(kubeconfig),
        "--node-selector",
        namespace.selector,
        "--health-port",
        str(port),
    ]
    agent = subprocess.Popen(
        [sys.executable, "-m", "chamber.cli", "agent", *words],
        stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3], env=os.environ,
    )  # fmt: skip
    try:
        namespace.until(
            lambda leases: any(lease["spec"].get("holderIdentity") for lease in leases),
            "coordination.k8s.io/v1",
            "leases",
        )
        while (page := _page(port, "readyz")) != (
            503,
            "The agent waits for Chamber at http://127.0.0.1:1.\n",
        ):
            assert agent.poll() is None, page
        assert _page(port, "livez") == (200, "ok\n")
    finally:
        agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=60)
    assert (agent.returncode, "Traceback" in said) == (0, False)
    assert "The agent has stopped" in said
    (lease,) = namespace.items("coordination.k8s.io/v1", "leases")
    assert not lease["spec"].get("holderIdentity")
