"""Texts that are stored encrypted: the secrets of second factors, what identity providers give for later, credentials.

The newest key encrypts and all that are known decrypt, so that keys are changed while the server runs. Fernet is
AES-128 in CBC mode with an HMAC; its keys are derived from the operator's, which may be any texts with enough chance in
them.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
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


def keys_of(text: str, setting: str = "CHAMBER_ENCRYPTION_KEYS") -> list[str]:
    """Return the keys that a setting has, the newest first, with blanks between; raise `SystemExit` for a bad one.

    The message tells the key's place and length only.
    """
    keys = text.split()
    for place, key in enumerate(keys, start=1):
        if len(key) < LEAST_CHARACTERS or len(set(key)) < LEAST_DIFFERENT:
            raise SystemExit(
                f"Key {place} of {setting} has {len(key)} characters, {len(set(key))} of them different; "
                f"the least is {LEAST_CHARACTERS} and {LEAST_DIFFERENT}. Make one by `openssl rand -base64 48`."
            )
    return keys


@dataclass(frozen=True, slots=True)
class Cipher:
    """Encrypts with the first of its keys, the newest, and decrypts with all. What is encrypted for one purpose cannot
    be decrypted for another.
    """

    keys: tuple[str, ...]
    purpose: bytes

    def encrypt(self, text: str) -> str:
        """Return the text encrypted with the newest key."""
        return _derived(self.keys[0], self.purpose).encrypt(text.encode()).decode()

    def decrypt(self, encrypted: str) -> str:
        """Return what was encrypted; raise `UnreadableSecret` where no known key did it."""
        known = [_derived(key, self.purpose) for key in self.keys]
        try:
            return MultiFernet(known).decrypt(encrypted.encode()).decode()
        except (InvalidToken, ValueError) as error:
            raise UnreadableSecret from error

    def is_current(self, encrypted: str) -> bool:
        """Return whether it was the newest key that encrypted this."""
        try:
            _derived(self.keys[0], self.purpose).decrypt(encrypted.encode())
        except InvalidToken:
            return False
        return True


def encrypt(text: str) -> str:
    """Return the text encrypted with the newest key."""
    return stored().encrypt(text)


def decrypt(encrypted: str) -> str:
    """Return what was encrypted; raise `UnreadableSecret` where no known key did it."""
    return stored().decrypt(encrypted)


def is_current(encrypted: str) -> bool:
    """Return whether it was the newest key that encrypted this."""
    return stored().is_current(encrypted)


def stored() -> Cipher:
    """Return the cipher of stored secrets. The key that signs sessions comes last: without others it is the one."""
    keys = (*settings.ENCRYPTION_KEYS, settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return Cipher(tuple(map(str, keys)), PURPOSE)


@lru_cache(maxsize=32)
def _derived(key: str, purpose: bytes) -> Fernet:
    made = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(key.encode())
    return Fernet(urlsafe_b64encode(made))
