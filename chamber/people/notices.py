"""Mails that tell people what was done with their accounts, so that a stranger's act is noticed.

Each is sent outside of any transaction, beside the request; where it cannot be sent, nothing is refused.
"""

from urllib.parse import urlsplit

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.exceptions import Throttled

from chamber import mailing, origin
from chamber.authentication import bound_tries
from chamber.counts import cached
from chamber.counts import count as counted
from chamber.models import ApiToken, Scope, User
from chamber.templatetags.chamber_ui import device
from chamber.words import count, plural

HOUR = 3600
NOTICES_PER_HOUR = 20
"""To one person. Counted apart from mails that others can cause, which would keep these back."""
TOKENS_EVERY_SECONDS = 600
"""One mail for all access tokens that are made within: scripts make many. Of other acts each is told by itself."""
LEFT_OUT_FOR_SECONDS = 7 * 24 * HOUR


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


def from_console(user: User, subject: str, what: str) -> bool | None:
    """Mail what was done at the server's console, where no request is; return whether it went, None where none can."""
    if not (settings.MAIL and user.email):
        return None
    server = urlsplit(settings.PUBLIC_URL).netloc or settings.ALLOWED_HOSTS[0]
    context = {"username": user.username, "subject": subject, "what": what, "whence": "", "server": server}
    return mailing.send(get_adapter().render_mail("account/email/account_changed", user.email, context))


def token_made(request: HttpRequest, token: ApiToken) -> None:
    """Tell of a new access token; of several within some minutes the first, and with the next mail how many others."""
    if not (settings.MAIL and token.user.email) or (others := _others_since(request, token)) is None:
        return
    where = f", for {token.team.name}" if token.team else ""
    until = f", good until {token.expires_at:%Y-%m-%d}" if token.expires_at else ""
    what = f"An access token was made: {token.name}, scope {token.scope}{where}{until}."
    if others:
        number, widest = sum(others.values()), list(others)[-1]
        what += (
            f" Since the last mail of this kind {count(number, 'other')} {plural(number, 'was', 'were')} made, "
            f"{plural(number, 'its scope', 'their widest scope')} {widest}."
        )
    minutes = TOKENS_EVERY_SECONDS // 60
    what += (
        f" Those of the same {minutes} minutes are not mailed one by one; the page Access tokens lists all."
    )
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


def _others_since(request: HttpRequest, token: ApiToken) -> dict[str, int] | None:
    """Return how many tokens of each scope, the widest last, were not told since the last mail of one; None where this
    one is not told either.
    """
    keys = {f"notices:tokens-left-out:{token.user_id}:{scope}": scope for scope in Scope.values}
    try:
        bound_tries(request, "token-notices", most=1, of=str(token.user_id), seconds=TOKENS_EVERY_SECONDS)
    except Throttled:
        counted(f"notices:tokens-left-out:{token.user_id}:{token.scope}", LEFT_OUT_FOR_SECONDS)
        return None
    found = cached(lambda cache: cache.get_many(keys)) or {}
    cached(lambda cache: cache.delete_many(keys))
    return {scope: int(found[key]) for key, scope in keys.items() if found.get(key)}


def _whence() -> str:
    """Return when, from which address and with which program, as a sentence."""
    here = origin.now()
    address = f" from {here.address}" if here.address else ""
    return f"This was on {timezone.now():%Y-%m-%d at %H:%M} UTC{address}, with {device(here.agent or '')}."
