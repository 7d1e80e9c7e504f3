"""The address that people use: whether web and live are reached by it, and how long its certificate holds."""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from chamber.doctor import processes
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.serving.outages import first_line
from chamber.words import count

PATIENCE_SECONDS = 5.0
LEAST_DAYS = 21
"""Of a certificate: what renews it by itself does so earlier."""
TRUST = (
    "Replace it, or name its authority's certificate in SSL_CERT_FILE, here and where agents and tools run."
)


def url() -> str:
    """Return the address that people use, as far as it is known: CHAMBER_URL, CHAMBER_PUBLIC_URL, an origin, or a host
    with TLS; or "".
    """
    given = [os.environ.get("CHAMBER_URL", ""), settings.PUBLIC_URL, *settings.CSRF_TRUSTED_ORIGINS]
    named = next((address for address in given if urlsplit(address).hostname and "*" not in address), "")
    if named:
        return named.rstrip("/")
    # A name without a dot is one between containers.
    hosts = [host for host in settings.ALLOWED_HOSTS if "." in host.strip(".") and host[0] not in ".*"]
    public = [host for host in hosts if host not in settings.OWN_HOSTS]
    return f"https://{public[0]}" if settings.TLS and public else ""


def web() -> Iterator[DoctorFinding | Fact]:
    """Look whether the web part is ready, by the address that people use."""
    address = url()
    if not address:
        yield Fact(
            "The address that people use is not known here; set CHAMBER_PUBLIC_URL to have it looked at."
        )
        return
    try:
        answer = httpx.get(f"{address}/readyz", timeout=PATIENCE_SECONDS, verify=ssl.create_default_context())
    except httpx.HTTPError as error:
        yield _not_trusted(address, error) or _unreached(address, error)
        return
    if answer.status_code != 200:
        yield _not_ready(address, answer)


def live() -> Iterator[DoctorFinding | Fact]:
    """Look whether the live part opens a socket, by the address that people use."""
    address = url()
    if not address:
        return
    secure = address.startswith("https:")
    context = ssl.create_default_context() if secure else None
    target = f"{'wss' if secure else 'ws'}://{urlsplit(address).netloc}/ws/live/"
    try:
        with connect(target, origin=Origin(address), ssl=context, open_timeout=PATIENCE_SECONDS, proxy=None):
            return
    except InvalidStatus as refused:
        problem = f"{target} opens no socket but answers {refused.response.status_code}"
    except (OSError, WebSocketException) as error:
        problem = f"{target} opens no socket: {first_line(error)}".rstrip(".")
    yield DoctorFinding(
        f"{problem}. Open pages and agents are not reached.",
        "Start `chamber serve --part live`, and have the proxy in front pass /ws/ on to it with its Upgrade header.",
    )


def certificate() -> Iterator[DoctorFinding | Fact]:
    """Look how long the certificate of the address that people use still holds."""
    parts = urlsplit(url())
    if parts.scheme != "https" or parts.hostname is None:
        return
    try:
        until = _holds_until(parts.hostname, parts.port or 443)
    except OSError:
        return  # that it is not reached, or not trusted, is told by `web`
    days = (until - datetime.now(UTC)).days
    told = f"The certificate of {parts.hostname} holds for {count(days, 'more day')}, until {until:%Y-%m-%d}."
    yield (
        Fact(told)
        if days >= LEAST_DAYS
        else DoctorFinding(told, "Renew it, and look why nothing has by itself.")
    )


def _holds_until(host: str, port: int) -> datetime:
    with (
        closing(socket.create_connection((host, port), PATIENCE_SECONDS)) as plain,
        ssl.create_default_context().wrap_socket(plain, server_hostname=host) as secured,
    ):
        shown = secured.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)


def _not_ready(address: str, answer: httpx.Response) -> DoctorFinding:
    """Return why the web part is not ready in its own words, or that something else answers; never a proxy's page."""
    told = f"{address} answers {answer.status_code}"
    if answer.headers.get("content-type", "").startswith("text/plain"):
        words = " ".join(answer.text[:200].split())
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return DoctorFinding(
                f"{told}: {words}", "The web part runs, and serves again once that is put right."
            )
        if answer.status_code == httpx.codes.BAD_REQUEST and "CHAMBER_HOSTS" in words:
            return DoctorFinding(
                f"{told}: {words}",
                f"Add {urlsplit(address).hostname} to CHAMBER_HOSTS and restart web and live, or have the proxy in "
                "front pass the name on that was asked for (Host).",
            )
    start = "Start `chamber serve --part web`, or have the proxy in front pass requests on to it."
    if processes.runs("web"):
        start = "The web part runs: have the proxy in front pass requests on to it."
    return DoctorFinding(f"{told} {answer.reason_phrase}".rstrip() + ".", start)


def _not_trusted(address: str, error: BaseException | None) -> DoctorFinding | None:
    """Return that the certificate is not trusted where that is the cause of an error, however deep."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            told = f"The certificate of {urlsplit(address).hostname} is not trusted here: {error.verify_message}."
            return DoctorFinding(told, TRUST)
        error = error.__cause__ or error.__context__
    return None


def _unreached(address: str, error: httpx.HTTPError) -> DoctorFinding:
    if isinstance(error, httpx.ReadTimeout):
        return DoctorFinding(
            f"{address} is reached from here, and does not answer within {PATIENCE_SECONDS:g} s.",
            "Look into the log of the web part, and of the proxy in front.",
        )
    start = "Start `chamber serve --part web` and the proxy in front"
    if processes.runs("web"):
        start = "The web part runs: start the proxy in front"
    return DoctorFinding(
        f"{address} cannot be reached from here: {first_line(error)}",
        f"{start}, or correct that address: CHAMBER_URL, else CHAMBER_PUBLIC_URL, else CHAMBER_ORIGINS, else "
        "CHAMBER_HOSTS.",
    )
