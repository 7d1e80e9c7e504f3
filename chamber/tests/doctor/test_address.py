"""What the doctor says of the address that people use: who answers there, and how long its certificate holds."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.exceptions import DisallowedHost
from django.test import RequestFactory
from django.utils import timezone
from pytest_django.fixtures import Settings
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from chamber import marks, views_errors
from chamber.doctor import address
from chamber.doctor.finding import DoctorFinding, Fact
from rig import servers

Named = Callable[[str], None]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Named:
    """Have people use this address."""
    monkeypatch.setattr(address, "PATIENCE_SECONDS", 60.0)  # however slow the machine is
    settings.CSRF_TRUSTED_ORIGINS, settings.ALLOWED_HOSTS = [], []
    monkeypatch.delenv("CHAMBER_URL", raising=False)
    return lambda url: monkeypatch.setenv("CHAMBER_URL", url)


@contextmanager
def answering(
    *,
    status: int = 200,
    page: str = "",
    text: str = "The database does not answer.\n",
    sockets: bool = True,
    secure: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Answer on a port of this machine: /readyz with this status, or a proxy's page, all else with a socket or 404."""

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/readyz" and page:
            response = connection.respond(status, page)
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "text/html"
            return response
        if request.path == "/readyz":
            return connection.respond(status, text if status != 200 else "ok\n")
        return None if sockets else connection.respond(404, "")

    server: Server = serve(lambda _: None, "127.0.0.1", 0, process_request=answer, ssl=secure)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
        thread.join()


def certificate(folder: Path, *, days: int) -> Path:
    """Make a certificate of 127.0.0.1 that vouches for itself, with its key; return its file."""
    import ipaddress

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days, hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


def served_by(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def test_web_and_live_that_answer_are_well(named: Named) -> None:
    with answering() as port:
        named(f"http://127.0.0.1:{port}")
        assert [*address.web(), *address.live(), *address.certificate()] == []


def test_a_web_part_that_is_not_ready_says_why(named: Named) -> None:
    with answering(status=503) as port:
        named(f"http://127.0.0.1:{port}")
        [found] = address.web()
    assert isinstance(found, DoctorFinding)
    assert found.problem == f"http://127.0.0.1:{port} answers 503: The database does not answer."
    assert found.advice == "The web part runs, and serves again once that is put right."


def test_a_server_that_has_another_name_is_told_which_setting_names_it(
    named: Named, rf: RequestFactory, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["gpus.example.org"]
    refused = views_errors.bad_request(rf.get("/readyz", headers={"host": "127.0.0.1"}), DisallowedHost())
    with answering(status=refused.status_code, text=refused.content.decode()) as port:
        named(f"http://127.0.0.1:{port}")
        [found] = address.web()
    assert isinstance(found, DoctorFinding)
    assert "answers 400: This server does not answer under the name '127.0.0.1'." in found.problem
    assert found.advice.startswith(
        "Add 127.0.0.1 to CHAMBER_HOSTS and restart web and live, or have the proxy"
    )


@pytest.mark.django_db
def test_of_a_proxy_that_reaches_no_web_part_the_page_is_not_told(named: Named) -> None:
    with answering(status=502, page="<html><h1>502 Bad Gateway</h1></html>") as port:
        named(f"http://127.0.0.1:{port}")
        [found] = address.web()
    assert isinstance(found, DoctorFinding)
    assert found.problem == f"http://127.0.0.1:{port} answers 502 Bad Gateway."
    assert found.advice.startswith("Start `chamber serve --part web`")


@pytest.mark.django_db
def test_nobody_answers_at_the_address(named: Named) -> None:
    named(f"http://127.0.0.1:{servers.free_port()}")
    [web], [live] = address.web(), address.live()
    assert isinstance(web, DoctorFinding)
    assert isinstance(live, DoctorFinding)
    assert "cannot be reached from here" in web.problem
    assert live.problem.endswith("Open pages and agents are not reached.")


def test_who_is_reached_and_says_nothing_is_not_told_to_be_started(
    named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        named(f"http://127.0.0.1:{silent.getsockname()[1]}")
        [found] = address.web()
    assert isinstance(found, DoctorFinding)
    assert "is reached from here, and does not answer within 0.2 s." in found.problem
    assert "Start" not in found.advice


@pytest.mark.django_db
def test_a_web_part_that_runs_is_not_told_to_be_started(named: Named) -> None:
    marks.part_lives("web", now=timezone.now())
    named(f"http://127.0.0.1:{servers.free_port()}")
    [away] = address.web()
    with answering(status=502, page="<html>") as port:
        named(f"http://127.0.0.1:{port}")
        [passed_on_to_nobody] = address.web()
    for found in (away, passed_on_to_nobody):
        assert isinstance(found, DoctorFinding)
        assert found.advice.startswith("The web part runs: ")


def test_a_proxy_that_passes_no_sockets_on(named: Named) -> None:
    with answering(sockets=False) as port:
        named(f"http://127.0.0.1:{port}")
        [found] = address.live()
    assert isinstance(found, DoctorFinding)
    assert "opens no socket but answers 404" in found.problem


@pytest.mark.parametrize(("days", "well"), [(90, True), (20, False)])
def test_a_certificate_is_good_for_three_weeks(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, well: bool
) -> None:
    file = certificate(tmp_path, days=days)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with answering(secure=served_by(file)) as port:
        named(f"https://127.0.0.1:{port}")
        assert [*address.web(), *address.live()] == []
        [found] = address.certificate()
    told = found.sentence if isinstance(found, Fact) else found.problem
    assert isinstance(found, Fact) is well
    assert told.startswith(f"The certificate of 127.0.0.1 holds for {days} more days, until ")


def test_a_certificate_of_an_authority_that_is_not_known_here(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    file = certificate(tmp_path, days=90)
    with answering(secure=served_by(file)) as port:
        named(f"https://127.0.0.1:{port}")
        [found] = [*address.web(), *address.certificate()]  # once
    assert isinstance(found, DoctorFinding)
    assert "is not trusted here: self-signed certificate" in found.problem
    assert "SSL_CERT_FILE" in found.advice


def test_the_address_is_the_first_that_is_known(named: Named, settings: Settings) -> None:
    assert address.url() == ""
    [unknown] = address.web()
    assert isinstance(unknown, Fact)
    settings.TLS, settings.ALLOWED_HOSTS = True, ["live", ".example.org", "chamber.example.org", "127.0.0.1"]
    assert address.url() == "https://chamber.example.org"
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.example.org", "https://gpu.example.org"]
    assert address.url() == "https://gpu.example.org"
    named("https://chamber.example.org:8443/")
    assert address.url() == "https://chamber.example.org:8443"
