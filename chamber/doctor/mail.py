"""The mail server, where one is named: whether it is reached, by the sign-in that mails use. No mail is sent."""

import os
import smtplib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.core import mail as mails

from chamber.doctor.finding import Finding
from chamber.serving.outages import first_line

WITHOUT = "Until then links cannot be mailed, and are shown to organisation admins only."


def answers() -> Iterator[Finding]:
    """Look whether mail could be sent now: by a connection as each mail makes one, or into the folder."""
    if not settings.MAIL:
        return
    folder = getattr(settings, "EMAIL_FILE_PATH", None)
    if folder is not None:
        yield from _folder(Path(folder))
        return
    server = f"The mail server {settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    connection = mails.get_connection()
    try:
        connection.open()
    except smtplib.SMTPAuthenticationError as error:
        yield Finding(
            f"{server} refuses the sign-in: {_said(error)}",
            f"Correct the user and the password in CHAMBER_MAIL_URL. {WITHOUT}",
        )
    except (smtplib.SMTPException, OSError) as error:
        yield Finding(
            f"{server} cannot be used: {first_line(error)}",
            f"Start it, or correct CHAMBER_MAIL_URL, its way to encrypt too (smtp, smtp+starttls, smtps). {WITHOUT}",
        )
    finally:
        with suppress(smtplib.SMTPException, OSError):
            connection.close()


def _folder(folder: Path) -> Iterator[Finding]:
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        yield Finding(
            f"Mails are written into {folder}, which is no folder that this process may write into.",
            "Make it, for the user that the server runs as, or correct CHAMBER_MAIL_URL.",
        )


def _said(error: smtplib.SMTPResponseException) -> str:
    words = error.smtp_error
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    return f"{' '.join(text.split()).rstrip('.')}."
