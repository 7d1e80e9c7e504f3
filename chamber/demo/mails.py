"""Mails of the demo, which has no mail server: kept in its data folder, the newest 200, for its admins to read.

They hold links that set passwords. Outside of the demo nothing is kept: `KEEPS_MAILS` is off.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage as Parsed
from email.parser import BytesParser
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from chamber import mailing
from chamber.errors import NotVisible, no_such
from chamber.ids import new_id

MOST = 200


@dataclass(frozen=True, slots=True)
class KeptMail:
    """A mail as its reader would get it; `html` is "" where it has no such part, and in lists both parts are."""

    id: UUID
    at: datetime
    to: str
    subject: str
    text: str = ""
    html: str = ""


class KeptMailBackend(BaseEmailBackend):
    """Writes each mail into a file of its own, named so that their order is that of their times."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Keep them; delete the oldest beyond `MOST`."""
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for message in email_messages:
            _write(_file(new_id()), message.message().as_bytes())
        for old in _files()[MOST:]:
            old.unlink(missing_ok=True)
        return len(email_messages)


def newest_first() -> list[UUID]:
    """Return the ids of all that are kept."""
    return [UUID(file.stem) for file in _files()]


def heads(mail_ids: Iterable[UUID]) -> list[KeptMail]:
    """Return these without their parts, in the same order."""
    found = []
    for mail_id in mail_ids:
        with (
            suppress(FileNotFoundError),
            _file(mail_id).open("rb") as content,
        ):  # deleted meanwhile, as the oldest
            found.append(_read(mail_id, content, headers_only=True))
    return found


def kept(mail_id: UUID) -> KeptMail:
    """Return one with its parts; raise `NotVisible` where it is not kept, or not any more."""
    try:
        with _file(mail_id).open("rb") as content:
            return _read(mail_id, content)
    except FileNotFoundError:
        raise no_such("mail", mail_id) from None


def require_kept() -> None:
    """Refuse as what is not there wherever mails are not kept."""
    if not settings.KEEPS_MAILS:
        raise NotVisible("Mails are kept in the demo only.")


def _folder() -> Path:
    return Path(mailing.folder())


def _file(mail_id: UUID) -> Path:
    return _folder() / f"{mail_id}.eml"


def _files() -> list[Path]:
    return sorted(_folder().glob("*.eml"), reverse=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file that its owner alone reads; under its name it is there as a whole or not at all."""
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)


def _read(mail_id: UUID, content: BinaryIO, *, headers_only: bool = False) -> KeptMail:
    mail = BytesParser(policy=policy.default).parse(content, headersonly=headers_only)
    return KeptMail(
        id=mail_id,
        at=datetime.fromtimestamp((mail_id.int >> 80) / 1000, UTC),
        to=str(mail["To"]),
        subject=str(mail["Subject"]),
        text="" if headers_only else _part(mail, "plain"),
        html="" if headers_only else _part(mail, "html"),
    )


def _part(mail: Parsed, kind: str) -> str:
    body = mail.get_body((kind,))
    return "" if body is None else str(body.get_content())
