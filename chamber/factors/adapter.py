"""What allauth asks of a project about second factors."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser

from chamber import encryption
from chamber.mailing import server

WRONG_CODE = "This code is wrong, or was used already. A code of the app is good for half a minute."
NAME = "Chamber"


class Factors(DefaultMFAAdapter):
    """Encrypts secrets, and says of which server and person a factor is."""

    error_messages: ClassVar[dict[str, Any]] = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": WRONG_CODE,
    }

    def encrypt(self, text: str) -> str:
        """Return a secret as it is stored."""
        return encryption.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Return a stored secret; raise `Unreadable` where no known key encrypted it."""
        return encryption.decrypt(encrypted_text)

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        """Return under which name an app lists the account."""
        return user.get_username()

    def get_totp_issuer(self) -> str:
        """Return of whom an app says that the account is."""
        return f"{NAME} {server(context.request)}"

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Return for which host name passkeys are made: that of the public address, else that of the request."""
        return {"id": host(), "name": NAME}

    def get_public_key_credential_user_entity(self, user: AbstractBaseUser) -> dict[str, Any]:
        """Return of whom a passkey says that it is; its id is no name."""
        found: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return found | {"name": user.get_username(), "display_name": str(user)}


def host() -> str:
    """Return the host name of this server as browsers know it."""
    asked = f"//{context.request.get_host()}"
    return urlsplit(settings.PUBLIC_URL).hostname or urlsplit(asked).hostname or ""
