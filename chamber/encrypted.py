"""What is stored encrypted: by which keys, and encrypting it anew with the newest one."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialToken
from django.db import transaction
from django.db.models import QuerySet

from chamber import encryption
from chamber.encryption import Cipher
from workloads.credentials import keys
from workloads.models import Credential

SECRETS = ("secret", "seed")
"""In what is stored of second factors: of an app, and of recovery codes."""


class By(StrEnum):
    """What encrypted a secret."""

    NEWEST = "the newest key"
    OLDER = "an older key"
    UNKNOWN = "a key that is not known"


AT_ONCE = 500
"""Credentials that are read at a time."""


def credentials() -> Counter[By]:
    """Return how many credentials are stored, by what encrypted them."""
    cipher = _credentials_cipher()
    texts = Credential.objects.order_by().values_list("encrypted", flat=True)
    return Counter(_by(text, cipher) for text in texts.iterator(chunk_size=AT_ONCE))


def renew_credentials() -> Counter[By]:
    """Encrypt with the newest key what an older one did; return how many credentials there were before, by what did.

    Each in a statement of its own, which leaves alone what somebody gave other values meanwhile: it goes on where it
    was stopped.
    """
    cipher, found, last = _credentials_cipher(), Counter[By](), None
    rows = Credential.objects.order_by("pk").values_list("pk", "encrypted")
    while part := list((rows if last is None else rows.filter(pk__gt=last))[:AT_ONCE]):
        last = part[-1][0]
        for pk, text in part:
            by = _by(text, cipher)
            found[by] += 1
            if by is By.OLDER and cipher is not None:
                anew = cipher.encrypt(cipher.decrypt(text))
                Credential.objects.filter(pk=pk, encrypted=text).update(encrypted=anew)
    return found


def _credentials_cipher() -> Cipher | None:
    return keys.cipher() if keys.is_there() else None


def secrets() -> Counter[By]:
    """Return how many secrets are stored, by what encrypted them."""
    cipher = encryption.stored()
    found = Counter(_by(row.data[key], cipher) for row in _factors().iterator() for key in _keys(row))
    return found + Counter(_by(text, cipher) for text in _grants().values_list("token_secret", flat=True))


def renew() -> Counter[By]:
    """Encrypt with the newest key what an older one did; return how many secrets there were before, by what did.

    Each in a transaction of its own: it goes on where it was stopped.
    """
    found: Counter[By] = Counter()
    cipher = encryption.stored()
    for pk in list(_factors().values_list("pk", flat=True)):
        with transaction.atomic():
            row = _factors().select_for_update(no_key=True).filter(pk=pk).first()
            if row is None:
                continue
            for key in _keys(row):
                by = _by(row.data[key], cipher)
                found[by] += 1
                if by is By.OLDER:
                    row.data[key] = encryption.encrypt(encryption.decrypt(row.data[key]))
                    row.save(update_fields=["data"])
    for pk, text in list(_grants().values_list("pk", "token_secret")):
        by = _by(text, cipher)
        found[by] += 1
        if by is By.OLDER:
            anew = encryption.encrypt(encryption.decrypt(text))
            SocialToken.objects.filter(pk=pk, token_secret=text).update(token_secret=anew)
    return found


def _by(encrypted: str, cipher: Cipher | None) -> By:
    if cipher is None:
        return By.UNKNOWN
    if cipher.is_current(encrypted):
        return By.NEWEST
    try:
        cipher.decrypt(encrypted)
    except encryption.UnreadableSecret:
        return By.UNKNOWN
    return By.OLDER


def _factors() -> "QuerySet[Authenticator]":
    rows: QuerySet[Authenticator] = Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN)
    return rows.order_by("pk")


def _grants() -> "QuerySet[SocialToken]":
    """Return what identity providers gave to be asked again."""
    rows: QuerySet[SocialToken] = SocialToken.objects.exclude(token_secret="").order_by("pk")
    return rows


def _keys(row: Authenticator) -> Iterator[str]:
    return (key for key in SECRETS if key in row.data)
