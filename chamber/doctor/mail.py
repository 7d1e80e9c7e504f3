"""The mail server: whether it is reached, takes the sign-in, and takes mails from Chamber's sender. None is sent."""

import os
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parseaddr
from pathlib import Path

from django.conf import settings
from django.core.mail.backends.smtp import EmailBackend

from chamber import mailing
from chamber.doctor.finding import DoctorFinding, Fact

PATIENCE_SECONDS = 5


def mail() -> Iterator[DoctorFinding | Fact]:
    """Look whether mails can be sent."""
    if not settings.MAIL:
        yield Fact("No mail server is named (CHAMBER_MAIL_URL): links are shown instead of mailed.")
    elif mailing.folder():
        yield _of_folder(Path(mailing.folder()))
    else:
        yield _of_server()


def _of_folder(folder: Path) -> DoctorFinding | Fact:
    """Return whether mails can be written into a folder, which is made where it is not there."""
    there = folder if folder.exists() else folder.parent
    if there.is_dir() and os.access(there, os.W_OK):
        return Fact(f"Mails are written into the folder {folder}; nothing sends them.")
    return DoctorFinding(
        f"No mail can be written into {folder}.",
        "Make that folder and let Chamber's user write there, or correct CHAMBER_MAIL_URL.",
    )


def _of_server() -> DoctorFinding | Fact:
    server = EmailBackend(timeout=PATIENCE_SECONDS)
    sender = parseaddr(settings.DEFAULT_FROM_EMAIL)[1]
    try:
        server.open()
        if server.connection is not None:
            _ask(server.connection, sender)
    except (OSError, ValueError) as error:
        return DoctorFinding(
            f"The mail server {mailing.server_address()} takes no mails: {mailing.why(error)}",
            f"{_advice(error)} Until then links are not mailed, but shown to organisation admins.",
        )
    finally:
        with suppress(OSError):
            server.close()
    return Fact(f"The mail server {mailing.server_address()} takes mails from {sender}.")


def _ask(connection: smtplib.SMTP, sender: str) -> None:
    """Begin a mail from this sender, and give it up; raise `SMTPSenderRefused`."""
    connection.ehlo_or_helo_if_needed()
    code, said = connection.mail(sender)
    connection.rset()
    if code != 250:
        raise smtplib.SMTPSenderRefused(code, said, sender)


def _advice(error: Exception) -> str:
    match error:
        case smtplib.SMTPAuthenticationError():
            return "Correct user and password in CHAMBER_MAIL_URL."
        case smtplib.SMTPSenderRefused():
            return "Give an address that it takes in CHAMBER_MAIL_FROM."
        case ssl.SSLCertVerificationError():
            return (
                "Correct its name in CHAMBER_MAIL_URL, or name its authority's certificate in SSL_CERT_FILE, here and "
                "where web runs."
            )
        case smtplib.SMTPNotSupportedError() | ssl.SSLError():
            return (
                "Correct how CHAMBER_MAIL_URL begins: with smtp+starttls, smtps, or smtp without encryption."
            )
        case _:
            return "Start it, or correct its address in CHAMBER_MAIL_URL."
