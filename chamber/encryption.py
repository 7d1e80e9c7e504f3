"""Texts that are stored encrypted: the secrets of second factors, and what identity providers give for later.

The newest key encrypts and all that are known decrypt, so that keys are changed while the server runs. Fernet is
AES-128 in CBC mode with an HMAC; its keys are derived from the operator's, which may be any texts with enough chance in
them.
"""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from chamber.errors import Conflict
from chamber.serving.secret import LEAST_CHARACTERS, LEAST_DIFFERENT

KEY_BYTES = 32
PURPOSE = b"chamber: stored secrets"


class UnreadableSecret(Conflict):
    """A text was encrypted with a key that this server does not have."""

    code = "unreadable"

    def __init__(self) -> None:
        super().__init__(
            "What is stored of this was encrypted with a key that this server does not have: ask its operator, whom "
            "`chamber doctor` tells more."
        )


def keys_of(text: str) -> list[str]:
    """Return the keys that a setting has, the newest first, with blanks between; raise `SystemExit` for a bad one.

    The message tells the key's place and length only.
    """
    keys = text.split()
    for place, key in enumerate(keys, start=1):
        if len(key) < LEAST_CHARACTERS or len(set(key)) < LEAST_DIFFERENT:
            raise SystemExit(
                f"Key {place} of CHAMBER_ENCRYPTION_KEYS has {len(key)} characters, {len(set(key))} of them different; "
                f"the least is {LEAST_CHARACTERS} and {LEAST_DIFFERENT}. Make one by `openssl rand -base64 48`."
            )
    return keys


def encrypt(text: str) -> str:
    """Return the text encrypted with the newest key."""
    return _known()[0].encrypt(text.encode()).decode()


def decrypt(encrypted: str) -> str:
    """Return what was encrypted; raise `UnreadableSecret` where no known key did it."""
    try:
        return MultiFernet(_known()).decrypt(encrypted.encode()).decode()
    except (InvalidToken, ValueError) as error:
        raise UnreadableSecret from error


def is_current(encrypted: str) -> bool:
    """Return whether it was the newest key that encrypted this."""
    try:
        _known()[0].decrypt(encrypted.encode())
    except InvalidToken:
        return False
    return True


def _known() -> Sequence[Fernet]:
    """Return the keys, the newest first. The key that signs sessions comes last: without others it is the one."""
    return tuple(
        map(_derived, (*settings.ENCRYPTION_KEYS, settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))
    )


@lru_cache(maxsize=32)
def _derived(key: str) -> Fernet:
    made = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=PURPOSE).derive(key.encode())
    return Fernet(urlsafe_b64encode(made))
