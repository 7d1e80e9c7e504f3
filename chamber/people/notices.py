"""Mails that tell people what was done with their accounts, so that a stranger's act is noticed.

Each is sent outside of any transaction, beside the request; where it cannot be sent, nothing is refused.
"""

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.exceptions import Throttled

from chamber import origin
from chamber.authentication import bound_tries
from chamber.models import ApiToken, User
from chamber.templatetags.chamber_ui import device

HOUR = 3600
NOTICES_PER_HOUR = 20
"""To one person. Counted apart from mails that others can cause, which would keep these back."""


def tell(request: HttpRequest, user: User, subject: str, what: str = "") -> None:
    """Mail a sentence about what was done: `what`, else the subject; time, address and browser unless another did it.

    Nothing is sent without a mail server or an address, nor beyond `NOTICES_PER_HOUR`.
    """
    if not (settings.MAIL and user.email):
        return
    try:
        bound_tries(request, "notices", most=NOTICES_PER_HOUR, of=str(user.pk), seconds=HOUR)
    except Throttled:
        return
    by_other = request.user.is_authenticated and request.user.pk != user.pk
    context = {
        "username": user.username,
        "subject": subject,
        "what": what or f"{subject}.",
        "whence": "" if by_other else _whence(),
    }
    get_adapter(request).send_mail("account/email/account_changed", user.email, context)


def password_changed(request: HttpRequest, user: User, *, by_link: bool = False) -> None:
    """Tell of a new password; one that was set by a link revoked the access tokens."""
    what = "The password of your account was changed; all other sessions are ended."
    if by_link:
        what = "A new password was set by a link; all sessions and access tokens are ended."
    tell(request, user, "The password of your account was changed", what)


def token_made(request: HttpRequest, token: ApiToken) -> None:
    """Tell of a new access token."""
    where = f", for {token.team.name}" if token.team else ""
    until = f", good until {token.expires_at:%Y-%m-%d}" if token.expires_at else ""
    what = f"An access token was made: {token.name}, scope {token.scope}{where}{until}."
    tell(request, token.user, "An access token of your account was made", what)


def recovery_code_used(request: HttpRequest, user: User, left: int) -> None:
    """Tell that a recovery code was used up, and how many are left."""
    what = f"A recovery code of your account was used; {left} {'is' if left == 1 else 'are'} left."
    tell(request, user, "A recovery code of your account was used", what)


def code_tried_again(request: HttpRequest, user: User) -> None:
    """Tell that a code of the app was refused because it, or a later one, had been used."""
    what = "A code of your authenticator app was refused, for it was used already: somebody may have seen it."
    tell(request, user, "A code of your account was tried twice", what)


def new_browser(request: HttpRequest, user: User) -> None:
    """Tell of a sign-in with a browser that had not signed in to the account before."""
    what = "Somebody signed in to your account with a browser that had not signed in to it before."
    tell(request, user, "A new browser signed in to your account", what)


def _whence() -> str:
    """Return when, from which address and with which program, as a sentence."""
    here = origin.now()
    address = f" from {here.address}" if here.address else ""
    return f"This was on {timezone.now():%Y-%m-%d at %H:%M} UTC{address}, with {device(here.agent or '')}."
