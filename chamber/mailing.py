"""Mail: where it goes by one URL, and sending it beside a request."""

import logging
import re
import smtplib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from django.conf import settings

from chamber.logs import Seldom
from chamber.metrics import mails
from chamber.serving.outages import first_line

if TYPE_CHECKING:
    from django.core.mail import EmailMessage
    from django.http import HttpRequest

logger = logging.getLogger(__name__)

SENDS_FOR_SECONDS = 10
WAIT_AT_MOST = 200
"""Mails that are sent beside requests: those of some minutes, where the server takes them slowly."""
PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
ALLOWED = (
    "smtp+starttls://user:password@host:587, smtps://user:password@host:465, smtp://host:25 (not encrypted), "
    "file:///folder, or nothing for no mail"
)
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_BACKENDS = "django.core.mail.backends"


def settings_of(url: str, *, kept_in: Path | None = None) -> dict[str, Any]:
    """Return Django's settings of the mail server at `url`, or of the folder where the demo keeps its mails.

    Raises `SystemExit`, telling no password.
    """
    if kept_in is not None:
        return {"EMAIL_BACKEND": "chamber.demo.mails.KeptMailBackend", "EMAIL_FILE_PATH": str(kept_in)}
    if not url:
        return {"EMAIL_BACKEND": f"{_BACKENDS}.dummy.EmailBackend"}
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        raise SystemExit(f"CHAMBER_MAIL_URL cannot be read as a URL; allowed is {ALLOWED}.") from None
    if scheme == "file" and parts.path.startswith("/") and not host:
        return {
            "EMAIL_BACKEND": f"{_BACKENDS}.filebased.EmailBackend",
            "EMAIL_FILE_PATH": unquote(parts.path),
        }
    if scheme not in PORTS or not host:
        raise SystemExit(
            f"CHAMBER_MAIL_URL begins with {scheme!r} and names {host or 'no host'!r}; allowed is {ALLOWED}."
        )
    return {
        "EMAIL_BACKEND": f"{_BACKENDS}.smtp.EmailBackend",
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or PORTS[scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": scheme == "smtp+starttls",
        "EMAIL_USE_SSL": scheme == "smtps",
        "EMAIL_TIMEOUT": SENDS_FOR_SECONDS,
    }


def sender(given: str, public_url: str, hosts: list[str]) -> str:
    """Return from whom mails come: as told, else from the host of the public address, else the first that is one name.

    Raises `SystemExit` where no mail could come from what is told.
    """
    if given:
        if not ADDRESS.fullmatch(parseaddr(given)[1]):
            raise SystemExit(
                f"CHAMBER_MAIL_FROM is {given!r}; allowed is an address, such as Chamber <chamber@example.org>."
            )
        return given
    host = urlsplit(public_url).hostname or next(each for each in hosts if not each.startswith(("*", ".")))
    if ":" in host and not host.startswith("["):
        host = f"[IPv6:{host}]"
    return f"Chamber <chamber@{host}>"


def public(url: str) -> str:
    """Return the address that people are given for a page of this server: begun as CHAMBER_PUBLIC_URL says, not as the
    request did that caused it.
    """
    return settings.PUBLIC_URL + urlsplit(url).path if settings.PUBLIC_URL else url


def server(request: "HttpRequest") -> str:
    """Return the name by which mails speak of this server."""
    return urlsplit(public(request.build_absolute_uri("/"))).netloc


def send(message: "EmailMessage") -> bool:
    """Send a mail; return whether the server took it. Why not goes to the log."""
    try:
        message.send()
    except (
        OSError,
        ValueError,
    ) as error:  # SMTP's own errors; and those of an address that no mail can be written to
        logger.error("A mail could not be sent by %s: %s", server_address(), why(error))
        mails.count(mails.MailResult.REFUSED)
        return False
    mails.count(mails.MailResult.SENT)
    return True


def folder() -> str:
    """Return the folder that mails are written into; "" where a server takes them."""
    return getattr(settings, "EMAIL_FILE_PATH", None) or ""


def server_address() -> str:
    """Return where the mail server is, or the folder that mails are written into, without a password."""
    return folder() or f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"


def why(error: Exception) -> str:
    """Return why a mail server takes nothing, as one plain line; what it answered in its own words."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _answer(*next(iter(error.recipients.values())))
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    return first_line(error)


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"it answers {code} {' '.join(words.split())}".rstrip(". ") + "."


def send_quietly(write: "Callable[[], EmailMessage]") -> "Future[bool]":
    """Write and send a mail beside the request; where very many wait already, it is given up and the log says so."""
    if len(_under_way) >= WAIT_AT_MOST:
        if _told.due():
            logger.error("A mail is given up: %d wait for the mail server already.", WAIT_AT_MOST)
        mails.count(mails.MailResult.GIVEN_UP)
        given_up: Future[bool] = Future()
        given_up.set_result(False)
        return given_up
    sent = _sender.submit(_write_and_send, write)
    _under_way.add(sent)
    sent.add_done_callback(_under_way.discard)
    return sent


def _write_and_send(write: "Callable[[], EmailMessage]") -> bool:
    try:
        message = write()
    except Exception:
        logger.exception("A mail could not be written.")
        return False
    return send(message)


def settle(seconds: float = 30.0) -> bool:
    """Wait until what is sent beside requests has been; return False where it was not within `seconds`."""
    return not wait(set(_under_way), timeout=seconds).not_done


_told = Seldom(every_seconds=10)
_under_way: "set[Future[bool]]" = set()
_sender = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")
