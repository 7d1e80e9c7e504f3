"""What the chart's variables have the agent do: trust an authority of one's own, and go through an HTTP proxy."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agentlink.agent.check.found import CheckOptions
from agentlink.agent.check.server import server
from agentlink.agent.command import main, main_native

NOW = datetime.now(UTC)
NO_PASSWORD = serialization.NoEncryption()
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def certificate(
    name: str, signer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate for loopback, or (no signer) that of an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signing = signer or (subject, key)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(NOW - timedelta(days=1))
    made = made.not_valid_after(NOW + timedelta(days=2))
    made = made.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = made.add_extension(hosts, critical=False)
    return made.sign(signing, hashes.SHA256()), key


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, "list[str]", threading.Event]]:
    """A server over TLS; its address, what it was asked for, and whether it was."""
    authority, authority_key = certificate("authority", None)
    (tmp_path / "ca.crt").write_bytes(authority.public_bytes(PEM))
    own, key = certificate("server", (authority.subject, authority_key))
    both = tmp_path / "server.pem"
    both.write_bytes(key.private_bytes(PEM, PKCS8, NO_PASSWORD) + own.public_bytes(PEM))
    asked: list[str] = []
    was_asked = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            asked.append(self.rfile.readline().decode().split(" ")[1])
            was_asked.set()
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # handshakes that fail are what it is about
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", asked, was_asked
    server.shutdown()
    server.server_close()
    thread.join(60)


def begin(url: str, folder: Path, transport: str, **environment: str) -> "subprocess.Popen[str]":
    (folder / "n.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n")
    (folder / "token").write_text("cha_x")
    words = ["--url", url, "--token-file", str(folder / "token"), "--simulate", str(folder / "n.csv")]
    return subprocess.Popen(
        [sys.executable, "-m", "chamber.cli", "agent", *words, "--transport", transport],
        stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3], env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("transport", "path", "variable"),
    [
        ("websocket", "/ws/agent/", "SSL_CERT_FILE"),
        ("long-poll", "/agent/v1/sync?wait=0", "SSL_CERT_FILE"),
        ("websocket", "/ws/agent/", "CHAMBER_CA"),
        ("long-poll", "/agent/v1/sync?wait=0", "CHAMBER_CA"),
    ],
)
def test_its_server_is_trusted_by_the_variable_of_the_chart_and_by_that_of_the_command_line(
    served: tuple[str, "list[str]", threading.Event], tmp_path: Path, transport: str, path: str, variable: str
) -> None:
    url, asked, was_asked = served
    agent = begin(url, tmp_path, transport, **{variable: str(tmp_path / "ca.crt")})
    try:
        assert was_asked.wait(90)
    finally:
        agent.terminate()
        agent.communicate(timeout=60)
    assert asked[0] == path


@pytest.mark.parametrize(
    ("transport", "named", "told"),
    [
        ("websocket", False, ": CHAMBER_CA is to name the certificate of the authority that signed it."),
        ("long-poll", False, ": CHAMBER_CA is to name the certificate of the authority that signed it."),
        ("websocket", True, ": CHAMBER_CA does not hold the authority that signed it."),
    ],
)
def test_without_it_the_agent_says_what_is_wrong_and_sends_nothing(
    served: tuple[str, "list[str]", threading.Event], tmp_path: Path, transport: str, named: bool, told: str
) -> None:
    url, asked, _ = served
    agent = begin(url, tmp_path, transport, **({"CHAMBER_CA": certifi.where()} if named else {}))
    assert agent.stderr is not None
    line = agent.stderr.readline()
    agent.terminate()
    agent.communicate(timeout=60)
    assert "CERTIFICATE_VERIFY_FAILED" in line
    assert told in line
    assert asked == []


def test_an_authority_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("cha_x")
    (tmp_path / "none.crt").write_text("nothing")
    given: Any = {"url": "https://chamber.test", "token_file": tmp_path / "token"}
    asked = CheckOptions(url="https://chamber.test", token="cha_x")
    for name, why in (
        ("absent.crt", "cannot be read (No such file or directory)."),
        ("none.crt", "no certif"),
    ):
        monkeypatch.setenv("CHAMBER_CA", str(tmp_path / name))
        statuses = []
        for native in (False, True):
            statuses.append(main_native(**given) if native else main(simulate=tmp_path / "n.csv", **given))
            said = capsys.readouterr().err
            assert said.startswith(f"CHAMBER_CA names {tmp_path / name}, which ")
            assert why in said
        assert statuses == [2, 2]
        [found] = asyncio.run(server(asked))
        assert why in found.problem


@pytest.mark.parametrize("transport", ["websocket", "long-poll"])
def test_the_proxy_that_the_environment_names_is_asked_to_connect(tmp_path: Path, transport: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        given = {"HTTPS_PROXY": address, "https_proxy": address, "NO_PROXY": ".svc", "no_proxy": ".svc"}
        agent = begin("https://chamber.test", tmp_path, transport, **given)
        proxy.settimeout(90)
        try:
            asked, _ = proxy.accept()
            with asked:
                said = asked.recv(4096)
        finally:
            agent.terminate()
            agent.communicate(timeout=60)
    assert said.startswith(b"CONNECT chamber.test:443 ")
