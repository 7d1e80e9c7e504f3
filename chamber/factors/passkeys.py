"""Passkeys: what a browser is asked, and what it answers, judged by allauth and Yubico's library.

The challenge lies in the session: an answer is good once, and only for the page that was shown last.
"""

import json
import logging
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from django.core.exceptions import ValidationError

from chamber.factors.adapter import host
from chamber.models import User
from chamber.oidc.reading import comes_by_providers_only

logger = logging.getLogger(__name__)

LONGEST_ANSWER = 20_000
WRONG = "This passkey was not taken: it is not of this account, or the page was open for too long. Try again."
NOT_ALONE = "This passkey goes with your password: sign in by that, and use it then."
BY_PROVIDER = "You sign in by your identity provider: begin there. This passkey is a second factor only."
ALONE = "alone"
"""In what is stored of a passkey: whether it does without the password."""
NOT_VERIFIED = (
    "This key did not ask for a PIN, a fingerprint or the like: it can only be used beside the password. Take that out "
    "of the form and try again."
)


class WrongPasskey(Exception):  # noqa: N818 - named after what was sent
    """A browser's answer is none, or not to what it was asked; a sentence for its person."""


def for_adding(user: User) -> str:
    """Return what the browser is asked in order to make a passkey, as JSON."""
    return _plain(auth.begin_registration(user, passwordless=False))


def for_using(user: User | None) -> str:
    """Return what the browser is asked in order to use one, as JSON: of a person, or of whoever it lets in."""
    return _plain(auth.begin_authentication(user))


def added(answer: str, *, alone: bool) -> dict[str, Any]:
    """Return a new passkey as it is stored; `alone` if it shall do without the password. Raises `WrongPasskey`."""

    def judge(credential: Any) -> dict[str, Any]:
        auth.parse_registration_response(credential)
        made = auth.complete_registration(credential)
        if alone and not made.is_user_verified():
            raise WrongPasskey(NOT_VERIFIED)
        return dict(credential)

    found: dict[str, Any] = _judged(answer, judge)
    return found


def used(user: User | None, answer: str) -> Authenticator:
    """Return the passkey that answered: one of this person; or of whom it names, if it does without the password.

    Raises `WrongPasskey`.
    """

    def judge(credential: Any) -> Authenticator:
        auth.parse_authentication_response(credential)
        whose = user if user is not None else auth.extract_user_from_response(credential)
        found: Authenticator = auth.complete_authentication(whose, credential)
        if user is None and not found.data.get(ALONE):
            raise WrongPasskey(NOT_ALONE)
        if user is None and comes_by_providers_only(whose):
            raise WrongPasskey(BY_PROVIDER)
        found.user = whose
        return found

    found: Authenticator = _judged(answer, judge)
    return found


def are_possible() -> bool:
    """Return whether a browser makes passkeys for this server: it does for names, not for addresses."""
    name = host().strip("[]")
    return bool(name) and ":" not in name and not name.replace(".", "").isdigit()


def _judged(answer: str, judge: Any) -> Any:
    try:
        if len(answer) > LONGEST_ANSWER:
            raise WrongPasskey(WRONG)
        return judge(json.loads(answer))
    except (WrongPasskey, ValidationError) as error:
        raise WrongPasskey(WRONG if isinstance(error, ValidationError) else str(error)) from error
    except Exception as error:
        # What anybody may send is taken apart by libraries that do not name their errors: of CBOR, keys, JSON.
        logger.info("An answer of a passkey cannot be read: %s: %s", type(error).__name__, error)
        raise WrongPasskey(WRONG) from error


def _plain(asked: Any) -> str:
    return json.dumps(dict(asked), default=dict)
