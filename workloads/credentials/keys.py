"""The keys that encrypt credentials, and encrypting and decrypting one.

They come from the operator's file; for development one is made where it is first needed. What is encrypted bears the id
of its row and whose it is: who can write to the database can hand nobody somebody else's by moving it.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings

from chamber.encryption import Cipher, UnreadableSecret
from chamber.errors import Conflict
from workloads.models import Credential

PURPOSE = b"chamber: credentials"
FILE = "credentials-key"
ADVICE = (
    "make one by `openssl rand -base64 48`, in a file that the service alone reads, and name that in "
    "CHAMBER_CREDENTIALS_KEY_FILE"
)


class NoKey(Conflict):
    """This server has no key for credentials."""

    code = "no-credentials-key"

    def __init__(self) -> None:
        super().__init__(f"This server has no key that encrypts credentials. Its operator can {ADVICE}.")


UNREADABLE = (UnreadableSecret, NoKey)
"""What `opened` raises where the values cannot be had."""


def is_there() -> bool:
    """Return whether there is a key, or one is made as soon as it is needed."""
    return bool(settings.CREDENTIALS_KEYS) or _is_development()


def cipher() -> Cipher:
    """Return what encrypts and decrypts credentials; raise `NoKey`."""
    keys: list[str] = settings.CREDENTIALS_KEYS
    if not keys:
        if not _is_development():
            raise NoKey
        keys = [_made()]
    return Cipher(tuple(keys), PURPOSE)


def sealed(row: Credential, values: dict[str, Any]) -> str:
    """Return the values of a credential as they are stored."""
    return cipher().encrypt(json.dumps({"of": _identity(row), "values": values}, ensure_ascii=False))


def opened(row: Credential) -> dict[str, Any]:
    """Return the values of a credential; raise `UnreadableSecret` where no key decrypts it, or it is another row's."""
    content: dict[str, Any] = json.loads(cipher().decrypt(row.encrypted))
    if content["of"] != _identity(row):
        raise UnreadableSecret
    values: dict[str, Any] = content["values"]
    return values


def _identity(row: Credential) -> list[str]:
    return [str(row.pk), f"person {row.owner_id}" if row.team_id is None else f"team {row.team_id}", row.kind]


def _is_development() -> bool:
    return bool(settings.DEMO or settings.DEBUG or not settings.GIVEN_SECRET_KEY)


def _made() -> str:
    """Return the key of this folder of data, which is made where there is none."""
    path = Path(settings.DATA_DIR) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{FILE}.{os.getpid()}-{secrets.token_hex(4)}")
    if not path.exists():
        made.touch(mode=0o600)
        made.write_text(f"{secrets.token_urlsafe(48)}\n")
        try:
            os.link(made, path)  # whole at once, and by one process only
        except FileExistsError:
            pass
        finally:
            made.unlink()
    return path.read_text().strip()
