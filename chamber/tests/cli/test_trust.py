"""A server with a certificate of an authority of one's own: named once, kept, believed for that server only."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chamber.cli import config, main
from chamber.cli.trust import distrusted

OURS = "DNS:localhost"


class Answers(BaseHTTPRequestHandler):
    """Says the same as a server to who signs in and to who asks who he is."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201, {"token": "chb_x", "id": "1"})

    def do_GET(self) -> None:
        self._answer(200, {"username": "ada", "name": "Ada", "email": "", "token": None, "roles": []})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def authority(folder: Path, name: str) -> Path:
    """Make an authority, and return its certificate."""
    key, made = folder / f"{name}.key", folder / f"{name}.crt"
    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", str(key), "-out", str(made),
    )  # fmt: skip
    return made


def signed(folder: Path, by: Path, names: str) -> tuple[Path, Path]:
    """Return a certificate for these names that the authority signed, and its key."""
    key, asked, made = folder / "server.key", folder / "server.csr", folder / "server.crt"
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-addext", f"subjectAltName={names}",
        "-keyout", str(key), "-out", str(asked),
    )  # fmt: skip
    openssl(
        "x509", "-req", "-in", str(asked), "-CA", str(by), "-CAkey", str(by.with_suffix(".key")),
        "-CAcreateserial", "-days", "2", "-copy_extensions", "copyall", "-out", str(made),
    )  # fmt: skip
    return made, key


def served(certificate: tuple[Path, Path]) -> Iterator[str]:
    """Serve over TLS with this certificate; yield the address."""
    server = HTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who hangs up is none of its business
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return authority(tmp_path, "ours")


@pytest.fixture
def url(tmp_path: Path, ca: Path) -> Iterator[str]:
    yield from served(signed(tmp_path, ca, OURS))


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("CHAMBER_URL", "CHAMBER_TOKEN", "CHAMBER_CA", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


def chamber(*words: str) -> Result:
    return CliRunner().invoke(main, words, input="secret\n")


def login(url: str, *words: str) -> Result:
    return chamber("login", "--url", url, "--username", "ada", "--password-stdin", *words)


def test_an_authority_that_nobody_knows_is_said_with_what_to_do(url: str) -> None:
    result = login(url)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: The certificate of {url} is signed by an authority that this")
    assert "chamber login --ca FILE" in result.stderr
    assert config.kept() is None


def test_an_authority_that_is_named_is_kept_and_used_by_every_command(
    url: str, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ca.parent)

    assert login(url, "--ca", ca.name).exit_code == 0

    kept = config.kept()
    assert kept is not None
    assert kept.ca == str(ca), "its whole path: the next command may run elsewhere"
    monkeypatch.chdir("/")
    assert chamber("whoami").exit_code == 0
    assert login(url).exit_code == 0, "signing in again needs it no second time"


def test_the_environment_may_name_it(url: str, ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_CA", str(ca))
    monkeypatch.setenv("CHAMBER_URL", url)
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")

    assert chamber("whoami").exit_code == 0


def test_a_kept_authority_counts_for_its_own_server_only(url: str, ca: Path) -> None:
    login(url, "--ca", str(ca))

    assert config.authority(None, "https://elsewhere.example.org") == ""


def test_another_authority_than_the_named_one_is_not_believed(url: str, tmp_path: Path) -> None:
    result = login(url, "--ca", str(authority(tmp_path, "another")))

    assert result.exit_code == 1
    assert "signed by an authority that this machine does not know" in result.stderr


def test_a_certificate_for_another_name_is_said_to_be_one(tmp_path: Path, ca: Path) -> None:
    for url in served(signed(tmp_path, ca, "DNS:chamber.example.org")):
        result = login(url, "--ca", str(ca))

    assert result.stderr == (
        f"Error: The certificate of {url} is for another name. Use the name that it was made for.\n"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "cannot be read (No such file or directory)"), ("no certificate", "holds no certificate")],
)
def test_a_file_that_is_none_is_refused_before_a_password_is_asked(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    file = tmp_path / "file.crt"
    if content is not None:
        file.write_text(content)

    result = chamber("login", "--url", "https://localhost:1", "--ca", str(file))

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "User name" not in result.output


@pytest.mark.parametrize(
    ("code", "sentence"), [(10, "has expired"), (9, "is not valid yet"), (7, "cannot be trusted: why.")]
)
def test_what_else_is_wrong_with_a_certificate_is_said(code: int, sentence: str) -> None:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code, error.verify_message = code, "why"

    assert sentence in distrusted("https://chamber.example.org", error).message
